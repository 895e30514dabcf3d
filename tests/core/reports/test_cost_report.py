"""Bills: however a life is cut, its parts add up to what it cost."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from tgp.core.model.spend import SpendEntry, by_month
from tgp.core.reports.cost_report import BY, Cost, Window, lines, month_window, total

BEGAN = datetime(2025, 12, 30, 23, 59, tzinfo=UTC)
LENGTHS = st.timedeltas(timedelta(), timedelta(days=100))
AMOUNTS = st.integers(0, 10**12)


def a_cost(length: timedelta, microusd: int, *, uid: str = "u", replaced: int | None = None) -> Cost:
    entry = SpendEntry(
        uid=uid,
        attempt=1,
        request="team/x",
        gpus=2,
        began=BEGAN,
        ended=BEGAN + length,
        microusd=microusd,
        replaced_microusd=replaced,
    )
    return Cost(entry)


@given(length=LENGTHS, microusd=AMOUNTS, replaced=AMOUNTS, by=st.sampled_from(BY))
def test_every_way_to_group_shows_the_same_savings_or_losses(length, microusd, replaced, by):
    found = [a_cost(length, microusd, replaced=replaced), a_cost(length, microusd, uid="v")]

    assert sum(line.saved_microusd for line in lines(found, by, Window())) == replaced - microusd
    assert total(found, Window()).saved_microusd == replaced - microusd


@given(length=LENGTHS, microusd=AMOUNTS, by=st.sampled_from(BY))
def test_every_way_to_group_shows_the_same_money(length, microusd, by):
    found = [a_cost(length, microusd)]

    assert sum(line.microusd for line in lines(found, by, Window())) == microusd
    assert total(found, Window()).microusd == microusd


@given(length=LENGTHS, microusd=AMOUNTS)
def test_months_are_divided_as_the_record_divides_them(length, microusd):
    cost = a_cost(length, microusd)

    assert {line.group: line.microusd for line in lines([cost], "month", Window())} == by_month(cost.entry)


@given(length=LENGTHS, microusd=AMOUNTS, cut=LENGTHS)
def test_before_and_after_any_moment_is_all(length, microusd, cut):
    found, moment = [a_cost(length, microusd)], BEGAN + cut
    before, after = total(found, Window(None, moment)), total(found, Window(moment))

    if length:
        assert before.microusd + after.microusd == microusd


def test_a_month_of_twelve_leads_to_the_next_year():
    assert month_window("2025-12") == Window(datetime(2025, 12, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC))


def test_the_most_expensive_comes_first_and_a_machine_over_two_months_is_one():
    found = [a_cost(timedelta(days=3), 10, uid="a"), a_cost(timedelta(days=1), 99, uid="b")]

    assert [line.group for line in lines(found, "month", Window())] == ["2025-12", "2026-01"]
    assert total(found, Window()).machines == 2
