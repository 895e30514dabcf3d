"""Quotas: periods of a calendar, hours on top, weights, and a reset."""

import random
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from tests.amounts import amount
from tgp.api.budget import CountedWeight, Enforcement, ExtraHours, GPUWorkloadBudgetSpec, Quota
from tgp.api.common import LabelSelector
from tgp.api.decoding import strict
from tgp.api.field_error import Invalid
from tgp.core.budgets.account import UNSURE, USED, OpenPod, fresh
from tgp.core.budgets.assess import Limits, assess, hours_text
from tgp.core.budgets.ended import ended_pod, largest
from tgp.core.budgets.packing import pack, unpack
from tgp.core.budgets.period import Period
from tgp.core.budgets.quota import counted_by, fresh_account, limits_of, spec_problem, window_words
from tgp.core.budgets.reset import reset_asked
from tgp.core.budgets.simulate import BudgetFit, fit
from tgp.core.budgets.spans import Sighting
from tgp.core.budgets.victims import back_by
from tgp.core.budgets.weights import Weights, weights_of
from tgp.core.model.node import Node
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.pod import Pod
from tgp.core.model.resources import Resources

HOUR = 3_600_000
GPU = "nvidia.com/gpu"
POD = b"a-pod-"


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())


NOON = at("2026-11-17T12:00")  # a Tuesday


def a_spec(*, weights: tuple[CountedWeight, ...] = (), **quota: object) -> GPUWorkloadBudgetSpec:
    given = {"gpu_hours": 10, **({} if "calendar" in quota else {"window_hours": 24}), **quota}
    return GPUWorkloadBudgetSpec(
        selector=LabelSelector(match_labels={"team": "a"}),
        quota=Quota(**given),
        weights=weights,
        enforcement=Enforcement(action="Evict"),
    )


@pytest.mark.parametrize(
    ("calendar", "zone", "now", "begin", "end"),
    [
        ("Day", "UTC", "2026-11-17T12:00", "2026-11-17T00:00", "2026-11-18T00:00"),
        ("Week", "UTC", "2026-11-17T12:00", "2026-11-16T00:00", "2026-11-23T00:00"),
        ("Month", "UTC", "2026-12-31T23:59", "2026-12-01T00:00", "2027-01-01T00:00"),
        ("Month", "Europe/Berlin", "2026-10-31T23:30", "2026-10-31T23:00", "2026-11-30T23:00"),
        ("Day", "Europe/Berlin", "2026-10-25T12:00", "2026-10-24T22:00", "2026-10-25T23:00"),  # 25 hours
        ("Day", "Europe/Berlin", "2026-03-29T12:00", "2026-03-28T23:00", "2026-03-29T22:00"),  # 23 hours
        ("Day", "Asia/Kathmandu", "2026-11-17T18:20", "2026-11-17T18:15", "2026-11-18T18:15"),
        ("Day", "Africa/Cairo", "2026-04-24T12:00", "2026-04-23T22:00", "2026-04-24T21:00"),  # midnight is skipped
    ],
)
def test_a_period_goes_from_midnight_to_midnight_where_people_are(calendar, zone, now, begin, end):
    assert Period(calendar, zone).bounds(at(now)) == (at(begin), at(end))
    assert Period(calendar, zone).bounds(at(begin)) == (at(begin), at(end))
    assert Period(calendar, zone).bounds(at(begin) - 1)[1] == at(begin)


@pytest.mark.parametrize("seed", range(amount(20, 200)))
def test_of_a_calendar_exactly_what_ran_since_it_began_counts(seed):
    luck = random.Random(seed)
    period = Period(luck.choice(("Day", "Week", "Month")), luck.choice(("UTC", "Asia/Kathmandu", "America/New_York")))
    begun = NOON - luck.randrange(40 * 86_400)
    account, spans, now = fresh(None, begun, period), [], begun
    for number in range(luck.randrange(1, 60)):
        now += luck.randrange(0, 86_400)
        start = now - luck.randrange(1, 40_000)
        account.see(Sighting(bytes([number] * 6), 1000, start, now), now)
        spans.append((start, now))
        if luck.random() < 0.1:
            account = unpack(pack(account))
        look = now + luck.randrange(0, 86_400)
        for moment in (now, look):
            begin = period.bounds(moment)[0]
            truth = sum(max(0, min(end, moment) - max(start, begin)) for start, end in spans)
            assert account.used(USED, moment) == truth * 1000


