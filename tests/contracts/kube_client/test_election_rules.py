"""What to do about a Lease, case by case."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tgp.adapters.kube.elector_rules import (
    LONGEST_DURATION,
    Create,
    LeaseRecord,
    LeaseTimes,
    Renew,
    Seen,
    Take,
    WaitForLease,
    decide,
    look,
    micro_time,
    read_record,
    spec_of,
    went_back,
)

THEIRS = LeaseRecord("u", "5", "them", 15.0, "a", "r", 3)


def test_where_there_is_no_lease_one_is_made():
    assert decide("me", None, 100.0) == Create()


def test_our_own_is_renewed():
    ours = LeaseRecord("u", "5", "me", 15.0, "a", "r", 3)

    assert decide("me", Seen(ours, 0.0), 1e9) == Renew(ours)


def test_a_released_one_is_taken_at_once():
    released = LeaseRecord("u", "5", "", 15.0, "a", "r", 3)

    assert decide("me", Seen(released, 100.0), 100.0) == Take(released)


@given(since=st.floats(0, 1e6), age=st.floats(0, 60))
def test_anothers_is_taken_only_after_it_stood_still_for_its_whole_duration(since: float, age: float):
    decision = decide("me", Seen(THEIRS, since), since + age)

    assert isinstance(decision, Take) == (since + age >= since + 15.0)


def test_a_longer_duration_is_respected():
    slow = LeaseRecord("u", "5", "them", 60.0, "a", "r", 3)

    assert decide("me", Seen(slow, 0.0), 59.0) == WaitForLease(60.0)


def test_an_absurd_duration_does_not_lock_all_replicas_out():
    absurd = LeaseRecord("u", "5", "them", 1e9, "a", "r", 3)

    assert decide("me", Seen(absurd, 0.0), LONGEST_DURATION) == Take(absurd)


def test_the_same_record_keeps_its_age():
    """Also under a new version: an annotation by another client is not a renewal."""
    annotated = LeaseRecord("u", "9", "them", 15.0, "a", "r", 3)

    assert look(Seen(THEIRS, 100.0), annotated, 110.0) == Seen(annotated, 100.0)


@pytest.mark.parametrize(
    "changed",
    [
        LeaseRecord("u", "6", "them", 15.0, "a", "r2", 3),
        LeaseRecord("u", "6", "other", 15.0, "a", "r", 4),
        LeaseRecord("u2", "6", "them", 15.0, "a", "r", 3),
    ],
    ids=["renewed", "taken", "created again"],
)
def test_any_sign_of_life_starts_the_wait_again(changed: LeaseRecord):
    assert look(Seen(THEIRS, 100.0), changed, 110.0) == Seen(changed, 110.0)


def test_the_first_look_starts_the_wait():
    """However old the times in it are: they are another machine's."""
    assert look(None, THEIRS, 110.0) == Seen(THEIRS, 110.0)


@pytest.mark.parametrize(
    "lease",
    [
        {},
        {"metadata": None, "spec": None},
        {"metadata": {}, "spec": {"leaseDurationSeconds": -5, "leaseTransitions": "x", "holderIdentity": None}},
        {"spec": {"leaseDurationSeconds": "15"}},
    ],
)
def test_a_strange_lease_reads_as_released_with_our_own_duration(lease: dict):
    record = read_record(lease, 15.0)

    assert (record.holder, record.duration, record.transitions) == ("", 15.0, 0)


def test_a_record_is_written_as_it_was_read():
    lease = {"metadata": {"uid": "u", "resourceVersion": "5"}, "spec": spec_of(THEIRS)}

    assert read_record(lease, 1.0) == THEIRS


@given(st.datetimes(timezones=st.just(UTC), min_value=datetime(2000, 1, 1), max_value=datetime(2100, 1, 1)))  # noqa: DTZ001 - hypothesis adds the zone
def test_times_are_utc_with_six_digits(moment: datetime):
    """A whole second must not lose its digits: the API server refuses that."""
    text = micro_time(moment.astimezone(timezone(timedelta(hours=5))))

    assert len(text) == len("2026-01-01T00:00:00.000000Z")
    assert datetime.fromisoformat(text) == moment


def test_times_that_cannot_work_are_refused():
    with pytest.raises(ValueError):
        LeaseTimes(duration=10, renew_within=10)
    with pytest.raises(ValueError):
        LeaseTimes(retry=11)


@pytest.mark.parametrize(
    ("now", "decision"),
    [(100.0, WaitForLease(115.0)), (114.9, WaitForLease(115.0)), (115.0, Create()), (900.0, Create())],
)
def test_after_a_lease_that_was_seen_is_deleted_its_holder_is_waited_for(now: float, decision: object):
    assert decide("me", None, now, gone_until=115.0) == decision


@pytest.mark.parametrize(
    ("before", "read", "back"),
    [
        ("5", "4", True),
        ("5", "5", False),
        ("5", "6", False),
        ("10", "9", True),
        ("", "4", False),
        ("5", "", False),
    ],
)
def test_a_lease_under_a_lower_version_is_from_an_older_history(before: str, read: str, back: bool):
    assert (
        went_back(Seen(replace(THEIRS, resource_version=before), 0.0), replace(THEIRS, resource_version=read)) == back
    )


def test_another_lease_says_nothing_about_the_history():
    assert not went_back(Seen(THEIRS, 0.0), replace(THEIRS, uid="u2", resource_version="4"))
    assert not went_back(None, THEIRS)
