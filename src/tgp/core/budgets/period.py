"""The periods of a calendar: a day, a week from Monday, a month, each from midnight to midnight in its time zone."""

from datetime import UTC, date, datetime, timedelta

import msgspec

from tgp.core.model.time_zone import time_zone

LONGEST = {"Day": 25, "Week": 7 * 24 + 1, "Month": 31 * 24 + 1}  # hours, on the day when clocks go back


class Period(msgspec.Struct, frozen=True):
    """Raises UnknownTimeZone when it is asked."""

    calendar: str  # a key of LONGEST
    zone: str = "UTC"

    def bounds(self, now: int) -> tuple[int, int]:
        """The first second of the period that `now` is in, and of the next one."""
        today = datetime.fromtimestamp(now, time_zone(self.zone)).date()
        begin = self._begin(today)
        return self._midnight(begin), self._midnight(self._next(begin))

    def _begin(self, day: date) -> date:
        if self.calendar == "Month":
            return day.replace(day=1)
        return day - timedelta(days=day.weekday()) if self.calendar == "Week" else day

    def _next(self, begin: date) -> date:
        if self.calendar == "Month":
            return (begin + timedelta(days=31)).replace(day=1)
        return begin + timedelta(days=7 if self.calendar == "Week" else 1)

    def _midnight(self, day: date) -> int:
        """Where clocks skip midnight, the first moment of the day."""
        there = datetime(day.year, day.month, day.day, tzinfo=time_zone(self.zone))
        return int(there.astimezone(UTC).timestamp())

    def __str__(self) -> str:
        return f"{self.calendar} {self.zone}"


def read_period(text: str) -> Period | None:
    """As `str` writes it; None: empty, which is a rolling window."""
    calendar, _, zone = text.partition(" ")
    if not text:
        return None
    if calendar not in LONGEST:
        raise ValueError(f"{calendar!r} is no period")
    return Period(calendar, zone)
