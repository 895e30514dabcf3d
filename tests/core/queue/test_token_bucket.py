"""A burst passes, the rest comes at the rate, and a pause fills the bucket up to its burst and no further."""

import pytest

from tgp.core.model.token_bucket import TokenBucket, TokenRate


@pytest.mark.parametrize(
    ("moments", "waits"),
    [
        pytest.param([0.0] * 7, [0, 0, 0, 0, 0, 0.1, 0.2], id="a burst, then the rate"),
        pytest.param([0.0] * 5 + [0.1, 0.1], [0, 0, 0, 0, 0, 0, 0.1], id="one came in time"),
        pytest.param([0.0] * 5 + [100.0] * 6, [0] * 10 + [0.1], id="a long rest fills it up to its burst"),
    ],
)
def test_what_is_booked_waits(moments: list[float], waits: list[float]):
    bucket = TokenBucket(TokenRate(per_second=10, burst=5))

    assert [bucket.book(1000.0 + moment) for moment in moments] == pytest.approx(waits, abs=1e-6)


def test_what_is_not_there_is_not_taken_and_costs_nothing():
    bucket = TokenBucket(TokenRate(per_second=1 / 60, burst=2))

    assert [bucket.take(now) for now in (0.7, 0.7, 0.7, 30.0, 60.0, 60.7, 60.8, 120.7)] == [
        True, True, False, False, False, True, False, True,
    ]  # fmt: skip
