"""When a schedule with a duration is open, in a time zone with daylight saving.

A schedule that names hours goes by the clock on the wall. A tick in the hour that is skipped in spring happens at the
first moment after it: a window that protects must not be lost for a night. (A CronJob would leave it out.) A tick in
the hour that is repeated in autumn happens once, the first time. A schedule for every hour goes by elapsed time: it
ticks in each hour that happens, in both of the repeated ones and not in the skipped one.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING

from tgp.core.model.cron import CronSchedule
from tgp.core.model.time_zone import time_zone

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo  # takes 1 MB: imported when the first schedule with a zone is read

EVERY_HOUR = frozenset(range(24))
MOST_DAYS = 3000  # between two ticks: a leap day recurs after eight years at the latest
MOST_CHAINED = 100  # ticks whose windows touch, that are followed to find the end
DAYS_KEPT = 128
MOMENTS_KEPT = 256  # one look asks the same of every machine of a pool
ONE_DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class WindowState:
    open: bool
    # When that changes. None: not within the years that are looked ahead. While windows follow each other without a
    # pause, the moment until which they were followed.
    until: datetime | None


@lru_cache(maxsize=MOMENTS_KEPT)
def open_at(schedule: CronSchedule, duration: timedelta, zone: str, now: datetime) -> WindowState:
    """Whether a window that a tick has opened lasts at `now`. A window includes its first moment, not its last."""
    last = next(_ticks_back(schedule, zone, now), None)
    if last is None or now >= last + duration:
        return WindowState(False, next(_ticks_after(schedule, zone, now), None))
    ends = last + duration
    for count, tick in enumerate(_ticks_after(schedule, zone, last)):
        if tick > ends or count == MOST_CHAINED:
            break
        ends = tick + duration
    return WindowState(True, ends)


def _ticks_back(schedule: CronSchedule, zone: str, now: datetime) -> Iterator[datetime]:
    """Ticks at `now` and before it, the latest first."""
    day = now.astimezone(time_zone(zone)).date() + ONE_DAY
    for _ in range(MOST_DAYS):
        yield from (tick for tick in reversed(_ticks_of(schedule, zone, day)) if tick <= now)
        day -= ONE_DAY


def _ticks_after(schedule: CronSchedule, zone: str, now: datetime) -> Iterator[datetime]:
    day = now.astimezone(time_zone(zone)).date() - ONE_DAY
    for _ in range(MOST_DAYS):
        yield from (tick for tick in _ticks_of(schedule, zone, day) if tick > now)
        day += ONE_DAY


def _ticks_of(schedule: CronSchedule, zone: str, day: date) -> tuple[datetime, ...]:
    """Of one day of that zone's calendar, in order."""
    return _read_day(schedule, zone, day) if _on(schedule, day) else ()


def _on(schedule: CronSchedule, day: date) -> bool:
    if day.month not in schedule.months:
        return False
    of_month, of_week = day.day in schedule.days, day.isoweekday() % 7 in schedule.weekdays
    return of_month or of_week if schedule.either_day else of_month and of_week


@lru_cache(maxsize=DAYS_KEPT)
def _read_day(schedule: CronSchedule, zone: str, day: date) -> tuple[datetime, ...]:
    there = time_zone(zone)
    found: set[datetime] = set()
    for hour in schedule.hours:
        for minute in schedule.minutes:
            wall = datetime(day.year, day.month, day.day, hour, minute, tzinfo=there)
            first, second = wall.astimezone(UTC), wall.replace(fold=1).astimezone(UTC)
            skipped = first > second  # the offset before the change shows a later moment than the one after it
            if schedule.hours != EVERY_HOUR:
                found.add(_change_between(second, first, there) if skipped else first)
            elif not skipped:
                found |= {first, second}
    return tuple(sorted(found))


def _change_between(before: datetime, after: datetime, zone: "ZoneInfo") -> datetime:
    """The first second at which the zone's offset is that of `after`."""
    low, high, offset = 0, int((after - before).total_seconds()), after.astimezone(zone).utcoffset()
    while high - low > 1:
        middle = (low + high) // 2
        if (before + timedelta(seconds=middle)).astimezone(zone).utcoffset() == offset:
            high = middle
        else:
            low = middle
    return before + timedelta(seconds=high)
