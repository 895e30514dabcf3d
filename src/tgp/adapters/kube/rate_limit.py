"""Our rate limit: a token bucket in front of the API server, besides the server's own fairness."""

import asyncio
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KubeRateLimit:
    per_second: float = 50.0  # controller-runtime's default is 20; a burst of a few hundred requests must drain
    burst: int = 100


class TokenBucket:
    """First come, first served, on the running loop's clock."""

    def __init__(self, pace: KubeRateLimit) -> None:
        self._pace = pace
        self._full_at: float | None = None  # when the bucket is, or was, full again; None: not used yet
        self.waited_seconds = 0.0  # in sum, for a metric

    async def take(self) -> None:
        """Wait for a token. A waiter that is cancelled has used its token."""
        now = asyncio.get_running_loop().time()
        per_token = 1.0 / self._pace.per_second
        full_at = max(self._full_at if self._full_at is not None else now, now) + per_token
        self._full_at = full_at
        wait = full_at - now - self._pace.burst * per_token
        if wait > 0:
            self.waited_seconds += wait
            await asyncio.sleep(wait)
