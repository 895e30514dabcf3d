"""Who goes on when hours are left again: the oldest first, and only as many as what is left lasts for."""

import random
from datetime import UTC, datetime, timedelta

import pytest

from tests.amounts import amount
from tgp.core.budgets.account import USD, USED, OpenPod, fresh
from tgp.core.budgets.assess import MILLI_SECONDS, USD_SECONDS, Limits
from tgp.core.budgets.resume import HeldBack, lasting, order, resume
from tgp.core.model.object_key import ObjectKey

NOW = 1_800_000_000
SINCE = datetime.fromtimestamp(NOW - 3600, UTC)
HALF_AN_HOUR = 1800  # of a day, divided by 48


def held(name: str, gpus: int = 1, *, minutes: int = 0, priority: int = 0) -> HeldBack:
    since = SINCE + timedelta(minutes=minutes)
    return HeldBack(ObjectKey("team", name), name, since, gpus * 1000, priority)


def names(going) -> list[str]:
    return [each.key.name for each in going]


def hours(number: float) -> Limits:
    return Limits(int(number * MILLI_SECONDS))


def dollars(number: float) -> Limits:
    """Of money; hours there are enough of."""
    return Limits(100 * MILLI_SECONDS, int(number * 1_000_000) * USD_SECONDS)


def test_the_highest_priority_goes_first_then_the_oldest_then_by_name():
    waiting = [held("b"), held("a"), held("late", minutes=5), held("early", minutes=-5), held("high", priority=7)]
    assert names(order(waiting)) == ["high", "early", "a", "b", "late"]


@pytest.mark.parametrize(("window", "seconds"), [(24, HALF_AN_HOUR), (720, 54_000), (1, 600), (8, 600)])
def test_what_is_left_must_last_a_part_of_the_window_and_ten_minutes_at_least(window, seconds):
    assert lasting(window * 3600) == seconds


def test_one_more_goes_only_while_what_is_left_lasts_for_it_too():
    waiting = [held("first"), held("second", minutes=1), held("third", minutes=2)]
    account = fresh(24, NOW)
    assert names(resume(waiting, account, hours(1), NOW)) == ["first", "second"]
    assert names(resume(waiting, account, hours(1.5), NOW)) == ["first", "second", "third"]
    assert names(resume(waiting, account, hours(0.5), NOW)) == ["first"]


def test_what_runs_and_what_is_on_the_way_lasts_from_the_same_hours():
    waiting = [held("first"), held("second", minutes=1)]
    account = fresh(24, NOW)
    account.open[b"runs"] = OpenPod(NOW, 1000)
    assert names(resume(waiting, account, hours(1), NOW)) == ["first"]
    assert resume(waiting, account, hours(1), NOW, on_the_way=1000) == ()


def test_hours_that_come_back_meanwhile_count_as_left():
    account = fresh(24, NOW)
    account.charge(USED, NOW - 86_400, NOW - 86_400 + HALF_AN_HOUR, 2000)
    account.advance(NOW)
    assert names(resume([held("first")], account, hours(1), NOW)) == ["first"], "the hour leaves within half an hour"


def test_none_overtakes_a_larger_one_that_waits_longer():
    waiting = [held("large", 8), held("small", 1, minutes=1)]
    account = fresh(24, NOW)
    account.charge(USED, NOW - HALF_AN_HOUR, NOW, 1000)
    assert resume(waiting, account, hours(4), NOW) == ()


def test_one_that_is_larger_than_the_quota_goes_when_nothing_else_uses_it():
    waiting = [held("large", 100), held("small", 1, minutes=1)]
    account = fresh(24, NOW)
    assert names(resume(waiting, account, hours(2), NOW)) == ["large"]
    account.charge(USED, NOW - 60, NOW, 1000)
    assert resume(waiting, account, hours(2), NOW) == ()


def test_money_must_last_too_at_what_gpu_hours_have_cost_so_far():
    waiting = [held("first"), held("second", minutes=1)]
    account = fresh(24, NOW)
    account.charge(USED, NOW - 60, NOW, 1000)
    account.charge(USD, NOW - 60, NOW, 2_000_000)  # two dollars for each GPU and hour
    assert names(resume(waiting, account, dollars(2.1), NOW)) == ["first", "second"]
    assert names(resume(waiting, account, dollars(1.9), NOW)) == ["first"]
    assert resume(waiting, account, dollars(1.9), NOW, on_the_way=1000) == ()


def test_what_costs_nothing_so_far_is_not_held_back_for_money():
    account = fresh(24, NOW)
    account.charge(USED, NOW - 60, NOW, 1000)
    assert names(resume([held("first")], account, dollars(0.01), NOW)) == ["first"]


def test_whatever_waits_a_prefix_goes_and_it_never_uses_more_than_is_left():
    luck = random.Random("resume")
    for _ in range(amount(300, 5000)):
        window = luck.choice((1, 24, 720))
        account = fresh(window, NOW)
        for number in range(luck.randrange(5)):
            account.open[bytes([number])] = OpenPod(NOW - luck.randrange(window * 3600), luck.randrange(1, 9000))
        account.charge(USED, NOW - luck.randrange(1, window * 3600), NOW, luck.randrange(1, 4000))
        limits = Limits(luck.randrange(1, 50 * MILLI_SECONDS))
        waiting = [
            held(str(number), luck.randrange(1, 9), minutes=luck.randrange(-9, 9), priority=luck.choice((0, 0, 5)))
            for number in range(luck.randrange(1, 9))
        ]
        going = resume(waiting, account, limits, NOW)
        assert list(going) == order(waiting)[: len(going)]
        length = lasting(account.window)
        use = account.used(USED, NOW + length) + length * sum(each.milli for each in going)
        assert use <= limits.used or (len(going) == 1 and account.used(USED, NOW + length) == 0) or not going
