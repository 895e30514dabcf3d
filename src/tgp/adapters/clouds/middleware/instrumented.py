"""Counts and times every call to a provider by its outcome. Calls pass unchanged."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from tgp.adapters.clouds.middleware.decorator import CloudDecorator
from tgp.adapters.clouds.middleware.metrics import CANCELLED, UNFORESEEN, WENT_WELL, CloudMetrics
from tgp.core.model.cloud_errors import CloudError
from tgp.ports.cloud import Cloud

T = TypeVar("T")


class Instrumented(CloudDecorator):
    """Wraps the client directly, so that rate-limit waits and pauses between tries are not measured."""

    def __init__(self, cloud: Cloud, metrics: CloudMetrics) -> None:
        super().__init__(cloud)
        self._meter = metrics

    async def _through(self, verb: str, ask: Callable[[], Awaitable[T]]) -> T:
        time = asyncio.get_running_loop().time
        started, outcome = time(), UNFORESEEN
        try:
            answer = await ask()
            outcome = WENT_WELL
        except CloudError as error:
            outcome = type(error).__name__
            raise
        except asyncio.CancelledError:
            outcome = CANCELLED
            raise
        finally:
            self._meter.called(self.facts.provider, verb, outcome, time() - started)
        return answer
