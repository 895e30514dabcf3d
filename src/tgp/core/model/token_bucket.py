"""A rate limit on our own side: so many at once, and after that so many a second."""

import msgspec

ROUNDING = 1e-9  # seconds: what sums of floats may be off by


class TokenRate(msgspec.Struct, frozen=True):
    per_second: float
    burst: int


class TokenBucket:
    """Full at first. First come, first served; `now` is in seconds of one monotonic clock."""

    def __init__(self, rate: TokenRate) -> None:
        self._per_token = 1.0 / rate.per_second
        self._burst = rate.burst
        self._full_at = float("-inf")  # when the bucket is, or was, full again

    def book(self, now: float) -> float:
        """Take one token, if need be from the future: seconds until it is there."""
        self._full_at = max(self._full_at, now) + self._per_token
        return max(self._full_at - now - self._burst * self._per_token, 0.0)

    def take(self, now: float) -> bool:
        """Take one token if there is one now."""
        before = self._full_at
        if self.book(now) <= ROUNDING:
            return True
        self._full_at = before
        return False
