"""The list of a mesh's members: asked for once for all who look within a few seconds. It is whole, or an error."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

from tgp.adapters.mesh.membership import Member
from tgp.ports.clock import Clock

KEPT_SECONDS = 5.0  # rate limits are not published; a hundred machines that boot look together
Members: TypeAlias = tuple[Member, ...]


@dataclass(frozen=True, slots=True)
class _Taken:
    members: Members
    began: float  # Clock.boottime


class Roll:
    def __init__(self, fetch: Callable[[], Awaitable[Members]], clock: Clock) -> None:
        self._fetch = fetch
        self._clock = clock
        self._kept: _Taken | None = None
        self._fetching: asyncio.Task[Members] | None = None
        self._changes = 0  # counted: a list that was begun before one is not kept after it

    async def lately(self) -> Members:
        """Not older than a few seconds. A failed look fails everybody who waits for it."""
        kept = self._kept
        if kept is not None and self._clock.boottime() < kept.began + KEPT_SECONDS:
            return kept.members
        if self._fetching is None:
            self._fetching = asyncio.create_task(self.afresh(), name="mesh devices")
            self._fetching.add_done_callback(self._done)
        # Shielded: one caller who gives up must not take the list from the others.
        return await asyncio.shield(self._fetching)

    async def afresh(self) -> Members:
        """Begun after this was asked: before anything is removed by it."""
        began, changes = self._clock.boottime(), self._changes
        members = await self._fetch()
        if changes == self._changes and (self._kept is None or began >= self._kept.began):
            self._kept = _Taken(members, began)
        return members

    def forget(self) -> None:
        """Something was changed over there."""
        self._kept = None
        self._changes += 1

    def _done(self, fetch: "asyncio.Task[Members]") -> None:
        self._fetching = None
        if not fetch.cancelled():
            fetch.exception()  # heard: a caller may have gone away
