"""What a pool's status says of its machines and of the last plan."""

from datetime import timedelta

import pytest

from tests.core.pools.builders import GPU, NOW, a_pod, a_request, an_attempt, an_offer, an_order
from tgp.api.nodepool import WouldHaveCost
from tgp.core.pools.status import (
    COUNTED_EVERY,
    cost_of,
    machine_parts,
    plan_parts,
    what_remains,
    would_buy_parts,
    would_have_cost,
    would_have_cost_parts,
)


def test_machines_are_counted_with_what_they_provide_and_cost():
    ordered = a_request("b", attempts=[an_attempt()])
    parts = machine_parts([a_request("a", attempts=[an_attempt(outcome="Launched")]), ordered, a_request("c")])

    assert parts == {"nodeCount": 2, "hourlyCost": "0.80", "resources": {GPU: 2, "cpu": 8, "memory": "32Gi"}}


def test_a_plan_in_four_fields():
    assert plan_parts(NOW, 0.0081, 3, 1) == {
        "at": "2026-11-17T12:00:00Z",
        "gap": "0.81%",
        "orders": 3,
        "unserved": 1,
    }
    assert "gap" not in plan_parts(NOW, None, 0, 0)


def test_a_gap_says_what_its_bound_leaves_out():
    assert plan_parts(NOW, 0.4098, 3, 1, ("zone topology",))["gapWithout"] == "zone topology"
    assert "gapWithout" not in plan_parts(NOW, None, 0, 0, ("zone topology",))


def test_equal_machines_are_listed_once():
    rows = would_buy_parts(
        [an_order(a_pod("a")), an_order(a_pod("b")), an_order(a_pod("c"), offer=an_offer("x", 100_000))]
    )

    assert [(row["instanceType"], row["count"], row["hourlyPrice"]) for row in rows] == [
        ("x", 1, "0.10"),
        ("t4.1", 2, "0.40"),
    ]
    assert would_buy_parts([]) is None


def test_a_pool_that_goes_tells_what_is_left_and_its_cost():
    said = what_remains([a_request("a", attempts=[an_attempt(outcome="Launched")]), a_request("b")])

    assert (said.type, said.status, said.reason) == ("Ready", False, "Deleting")
    assert "1 machine at $0.40/h left (a, b)" in said.message


def counted(total: str, hourly: str, ago: timedelta) -> WouldHaveCost:
    return WouldHaveCost(total_cost=total, hourly_cost=hourly, since=NOW - timedelta(days=1), at=NOW - ago)


@pytest.mark.parametrize(
    ("total", "hourly", "ago", "now", "then"),
    [
        ("1.00", "0.60", timedelta(minutes=10), 600_000, "1.10"),  # the count is old
        ("1.00", "0.60", timedelta(minutes=5), 900_000, "1.05"),  # the price has changed: the old one until now
        ("1.00", "0.60", timedelta(minutes=5), 0, "1.05"),  # no pod waits any more
        ("1.00", "0.60", timedelta(hours=9), 600_000, "1.20"),  # no operator ran: not more than is known
        ("1.00", "0.60", timedelta(minutes=-5), 900_000, "1.00"),  # the clock went back
        ("1.00", "0.00", timedelta(hours=9), 600_000, "1.00"),  # nothing would have run
        ("many", "0.60", timedelta(minutes=10), 600_000, "0.10"),  # written by another hand
    ],
)
def test_what_would_have_been_paid_is_added_up(total, hourly, ago, now, then):
    found = would_have_cost(counted(total, hourly, ago), now, NOW)

    assert found is not None
    assert (found.total_cost, found.at, found.since) == (then, NOW, NOW - timedelta(days=1))


def test_it_begins_with_the_first_machine_that_would_be_bought():
    assert would_have_cost(None, 0, NOW) is None
    assert would_have_cost_parts(None) is None
    assert would_have_cost_parts(would_have_cost(None, cost_of([an_order(a_pod("a"))]), NOW)) == {
        "totalCost": "0.00",
        "hourlyCost": "0.40",
        "since": "2026-11-17T12:00:00Z",
        "at": "2026-11-17T12:00:00Z",
    }


def test_while_nothing_changes_it_is_counted_rarely():
    lately = counted("1.00", "0.60", COUNTED_EVERY - timedelta(seconds=1))
    over = counted("1.00", "0.00", timedelta(days=9))

    assert would_have_cost(lately, 600_000, NOW) is lately
    assert would_have_cost(over, 0, NOW) is over
