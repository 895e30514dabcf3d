"""What is read from an observation: lists that settle a doubt, an outage, an overdrawn limit, a provider's reports."""

from datetime import timedelta

import pytest
from msgspec.structs import replace

from tests.core.requests.an_observation import (
    AN_OUTAGE,
    NOW,
    SILENT,
    a_class,
    a_condition,
    a_machine,
    a_node,
    ago,
    an_attempt,
    an_observation,
    listed,
    over,
)
from tgp.core.inventory.limits import Reservation, usage_of
from tgp.core.model.instance import InstanceState
from tgp.core.model.node import Node
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.presence import NO_CLAIMS, AccountProblem, Claims, Repeated
from tgp.core.requests.observation import AccessObservation, ClassMember, MachinesInUse
from tgp.core.requests.outage import UNREACHABLE_AT_MOST, first_to_go, many_unreachable
from tgp.core.requests.provider_reports import BELIEVED_AFTER, CONFIRMED_AFTER, PROGRESS_STEP, with_reports
from tgp.core.requests.settled import settled
from tgp.core.requests.termination_reasons import overdraft

# -- lists that settle a doubt -----------------------------------------------------------------------------------------

HOUR = BELIEVED_AFTER.total_seconds()
WAITED = {"status": {"phase": "Pending"}, "conditions": (a_condition("Launched", "NoOfferFits", "False"),)}


@pytest.mark.parametrize(
    ("access", "rest", "answer"),
    [
        pytest.param(AccessObservation(), {}, False, id="not listed"),
        pytest.param(AccessObservation(listed_at=10.0, settles_at=10.0), {}, False, id="listed too early"),
        pytest.param(AccessObservation(listed_at=11.0, settles_at=10.0), {}, True, id="listed"),
        pytest.param(AccessObservation(listed_at=11.0, settles_at=10.0, distrusted=True), {}, False, id="distrusted"),
        pytest.param(AccessObservation(HOUR + 11.0, 10.0, distrusted=True), {}, True, id="distrusted for an hour"),
        pytest.param(AccessObservation(11.0, 10.0), {"shown_by_node": True}, False, id="a Node shows it"),
        pytest.param(AccessObservation(11.0, 10.0, distrusted=True), WAITED, True, id="it only ever waited"),
        pytest.param(AccessObservation(problem=AccountProblem.CREDENTIALS_MISSING), {}, False, id="no key"),
        pytest.param(AccessObservation(problem=AccountProblem.CREDENTIALS_MISSING), WAITED, True, id="waited, no key"),
        pytest.param(
            AccessObservation(problem=AccountProblem.CREDENTIALS_MISSING, never_used=True), {}, True, id="never a key"
        ),
        pytest.param(
            AccessObservation(problem=AccountProblem.CREDENTIALS_REFUSED, never_used=True), {}, False, id="a wrong key"
        ),
        pytest.param(
            AccessObservation(problem=AccountProblem.UNREACHABLE, never_used=True), {}, False, id="unused, no answer"
        ),
        pytest.param(AccessObservation(problem=AccountProblem.UNREACHABLE), WAITED, False, id="waited, no answer"),
        pytest.param(AccessObservation(), {"blank": True}, True, id="we added the finalizer"),
    ],
)
def test_a_request_without_attempts_is_settled_by_lists_that_would_show_any_order(access, rest, answer):
    one = AccessObservation(listed_at=1e9)

    assert settled(an_observation(accesses={"gcp": one, "vast": access}, **rest)) is answer


def test_a_request_with_attempts_has_its_record():
    assert settled(an_observation(over(), accesses={"vast": AccessObservation()}))


# -- many machines at once ---------------------------------------------------------------------------------------------

READY = (an_observation().record, Node(key=ObjectKey("", "n"), ready=True))


@pytest.mark.parametrize(("missing", "ready", "many"), [(2, 0, False), (3, 0, True), (3, 12, False), (4, 12, True)])
def test_more_than_two_and_more_than_a_fifth_are_many(missing, ready, many):
    in_use = MachinesInUse(missing + ready, AN_OUTAGE.unreachable[:1] * missing)

    assert many_unreachable(an_observation(in_use=in_use)).startswith(f"{missing} of {missing + ready} Nodes") is many


def test_a_mesh_that_lists_few_machines_is_doubted_and_one_that_does_not_answer_is_not():
    assert many_unreachable(an_observation(in_use=MachinesInUse(in_mesh=(False,) * 3))).startswith(
        "The mesh does not list 3 of"
    )
    assert many_unreachable(an_observation(in_use=MachinesInUse(in_mesh=(None,) * 3))) == ""


