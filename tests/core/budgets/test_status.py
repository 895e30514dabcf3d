"""When a budget's status is looked at and written again although nothing happened."""

import pytest

from tests.core.budgets.test_admission import a_spec
from tgp.core.budgets.account import USED, OpenPod, fresh
from tgp.core.budgets.assess import MILLI_SECONDS, Limits, assess
from tgp.core.budgets.status import PACE, REFRESHED, Told, alert_text, look_again, pace_of, worth_writing

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
