"""Hard limits: what lives, is reserved or is in doubt never exceeds them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.core.requests.an_observation import an_attempt
from tgp.api.nodeclass import ClassLimits
from tgp.api.nodepool import PoolLimits
from tgp.api.request import Attempt
from tgp.core.inventory.limits import (
    NOTHING_USED,
    USD,
    Reservation,
    headroom_microusd,
    reservation_of,
    rooms_left,
    shortage,
    usage_of,
)

ONE = Reservation("a", 400_000, gpus=1, vcpus=8, memory_gib=32)
WANTED = Reservation("b", 400_000, gpus=1, vcpus=8, memory_gib=32)


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({"max_nodes": 1}, "limits.maxNodes is 1, and 1 are in use"),
        ({"max_hourly_cost": "0.79"}, "limits.maxHourlyCost is $0.79/h"),
        ({"resources": {"nvidia.com/gpu": 1}}, "limits.resources[nvidia.com/gpu] is 1"),
        ({"resources": {"cpu": "15"}}, "limits.resources[cpu] is 15"),
        ({"resources": {"memory": "63Gi"}}, "limits.resources[memory] is 63Gi"),
        ({"resources": {"nodes": 1}}, "limits.resources[nodes] is 1"),
    ],
)
def test_one_machine_too_many_is_refused_with_the_numbers(limits, said):
    assert shortage(ClassLimits(**limits), usage_of([ONE]), WANTED).startswith(said)


@pytest.mark.parametrize(
    "limits",
    [
        {"max_nodes": 2},
        {"max_hourly_cost": "0.80"},
        {"resources": {"nvidia.com/gpu": 2, "cpu": 16, "memory": "64Gi", "nodes": 2}},
        {"resources": {"amd.com/gpu": 0}},
    ],
)
def test_what_just_fits_fits(limits):
    assert shortage(ClassLimits(**limits), usage_of([ONE]), WANTED) == ""


def test_a_class_without_limits_has_none():
    assert shortage(None, usage_of([ONE] * 99), WANTED) == ""
    assert headroom_microusd(None, usage_of([ONE])) is None


def test_a_machine_of_unknown_size_does_not_fit_a_limit_on_size():
    """A limit that cannot be counted cannot be kept."""
    assert "does not report" in shortage(ClassLimits(resources={"cpu": 1000}), NOTHING_USED, Reservation("b", 1))


def test_a_holding_counts_the_most_that_its_order_allows_until_the_bill_is_known():
    """A price may rise between listing and order: not at the cost of a limit."""
    assert reservation_of("u", an_attempt()).microusd == 400_000
    assert reservation_of("u", an_attempt(max_hourly_price="0.48")).microusd == 480_000
    assert reservation_of("u", an_attempt(max_hourly_price="0.48", hourly_price="0.30")).microusd == 300_000
    assert reservation_of("u", an_attempt(max_hourly_price="0.48", hourly_price="0.50")).microusd == 500_000


def test_a_bid_may_be_asked_for_in_full_whatever_is_billed_now():
    attempt = an_attempt(hourly_price="0.30")
    assert attempt.offer is not None
    bid = replace(attempt, offer=replace(attempt.offer, spot=True))

    assert reservation_of("u", bid).microusd == 400_000


def test_an_unreadable_attempt_still_counts_as_a_machine():
    bare = Attempt(number=1, token="tgp-abcdef0123-" + "1" * 32 + "-1")

    assert shortage(ClassLimits(max_nodes=1), usage_of([reservation_of("u", bare)]), WANTED)


@given(prices=st.lists(st.integers(0, 10**9), max_size=8), most=st.integers(1, 10**10))
def test_the_sum_never_exceeds_the_limit(prices, most):
    limits = ClassLimits(max_hourly_cost=f"{most // 10**6}.{most % 10**6:06d}")
    held: list[Reservation] = []
    for number, price in enumerate(prices):
        wanted = Reservation(str(number), price)
        if not shortage(limits, usage_of(held), wanted):
            held.append(wanted)

    assert sum(each.microusd for each in held) <= most


def test_a_pool_has_limits_of_its_own_with_the_same_numbers():
    pool = PoolLimits(resources={"nvidia.com/gpu": 3, "cpu": "20", "memory": "64Gi", "nodes": 1})
    two = usage_of([ONE, Reservation("c", 1, gpus=2, vcpus=4, memory_gib=16)])

    only = {name: shortage(PoolLimits(resources={name: most}), two, WANTED) for name, most in pool.resources.items()}
    assert only == {
        "nvidia.com/gpu": "limits.resources[nvidia.com/gpu] is 3, of which 3 is in use: 1 more does not fit",
        "cpu": "",
        "memory": "limits.resources[memory] is 64Gi, of which 48Gi is in use: 32Gi more does not fit",
        "nodes": "limits.resources[nodes] is 1, and 2 are in use",
    }


@pytest.mark.parametrize("name", ["usd", "gpu", "node", "nvidia.com/gpus"])
def test_a_limit_of_something_that_is_not_counted_leaves_no_room(name):
    """A limit that cannot be counted is not the same as no limit; and usd among resources is no money."""
    limits = PoolLimits(resources={name: 1000, "nodes": 1000})

    assert shortage(limits, NOTHING_USED, WANTED) == f"limits.resources[{name}] is 1000, a resource that is not counted"
    rooms = {room.resource: room.left for room in rooms_left(limits, NOTHING_USED)}
    assert rooms == {"nodes": 1000, f"resources[{name}]": 0}
    assert headroom_microusd(ClassLimits(resources={"usd": 1}), NOTHING_USED) is None


def test_what_is_left_of_each_limit():
    limits = ClassLimits(max_nodes=3, max_hourly_cost="1.00", resources={"cpu": "12", "memory": "16Gi"})

    assert rooms_left(limits, usage_of([ONE])) == [
        ("limits.maxNodes is 3", "nodes", 2, 3),
        ("limits.maxHourlyCost is $1.00/h", USD, 600_000, 1_000_000),
        ("limits.resources[cpu] is 12", "cpu", 4000, 12_000),
        ("limits.resources[memory] is 16Gi", "memory", 0, 16 << 30),
    ]
    unknown = Reservation("c", 1)
    assert [room.left for room in rooms_left(PoolLimits(resources={"cpu": 99}), usage_of([unknown]))] == [0]
    assert rooms_left(None, usage_of([ONE])) == []


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.booleans()), max_size=8), st.data())
def test_a_sum_is_the_same_whichever_came_and_went(rows, data):
    every = [Reservation(str(n), gpus * 7, gpus, vcpus=cpu, presumed=lost) for n, (gpus, cpu, lost) in enumerate(rows)]
    gone = data.draw(st.lists(st.sampled_from(every), unique=True)) if every else []
    total = usage_of(every)
    for each in gone:
        total = total.minus(each)
    expected = usage_of(each for each in every if each not in gone)

    same = ("nodes", "usd", "cpu", "memory", "nvidia.com/gpu")
    assert [total.of(each) for each in same] == [expected.of(each) for each in same]
    assert (total.presumed_nodes, total.presumed_microusd) == (expected.presumed_nodes, expected.presumed_microusd)
