"""Windows against a walk over every minute, and by hand on the nights when clocks change."""

import random
import zoneinfo
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from tgp.core.disruption import windows
from tgp.core.disruption.windows import WindowState, open_at
from tgp.core.model.cron import read_schedule
from tgp.core.model.time_zone import UnknownTimeZone

ZONES = (
    "UTC",
    "Europe/Berlin",
    "Europe/London",
    "America/New_York",
    "America/Sao_Paulo",
    "America/St_Johns",
    "Asia/Kolkata",
    "Asia/Tehran",
    "Australia/Lord_Howe",  # half an hour
    "Africa/Casablanca",  # back and forth around Ramadan
    "America/Santiago",  # at midnight
    "Pacific/Apia",
)
SCHEDULES = (
    "0 9 * * 1-5",
    "30 2 * * *",
    "15 1,2,3 * * *",
    "*/20 * * * *",
    "0 0 * * *",
    "45 23 * * 6,0",
    "5 0 1 * *",
    "0 12 13 * 5",
    "59 1-2 * 3,10,11 *",
)
LENGTHS = (timedelta(minutes=1), timedelta(minutes=45), timedelta(hours=8), timedelta(hours=26))
MINUTE = timedelta(minutes=1)


def moment(text):
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def matching(schedule, wall):
    of_month, of_week = wall.day in schedule.days, wall.isoweekday() % 7 in schedule.weekdays
    day = of_month or of_week if schedule.either_day else of_month and of_week
    in_time = wall.month in schedule.months and wall.hour in schedule.hours and wall.minute in schedule.minutes
    return day and in_time


def ticks_by_walking(schedule, zone, begin, end):
    """Minute by minute: what the clock on the wall shows, and what it jumped over just now."""
    there = ZoneInfo(zone)
    named = len(schedule.hours) < 24
    found = []
    at, before = begin, begin.astimezone(there).replace(tzinfo=None)
    while at <= end:
        local = at.astimezone(there)
        wall = local.replace(tzinfo=None, fold=0)
        jumped = before + MINUTE
        skipped = False
        while jumped < wall:
            skipped = skipped or (named and matching(schedule, jumped))
            jumped += MINUTE
        if skipped or (matching(schedule, wall) and not (named and local.fold)):
            found.append(at)
        before = wall
        at += MINUTE
    return found


@pytest.mark.parametrize("zone", ZONES)
def test_windows_are_those_of_a_walk_over_every_minute(zone):
    """Ten years, sampled: some days of each, and every night on which the clock changes."""
    chosen = random.Random(zone)
    there = ZoneInfo(zone)
    days = [moment("2018-01-01") + timedelta(days=chosen.randrange(3653)) for _ in range(4)]
    noons = [moment("2018-01-01T12:00") + timedelta(days=number) for number in range(3653)]
    changes = [
        noon
        for noon in noons
        if noon.astimezone(there).utcoffset() != (noon - timedelta(days=1)).astimezone(there).utcoffset()
    ]
    days += chosen.sample(changes, min(len(changes), 5))
    for day in days:
        text = chosen.choice(SCHEDULES)
        schedule, length = read_schedule(text), chosen.choice(LENGTHS)
        begin = day - timedelta(days=1)
        ticks = ticks_by_walking(schedule, zone, begin - length - timedelta(hours=2), day + timedelta(days=1))
        at = begin
        while at < day + timedelta(days=1):
            expected = any(tick <= at < tick + length for tick in ticks)
            assert open_at(schedule, length, zone, at).open is expected, (zone, text, length, at)
            at += timedelta(minutes=chosen.choice((1, 13, 41)))


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("text", SCHEDULES)
def test_a_window_changes_at_the_moment_that_is_told_and_not_before(zone, text):
    chosen = random.Random(zone + text)
    schedule = read_schedule(text)
    for _ in range(10):
        now = moment("2020-01-01") + timedelta(minutes=chosen.randrange(60 * 24 * 3653))
        length = chosen.choice(LENGTHS)
        told = open_at(schedule, length, zone, now)
        assert told.until is not None
        assert told.until > now
        assert open_at(schedule, length, zone, told.until - timedelta(seconds=1)).open is told.open
        if not told.open:
            assert open_at(schedule, length, zone, told.until).open


