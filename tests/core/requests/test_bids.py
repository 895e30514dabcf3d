"""A bid wins now, leaves some room, and never goes beyond what its owner pays."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tgp.core.model.offer import BootMode, Offer
from tgp.core.requests.bids import bid


def a_spot(lowest: int, on_demand: int | None = None) -> Offer:
    return Offer(
        provider="vast",
        sku="1",
        place="Oregon, US",
        gpu="RTX4090",
        gpu_count=1,
        gpu_memory_gib=24,
        vcpus=8,
        memory_gib=32,
        disk_gib=64,
        spot=True,
        hourly_microusd=lowest,
        on_demand_microusd=on_demand,
        boot=BootMode.CONTAINER,
    )


@pytest.mark.parametrize(
    ("lowest", "on_demand", "margin", "cap", "wanted"),
    [
        (200_000, 400_000, 1.25, 1_000_000, 250_000),
        (200_000, None, 1.25, None, 250_000),
        (200_001, None, 1.25, None, 250_002),  # rounded up
        (200_000, 400_000, 1.0, 1_000_000, 200_000),
        (200_000, 230_000, 1.25, 1_000_000, 230_000),  # not above what the machine costs without the risk
        (200_000, 400_000, 1.25, 220_000, 220_000),  # not above what the owner pays
        (200_000, 400_000, 1.25, 200_000, 200_000),
        (200_000, 400_000, 1.25, 199_999, None),  # it would not win
        (200_000, 150_000, 1.25, 1_000_000, None),  # above the on-demand price: no bid
    ],
)
def test_a_bid_stays_within_both_ceilings(lowest, on_demand, margin, cap, wanted):
    assert bid(a_spot(lowest, on_demand), margin, cap) == wanted


@given(
    lowest=st.integers(1, 10**9),
    on_demand=st.none() | st.integers(1, 10**9),
    margin=st.floats(1, 10),
    cap=st.none() | st.integers(0, 10**10),
)
def test_a_bid_wins_and_is_never_above_a_ceiling(lowest, on_demand, margin, cap):
    """The owner's ceiling is a promise, not a preference."""
    answer = bid(a_spot(lowest, on_demand), margin, cap)

    ceilings = [each for each in (cap, on_demand) if each is not None]
    if answer is None:
        assert any(ceiling < lowest for ceiling in ceilings)
    else:
        assert lowest <= answer
        assert all(answer <= ceiling for ceiling in ceilings)
