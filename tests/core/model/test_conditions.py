from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tgp.core.model.conditions import ConditionUpdate, merge_conditions, shortened

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
OURS = frozenset({"Ready", "Limited"})
READY = ConditionUpdate("Ready", True, "AsWished", "all is well")

updates = st.builds(
    ConditionUpdate,
    st.sampled_from(["Ready", "Limited"]),
    st.sampled_from([True, False, None]),
    st.sampled_from(["A", "B"]),
    st.text(max_size=20),
)


def test_a_first_verdict_becomes_a_condition_with_its_time():
    assert merge_conditions([], [READY], 3, NOW, OURS) == [
        {
            "type": "Ready",
            "status": "True",
            "reason": "AsWished",
            "message": "all is well",
            "lastTransitionTime": "2026-01-02T03:04:05Z",
            "observedGeneration": 3,
        }
    ]


@given(st.lists(updates, unique_by=lambda verdict: verdict.type), st.integers(0, 10**6))
def test_the_same_verdicts_later_change_nothing(said, later):
    """A quiet object is never written: time alone makes no difference."""
    once = merge_conditions([], said, 1, NOW, OURS)

    assert merge_conditions(once, said, 1, NOW + timedelta(seconds=later), OURS) == once


def test_only_a_turned_status_gets_a_new_time():
    once = merge_conditions([], [READY], 1, NOW, OURS)
    reworded = merge_conditions(
        once, [ConditionUpdate("Ready", True, "Still", "all is well")], 2, NOW + timedelta(hours=1), OURS
    )
    turned = merge_conditions(
        reworded, [ConditionUpdate("Ready", False, "Gone", "")], 3, NOW + timedelta(hours=2), OURS
    )

    assert reworded[0]["lastTransitionTime"] == "2026-01-02T03:04:05Z"
    assert reworded[0]["reason"] == "Still"
    assert turned[0]["lastTransitionTime"] == "2026-01-02T05:04:05Z"


def test_conditions_of_others_stay_where_they_are():
    foreign = {"type": "Theirs", "status": "True"}

    assert merge_conditions([foreign], [READY], 1, NOW, OURS)[0] == foreign


def test_a_condition_of_ours_without_a_verdict_is_dropped():
    held = merge_conditions([], [READY, ConditionUpdate("Limited", True, "AtMaximum", "")], 1, NOW, OURS)

    assert [condition["type"] for condition in merge_conditions(held, [READY], 1, NOW, OURS)] == ["Ready"]


def test_a_update_of_a_foreign_condition_is_our_mistake():
    with pytest.raises(AssertionError, match="Theirs"):
        merge_conditions([], [ConditionUpdate("Theirs", True, "X", "")], 1, NOW, OURS)


@given(st.text(max_size=3000))
def test_a_message_never_outgrows_its_bound(text):
    assert len(shortened(text)) <= 1024
