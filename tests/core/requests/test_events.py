"""A fact is reported when it becomes true, once, and not while the machine is still on its way."""

from datetime import timedelta

import pytest

from tests.core.requests.an_observation import NOW, UID, a_condition, a_machine, ago, an_observation
from tgp.api.resource import GPU_REQUEST
from tgp.core.model.conditions import ConditionUpdate
from tgp.core.model.facts import (
    ConditionChanged,
    FactSubject,
    LimitReached,
    MachineReady,
    NodeInitialized,
    NodeRegistered,
)
from tgp.core.model.object_key import ObjectKey
from tgp.core.requests.events import NO_EVENTS, ON_ITS_WAY, REPORTED_AS_FAILURE, new_events
from tgp.core.requests.observation import RequestObservation
from tgp.core.requests.status import RequestStatus

TRAIN = FactSubject(GPU_REQUEST, ObjectKey("default", "train"), UID)
FIVE_MINUTES = timedelta(minutes=5)  # since the builders' machine was reserved


def reported(observation: RequestObservation, *updates: ConditionUpdate, phase: str = "Joining") -> list[object]:
    return list(new_events(observation, RequestStatus(phase, "", updates, {})))


@pytest.mark.parametrize(
    ("update", "fact"),
    [
        (ConditionUpdate("Registered", True, "Registered", ""), NodeRegistered(TRAIN, "vast", "train-1", FIVE_MINUTES)),
        (
            ConditionUpdate("Initialized", True, "Initialized", ""),
            NodeInitialized(TRAIN, "vast", "train-1", FIVE_MINUTES),
        ),
        (ConditionUpdate("Ready", True, "Ready", ""), MachineReady(TRAIN, "vast", "train-1", FIVE_MINUTES)),
        (ConditionUpdate("Launched", False, "LimitReached", "4 of 4"), LimitReached(TRAIN, "", "4 of 4")),
        (ConditionUpdate("Launched", False, "LimitReached", "Class : 4 of 4"), LimitReached(TRAIN, "", "4 of 4")),
    ],
)
def test_what_became_true_is_a_fact(update: ConditionUpdate, fact: object):
    assert reported(an_observation(a_machine()), update) == [fact]


def test_what_stands_on_the_object_is_no_news():
    observation = an_observation(a_machine(), conditions=(a_condition("Registered", "Registered"),))

    assert reported(observation, ConditionUpdate("Registered", True, "Registered", "in other words")) == []


def test_a_machine_is_ready_for_the_first_time_once():
    """A Node that was silent for a while is no new machine: its start is not counted again."""
    observation = an_observation(a_machine(), status={"ready_at": ago(minutes=1)})

    assert reported(observation, ConditionUpdate("Ready", True, "Ready", "")) == []


@pytest.mark.parametrize("reason", sorted(NO_EVENTS | REPORTED_AS_FAILURE))
def test_waiting_is_no_news(reason: str):
    assert reported(an_observation(), ConditionUpdate("Launched", False, reason, "")) == []


@pytest.mark.parametrize("reason", sorted(ON_ITS_WAY))
def test_a_machine_on_its_way_into_the_mesh_is_no_news(reason: str):
    assert reported(an_observation(a_machine()), ConditionUpdate("Connected", False, reason, "")) == []


def test_why_nothing_is_bought_is_reported_where_a_user_can_do_something_about_it():
    facts = reported(
        an_observation(), ConditionUpdate("Launched", False, "NoOfferWithinPrice", "the cheapest is $2.00/h")
    )

    assert facts == [
        ConditionChanged(TRAIN, "Launched", "False", "NoOfferWithinPrice", "the cheapest is $2.00/h", False)
    ]


def test_why_a_class_buys_nothing_is_reported_once_a_user_has_looked_at_it():
    """Before that there is nothing to report, and an early message would become outdated."""
    unseen, broken = (
        ConditionUpdate("Launched", False, reason, "") for reason in ("NodeClassNotSeen", "NodeClassNotReady")
    )
    seen_so = an_observation(conditions=(a_condition("Launched", "NodeClassNotSeen", "False"),))

    assert reported(an_observation(), unseen) == []
    assert reported(seen_so, broken) == [ConditionChanged(TRAIN, "Launched", "False", "NodeClassNotReady", "", False)]


@pytest.mark.parametrize(("phase", "count"), [("Failed", 1), ("Finished", 0)])
def test_only_a_bad_end_is_a_fact_of_its_own(phase: str, count: int):
    assert len(reported(an_observation(), ConditionUpdate("Ended", True, "GaveUp", "five times"), phase=phase)) == count


def test_a_clock_that_was_set_back_makes_no_negative_length():
    observation = an_observation(a_machine(reserved_at=NOW + FIVE_MINUTES))

    assert reported(observation, ConditionUpdate("Ready", True, "Ready", "")) == [
        MachineReady(TRAIN, "vast", "train-1", timedelta(0))
    ]