def test_all_hours_come_back_when_the_next_period_begins():
    account = fresh(None, NOON, Period("Day"))
    account.open[b"a"] = OpenPod(NOON - 86_400, 1000)
    said = assess(limits_of(a_spec(gpu_hours=13), NOON), account, NOON, exceeded=False)
    assert (said.used, said.exceeded, said.exhausted_at) == (12 * HOUR, False, NOON + 3600)
    over = assess(limits_of(a_spec(gpu_hours=12), NOON), account, NOON, exceeded=False)
    assert (over.exceeded, over.next_change_at) == (True, at("2026-11-18T00:00"))
    assert account.used(USED, at("2026-11-18T00:10")) == 600_000
    never = assess(limits_of(a_spec(gpu_hours=25), NOON), account, NOON, exceeded=False)
    assert (never.exhausted_at, never.next_change_at) == (None, None)


def test_near_the_end_of_a_month_its_quota_holds_as_on_any_other_day():
    """Hours come back with the next month, and not out of a window: ten minutes are waited for, not a day."""
    monthly, rolling = fresh(None, NOON, Period("Month")), fresh(720, NOON)
    assert back_by(monthly.rolls, NOON, NOON) == NOON + 600
    assert back_by(rolling.rolls, NOON, NOON) == NOON + 720 * 3600 // 24


def test_another_calendar_or_window_refunds_nothing():
    account = fresh(24, NOON)
    account.charge(USED, NOON - 10 * 3600, NOON - 9 * 3600, 1000)
    account.charge(USED, NOON - 30 * 3600, NOON - 29 * 3600, 1000)
    assert account.used(USED, NOON) == HOUR
    monthly = counted_by(account, a_spec(calendar="Month").quota)
    assert monthly.used(USED, NOON) == 2 * HOUR
    daily = counted_by(monthly, a_spec(calendar="Day").quota)
    assert daily.used(USED, NOON) == HOUR
    assert counted_by(daily, a_spec(window_hours=48).quota).used(USED, NOON) == 2 * HOUR
    assert counted_by(daily, a_spec(calendar="Day").quota) is daily


