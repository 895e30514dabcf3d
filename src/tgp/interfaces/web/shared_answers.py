"""Answers that many wait for at the same time, asked for once."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from tgp.core.access.kept_answers import KeptAnswers

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class SharedAnswers(Generic[K, V]):
    """Answers that are kept, and asked for once also by many at a time."""

    def __init__(self, kept: KeptAnswers[K, V] | None = None) -> None:
        self._kept: KeptAnswers[K, V] = kept or KeptAnswers()
        self._asking: dict[K, asyncio.Future[V]] = {}  # bounded by the connections that wait

    async def answer(self, key: K, ask: Callable[[], Awaitable[V]]) -> V:
        now = asyncio.get_running_loop().time()
        if (known := self._kept.get(key, now)) is not None:
            return known
        asking = self._asking.get(key)
        if asking is None:
            asking = self._asking[key] = asyncio.ensure_future(self._ask(key, ask, now))
        return await asyncio.shield(asking)

    async def _ask(self, key: K, ask: Callable[[], Awaitable[V]], now: float) -> V:
        try:
            found = await ask()
        finally:
            del self._asking[key]
        self._kept.put(key, found, now)
        return found
