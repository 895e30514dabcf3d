"""A scaled loop that does not hurry after a stall.

At sixty times the pace a pause of a fifth of a second is twelve seconds of the world: leases would lapse and requests
time out because a terminal was slow, a laptop slept or somebody pressed Ctrl-Z. So a turn of the loop moves the world
on by what it was asked to wait and a moment more; whatever it took beyond that never passed in the world, which then
simply takes longer to catch up with the present.
"""

from datetime import timedelta

from tgp.ports.clock import Clock
from tgp.sim.scaled import BEGAN_AGO, FACTOR, ScaledLoop

MOMENT = 0.25  # seconds of the world that one turn may take: a request takes a dozen turns, and is given ten seconds


class SteadyLoop(ScaledLoop):
    def __init__(self, real: Clock, *, factor: float = FACTOR, began_ago: timedelta = BEGAN_AGO) -> None:
        self._moment = MOMENT / factor
        self._lost = 0.0
        self._limit = self._moment
        super().__init__(real, factor=factor, began_ago=began_ago)

    def real_elapsed(self) -> float:
        return min(super().real_elapsed() - self._lost, self._limit)

    def real_wait(self, wait: float) -> float:
        """Asked by the selector right before it waits: from here on so much may pass."""
        real = super().real_wait(wait)
        self._limit = self.real_elapsed() + real + self._moment
        return real

    def _run_once(self) -> None:
        passed = super().real_elapsed() - self._lost
        if passed > self._limit:
            self._lost += passed - self._limit
            passed = self._limit
        self._limit = passed + self._moment
        super()._run_once()  # type: ignore[misc]  # asyncio's own turn, not in typeshed
