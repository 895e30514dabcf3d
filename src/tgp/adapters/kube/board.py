"""A store that a part of this process fills by itself, so that what it learns can wake controllers like any watch."""

import asyncio
from typing import Any, Generic, Protocol, TypeVar

from tgp.adapters.kube.reflector import State
from tgp.adapters.kube.store import Store
from tgp.api.resource import Resource
from tgp.core.model.record import Record

R = TypeVar("R", bound=Record)


class Filler(Protocol):
    """Whoever keeps a store: a reflector, or somebody in this house."""

    why: str
    state: State

    @property
    def store(self) -> Store[Any]: ...

    async def run(self) -> None: ...

    def list_again(self) -> int: ...

    async def listed(self, number: int) -> None: ...

    def silent_for(self) -> float: ...


class Board(Generic[R]):
    """Always up to date: nobody else can change what it shows."""

    def __init__(self, resource: Resource) -> None:
        self.store: Store[R] = Store(resource)
        self.why = ""
        self.state = State.WATCHING
        self._version = 0

    def next_version(self) -> int:
        """For the record that is put up next."""
        self._version += 1
        return self._version

    async def run(self) -> None:
        await self.store.replace({**self.store.records}, self._version)
        await asyncio.get_running_loop().create_future()  # until cancelled: it is filled by others

    def list_again(self) -> int:
        return 0

    async def listed(self, number: int) -> None:  # noqa: ARG002 - there is nothing older to wait for
        await self.store.wait_synced()

    def silent_for(self) -> float:
        return 0.0
