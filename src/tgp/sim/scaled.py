"""A real event loop on a world that began in the past and catches up with the present.

World time runs at `factor` until it has reached the real time, and at 1 from then on, so no timestamp ever lies in the
future. A stretch may pass at 1 before that, too: the world then takes longer to catch up. `loop.time()`, timers and
timeouts count in world seconds; sockets, signals and threads are real.
"""

import asyncio
import selectors
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from tgp.ports.clock import Clock

FACTOR = 60.0
BEGAN_AGO = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class WorldSpeed:
    """Which world second belongs to which real second, both counted from the start; of the past, since `slow_from`."""

    factor: float
    behind: float  # seconds between the world's beginning and the real one
    slow_from: float = 0.0  # real: from here until there a world second takes a real one
    slow_until: float = 0.0
    slow_before: float = 0.0  # real seconds of earlier such stretches

    def __post_init__(self) -> None:
        assert self.factor > 1, "a world that is not faster never catches up"
        assert self.behind >= 0, "a world cannot begin in the future"
        assert 0 <= self.slow_before <= self.slow_from <= self.slow_until, "a stretch begins before it ends"

    def slowed(self, now: float, seconds: float) -> "WorldSpeed":
        """As fast as the real time from `now` on, for so many real seconds. The past stays as it was."""
        if now <= self.slow_until:
            return replace(self, slow_until=max(now + seconds, self.slow_until))
        return replace(self, slow_from=now, slow_until=now + seconds, slow_before=self.slow_before + self._slow_stretch)

    @property
    def _slow_stretch(self) -> float:
        return self.slow_until - self.slow_from

    @property
    def real_until_caught_up(self) -> float:
        early = self._fast_until_caught_up + self.slow_before
        return early if early <= self.slow_from else early + self._slow_stretch

    @property
    def _fast_until_caught_up(self) -> float:
        return self.behind / (self.factor - 1)

    def world(self, real: float) -> float:
        slow = self.slow_before + min(max(real - self.slow_from, 0.0), self._slow_stretch)
        return real + (self.factor - 1) * min(real - slow, self._fast_until_caught_up)

    def real(self, world: float) -> float:
        if world >= self.world(self.real_until_caught_up):
            return world - self.behind
        began = self.world(self.slow_from)
        if began < world <= began + self._slow_stretch:
            return self.slow_from + world - began
        slow = self.slow_before + (self._slow_stretch if world > began else 0.0)
        return (world + (self.factor - 1) * slow) / self.factor


class ScaledLoop(asyncio.SelectorEventLoop):
    """`real` reads the real time; nothing else here reads a clock."""

    def __init__(self, real: Clock, *, factor: float = FACTOR, began_ago: timedelta = BEGAN_AGO) -> None:
        self.pace = WorldSpeed(factor, began_ago.total_seconds())
        self._real = real
        self._began = real.boottime()
        self.starts_at = real.now() - began_ago
        super().__init__(_ScaledSelector(self))

    def time(self) -> float:
        """World seconds since the world began. Only grows."""
        return self.pace.world(self.real_elapsed())

    def real_elapsed(self) -> float:
        return self._real.boottime() - self._began

    def slow_down(self, seconds: float) -> None:
        """To the pace of the real time, for so many real seconds from now; no effect once it has caught up."""
        if not self.wait_for_own_write:
            self.pace = self.pace.slowed(self.real_elapsed(), seconds)

    @property
    def wait_for_own_write(self) -> bool:
        return self.real_elapsed() >= self.pace.real_until_caught_up

    def real_wait(self, wait: float) -> float:
        """How long a wait of so many world seconds, begun now, really takes."""
        elapsed = self.real_elapsed()
        return max(self.pace.real(self.pace.world(elapsed) + wait) - elapsed, 0.0)


class ScaledClock:
    """The wall clock of the world: in the past until it has caught up, and never ahead of the real one."""

    def __init__(self, loop: ScaledLoop, real: Clock) -> None:
        self._loop = loop
        self._real = real

    def now(self) -> datetime:
        present = self._real.now()
        if self._loop.wait_for_own_write:
            return present
        return min(self._loop.starts_at + timedelta(seconds=self._loop.time()), present)

    def boottime(self) -> float:
        return self._loop.time()


class _ScaledSelector(selectors.BaseSelector):
    """The platform's selector, which waits in real seconds."""

    def __init__(self, loop: ScaledLoop) -> None:
        self._loop = loop
        self._inner = selectors.DefaultSelector()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        real = timeout if timeout is None or timeout <= 0 else self._loop.real_wait(timeout)
        return self._inner.select(real)

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._inner.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._inner.unregister(fileobj)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._inner.modify(fileobj, events, data)

    def get_key(self, fileobj: Any) -> selectors.SelectorKey:
        return self._inner.get_key(fileobj)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._inner.get_map()

    def close(self) -> None:
        self._inner.close()
