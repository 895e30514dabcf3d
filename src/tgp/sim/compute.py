"""Long work, done at once: a simulation has no threads, and virtual time does not pass while it computes."""

from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class InlineCompute:
    async def run(self, work: Callable[[], T]) -> T:
        return work()
