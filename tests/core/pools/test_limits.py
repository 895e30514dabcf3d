"""What a plan may divide is what is left of every limit, never more."""

import msgspec
import pytest

from tests.core.pools.builders import GPU, a_pod, a_request, an_offer, an_order
from tgp.api.common import NodeClassRef
from tgp.api.nodeclass import ClassLimits
from tgp.api.nodepool import GPUNodePool, GPUNodePoolSpec, PoolLimits
from tgp.core.inventory.limits import Reservation, usage_of
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.resources import amount_text
from tgp.core.pools.limits import after_orders, expected_reservation, limit_amount, limit_rooms
from tgp.core.pools.planner.world import LimitRoom

POOL = ObjectKey("default", "train")
HELD = usage_of((Reservation("a", 400_000, 1, GPU, 4, 16), Reservation("b", 600_000, 2, GPU, 8, 32)))


def left(rooms):
    return {each.resource: each.left for each in rooms}


def test_what_is_left_of_a_class():
    limits = msgspec.convert(
        {"maxNodes": 5, "maxHourlyCost": "3.10", "resources": {GPU: 8, "cpu": 20, "memory": "64Gi"}}, ClassLimits
    )
    rooms = limit_rooms("GPUNodeClass rented", limits, HELD, frozenset({POOL}))

    assert left(rooms) == {"nodes": 3, "usd": 2_100_000, GPU: 5, "cpu": 8000, "memory": 16 << 30}
    assert all(each.pools == {POOL} and "GPUNodeClass rented" in each.name for each in rooms)


def test_what_is_left_of_a_pool():
    limits = msgspec.convert({"resources": {"nodes": 4, GPU: 2}}, PoolLimits)

    assert left(limit_rooms("GPUNodePool", limits, HELD, frozenset({POOL}))) == {"nodes": 2, GPU: 0}
    assert limit_rooms("GPUNodeClass rented", None, HELD, frozenset()) == []


def test_what_cannot_be_counted_leaves_nothing():
    limits = msgspec.convert({"resources": {"cpu": 100}}, PoolLimits)

    assert left(limit_rooms("GPUNodePool", limits, usage_of([Reservation("a", 1)]), frozenset())) == {"cpu": 0}


@pytest.mark.parametrize(("spec", "price"), [({"maxHourlyPrice": "0.42"}, 420_000), ({}, 400_000)])
def test_a_request_that_has_reserved_nothing_counts_at_its_ceiling(spec, price):
    request = a_request(spec=spec).value

    assert expected_reservation("a", request, an_offer()) == Reservation("a", price, 1, GPU, 4, 16)


def test_orders_leave_less_of_the_limits_that_count_them():
    """At the most that their requests may pay: the planned price and 5 % more."""
    order = an_order(a_pod("a"), offer=an_offer("x", 100_000))
    pool = GPUNodePool(spec=GPUNodePoolSpec(node_class_ref=NodeClassRef(name="c")))
    mine, other = frozenset({order.pool}), frozenset({ObjectKey("default", "other")})
    rooms = (LimitRoom("a", "nodes", 3, mine), LimitRoom("b", "usd", 500_000, mine), LimitRoom("c", "nodes", 3, other))

    found = after_orders(rooms, (order, order), {order.pool: pool})

    assert [each.left for each in found] == [1, 290_000, 3]


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        (amount_text(GPU, float(1 << 50)), "1125899906842624 nvidia.com/gpu"),
        (amount_text("memory", float(1 << 50)), "1048576 GiB memory"),
        (amount_text("memory", 15.62 * (1 << 30)), "15.6 GiB memory"),
        (amount_text("cpu", 3_500.0), "3.5 CPU"),
        (amount_text("cpu", 2_000_000_000.0), "2000000 CPU"),
        (limit_amount("memory", 1 << 50), "1048576 GiB"),
        (limit_amount("cpu", 1_234_567_000), "1234567 CPU"),
        (limit_amount("cpu", 100_000), "100 CPU"),
    ],
)
def test_amounts_have_no_exponent_and_no_zeros_at_their_end(said, expected):
    assert said == expected
