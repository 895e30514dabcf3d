"""When the next call may be sent under a provider's published rate: the caller books a slot and waits for it."""

from collections import deque
from collections.abc import Mapping

from tgp.core.model.provider_facts import Rate

ALL_TOGETHER = ""  # the key of `CloudFacts.rates` that every verb counts under


class RateLimiter:
    """Keeps one `Rate` exactly: never more than `calls` in any `per`, evenly spaced after a burst of `burst`.

    A token bucket alone would let a full burst and a full period's refill into one window; the last `calls` bookings
    are remembered to prevent that. First come, first served. Times are seconds of one monotonic clock.
    """

    def __init__(self, rate: Rate) -> None:
        assert rate.calls >= 1, "a rate lets something through"
        assert rate.burst >= 1, "a burst is at least the one call"
        self._per = rate.per.total_seconds()
        assert self._per > 0, "a rate is over some time"
        self.spacing = self._per / rate.calls
        self._slack = (min(rate.burst, rate.calls) - 1) * self.spacing
        self._even_from = float("-inf")  # when an evenly spaced next call would be due
        self._booked: deque[float] = deque(maxlen=rate.calls)

    def earliest(self, now: float) -> float:
        """The first free slot, not before `now`."""
        due = max(now, self._even_from - self._slack)
        if len(self._booked) == self._booked.maxlen:
            due = max(due, self._booked[0] + self._per)
        return due

    def book(self, now: float) -> float:
        """Take the first free slot. It counts as used, whether or not the call is sent."""
        moment = self.earliest(now)
        self._even_from = max(self._even_from, moment) + self.spacing
        self._booked.append(moment)
        return moment

    def rested(self, now: float) -> bool:
        """True: no past call delays the next one, so a new limiter would behave the same."""
        return not self._booked or now >= max(self._booked[-1] + self._per, self._even_from)


def rate_limiters(rates: Mapping[str, Rate]) -> dict[str, RateLimiter]:
    return {verb: RateLimiter(rate) for verb, rate in rates.items()}
