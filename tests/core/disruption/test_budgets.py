"""How many nodes may be disrupted: numbers, percentages, schedules, reasons, and the strictest of them."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tgp.api.nodepool import DISRUPTION_REASONS, DisruptionRule
from tgp.core.disruption.budgets import allowance, nodes_of

MONDAY = datetime(2026, 5, 4, 10, 0, tzinfo=UTC)  # noon in Berlin
OFFICE = DisruptionRule(nodes=0, schedule="0 9 * * 1-5", duration="8h", time_zone="Europe/Berlin")


@pytest.mark.parametrize(
    ("nodes", "pool", "expected"),
    [
        ("10%", 100, 10),
        ("10%", 101, 11),
        ("10%", 3, 1),
        ("10%", 0, 1),
        ("1%", 1, 1),
        ("0%", 500, 0),
        ("100%", 7, 7),
        (0, 500, 0),
        (3, 1, 3),
        ("4", 100, 4),
    ],
)
def test_a_percentage_is_rounded_up_and_at_least_one_unless_zero(nodes, pool, expected):
    assert nodes_of(DisruptionRule(nodes=nodes), pool) == expected


def test_without_budgets_the_default_one_holds():
    assert allowance((), "Empty", 40, 1, MONDAY).left == 3


def test_nodes_that_are_disturbed_already_count():
    rules = (DisruptionRule(nodes=2),)
    assert [allowance(rules, "Empty", 10, disrupted, MONDAY).left for disrupted in range(4)] == [2, 1, 0, 0]


def test_the_strictest_that_applies_holds_and_is_named():
    answer = allowance((DisruptionRule(nodes=5), OFFICE), "Empty", 10, 0, MONDAY)
    assert not answer
    assert answer.rule == 'spec.disruption.budgets[1] (nodes: 0 from "0 9 * * 1-5" for 8h, Europe/Berlin)'
    assert answer.until == datetime(2026, 5, 4, 15, 0, tzinfo=UTC)
    assert answer.look_again_at == answer.until


def test_outside_its_window_a_budget_holds_nothing_back():
    evening = MONDAY + timedelta(hours=8)
    answer = allowance((DisruptionRule(nodes=5), OFFICE), "Empty", 10, 0, evening)
    assert answer.left == 5
    assert answer.look_again_at == datetime(2026, 5, 5, 7, 0, tzinfo=UTC)
    assert allowance((OFFICE,), "Empty", 10, 0, evening).left == 10


def test_a_budget_for_some_reasons_leaves_the_others_alone():
    rules = (DisruptionRule(nodes=0, reasons=("Drifted", "Expired")),)
    assert not allowance(rules, "Drifted", 10, 0, MONDAY)
    assert allowance(rules, "Empty", 10, 0, MONDAY)


def test_zero_stops_every_voluntary_disruption():
    assert not any(allowance((DisruptionRule(nodes=0),), reason, 10, 0, MONDAY) for reason in DISRUPTION_REASONS)


@pytest.mark.parametrize(("schedule", "zone"), [("0 0 30 2 *", "UTC"), ("@daily", "Europe/Berlyn")])
def test_a_budget_that_cannot_be_read_always_applies(schedule, zone):
    rule = DisruptionRule(nodes=0, schedule=schedule, duration="1m", time_zone=zone)
    answer = allowance((rule,), "Empty", 10, 0, MONDAY)
    assert not answer
    assert answer.until is None


RULES = st.lists(
    st.builds(
        DisruptionRule,
        nodes=st.one_of(st.integers(0, 20), st.integers(0, 100).map("{}%".format)),
        reasons=st.lists(st.sampled_from(DISRUPTION_REASONS), unique=True).map(tuple),
    ),
    min_size=1,
    max_size=5,
)


@given(rules=RULES, reason=st.sampled_from(DISRUPTION_REASONS), nodes=st.integers(0, 50), disrupted=st.integers(0, 50))
def test_no_budget_that_applies_is_exceeded(rules, reason, nodes, disrupted):
    left = allowance(rules, reason, nodes, disrupted, MONDAY).left
    assert left >= 0
    for rule in rules:
        if not rule.reasons or reason in rule.reasons:
            assert left == 0 or disrupted + left <= nodes_of(rule, nodes)
