"""How long machines you own stay on and off."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tgp.api.owned_machine import CronWindow, PowerMachine
from tgp.core.model.node import OFF_SINCE, Node
from tgp.core.model.object_key import ObjectKey
from tgp.core.power.times import keep_on, stays_off_until, stays_on_until

NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)  # a Monday
MINUTE = timedelta(minutes=1)
MORNINGS = CronWindow(schedule="0 8 * * 1-5", duration="6h", time_zone="Europe/Berlin")


def a_box(**more: Any) -> PowerMachine:
    return PowerMachine(
        name="box-1", gpu_count=2, scale_up_endpoint="http://p/on", scale_down_endpoint="http://p/off", **more
    )


def a_node(off: str = "", *, ready: bool | None = None) -> Node:
    return Node(key=ObjectKey("", "box-1"), ready=ready, annotations={OFF_SINCE: off} if off else {})


@pytest.mark.parametrize(
    ("written", "on_for", "left"),
    [("10m", 4, 6), ("10m", 10, None), ("1h", 59, 1), ("0s", 0, None), ("no duration", 4, 6)],
)
def test_a_machine_stays_on_for_its_min_on_time(written, on_for, left):
    until = stays_on_until(a_box(min_on_time=written), NOON - on_for * MINUTE, NOON)

    assert until == (None if left is None else NOON + left * MINUTE)


def test_a_machine_that_is_not_on_yet_has_no_min_on_time():
    assert stays_on_until(a_box(), None, NOON) is None


def test_an_open_window_keeps_a_machine_on_until_it_closes():
    box = a_box(keep_on=MORNINGS)

    assert stays_on_until(box, NOON - timedelta(days=1), NOON) == NOON + 60 * MINUTE  # 14:00 in Berlin
    assert stays_on_until(box, NOON - timedelta(days=1), NOON + 60 * MINUTE) is None
    assert keep_on(box, NOON + 61 * MINUTE).until == datetime(2026, 11, 17, 7, tzinfo=UTC)


def test_the_later_of_min_on_time_and_window_counts():
    box = a_box(keep_on=MORNINGS, min_on_time="3h")

    assert stays_on_until(box, NOON, NOON) == NOON + 180 * MINUTE


@pytest.mark.parametrize(
    "broken",
    [
        CronWindow(schedule="0 0 30 2 *", duration="6h"),
        CronWindow(schedule="* * * * *", duration="soon"),
        CronWindow(schedule="* * * * *", duration="1h", time_zone="Europe/Atlantis"),
    ],
)
def test_a_window_that_cannot_be_read_is_closed(broken):
    assert not keep_on(a_box(keep_on=broken), NOON).open


@pytest.mark.parametrize(
    ("since", "left"),
    [
        ("2026-11-16T11:59:30Z", 30),
        ("2026-11-16T11:59:00Z", None),
        ("2026-11-16T12:30:00Z", None),  # a kubelet may write its Node's annotations
        ("lately", None),
        ("", None),
    ],
)
def test_a_machine_stays_off_for_its_min_off_time(since, left):
    until = stays_off_until(a_box(), a_node(since), NOON)

    assert until == (None if left is None else NOON + timedelta(seconds=left))


def test_a_machine_without_a_node_may_be_switched_on():
    assert stays_off_until(a_box(), None, NOON) is None
