"""What is done next about a request that a user edited: its annotation, its status, its Node."""

import dataclasses
from datetime import timedelta

import pytest
from msgspec.structs import replace

from tests.core.requests.an_observation import (
    CLUSTER,
    GONE,
    NOW,
    OFFER,
    a_condition,
    a_machine,
    an_observation,
    listed,
    over,
)
from tgp.api.request import GPURequestSpec
from tgp.core.model.node import Node
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.presence import AccountProblem, Claims, Repeated
from tgp.core.model.token import token_for
from tgp.core.requests.chosen_offer import offer_of
from tgp.core.requests.lifecycle import next_step
from tgp.core.requests.node_state import registered
from tgp.core.requests.observation import AccessObservation, NodeObservation
from tgp.core.requests.provider_reports import CONFIRMED_AFTER
from tgp.core.requests.purchase import most_to_pay
from tgp.core.requests.steps import (
    AddFinalizer,
    CloseAttempt,
    Complete,
    Readopt,
    RemoveFinalizer,
    RemoveNode,
    StartTermination,
    TerminationReason,
    Wait,
)

OTHER_UID = "99999999-2222-3333-4444-555555555555"
EDITED = {"tgp.io/uid": "another"}


def test_a_copy_is_known_by_its_tokens_also_where_its_annotation_was_corrected():
    theirs = replace(a_machine(), token=token_for(CLUSTER, OTHER_UID, 1))

    assert next_step(an_observation(theirs, deleting=True)) == RemoveFinalizer()
    assert isinstance(next_step(an_observation(theirs, presence=listed())), Wait)


def test_a_record_in_which_anothers_token_stands_beside_its_own_is_no_longer_trusted():
    theirs = replace(a_machine(2), token=token_for(CLUSTER, OTHER_UID, 1))
    ended = replace(a_machine(1), outcome="Failed", ended_at=NOW)

    assert next_step(an_observation(ended, theirs, presence=listed(), deleting=True)) == RemoveFinalizer()


def test_a_request_that_bought_under_its_own_uid_is_no_copy_whatever_its_annotation_says():
    """Users may edit an annotation: it is corrected, and the machine is kept."""
    observation = an_observation(a_machine(), presence=listed(), annotations=EDITED)

    assert next_step(observation) == AddFinalizer()
    assert next_step(an_observation(a_machine(), presence=listed(), annotations={"some": "thing"})) == AddFinalizer()


def test_an_annotation_is_not_corrected_on_the_way_out():
    step = next_step(an_observation(a_machine(), presence=listed(), deleting=True, annotations=EDITED))

    assert isinstance(step, StartTermination)
    assert step.end is TerminationReason.DELETED


def test_a_node_that_anothers_finalizer_holds_is_asked_to_go_once():
    ending = {"conditions": (a_condition("Terminating", "Deleted"),), "presence": GONE, "deleting": True}
    node = Node(key=ObjectKey("", "train-1"), uid="n-1")
    held = replace(node, deletion_requested_at=NOW)

    assert next_step(an_observation(a_machine(), node=NodeObservation(leftover=node), **ending)) == RemoveNode(node)
    assert isinstance(
        next_step(an_observation(a_machine(), node=NodeObservation(leftover=held), **ending)), CloseAttempt
    )


def test_an_unreadable_price_makes_no_machine_too_expensive():
    """Then only the ceiling of its request holds."""
    strange = replace(a_machine(), offer=replace(OFFER, hourly_price="0,40 EUR"))
    seen = {"presence": listed(hourly_microusd=900_000), "claims": Claims(price=Repeated(2, CONFIRMED_AFTER))}
    capped = next_step(an_observation(strange, spec={"max_hourly_price": "0.50"}, **seen))

    assert isinstance(next_step(an_observation(strange, **seen)), Wait)
    assert isinstance(capped, StartTermination)
    assert capped.end is TerminationReason.PRICE_EXCEEDED


