from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tgp.core.model.conditions import Verdict, settle, shortened

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
OURS = frozenset({"Ready", "Limited"})
READY = Verdict("Ready", True, "AsWished", "all is well")

verdicts = st.builds(
    Verdict,
    st.sampled_from(["Ready", "Limited"]),
    st.sampled_from([True, False, None]),
    st.sampled_from(["A", "B"]),
    st.text(max_size=20),
)


def test_a_first_verdict_becomes_a_condition_with_its_time():
    assert settle([], [READY], 3, NOW, OURS) == [
        {
            "type": "Ready",
            "status": "True",
            "reason": "AsWished",
            "message": "all is well",
            "lastTransitionTime": "2026-01-02T03:04:05Z",
            "observedGeneration": 3,
        }
    ]


@given(st.lists(verdicts, unique_by=lambda verdict: verdict.type), st.integers(0, 10**6))
def test_the_same_verdicts_later_change_nothing(said, later):
    """A quiet object is never written: time alone makes no difference."""
    once = settle([], said, 1, NOW, OURS)

    assert settle(once, said, 1, NOW + timedelta(seconds=later), OURS) == once


def test_only_a_turned_status_gets_a_new_time():
    once = settle([], [READY], 1, NOW, OURS)
    reworded = settle(once, [Verdict("Ready", True, "Still", "all is well")], 2, NOW + timedelta(hours=1), OURS)
    turned = settle(reworded, [Verdict("Ready", False, "Gone", "")], 3, NOW + timedelta(hours=2), OURS)

    assert reworded[0]["lastTransitionTime"] == "2026-01-02T03:04:05Z"
    assert reworded[0]["reason"] == "Still"
    assert turned[0]["lastTransitionTime"] == "2026-01-02T05:04:05Z"


def test_conditions_of_others_stay_where_they_are():
    foreign = {"type": "Theirs", "status": "True"}

    assert settle([foreign], [READY], 1, NOW, OURS)[0] == foreign


def test_a_condition_of_ours_without_a_verdict_is_dropped():
    held = settle([], [READY, Verdict("Limited", True, "AtMaximum", "")], 1, NOW, OURS)

    assert [condition["type"] for condition in settle(held, [READY], 1, NOW, OURS)] == ["Ready"]


def test_a_verdict_on_somebody_elses_condition_is_our_mistake():
    with pytest.raises(AssertionError, match="Theirs"):
        settle([], [Verdict("Theirs", True, "X", "")], 1, NOW, OURS)


@given(st.text(max_size=3000))
def test_a_message_never_outgrows_its_bound(text):
    assert len(shortened(text)) <= 1024
