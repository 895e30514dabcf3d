"""A fact is told when it becomes true, once, and not while something is only waited for."""

from datetime import timedelta

import pytest

from tests.core.rules.a_sight import NOW, UID, a_condition, a_machine, a_sight, ago
from tgp.api.resource import GPU_REQUEST
from tgp.core.model.conditions import Verdict
from tgp.core.model.facts import (
    ConditionChanged,
    LimitHolds,
    MachineReady,
    NodeInitialized,
    NodeRegistered,
    Subject,
)
from tgp.core.model.key import Key
from tgp.core.rules.lifecycle_news import NO_NEWS, ON_ITS_WAY, TOLD_AS_FAILURE, news
from tgp.core.rules.lifecycle_words import Story
from tgp.core.rules.sight import Sight

TRAIN = Subject(GPU_REQUEST, Key("default", "train"), UID)
FIVE_MINUTES = timedelta(minutes=5)  # since the builders' machine was reserved


def told(sight: Sight, *verdicts: Verdict, phase: str = "Joining") -> list[object]:
    return list(news(sight, Story(phase, "", verdicts, {})))


@pytest.mark.parametrize(
    ("verdict", "fact"),
    [
        (Verdict("Registered", True, "Registered", ""), NodeRegistered(TRAIN, "vast", "train-1", FIVE_MINUTES)),
        (Verdict("Initialized", True, "Initialized", ""), NodeInitialized(TRAIN, "vast", "train-1", FIVE_MINUTES)),
        (Verdict("Ready", True, "Ready", ""), MachineReady(TRAIN, "vast", "train-1", FIVE_MINUTES)),
        (Verdict("Launched", False, "LimitReached", "4 of 4"), LimitHolds(TRAIN, "", "4 of 4")),
    ],
)
def test_what_became_true_is_a_fact(verdict: Verdict, fact: object):
    assert told(a_sight(a_machine()), verdict) == [fact]


def test_what_stands_on_the_object_is_no_news():
    sight = a_sight(a_machine(), conditions=(a_condition("Registered", "Registered"),))

    assert told(sight, Verdict("Registered", True, "Registered", "in other words")) == []


def test_a_machine_is_ready_for_the_first_time_once():
    """A Node that was silent for a while is no new machine: nobody counts its start again."""
    sight = a_sight(a_machine(), status={"ready_at": ago(minutes=1)})

    assert told(sight, Verdict("Ready", True, "Ready", "")) == []


@pytest.mark.parametrize("reason", sorted(NO_NEWS | TOLD_AS_FAILURE))
def test_waiting_is_no_news(reason: str):
    assert told(a_sight(), Verdict("Launched", False, reason, "")) == []


@pytest.mark.parametrize("reason", sorted(ON_ITS_WAY))
def test_a_machine_on_its_way_into_the_mesh_is_no_news(reason: str):
    assert told(a_sight(a_machine()), Verdict("Connected", False, reason, "")) == []


def test_why_nothing_is_bought_is_told_where_somebody_can_do_something_about_it():
    facts = told(a_sight(), Verdict("Launched", False, "NoOfferWithinPrice", "the cheapest is $2.00/h"))

    assert facts == [
        ConditionChanged(TRAIN, "Launched", "False", "NoOfferWithinPrice", "the cheapest is $2.00/h", False)
    ]


def test_why_a_class_buys_nothing_is_told_once_somebody_has_looked_at_it():
    """Before that there is nothing to tell, and the words of that moment would outlive it."""
    unseen, broken = (Verdict("Launched", False, reason, "") for reason in ("NodeClassNotSeen", "NodeClassNotReady"))
    seen_so = a_sight(conditions=(a_condition("Launched", "NodeClassNotSeen", "False"),))

    assert told(a_sight(), unseen) == []
    assert told(seen_so, broken) == [ConditionChanged(TRAIN, "Launched", "False", "NodeClassNotReady", "", False)]


@pytest.mark.parametrize(("phase", "count"), [("Failed", 1), ("Finished", 0)])
def test_only_a_bad_end_is_a_fact_of_its_own(phase: str, count: int):
    assert len(told(a_sight(), Verdict("Ended", True, "GaveUp", "five times"), phase=phase)) == count


def test_a_clock_that_was_set_back_makes_no_negative_length():
    sight = a_sight(a_machine(reserved_at=NOW + FIVE_MINUTES))

    assert told(sight, Verdict("Ready", True, "Ready", "")) == [MachineReady(TRAIN, "vast", "train-1", timedelta(0))]