def test_hours_on_top_count_until_their_moment_and_the_change_is_foreseen():
    until = datetime.fromtimestamp(NOON + 600, UTC)
    spec = a_spec(extra=(ExtraHours(gpu_hours="2.5", until=until, reason="a deadline"),))
    account = fresh(24, NOON)
    account.charge(USED, NOON - 11 * 3600, NOON, 1000)
    before = assess(limits_of(spec, NOON), account, NOON, exceeded=False)
    assert (before.quota, before.exceeded, before.next_change_at) == (12 * HOUR + HOUR // 2, False, NOON + 600)
    after = assess(limits_of(spec, NOON + 600), account, NOON + 600, exceeded=False)
    assert (after.quota, after.exceeded) == (10 * HOUR, True)


def test_a_reset_counts_what_runs_from_there_on_and_the_day_keeps_its_hours():
    account = fresh(24, NOON - 7200)
    account.charge(USED, NOON - 7200, NOON - 3600, 1000)
    account.open[POD] = OpenPod(NOON - 3600, 1000)
    account.reset(NOON)
    assert account.used(USED, NOON) == 0
    assert account.used(USED, NOON + 60) == 60_000
    again = unpack(pack(account)).with_window(fresh(48, NOON).width)
    assert again.used(USED, NOON + 60) == 60_000
    again.see(Sighting(POD, 1000, NOON - 3600, NOON + 100), NOON + 100)
    assert again.used(USED, NOON + 100) == 100_000
    assert again.between(USED, NOON - 7200, NOON + 3600, NOON + 100) == 7_300_000


def test_the_hours_of_a_day_are_those_of_closed_and_open_pods():
    account = fresh(24, NOON)
    account.charge(USED, NOON - 13 * 3600, NOON - 11 * 3600, 2000)
    account.open[b"a"] = OpenPod(NOON - 2 * 86_400, 1000, sure_until=NOON - 100)
    today, yesterday = at("2026-11-17T00:00"), at("2026-11-16T00:00")
    assert account.between(USED, yesterday, today, NOON) == 24 * HOUR + 2 * HOUR
    assert account.between(USED, today, today + 86_400, NOON) == 12 * HOUR + 2 * HOUR
    assert account.between(UNSURE, today, today + 86_400, NOON) == 100_000


def test_more_fits_now_when_the_next_period_begins_or_never():
    limits, day = Limits(10 * HOUR), 86_400
    account = fresh(None, NOON, Period("Day"))
    account.charge(USED, NOON - 8 * 3600, NOON, 1000)
    assert fit(account, limits, NOON, milli=1000, lasts=3600).at == NOON
    assert fit(account, limits, NOON, milli=1000, lasts=2 * 3600).at == NOON + day // 2
    assert fit(account, limits, NOON, milli=1000, lasts=10 * 3600).too_large
    account.open[b"a"] = OpenPod(NOON, 1000)
    assert fit(account, limits, NOON, milli=2000, lasts=4 * 3600) == BudgetFit(8 * HOUR, None)


@pytest.mark.parametrize("seed", range(amount(10, 100)))
def test_what_fits_does_not_reach_the_quota_and_would_a_bucket_earlier(seed):
    luck = random.Random(seed)
    account = fresh(1, NOON)
    for _ in range(luck.randrange(1, 8)):
        end = NOON - luck.randrange(3000)
        account.charge(USED, end - luck.randrange(60, 1500), end, 1000)
    limits = Limits(int(account.used(USED, NOON) * luck.uniform(0.9, 1.3)) + 600_000)
    milli, lasts = luck.choice((500, 1000, 2000)), luck.randrange(60, 1800)
    found = fit(account, limits, NOON, milli=milli, lasts=lasts)

    def highest(start: int) -> int:
        return max(
            account.used(USED, moment) + milli * min(moment - start, lasts)
            for moment in range(start, start + lasts + 1, 5)
        )

    if found.at is None:
        assert milli * lasts >= limits.used
        return
    assert highest(found.at) < limits.used
    earlier = found.at - 3 * account.width
    assert earlier < NOON or highest(earlier) >= limits.used - milli * 3 * account.width


# -- weights -----------------------------------------------------------------------------------------------------------


def test_slices_count_their_weight_and_models_multiply():
    weights = weights_of(
        a_spec(
            weights=(
                CountedWeight(resource="example.com/slice", weight="0.25"),
                CountedWeight(gpu_type="H100", weight=2),
                CountedWeight(gpu_type="RTX4090", weight="500m"),
            )
        )
    )
    plain = Pod(key=ObjectKey("ml", "p"), node="n", requests=Resources(0, 0, ((GPU, 2),)))
    sliced = Pod(key=ObjectKey("ml", "p"), node="n", requests=Resources(0, 0, (("example.com/slice", 3),)))
    nothing = Pod(key=ObjectKey("ml", "p"), node="n", requests=Resources(4000))
    h100 = Node(key=ObjectKey("", "n"), labels={"tgp.io/gpu-type": "H100-SXM"})
    gaming = Node(key=ObjectKey("", "n"), labels={"nvidia.com/gpu.product": "NVIDIA-GeForce-RTX-4090"})
    other = Node(key=ObjectKey("", "n"), labels={"tgp.io/gpu-type": "A100-80GB-SXM"})
    assert [weights.milli(plain, node) for node in (None, other, h100, gaming)] == [2000, 2000, 4000, 1000]
    assert [weights.milli(sliced, node) for node in (None, h100)] == [750, 1500]
    assert not any(weights.asked(nothing))
    assert Weights(GPU, models=(("H100", Decimal("0.0001")),)).milli(plain, h100) == 1, "rounded up"


# -- what is remembered and refused ------------------------------------------------------------------------------------


def test_the_largest_that_ended_are_kept_until_they_leave_the_window():
    rows = []
    for number in range(14):
        row = ended_pod(f"p{number}", OpenPod(NOON, 1000), Sighting(b"x", 1000, NOON, NOON + 60 * (number + 1)))
        assert row is not None
        rows.append(row)
    kept = largest(rows, NOON)
    assert [row.pod for row in kept] == [f"p{number}" for number in range(13, 3, -1)]
    assert [row.pod for row in largest(kept, NOON + 60 * 13)] == ["p13"]
    assert ended_pod("p", None, Sighting(b"x", 1000, None, NOON)) is None
    resized = ended_pod("p", OpenPod(NOON, 1000).cut(NOON + 3600), Sighting(b"x", 1000, NOON, NOON + 3600))
    assert resized is not None
    assert resized.gpu_hours == "1", "what it used before it was resized is its own, too"


@pytest.mark.parametrize(
    ("written", "done", "who"),
    [
        ("2026-11-17T12:00:00Z alice@example.com", None, "alice@example.com"),
        ("2026-11-17T12:00:00Z", None, "an unknown user"),
        ("2026-11-17T12:00:00Z alice", timedelta(0), None),
        ("2026-11-17T12:00:00Z alice", timedelta(seconds=-1), "alice"),
        ("soon alice", None, None),
        ("2099-01-01T00:00:00Z alice", None, None),  # not yet: it would be newer than every other one
        ("2026-11-17T12:00:00Z alice", timedelta(days=30_000), "alice"),  # one of the future was done before
        ("0001-01-01T00:00:00+23:00 alice", None, None),  # before the first year, in UTC
        ("", None, None),
    ],
)
def test_a_reset_is_done_once(written, done, who):
    before = None if done is None else datetime.fromtimestamp(NOON, UTC) + done
    asked = reset_asked({"tgp.io/reset": written} if written else {}, before, datetime.fromtimestamp(NOON, UTC))
    assert (asked.who if asked is not None else None) == who


@pytest.mark.parametrize("hours", ["1e25", "9" * 32, "1e99"])
def test_a_quota_without_an_end_can_be_counted_and_shown(hours):
    spec = a_spec(gpu_hours=hours)
    said = assess(limits_of(spec, NOON), fresh_account(spec.quota, NOON), NOON, exceeded=False)

    assert not said.exceeded
    assert len(hours_text(said.left)) <= 32


def test_what_cannot_be_counted_is_named():
    assert spec_problem(a_spec(calendar="Day", time_zone="Europe/Berlin"), "ml", "tgp-system") is None
    reason, why = spec_problem(a_spec(calendar="Day", time_zone="Mars/Base"), "ml", "tgp-system") or ("", "")
    assert reason == "UnknownTimeZone"
    assert "spec.quota.timeZone Mars/Base" in why


FRIDAY = "2026-11-20T18:00:00Z"


def a_weight(model: str) -> CountedWeight:
    return CountedWeight(gpu_type=model, weight=2)


@pytest.mark.parametrize(
    ("models", "said"),
    [
        (("RTX9090",), "spec.weights[0].gpuType RTX9090 is an unknown GPU model; did you mean RTX5090, RTX4090, "),
        (("H100", "L40S", "H100"), "spec.weights[2].gpuType H100 never counts: spec.weights[0] means the same GPUs"),
        (("H100", "H100-SXM"), "spec.weights[1].gpuType H100-SXM never counts: spec.weights[0] means the same GPUs"),
        (("My-Card", "my card"), "spec.weights[1].gpuType my card never counts"),
    ],
)
def test_a_weight_that_never_counts_is_named(models, said):
    reason, why = spec_problem(a_spec(weights=tuple(map(a_weight, models))), "ml", "tgp-system") or ("", "")

    assert reason == "InvalidWeights"
    assert why.startswith(said)


@pytest.mark.parametrize("models", [("H100-SXM", "H100"), ("NVIDIA-A100-SXM4-40GB-SHARED", "A100"), ("Tesla-K80",)])
def test_weights_of_labels_and_families_count(models):
    """Feature discovery writes names that no table has, such as those of slices: they count as they are written."""
    assert spec_problem(a_spec(weights=tuple(map(a_weight, models))), "ml", "tgp-system") is None


@pytest.mark.parametrize(
    ("field", "said"),
    [
        ({"weights": [{"gpuType": "H100", "weight": 0}]}, "spec.weights[0].weight: Invalid value: 0: must be more"),
        ({"quota": {"gpuHours": "1n", "windowHours": 1}}, 'spec.quota.gpuHours: Invalid value: "1n": must be at least'),
        (
            {"quota": {"gpuHours": 1, "windowHours": 1, "extra": [{"gpuHours": "0.0001", "until": FRIDAY}]}},
            'spec.quota.extra[0].gpuHours: Invalid value: "0.0001": must be at least',
        ),
    ],
)
def test_amounts_that_are_too_small_are_refused_with_what_is_allowed(field, said):
    quota = {"gpuHours": 1, "windowHours": 1}
    spec = {"selector": {"matchLabels": {"a": "b"}}, "quota": quota, "enforcement": {"action": "Evict"}, **field}
    manifest = {"apiVersion": "tgp.io/v1", "kind": "GPUWorkloadBudget", "metadata": {"name": "b"}, "spec": spec}
    with pytest.raises(Invalid) as refused:
        strict(manifest)
    assert str(refused.value).startswith(said)


def test_a_sentence_says_in_which_time():
    assert window_words(a_spec().quota, NOON) == "in the last 24h"
    assert window_words(a_spec(calendar="Week").quota, NOON) == "since 2026-11-16T00:00:00Z"
    assert fresh_account(a_spec(calendar="Week").quota, NOON).begins(NOON) == at("2026-11-16T00:00")
