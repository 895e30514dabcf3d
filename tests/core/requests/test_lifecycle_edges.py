"""What is done about a request after the operator was away, or after another client edited it."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from tests.core.requests.an_observation import (
    BUY,
    NOW,
    ON_SALE,
    SOLD_OUT,
    a_condition,
    a_machine,
    a_node,
    ago,
    an_attempt,
    an_observation,
    listed,
    over,
)
from tgp.api.request import ATTEMPTS_KEPT
from tgp.core.model.presence import Absent
from tgp.core.requests.lifecycle import next_step
from tgp.core.requests.status import kept
from tgp.core.requests.steps import (
    AbandonAttempt,
    Adopt,
    CloseAttempt,
    Complete,
    Reserve,
    StartTermination,
    Terminate,
    TerminationReason,
    Wait,
)

STRIPPED = {"deleting": True, "finalizers": ("example.com/keeps-it",)}


def test_a_node_that_joined_while_no_operator_ran_is_not_too_late():
    """The operator was away past the deadline: the machine came up in time, and pods may run there."""
    observation = an_observation(a_machine(launched_at=ago(hours=3)), presence=listed(), node=a_node())

    assert isinstance(next_step(observation), Wait)


def test_a_node_that_was_completed_while_no_operator_ran_is_not_too_late():
    joined = a_condition("Registered", "Registered", since=ago(hours=2))
    observation = an_observation(
        a_machine(launched_at=ago(hours=3)), conditions=(joined,), presence=listed(), node=a_node()
    )

    assert isinstance(next_step(observation), Wait)


@pytest.mark.parametrize("wrong", [{"initialized": False}, {"ready": False}])
def test_a_node_that_is_seen_to_be_incomplete_past_its_deadline_is_terminated(wrong):
    joined = a_condition("Registered", "Registered", since=ago(hours=2))
    observation = an_observation(
        a_machine(launched_at=ago(hours=3)), conditions=(joined,), presence=listed(), node=a_node(**wrong)
    )

    step = next_step(observation)

    assert isinstance(step, StartTermination)
    assert step.end is TerminationReason.NEVER_INITIALIZED


def test_a_machine_is_terminated_also_where_our_finalizer_was_removed_from_a_deleted_request():
    """Another finalizer keeps the object: ours cannot be put back, and the collector leaves owned machines alone."""
    step = next_step(an_observation(a_machine(), presence=listed(), node=a_node(), **STRIPPED))
    assert isinstance(step, StartTermination)
    assert step.end is TerminationReason.DELETED

    ending = a_condition("Terminating", "Deleted", since=ago(minutes=1))
    step = next_step(an_observation(a_machine(), conditions=(ending,), presence=listed(), **STRIPPED))
    assert isinstance(step, Terminate)

    assert next_step(an_observation(over(), **STRIPPED)) == Wait(
        "Gone", "GPURequest is being deleted; no machine was bought."
    )


def test_the_end_of_a_machine_that_no_list_ever_showed_is_asked_for_by_its_id():
    """Its provider named it: a list that is late must not make it an orphan."""
    ending = a_condition("Terminating", "Broken", since=ago(minutes=1))
    unseen = Absent(9, timedelta(hours=1))

    step = next_step(an_observation(a_machine(), conditions=(ending,), presence=unseen, never_listed=True))
    assert isinstance(step, Terminate)
    assert step.instance_id == "i-1"

    asked = an_observation(
        a_machine(), conditions=(ending,), presence=unseen, never_listed=True, termination_requests=1
    )
    assert isinstance(next_step(asked), CloseAttempt)


def test_what_was_reserved_above_a_ceiling_that_was_lowered_since_is_not_ordered():
    observation = an_observation(an_attempt(), spec={"max_hourly_price": "0.01"}, may_order=True)

    step = next_step(observation)

    assert isinstance(step, AbandonAttempt)
    assert (step.outcome, step.message[:19]) == ("NotOrdered", "spec.maxHourlyPrice")


def test_an_attempt_that_was_abandoned_is_followed_by_a_pause():
    """What a machine boots with may be refused for hours: no new reservation is made in every reconcile."""
    abandoned = over(outcome="NotOrdered", ended_at=NOW)

    step = next_step(an_observation(abandoned, purchase=SOLD_OUT))

    assert isinstance(step, Wait)
    assert step.reason == "BackingOff"
    assert step.until is not None
    assert step.until > NOW


def test_what_happens_next_is_said_before_a_command_and_after_any_other_error():
    def said(why: str) -> str:
        step = next_step(an_observation(over(outcome="NotOrdered", ended_at=NOW, message=why), purchase=SOLD_OUT))
        assert isinstance(step, Wait)
        return step.message

    assert said("vast answered 503").startswith("Attempt 1 failed: Vast answered 503. The next offer is tried at ")
    told = said("Secret join does not exist. Try: tgp talos join-secret")
    assert told.startswith("The next offer is tried at ")
    assert told.endswith(". Attempt 1 failed: Secret join does not exist. Try: tgp talos join-secret")


def test_failed_launches_are_remembered_longer_than_sold_out_offers():
    """Five of them end a request, however many offers were sold out between them."""
    attempts = (over(1, "Refused"), *(over(number, "SoldOut") for number in range(2, ATTEMPTS_KEPT + 5)))

    remembered = kept(attempts)

    assert len(remembered) == ATTEMPTS_KEPT
    assert remembered[0].outcome == "Refused"


def test_a_request_ends_before_its_tokens_lose_their_form():
    step = next_step(an_observation(over(9999, "SoldOut")))

    assert isinstance(step, Complete)
    assert step.phase == "Failed"


def test_an_attempt_in_doubt_is_settled_without_our_finalizer_too():
    step = next_step(an_observation(an_attempt(), presence=listed(), **STRIPPED))

    assert isinstance(step, Adopt)


def test_a_request_with_an_erased_status_never_uses_a_number_twice_whichever_replica_leads():
    """A leader that never saw its machines cannot know its highest number; the time since creation bounds it."""
    observation = an_observation(purchase=ON_SALE, wiped=True)
    record = replace(observation.record, created_at=NOW - timedelta(minutes=30))
    step = next_step(replace(observation, record=record))

    assert isinstance(step, Reserve)
    assert step.number > 30 * 60 // 5
    assert next_step(replace(observation, record=record, wiped=False)) == Reserve(BUY, 1)