def test_an_offer_is_read_from_its_record_whatever_stands_there():
    offer = offer_of(replace(OFFER, hourly_price="a lot", boot_mode="bridge"))

    assert (offer.hourly_microusd, offer.boot.value) == (0, "native")


def test_a_node_without_a_provider_id_that_was_there_before_the_request_is_not_its():
    """A control plane's has none, and a status can be edited."""
    before, after = NOW - timedelta(days=9), NOW + timedelta(minutes=3)
    node = Node(key=ObjectKey("", "cp-1"), created_at=before, ready=True)

    assert not registered(node, "cp-1", "tgp://vast/x", NOW)
    assert registered(replace(node, created_at=after), "cp-1", "tgp://vast/x", NOW)
    assert registered(replace(node, provider_id="tgp://vast/x"), "cp-1", "tgp://vast/x", NOW)


@pytest.mark.parametrize(
    ("cap", "reserved", "most"),
    [
        (None, 400_000, 500_000),
        ("2.00", 400_000, 500_000),
        ("0.45", 400_000, 450_000),
        ("0.45", None, 450_000),
        ("0", None, 0),
        (None, 0, 0),
    ],
)
def test_nothing_is_ordered_at_a_price_for_which_it_would_be_terminated(cap, reserved, most):
    """A ceiling far above what was agreed on is no leave to pay it."""
    assert most_to_pay(GPURequestSpec(gpu_type="RTX4090", max_hourly_price=cap), reserved) == most


def test_what_was_let_go_and_lost_its_record_buys_nothing_again():
    """Our mark without our finalizer: it was over. Where only the finalizer was taken off a record is left."""
    lost = next_step(an_observation(finalizers=()))

    assert isinstance(lost, Complete)
    assert (lost.phase, lost.reason) == ("Finished", "RecordLost")
    assert next_step(an_observation(finalizers=(), annotations={})) == AddFinalizer()
    assert (
        next_step(an_observation(finalizers=(), conditions=[a_condition("Launched", "NoOfferFits", "False")]))
        == AddFinalizer()
    )


# -- a machine that is not recorded ------------------------------------------------------------------------------------


SECOND = dataclasses.replace(listed().instance, token=a_machine(2).token)
FOUND = {"listed": (("vast/key", SECOND),), "highest": 2}
FAILING = AccessObservation(problem=AccountProblem.UNREACHABLE)  # what does not answer is not waited for
ANSWERS = {"vast/key": AccessObservation(listed_at=2.0, settles_at=1.0), "vultr/key": FAILING}


@pytest.mark.parametrize("deleting", [False, True])
@pytest.mark.parametrize("earlier", [(), (over(),)])
def test_a_machine_that_is_not_on_record_is_adopted_again_in_every_state(deleting, earlier):
    """Also of a request that is being deleted: then its machine goes first, by the ordinary way."""
    step = next_step(an_observation(*earlier, deleting=deleting, **FOUND, accesses=ANSWERS))

    assert isinstance(step, Readopt)
    assert (step.attempt.number, step.attempt.instance_id, step.instance, step.access) == (2, "i-1", SECOND, "vast/key")


@pytest.mark.parametrize("accesses", [{"vast/key": AccessObservation()}, {**ANSWERS, "gcp": AccessObservation()}])
def test_before_it_is_adopted_again_every_provider_is_listed_once_more(accesses):
    step = next_step(an_observation(**FOUND, accesses=accesses))

    assert isinstance(step, Wait)
    assert (step.reason, "Machine i-1 at provider vast is not in the status" in step.message) == (
        "LaunchOutcomePending",
        True,
    )


@pytest.mark.parametrize(
    "rest", [{"annotations": {"tgp.io/uid": "another"}}, {"finalizers": (), "annotations": {}}], ids=["copy", "new"]
)
def test_what_is_no_request_of_ours_adopts_nothing(rest):
    assert not isinstance(next_step(an_observation(**FOUND, accesses=ANSWERS, **rest)), Readopt)
