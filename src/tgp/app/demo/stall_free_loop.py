"""A scaled loop that does not jump ahead after a stall.

At sixty times real time a pause of 0.2 s is 12 s of the world: leases would expire and requests time out because a
terminal was slow, a laptop slept or the user pressed Ctrl-Z. So one iteration of the loop advances the world by the
wait it asked for and a little more; the rest of the pause does not count, and the world only takes longer to catch up
with the present.
"""

from datetime import timedelta

from tgp.ports.clock import Clock
from tgp.sim.scaled import BEGAN_AGO, FACTOR, ScaledLoop

MOMENT = 0.25  # seconds of the world per iteration: a request takes a dozen iterations, and may take ten seconds


class StallFreeLoop(ScaledLoop):
    def __init__(self, real: Clock, *, factor: float = FACTOR, began_ago: timedelta = BEGAN_AGO) -> None:
        self._moment = MOMENT / factor
        self._lost = 0.0
        self._limit = self._moment
        super().__init__(real, factor=factor, began_ago=began_ago)

    def real_elapsed(self) -> float:
        return min(super().real_elapsed() - self._lost, self._limit)

    def real_wait(self, wait: float) -> float:
        """Called right before the selector waits: from here on this much time may pass."""
        real = super().real_wait(wait)
        self._limit = self.real_elapsed() + real + self._moment
        return real

    def _run_once(self) -> None:
        passed = super().real_elapsed() - self._lost
        if passed > self._limit:
            self._lost += passed - self._limit
            passed = self._limit
        self._limit = passed + self._moment
        super()._run_once()  # type: ignore[misc]  # asyncio's own iteration, not in typeshed
