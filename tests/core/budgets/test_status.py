"""When a budget's status is looked at and written again although nothing happened."""

import re
from datetime import UTC, datetime

import msgspec
import pytest

from tests.core.budgets.test_admission import a_spec
from tests.core.pools.builders import a_pod
from tgp.api.budget import Enforcement
from tgp.core.budgets.account import USD, USED, OpenPod, fresh
from tgp.core.budgets.assess import MILLI_SECONDS, USD_SECONDS, Limits, assess
from tgp.core.budgets.status import (
    PACE,
    REFRESHED,
    Told,
    alert_text,
    conditions,
    look_again,
    pace_of,
    raised,
    worth_writing,
)
from tgp.core.budgets.victims import next_act

NOW = 1_800_000_000
LIMITS = Limits(10 * MILLI_SECONDS)


def used_an_hour():
    account = fresh(24, NOW)
    account.charge(USED, NOW - 7200, NOW - 3600, 1000)
    return account


@pytest.mark.parametrize(("told_ago", "looked_in"), [(0, REFRESHED), (200, 100), (300, REFRESHED), (5000, REFRESHED)])
def test_use_that_stays_the_same_is_looked_at_every_five_minutes_and_not_written(told_ago, looked_in):
    """No pod runs, and the window has not moved past what was used: there is nothing to say."""
    account = used_an_hour()
    seen = assess(LIMITS, account, NOW, exceeded=False)
    told = Told(NOW - told_ago, seen.used)
    assert look_again(a_spec(), LIMITS, account, seen, told) == NOW + looked_in
    assert not worth_writing(told, Told(NOW, seen.used), LIMITS, seen, changed=False)


def test_use_that_moves_is_written_when_the_last_write_is_five_minutes_old():
    account = used_an_hour()
    account.open[b"runs"] = OpenPod(NOW - 10, 1)
    seen = assess(LIMITS, account, NOW, exceeded=False)
    before = Told(NOW - REFRESHED, seen.used - 5)
    assert worth_writing(before, Told(NOW, seen.used), LIMITS, seen, changed=False)
    again = look_again(a_spec(), LIMITS, account, seen, Told(NOW, seen.used))
    assert again is not None
    assert NOW < again <= NOW + REFRESHED


