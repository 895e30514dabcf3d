"""Keeps a provider's rate limits before the provider has to: whoever asks waits for a turn, or is told to come back."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import TypeVar

from tgp.adapters.clouds.around.meter import Meter, Unmetered
from tgp.adapters.clouds.around.turnstile import Turnstile, Turnstiles
from tgp.adapters.clouds.around.wrapped import Wrapped
from tgp.core.model.cloud_errors import CloudBusy
from tgp.ports.cloud import Cloud

T = TypeVar("T")


class Paced(Wrapped):
    """Everybody who gives the same `turnstiles` and `source` stands in one line; a refusal here sent nothing."""

    def __init__(self, cloud: Cloud, turnstiles: Turnstiles, source: str, meter: Meter | None = None) -> None:
        super().__init__(cloud)
        self._turnstiles = turnstiles
        self._source = source
        self._meter = meter or Unmetered()

    async def _through(self, verb: str, ask: Callable[[], Awaitable[T]]) -> T:
        turnstile = self._turnstiles.of(self._source, self.facts)
        async with AsyncExitStack() as stack:
            await self._wait(stack.enter_async_context(turnstile.turn(verb)), verb)
            return await _ask(ask, turnstile, verb)

    async def _wait(self, turn: Awaitable[None], verb: str) -> None:
        time = asyncio.get_running_loop().time
        started = time()
        try:
            await turn
        except CloudBusy:
            self._meter.waited(self.facts.provider, verb, time() - started, refused=True)
            raise
        if time() > started:
            self._meter.waited(self.facts.provider, verb, time() - started, refused=False)


async def _ask(ask: Callable[[], Awaitable[T]], turnstile: Turnstile, verb: str) -> T:
    try:
        return await ask()
    except CloudBusy as error:
        if error.retry_after is not None:
            turnstile.close(verb, error.retry_after)  # the others need not be told one by one
        raise
