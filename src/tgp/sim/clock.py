"""Virtual clocks: the world's own, and one per host, which may be wrong."""

import asyncio
from datetime import UTC, datetime, timedelta

GENESIS = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)  # a Monday morning; any fixed moment would do


class WorldClock:
    """The true time of a simulation, from its loop. Servers stamp their objects with it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, start: datetime = GENESIS) -> None:
        self._loop = loop
        self._start = start

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self._loop.time())

    def boottime(self) -> float:
        return self._loop.time()


class HostClock:
    """The clocks of one machine: a wall clock that can be set wrong, and a boot clock with a zero of its own."""

    def __init__(self, world: WorldClock, *, booted_ago: float = 0.0) -> None:
        self._world = world
        self._wall_offset = timedelta()
        self._boot_offset = booted_ago
        self._frozen_at: datetime | None = None

    def now(self) -> datetime:
        return self._frozen_at if self._frozen_at is not None else self._world.now() + self._wall_offset

    def boottime(self) -> float:
        return self._world.boottime() + self._boot_offset

    def jump(self, by: timedelta) -> None:
        """An administrator, or NTP, sets the wall clock. The boot clock does not change."""
        self._wall_offset += by
        if self._frozen_at is not None:
            self._frozen_at += by

    def freeze(self) -> None:
        """The wall clock stops; the boot clock goes on."""
        self._frozen_at = self.now()

    def suspend(self, seconds: float) -> None:
        """The machine slept: its boot clock counted on, while the loop of its programs did not."""
        assert seconds >= 0, "a boot clock only grows"
        self._boot_offset += seconds

    def right(self) -> None:
        """The wall clock is correct again. The boot clock keeps what it has counted."""
        self._wall_offset = timedelta()
        self._frozen_at = None