@pytest.mark.parametrize(("busy", "pace"), [(0, PACE), (1, PACE), (10, 20), (100, 200), (1000, REFRESHED)])
def test_many_busy_budgets_are_written_less_often_each(busy, pace):
    assert pace_of(busy) == pace
    account = used_an_hour()
    account.open[b"runs"] = OpenPod(NOW - 600, 100_000)
    seen = assess(LIMITS, account, NOW, exceeded=False)
    for ago, written in ((pace - 1, False), (pace, True)):
        told = Told(NOW - ago, seen.used - LIMITS.used // 100)
        assert worth_writing(told, Told(NOW, seen.used), LIMITS, seen, changed=False, pace=pace) is written
    again = look_again(a_spec(alerts=()), LIMITS, account, seen, Told(NOW, seen.used), pace=pace)
    assert again == NOW + pace


@pytest.mark.parametrize(
    ("hours", "shown"), [("0", "0"), ("0.001111", "0.0011"), ("0.5", "0.5"), ("12.3456", "12.34"), ("12.001", "12")]
)
def test_a_sentence_shows_two_places_or_two_digits(hours, shown):
    account = fresh(24, NOW)
    account.charge(USED, NOW - 100, NOW, round(float(hours) * MILLI_SECONDS / 100))
    seen = assess(LIMITS, account, NOW, exceeded=False)
    assert alert_text("80", seen) == f"Use has reached 80 % of the quota: {shown} of 10 GPU-hours are used"


# -- alerts ------------------------------------------------------------------------------------------------------------

DOLLARS = Limits(10 * MILLI_SECONDS, 10_000_000 * USD_SECONDS)  # ten hours, ten dollars


def spent(hours: float, dollars: float = 0):
    account = fresh(24, NOW)
    account.charge(USED, NOW - 100, NOW, round(hours * MILLI_SECONDS / 100))
    account.charge(USD, NOW - 100, NOW, round(dollars * 1_000_000 * USD_SECONDS / 100))
    return account


@pytest.mark.parametrize(
    ("hours", "dollars", "before", "holds"),
    [
        (7.9, 0, (), ()),
        (8, 0, (), ("80",)),
        (7.6, 0, ("80",), ("80",)),  # not yet five points below it
        (7.5, 0, ("80",), ("80",)),
        (7.4, 0, ("80",), ()),
        (7.6, 0, (), ()),  # it was never raised
        (10, 0, ("80",), ("80", "100")),
        (9.5, 0, ("80", "100"), ("80", "100")),
        (9.4, 0, ("80", "100"), ("80",)),
        (1, 8, (), ("80",)),  # of whichever limit is nearer
        (1, 10, ("80",), ("80", "100")),
        (1, 7.6, ("80",), ("80",)),
        (1, 7.4, ("80",), ()),
    ],
)
def test_an_alert_is_raised_at_its_share_of_the_nearer_limit_and_falls_five_points_below(hours, dollars, before, holds):
    account = spent(hours, dollars)
    seen = assess(DOLLARS, account, NOW, exceeded=False)
    assert raised(a_spec(alerts=(80, 100)), DOLLARS, account, seen, before) == holds
    assert seen.share == pytest.approx(max(hours, dollars) / 10)


def test_an_alert_about_money_is_looked_for_when_it_is_due_and_says_the_dollars():
    account = fresh(24, NOW)
    account.open[b"runs"] = OpenPod(NOW, 1000, 8_000_000)  # eight dollars an hour
    seen = assess(DOLLARS, account, NOW, exceeded=False)
    again = look_again(a_spec(alerts=(80,)), DOLLARS, account, seen, Told(NOW, 0), pace=REFRESHED * 100)
    assert again is not None
    later = assess(DOLLARS, account, NOW + 3600, exceeded=False)
    assert raised(a_spec(alerts=(80,)), DOLLARS, account, later, ()) == ("80",)
    assert alert_text("80", later).endswith("1 of 10 GPU-hours are used, and $8 of $10")


def test_a_forecast_is_raised_before_the_quota_is_used_up_and_holds_while_use_will_come_near_it():
    spec, account = a_spec(alerts=("forecast",)), spent(5)
    assert raised(spec, LIMITS, account, assess(LIMITS, account, NOW, exceeded=False), ()) == ()
    account.open[b"runs"] = OpenPod(NOW, 1000)
    seen = assess(LIMITS, account, NOW, exceeded=False)
    assert raised(spec, LIMITS, account, seen, ()) == ("forecast",)
    assert alert_text("forecast", seen).startswith("At this rate the quota is used up at 2027-")
    account.open[b"runs"] = OpenPod(NOW, 200)  # 4.8 hours in a day: 9.8 of 10
    seen = assess(LIMITS, account, NOW, exceeded=False)
    assert seen.exhausted_at is None
    assert raised(spec, LIMITS, account, seen, ("forecast",)) == ("forecast",), "it was told already"
    assert raised(spec, LIMITS, account, seen, ()) == ()
    account.open[b"runs"] = OpenPod(NOW, 100)  # 2.4: 7.4 of 10
    assert raised(spec, LIMITS, account, assess(LIMITS, account, NOW, exceeded=False), ("forecast",)) == ()
    used_up = spent(10)
    seen = assess(LIMITS, used_up, NOW, exceeded=True)
    assert raised(spec, LIMITS, used_up, seen, ()) == (), "no forecast of what has happened"
    assert raised(spec, LIMITS, used_up, seen, ("forecast",)) == ("forecast",)


# -- what will happen to whom ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("action", "pods", "said"),
    [
        ("Evict", 2, r"Action: Evict from 2027-01-15T08:01:00Z, in this order: pod-0, pod-1[.]$"),
        ("Pause", 5, r"Action: Pause from .*, in this order: pod-0, pod-1, pod-2 and 2 more[.]$"),
        ("AlertOnly", 2, r"Action: AlertOnly[.]$"),
    ],
)
def test_the_condition_names_when_and_the_first_pods_in_order(action, pods, said):
    rules = Enforcement(action=action, grace_period_seconds=60)
    spec = msgspec.structs.replace(a_spec(), enforcement=rules)
    account, running = spent(10), {}
    for number in range(pods):
        uid = f"uid{number:03}".encode()
        account.open[uid] = OpenPod(NOW - 100 + number, 1000)
        running[uid] = a_pod(f"pod-{number}")
    seen = assess(LIMITS, account, NOW, exceeded=False)
    act = next_act(running, account, LIMITS, spec.enforcement, NOW, reached_at=NOW)
    told = conditions(spec, seen, Told(NOW, seen.used, exceeded_at=datetime.fromtimestamp(NOW, UTC)), act)
    assert re.search(said, next(each.message for each in told if each.type == "QuotaExceeded"))
