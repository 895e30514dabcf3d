"""Work too long for the event loop: a thread in production, inline in simulation."""

from collections.abc import Callable
from typing import Protocol, TypeVar

T = TypeVar("T")


class Compute(Protocol):
    async def run(self, work: Callable[[], T]) -> T:
        """Run `work`, which must touch nothing shared, and return what it returned or raise what it raised."""
        ...
