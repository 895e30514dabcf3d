"""Time, as the rest of the code reads it.

Waiting is done with the running event loop (`asyncio.sleep`, `asyncio.timeout`): the loop itself is real, scaled or
virtual, so code that waits does not change between a cluster, the demo and a simulation.
"""

from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    def now(self) -> datetime:
        """The wall clock, aware, in UTC. It may jump; never measure a length with it."""
        ...

    def boottime(self) -> float:
        """Seconds that only grow and keep counting while the machine sleeps. Leadership is measured on it."""
        ...
