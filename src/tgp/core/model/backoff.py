"""How long to wait before trying again: twice as long after each failure, up to a bound."""

from datetime import timedelta
from typing import TypeVar

import msgspec

MAX_DOUBLINGS = 20  # keeps the product small; every bound is reached long before

Length = TypeVar("Length", float, timedelta)


def doubled(first: Length, failures: int, longest: Length) -> Length:
    """The wait after so many failures in a row (at least one): `first`, then doubled each time, up to `longest`."""
    assert failures >= 1, "a wait is after a failure"
    return min(first * (1 << min(failures - 1, MAX_DOUBLINGS)), longest)


def spread(whole: Length, luck: float) -> Length:
    """Between half and all of it, so that clients do not retry at once. `luck`: a random number in [0, 1)."""
    return whole * (0.5 + 0.5 * luck)


class Backoff(msgspec.Struct, frozen=True):
    first: float  # seconds
    cap: float

    def wait(self, failures: int, luck: float) -> float:
        """Seconds before the next try after so many failures in a row (at least one)."""
        return spread(doubled(self.first, failures, self.cap), luck)
