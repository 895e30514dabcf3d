"""Waits double, stop at their bound, and are spread over their second half."""

from datetime import timedelta

import pytest

from tgp.core.model.backoff import Backoff, doubled, spread


@pytest.mark.parametrize(
    ("failures", "seconds"), [(1, 5), (2, 10), (3, 20), (6, 160), (7, 300), (8, 300), (1_000_000, 300)]
)
def test_a_wait_doubles_up_to_its_bound(failures: int, seconds: int):
    assert doubled(5.0, failures, 300.0) == seconds
    assert doubled(timedelta(seconds=5), failures, timedelta(seconds=300)) == timedelta(seconds=seconds)


def test_a_first_wait_above_the_bound_is_the_bound():
    assert doubled(10.0, 1, 5.0) == 5.0


def test_a_wait_without_a_failure_is_our_error():
    with pytest.raises(AssertionError):
        doubled(1.0, 0, 5.0)


@pytest.mark.parametrize(("luck", "seconds"), [(0.0, 10.0), (0.5, 15.0), (0.99, 19.9)])
def test_a_wait_is_spread_between_half_and_all_of_it(luck: float, seconds: float):
    assert spread(20.0, luck) == pytest.approx(seconds)
    assert Backoff(first=5.0, cap=300.0).wait(3, luck) == pytest.approx(seconds)