@pytest.mark.parametrize(("own", "other", "first"), [(180, 170, True), (170, 180, False), (119, 10, False)])
def test_of_many_the_one_that_is_silent_longest_goes_first(own, other, first):
    observation = an_observation(a_machine())
    another = replace(observation.record, uid=observation.record.uid[::-1])

    def silent(minutes: int) -> Node:
        return Node(key=ObjectKey("", "n"), ready=False, ready_since=NOW - timedelta(minutes=minutes))

    in_use = MachinesInUse(2, ((observation.record, silent(own)), (another, silent(other))))
    assert timedelta(minutes=120) == UNREACHABLE_AT_MOST
    assert first_to_go(replace(observation, in_use=in_use)) is first
    assert not first_to_go(replace(observation, in_use=replace(in_use, node_lost=True)))


# -- a price that overdraws a limit ------------------------------------------------------------------------------------

BILLED = a_machine(hourly_price="0.60")
RISEN = listed(hourly_microusd=900_000)


def a_member(uid: str, *, leaving: bool = False, newer: bool = True, presence=RISEN, **rest) -> ClassMember:
    attempt = a_machine(reserved_at=ago(minutes=1) if newer else ago(minutes=9), **{"hourly_price": "0.90", **rest})
    return ClassMember(uid, attempt, leaving, presence, NO_CLAIMS)


@pytest.mark.parametrize(
    ("members", "exceeds"),
    [
        pytest.param((), True, id="alone"),
        pytest.param((a_member("one", newer=False),), True, id="an older one rose as well"),
        pytest.param((a_member("one"),), False, id="a newer one rose as well"),
        pytest.param((a_member("one", presence=SILENT, hourly_price="0.40"),), True, id="a newer one did not rise"),
        pytest.param((a_member("one", leaving=True),), False, id="one leaves and makes room"),
    ],
)
def test_only_the_newest_of_those_that_overdraw_is_terminated(members, exceeds):
    held = usage_of([Reservation("one", 900_000)])
    observation = an_observation(BILLED, node_class=a_class("1.00"), held=held, same_class=members)

    assert bool(overdraft(observation, BILLED)) is exceeds


@pytest.mark.parametrize("limited", [{"max_nodes": 1}, {"resources": {"gpu": 1}}, {"resources": {"cpu": "1"}}])
def test_a_price_overdraws_no_limit_but_that_of_money(limited):
    """A class whose other limits were lowered, or mistyped, terminates no machine that works."""
    held = usage_of([Reservation("one", 400_000)])
    observation = an_observation(BILLED, node_class=a_class("9.00", **limited), held=held)

    assert overdraft(observation, BILLED) == ""


def test_a_class_that_is_gone_limits_nothing():
    assert overdraft(an_observation(BILLED, held=usage_of([Reservation("one", 900_000)])), BILLED) == ""


# -- what a provider reports -------------------------------------------------------------------------------------------


def test_a_price_is_recorded_once_it_is_believed():
    seen = {"presence": listed(hourly_microusd=500_000), "progress": None}
    twice = Claims(price=Repeated(2, CONFIRMED_AFTER))

    assert with_reports(an_observation(a_machine(), **seen), a_machine()).attempts == (a_machine(),)
    believed = with_reports(an_observation(a_machine(), **seen, claims=twice), a_machine())
    assert believed.attempts == (a_machine(hourly_price="0.50"),)


def test_an_order_in_doubt_is_left_as_it_is_recorded():
    observation = an_observation(an_attempt(), presence=listed(hourly_microusd=1), progress="starting/3")

    assert with_reports(observation, an_attempt()) is observation


@pytest.mark.parametrize(
    ("before", "last", "written", "remembered"),
    [
        pytest.param(None, None, False, "starting/half", id="first report"),
        pytest.param("starting/half", None, False, "starting/half", id="the same"),
        pytest.param("starting/begun", None, True, "starting/begun", id="progress, remembered once it is written"),
        pytest.param("starting/begun", NOW - PROGRESS_STEP, True, "starting/begun", id="progress after a while"),
        pytest.param("starting/begun", NOW, False, "starting/half", id="progress just after the last"),
    ],
)
def test_progress_of_a_start_is_recorded_now_and_then(before, last, written, remembered):
    attempt = a_machine(progress_at=last)
    presence = listed(InstanceState.STARTING, progress="half")
    seen = with_reports(an_observation(attempt, presence=presence, progress=before, node=a_node()), attempt)

    assert seen.attempts == (replace(attempt, progress_at=NOW if written else last),)
    assert seen.progress == remembered
