"""Retries after a pause where that is safe: read-only verbs, and only when nothing happened at the provider.

`launch` and `terminate` pass through once. The launch protocol decides whether an order is sent again: it
records the order first. A failed `terminate` is repeated by the check whether the machine is gone.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

from tgp.adapters.clouds.middleware.decorator import SAFE_VERBS, CloudDecorator
from tgp.core.model.backoff import doubled, spread
from tgp.core.model.cloud_errors import CloudBusy
from tgp.ports.cloud import Cloud
from tgp.ports.entropy import Entropy

T = TypeVar("T")

SPREAD = 0.25  # of a pause that the provider named: all clients got the same time


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """The longest duration of a call: `tries` answers and the pauses between them, each `longest` and a spread."""

    tries: int = 3
    first: timedelta = timedelta(seconds=1)  # doubles
    longest: timedelta = timedelta(seconds=15)  # of one pause; a longer Retry-After ends the retries

    def __post_init__(self) -> None:
        assert self.tries >= 1, "at least one try"

    def pause(self, failures: int, asked_for: timedelta | None, luck: float) -> timedelta | None:
        """Before the next try, after so many failures (at least one). None: give up.

        Never shorter than what the provider asked for; without one, between half and all of the doubling step.
        """
        if failures >= self.tries:
            return None
        if asked_for is not None:
            pause = max(asked_for, self.first) * (1 + SPREAD * luck)
            return pause if asked_for <= self.longest else None
        return spread(doubled(self.first, failures, self.longest), luck)


class Retrying(CloudDecorator):
    """Retries reads that raised `CloudBusy`; other errors are final. The last `CloudBusy` is raised."""

    def __init__(self, cloud: Cloud, entropy: Entropy, retry_policy: RetryPolicy | None = None) -> None:
        super().__init__(cloud)
        self._entropy = entropy
        self._retry_policy = retry_policy or RetryPolicy()

    async def _through(self, verb: str, ask: Callable[[], Awaitable[T]]) -> T:
        if verb not in SAFE_VERBS:
            return await ask()
        for failures in range(1, self._retry_policy.tries):
            try:
                return await ask()
            except CloudBusy as error:
                pause = self._retry_policy.pause(failures, error.retry_after, self._entropy.jitter())
                if pause is None:
                    raise
            await asyncio.sleep(pause.total_seconds())
        return await ask()
