"""What a pool's status says of its machines and of the last plan."""

from tests.core.pools.builders import GPU, NOW, a_pod, a_request, an_attempt, an_offer, an_order
from tgp.core.pools.status import machine_parts, plan_parts, what_remains, would_buy_parts


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
