"""The assessment: reached at the second, open again well below, and no change comes earlier than was said."""

import random

import pytest

from tests.amounts import amount
from tgp.api.budget import Enforcement, GPUWorkloadBudgetSpec, Quota
from tgp.api.common import LabelSelector
from tgp.core.budgets.account import USD, USED, OpenPod, fresh
from tgp.core.budgets.assess import Limits, assess, hours_text, reached_at, usd_text
from tgp.core.budgets.quota import limits_of

NOW = 1_800_000_000
HOUR = 3_600_000


def test_reached_is_at_the_second_and_open_again_is_one_percent_below():
    account = fresh(1, NOW)
    account.open[b"a"] = OpenPod(NOW, 1000)
    limits = Limits(100_000)
    assert not assess(limits, account, NOW + 99, exceeded=False).exceeded
    reached = assess(limits, account, NOW + 100, exceeded=False)
    assert (reached.exceeded, reached.used, reached.left) == (True, 100_000, 0)
    account.open.clear()
    account.charge(USED, NOW, NOW + 100, 1000)
    assert assess(limits, account, NOW + 3600, exceeded=True).exceeded
    assert not assess(limits, account, NOW + 3605, exceeded=True).exceeded


def test_exhausted_at_is_when_use_is_the_quota_if_everything_runs_on():
    account = fresh(24, NOW)
    account.open[b"a"] = OpenPod(NOW - 3600, 4000)
    said = assess(Limits(10 * HOUR), account, NOW, exceeded=False)
    assert (said.used, said.milli, said.pods) == (4 * HOUR, 4000, 1)
    assert said.exhausted_at == NOW + 5400
    assert said.next_change_at is not None
    assert said.next_change_at <= NOW + 5400


def test_a_team_that_burns_what_the_window_frees_is_never_exhausted():
    account = fresh(24, NOW)
    account.open[b"a"] = OpenPod(NOW - 90_000, 1000)
    said = assess(Limits(24 * HOUR + 1), account, NOW, exceeded=False)
    assert (said.exhausted_at, said.next_change_at) == (None, None)


def test_hours_come_back_when_it_was_said():
    account = fresh(1, NOW)
    account.charge(USED, NOW - 600, NOW, 1000)
    said = assess(Limits(600_000), account, NOW, exceeded=False)
    assert said.exceeded
    at = said.next_change_at
    assert at is not None
    assert not assess(Limits(600_000), account, at, exceeded=True).exceeded
    assert assess(Limits(600_000), account, at - 1, exceeded=True).exceeded


@pytest.mark.parametrize("seed", range(amount(20, 200)))
def test_the_next_change_is_never_later_than_a_change(seed):
    luck = random.Random(seed)
    account = fresh(luck.choice((1, 2)), NOW)
    for _ in range(luck.randrange(12)):
        end = NOW - luck.randrange(4000)
        account.charge(USED, end - luck.randrange(1, 2000), end, luck.choice((500, 1000, 4000)))
    for number in range(luck.randrange(4)):
        account.open[bytes([number])] = OpenPod(NOW - luck.randrange(5000), luck.choice((500, 1000, 4000)))
    exceeded = luck.random() < 0.5
    limits = Limits(max(1, int(account.used(USED, NOW) * luck.uniform(0.9, 1.4))))
    said = assess(limits, account, NOW, exceeded=exceeded)
    for at in range(NOW + 1, NOW + 9000, 7):
        if assess(limits, account, at, exceeded=said.exceeded).exceeded != said.exceeded:
            assert said.next_change_at is not None
            assert said.next_change_at <= at
            break


def test_money_is_a_second_limit():
    spec = GPUWorkloadBudgetSpec(
        selector=LabelSelector(match_labels={"team": "a"}),
        quota=Quota(gpu_hours=100, window_hours=24, usd="2.5"),
        enforcement=Enforcement(action="Evict"),
    )
    limits = limits_of(spec, NOW)
    account = fresh(24, NOW)
    account.open[b"a"] = OpenPod(NOW - 3600, 1000, 2_500_000)
    said = assess(limits, account, NOW, exceeded=False)
    assert (said.exceeded, usd_text(said.usd), hours_text(said.used)) == (True, "2.5", "1")
    assert not assess(limits, account, NOW - 1, exceeded=False).exceeded
    assert account.used(USD, NOW) == 2_500_000 * 3600


def test_an_alert_is_due_when_its_share_is_reached():
    account = fresh(24, NOW)
    account.open[b"a"] = OpenPod(NOW, 1000)
    assert reached_at(Limits(100_000), account, NOW, 80) == NOW + 80
    assert reached_at(Limits(100_000), fresh(24, NOW), NOW, 80) is None


@pytest.mark.parametrize(
    ("amount_", "text"), [(0, "0"), (HOUR, "1"), (HOUR // 2, "0.5"), (1000, "0.000278"), (125 * HOUR, "125")]
)
def test_hours_are_decimals_with_at_most_six_places(amount_, text):
    assert hours_text(amount_) == text
