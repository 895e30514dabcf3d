"""Threads for work too long for the event loop."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

import msgspec

T = TypeVar("T")

WORKERS = 2  # plans and large decodes hold the interpreter lock most of the time: more threads only add switching
WAITING = 32  # callers at once; more would hide that the work does not keep up


def prepare_decoders(prepared: set[type]) -> None:
    """Let msgspec build its per-type info, for all types that are not in `prepared` yet.

    It does so when a type is first decoded, and 0.22 crashes the process when several threads do so at once. So this
    is called where there is one thread, before work is handed to others. Work must not import types of its own.
    """
    waiting = [msgspec.Struct]
    while waiting:
        found = [each for each in waiting.pop().__subclasses__() if each not in prepared]
        waiting += found
        prepared.update(found)
        for each in found:
            with suppress(TypeError):  # one that is never decoded: its fields are no JSON
                msgspec.json.Decoder(each)


class Threads:
    """A small pool. Cancelling a caller does not stop work that has begun: its result is dropped."""

    def __init__(self, workers: int = WORKERS, waiting: int = WAITING) -> None:
        self._executor = ThreadPoolExecutor(workers, thread_name_prefix="compute")
        self._admitted = asyncio.Semaphore(waiting)
        self._prepared: set[type] = set()
        prepare_decoders(self._prepared)

    async def run(self, work: Callable[[], T]) -> T:
        prepare_decoders(self._prepared)
        async with self._admitted:
            return await asyncio.get_running_loop().run_in_executor(self._executor, work)

    def close(self) -> None:
        """Take no more work and drop what has not begun."""
        self._executor.shutdown(wait=False, cancel_futures=True)
