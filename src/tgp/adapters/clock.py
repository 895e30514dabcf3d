"""The machine's clocks. The one place that reads them."""

import time
from datetime import UTC, datetime


class SystemClock:
    def now(self) -> datetime:
        return datetime.now(UTC)

    def boottime(self) -> float:
        # Unlike the monotonic clock it keeps counting while the machine is suspended: a lease does expire meanwhile.
        # macOS has no CLOCK_BOOTTIME; its monotonic clock counts sleep.
        return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))
