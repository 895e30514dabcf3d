"""Counts and times every call to a provider by its outcome. It changes nothing about any of them."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from tgp.adapters.clouds.around.meter import CANCELLED, UNFORESEEN, WENT_WELL, Meter
from tgp.adapters.clouds.around.wrapped import Wrapped
from tgp.core.model.cloud_errors import CloudError
from tgp.ports.cloud import Cloud

T = TypeVar("T")


class Metered(Wrapped):
    """Hung nearest to the client, so that waiting for a turn and pauses between tries are not its seconds."""

    def __init__(self, cloud: Cloud, meter: Meter) -> None:
        super().__init__(cloud)
        self._meter = meter

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
