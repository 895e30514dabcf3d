"""The list of a mesh's members: fetched once for all callers within a few seconds. It is complete, or an error."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

from tgp.adapters.mesh.membership import Member
from tgp.ports.clock import Clock

KEPT_SECONDS = 5.0  # rate limits are not published; a hundred booting machines share one list
Members: TypeAlias = tuple[Member, ...]


@dataclass(frozen=True, slots=True)
class _Taken:
    members: Members
    began: float  # Clock.boottime


class DeviceList:
    def __init__(self, fetch: Callable[[], Awaitable[Members]], clock: Clock) -> None:
        self._fetch = fetch
        self._clock = clock
        self._kept: _Taken | None = None
        self._fetching: asyncio.Task[Members] | None = None
        self._changes = 0  # a list that was started before a change is not kept after it

    async def lately(self) -> Members:
        """Not older than a few seconds. A failed fetch fails all its waiting callers."""
        kept = self._kept
        if kept is not None and self._clock.boottime() < kept.began + KEPT_SECONDS:
            return kept.members
        if self._fetching is None:
            self._fetching = asyncio.create_task(self.afresh(), name="mesh devices")
            self._fetching.add_done_callback(self._done)
        # Shielded: a cancelled caller must not cancel the fetch for the others.
        return await asyncio.shield(self._fetching)

    async def afresh(self) -> Members:
        """Fetched after this call: for decisions about removal."""
        began, changes = self._clock.boottime(), self._changes
        members = await self._fetch()
        if changes == self._changes and (self._kept is None or began >= self._kept.began):
            self._kept = _Taken(members, began)
        return members

    def forget(self) -> None:
        """The mesh was changed: drop the cached list."""
        self._kept = None
        self._changes += 1

    def _done(self, fetch: "asyncio.Task[Members]") -> None:
        self._fetching = None
        if not fetch.cancelled():
            fetch.exception()  # retrieved, so that asyncio does not log it: the caller may be gone
