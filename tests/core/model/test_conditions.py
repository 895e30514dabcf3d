from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tgp.core.model.conditions import ConditionUpdate, merge_conditions, shortened, without_amounts

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


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("none of 14 offers fits: 3 sold out", "none of 15 offers fits: 2 sold out"),
        ("9 above $2.00/h", "12 above $2.31/h"),
        ("only $1,200.00/h is left", "only $12.50/h is left"),
        ("Retrying every 2m.", "Retrying every 1h30m."),
        ("failed 20s ago (sold out)", "failed 3m5s ago (sold out)"),
        ("until 14:05:10Z, then", "until 14:06:10Z, then"),
        ("as of 2026-11-16T00:27:45Z.", "as of 2026-11-17T10:27:45Z."),
        ("GPU 95% busy", "GPU 5% busy"),
        ("it waits for 12 machines, 3.", "it waits for 9 machines, 4."),
    ],
)
def test_amounts_do_not_make_another_message(one, other):
    assert without_amounts(one) == without_amounts(other) != one


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("vultr answered 401: x", "vultr answered 503: x"),
        ("HTTP 500 from the factory", "HTTP 404 from the factory"),
        ("409 offers of RTX4090", "409 offers of RTX3090"),
        ("Secret gpu-1 has no key", "Secret gpu-2 has no key"),
        ("machine i-12 at vultr", "machine i-13 at vultr"),
        ("v1.13.9 is not supported", "v1.12.9 is not supported"),
        ("endpoint https://10.0.0.1:6443", "endpoint https://10.0.0.2:6443"),
        ("10.0.0.1 is a private address", "10.0.0.2 is a private address"),
        ("A100-80GB", "A100-40GB"),
        ("zone us-central1-a", "zone us-central2-a"),
        ("machine 12-a of b", "machine 13-a of b"),
    ],
)
def test_names_ids_and_answers_do(one, other):
    assert without_amounts(one) != without_amounts(other)