@pytest.mark.parametrize(
    ("schedule", "now", "expected"),
    [
        # 02:30 does not exist on 29 March 2026 in Berlin: it begins at 03:00, which is 01:00 UTC
        ("30 2 * * *", "2026-03-29T00:59:59", WindowState(False, moment("2026-03-29T01:00:00"))),
        ("30 2 * * *", "2026-03-29T01:00:00", WindowState(True, moment("2026-03-29T02:00:00"))),
        # 02:30 exists twice on 25 October 2026: it begins at the first, 00:30 UTC, and not again
        ("30 2 * * *", "2026-10-25T00:30:00", WindowState(True, moment("2026-10-25T01:30:00"))),
        ("30 2 * * *", "2026-10-25T01:30:00", WindowState(False, moment("2026-10-26T01:30:00"))),
    ],
)
def test_the_nights_when_the_clock_changes(schedule, now, expected):
    told = open_at(read_schedule(schedule), timedelta(hours=1), "Europe/Berlin", moment(now))
    assert told == expected


def test_a_schedule_for_every_hour_goes_by_elapsed_time():
    """At half past: in both of the repeated hours, and not in the skipped one."""
    schedule, length = read_schedule("30 * * * *"), timedelta(minutes=10)
    for at in ("2026-10-25T00:30", "2026-10-25T01:30", "2026-03-29T00:30", "2026-03-29T01:30"):
        assert open_at(schedule, length, "Europe/Berlin", moment(at)) == WindowState(True, moment(at) + length)
    assert not open_at(schedule, length, "Europe/Berlin", moment("2026-03-29T01:00")).open


def test_windows_that_follow_each_other_are_one():
    told = open_at(read_schedule("0 8-11 * * *"), timedelta(hours=1), "UTC", moment("2026-05-04T09:10"))
    assert told == WindowState(True, moment("2026-05-04T12:00"))


def test_a_window_without_an_end_is_told_for_as_far_as_it_was_followed():
    told = open_at(read_schedule("* * * * *"), timedelta(minutes=1), "UTC", moment("2026-05-04T09:10"))
    assert told.open
    assert told.until is not None
    assert told.until > moment("2026-05-04T10:10")


def test_a_leap_day_is_found_over_a_century_without_one():
    told = open_at(read_schedule("0 0 29 2 *"), timedelta(hours=1), "UTC", moment("2097-01-01"))
    assert told == WindowState(False, moment("2104-02-29"))


@pytest.mark.parametrize("name", ["Europe/Berlyn", "Europe", "../etc/passwd", ""])
def test_a_zone_that_does_not_exist_is_named(name):
    with pytest.raises(UnknownTimeZone):
        open_at(read_schedule("@daily"), timedelta(hours=1), name, moment("2026-05-04"))


def test_zone_data_comes_with_the_wheel():
    """A slim image has none of its own."""
    zoneinfo.reset_tzpath(to=())
    try:
        zoneinfo.ZoneInfo.clear_cache()
        assert str(zoneinfo.ZoneInfo("Europe/Berlin")) == "Europe/Berlin"
    finally:
        zoneinfo.reset_tzpath()
        zoneinfo.ZoneInfo.clear_cache()


def test_a_moment_is_looked_up_once_for_all_machines_of_a_pool(monkeypatch):
    """From one leap day to the next are 1,461 days; a pool has up to 16 budgets, each asked for every machine."""
    looked_at, really = [], windows._on
    monkeypatch.setattr(windows, "_on", lambda schedule, day: looked_at.append(day) or really(schedule, day))
    asked = (read_schedule("0 0 29 2 *"), timedelta(hours=1), "Europe/Berlin", datetime(2026, 11, 17, 12, tzinfo=UTC))
    answer, days = windows.open_at(*asked), len(looked_at)

    assert days > 365
    assert windows.open_at(*asked) == answer
    assert len(looked_at) == days
