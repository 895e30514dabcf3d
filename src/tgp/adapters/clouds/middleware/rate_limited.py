"""Keeps a provider's rate limits on our side: a caller waits for its slot, or gets `CloudBusy` with a time."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import TypeVar

from tgp.adapters.clouds.middleware.account_throttle import AccountThrottle, AccountThrottles
from tgp.adapters.clouds.middleware.decorator import CloudDecorator
from tgp.adapters.clouds.middleware.metrics import CloudMetrics, NoCloudMetrics
from tgp.core.model.cloud_errors import CloudBusy
from tgp.ports.cloud import Cloud

T = TypeVar("T")


class RateLimited(CloudDecorator):
    """Callers with the same `throttles` and `source` share one queue; a refusal here sent nothing."""

    def __init__(
        self, cloud: Cloud, throttles: AccountThrottles, source: str, metrics: CloudMetrics | None = None
    ) -> None:
        super().__init__(cloud)
        self._throttles = throttles
        self._source = source
        self._meter = metrics or NoCloudMetrics()

    async def _through(self, verb: str, ask: Callable[[], Awaitable[T]]) -> T:
        throttle = self._throttles.of(self._source, self.facts)
        async with AsyncExitStack() as stack:
            await self._wait(stack.enter_async_context(throttle.turn(verb)), verb)
            return await _ask(ask, throttle, verb)

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


async def _ask(ask: Callable[[], Awaitable[T]], throttle: AccountThrottle, verb: str) -> T:
    try:
        return await ask()
    except CloudBusy as error:
        if error.retry_after is not None:
            throttle.close(verb, error.retry_after)  # the other callers need not each get the same answer
        raise
