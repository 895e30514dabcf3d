"""Hard limits: what lives, is reserved or is in doubt never exceeds them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.core.requests.an_observation import an_attempt
from tgp.api.nodeclass import ClassLimits
from tgp.api.request import Attempt
from tgp.core.inventory.limits import Reservation, headroom_microusd, reservation_of, shortage

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
    assert shortage(ClassLimits(**limits), [ONE], WANTED).startswith(said)


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
    assert shortage(ClassLimits(**limits), [ONE], WANTED) == ""


def test_a_class_without_limits_has_none():
    assert shortage(None, [ONE] * 99, WANTED) == ""
    assert headroom_microusd(None, [ONE]) is None


def test_a_machine_of_unknown_size_does_not_fit_a_limit_on_size():
    """A limit that cannot be counted cannot be kept."""
    assert "does not report" in shortage(ClassLimits(resources={"cpu": 1000}), [], Reservation("b", 1))


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

    assert shortage(ClassLimits(max_nodes=1), [reservation_of("u", bare)], WANTED)


@given(prices=st.lists(st.integers(0, 10**9), max_size=8), most=st.integers(1, 10**10))
def test_the_sum_never_exceeds_the_limit(prices, most):
    limits = ClassLimits(max_hourly_cost=f"{most // 10**6}.{most % 10**6:06d}")
    held: list[Reservation] = []
    for number, price in enumerate(prices):
        wanted = Reservation(str(number), price)
        if not shortage(limits, held, wanted):
            held.append(wanted)

    assert sum(each.microusd for each in held) <= most
