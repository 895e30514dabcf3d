"""What failed is left alone for a while, longer each time, and forgotten in the end."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.market.offers import NOW, PATIENT, an_offer, offers_of
from tgp.core.model.marks import FORGOTTEN_AFTER, LONGEST_BENCH, Marks
from tgp.core.rules import benching
from tgp.core.rules.benching import FIRST_BENCH, failed, forgotten, succeeded

OFFER = an_offer(host="h1")
SECOND = timedelta(seconds=1)


def test_a_failed_offer_is_benched_for_five_minutes_and_no_longer():
    marks = failed(Marks(), OFFER, "sold out", NOW)

    assert marks.against(OFFER, NOW).why == "sold out"
    assert marks.against(OFFER, NOW + FIRST_BENCH - SECOND) is not None
    assert marks.against(OFFER, NOW + FIRST_BENCH) is None


@pytest.mark.parametrize(
    ("times", "minutes"), [(1, 5), (2, 10), (3, 20), (4, 40), (5, 80), (6, 160), (7, 240), (99, 240)]
)
def test_each_failure_doubles_the_bench_up_to_four_hours(times, minutes):
    marks = Marks()
    for _ in range(times):
        marks = failed(marks, OFFER, "x", NOW)

    assert marks.against(OFFER, NOW).until == NOW + timedelta(minutes=minutes)


def test_its_host_is_benched_with_it_whatever_it_is_called_next():
    marks = failed(Marks(), OFFER, "x", NOW)

    assert marks.against(an_offer("renamed", host="h1"), NOW)
    assert not marks.against(an_offer("b", host="h2"), NOW)
    assert not marks.against(an_offer("b", host="h1", provider="zeta"), NOW)


def test_offers_without_a_host_do_not_share_one():
    marks = failed(Marks(), an_offer(host=""), "x", NOW)

    assert not marks.hosts
    assert not marks.against(an_offer("b", host=""), NOW)


def test_two_machines_that_never_join_bench_their_provider():
    """One may be a broken machine; two are a provider that cannot boot Talos."""
    once = failed(Marks(), an_offer("a"), "NeverJoined", NOW, never_joined=True)
    twice = failed(once, an_offer("b"), "NeverJoined", NOW, never_joined=True)

    assert not once.against(an_offer("c"), NOW)
    assert twice.against(an_offer("c"), NOW).until == NOW + FIRST_BENCH
    assert not twice.against(an_offer("c", provider="zeta"), NOW)


def test_other_failures_do_not_count_against_the_provider():
    marks = Marks()
    for number in range(10):
        marks = failed(marks, an_offer(f"{number}"), "sold out", NOW)

    assert not marks.against(an_offer("c"), NOW)


def test_a_success_wipes_the_slate():
    marks = failed(failed(Marks(), OFFER, "x", NOW, never_joined=True), OFFER, "x", NOW, never_joined=True)

    assert succeeded(marks, OFFER) == Marks({}, {}, {})


def test_what_is_a_day_old_is_forgotten():
    marks = Marks()
    for _ in range(6):
        marks = failed(marks, OFFER, "x", NOW)

    assert forgotten(marks, NOW + FORGOTTEN_AFTER - SECOND) == marks
    assert forgotten(marks, NOW + FORGOTTEN_AFTER) == Marks({}, {}, {})
    again = failed(marks, OFFER, "x", NOW + FORGOTTEN_AFTER)
    assert again.offers[OFFER.key].failures == 1


def test_a_clock_set_back_benches_nothing_for_a_day():
    marks = failed(Marks(), OFFER, "x", NOW)

    assert marks.against(OFFER, NOW - timedelta(days=1)) is None


def test_marks_are_bounded_and_the_newest_stay(monkeypatch):
    monkeypatch.setattr(benching, "MOST_MARKS", 3)
    marks = Marks()
    for number in range(5):
        marks = failed(marks, an_offer(f"{number}"), "x" * 10_000, NOW + number * SECOND)

    assert [key.split("/")[1] for key in marks.offers] == ["2", "3", "4"]
    assert all(len(mark.why) == benching.LONGEST_WHY for mark in marks.offers.values())


@PATIENT
@given(st.lists(st.tuples(offers_of("acme"), st.booleans(), st.integers(0, 100_000)), max_size=30))
def test_nobody_is_benched_for_longer_than_four_hours(failures):
    marks, now = Marks(), NOW
    for offer, never_joined, pause in failures:
        now += timedelta(seconds=pause)
        marks = failed(marks, offer, "x", now, never_joined=never_joined)
        mark = marks.against(offer, now)

        assert FIRST_BENCH <= mark.until - now <= LONGEST_BENCH
        assert marks.against(offer, now + LONGEST_BENCH) is None
