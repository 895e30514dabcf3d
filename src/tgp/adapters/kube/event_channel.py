"""Caches that are not filled by a watch: `EventChannel`, by which one controller wakes another, and `LocalCache`.

They look like any other cache to the runtime, so what a controller learns can start the reconciles of another one.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from tgp.adapters.kube.reflector import State
from tgp.adapters.kube.store import Store
from tgp.api.resource import Resource
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.record import ObjectRecord
from tgp.core.model.workload import Metadata

R = TypeVar("R", bound=ObjectRecord)


class CacheFeeder(Protocol):
    """What fills a store: a reflector, or a part of this process."""

    why: str
    state: State

    @property
    def store(self) -> Store[Any]: ...

    async def run(self) -> None: ...

    def list_again(self) -> int: ...

    async def listed(self, number: int) -> None: ...

    def silent_for(self) -> float: ...


class LocalCache(Generic[R]):
    """A store that this process fills itself. It is always up to date."""

    def __init__(self, resource: Resource) -> None:
        self.store: Store[R] = Store(resource)
        self.why = ""
        self.state = State.WATCHING
        self._version = 0

    def next_version(self) -> int:
        """For the record that is put next."""
        self._version += 1
        return self._version

    async def run(self) -> None:
        await self.store.replace({**self.store.records}, self._version)
        await asyncio.get_running_loop().create_future()  # until cancelled: others fill it

    def list_again(self) -> int:
        return 0

    async def listed(self, number: int) -> None:  # noqa: ARG002 - there is nothing older to wait for
        await self.store.wait_synced()

    def silent_for(self) -> float:
        return 0.0


class EventChannel(LocalCache[Metadata]):
    """Keys that were sent. A controller that starts later is woken for each of them, too."""

    def __init__(self, name: str, *, resource: Resource | None = None) -> None:
        super().__init__(resource or Resource("tgp.io", "v1", name, name, namespaced=False))  # the API server has none

    def send(self, key: ObjectKey | str) -> None:
        self.store.put(self._event(key))

    def withdraw(self, key: ObjectKey | str) -> None:
        """Wake for it once more, and then forget it."""
        self.store.drop(self._event(key))

    def _event(self, key: ObjectKey | str) -> Metadata:
        named = key if isinstance(key, ObjectKey) else ObjectKey("", key)
        return Metadata(key=named, resource_version=self.next_version())


class Caches:
    """All of them, once they are made: a decision that needs a list begun now asks here."""

    def __init__(self) -> None:
        self.feeders: tuple[CacheFeeder, ...] = ()

    def add(self, feeders: Iterable[CacheFeeder]) -> None:
        self.feeders = (*self.feeders, *feeders)

    async def list_again(self, store: Store[Any]) -> None:
        """Return when the store shows a list that was begun after this call."""
        feeder = self._feeder(store)
        await feeder.listed(feeder.list_again())

    def silent_for(self, store: Store[Any]) -> float:
        """Seconds since the API server last confirmed that the store is up to date."""
        return self._feeder(store).silent_for()

    def of(self, store: Store[Any]) -> "WatchedStore":
        return WatchedStore(self, store)

    def _feeder(self, store: Store[Any]) -> CacheFeeder:
        return next(each for each in self.feeders if each.store is store)


@dataclass(frozen=True, slots=True)
class WatchedStore:
    """One of these stores: how old it is, and a newer list of it."""

    caches: Caches
    store: Store[Any]

    async def list_again(self) -> None:
        await self.caches.list_again(self.store)

    def silent_for(self) -> float:
        return self.caches.silent_for(self.store)
