"""Threads for work too long for the event loop."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

WORKERS = 2  # plans and large decodes hold the interpreter lock most of the time: more threads only add switching
WAITING = 32  # callers at once; more would hide that the work does not keep up


class Threads:
    """A small pool. Cancelling a caller does not stop work that has begun: it ends unseen."""

    def __init__(self, workers: int = WORKERS, waiting: int = WAITING) -> None:
        self._executor = ThreadPoolExecutor(workers, thread_name_prefix="compute")
        self._admitted = asyncio.Semaphore(waiting)

    async def run(self, work: Callable[[], T]) -> T:
        async with self._admitted:
            return await asyncio.get_running_loop().run_in_executor(self._executor, work)

    def close(self) -> None:
        """Take no more work and drop what has not begun."""
        self._executor.shutdown(wait=False, cancel_futures=True)
