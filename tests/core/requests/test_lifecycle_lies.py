"""Providers that say untrue things: what is believed, after how long, and what never follows from it."""

from datetime import timedelta

import pytest

from tests.core.requests.an_observation import (
    AN_OUTAGE,
    GONE,
    LAG,
    NEVER_MADE,
    NOW,
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
from tgp.core.inventory.limits import COUNTED_ON_FOR
from tgp.core.joining.mesh.status import LEASE_STALE
from tgp.core.model.instance import InstanceState
from tgp.core.model.mesh import MeshStatus
from tgp.core.model.presence import NO_CLAIMS, Absent, Claims, Repeated
from tgp.core.requests.lifecycle import next_step
from tgp.core.requests.observation import MachinesInUse
from tgp.core.requests.outage import UNREACHABLE_AT_MOST
from tgp.core.requests.provider_reports import BELIEVED_AFTER, CONFIRMED_AFTER, DOUBTED_FOR
from tgp.core.requests.status import compute_status
from tgp.core.requests.steps import (
    AbandonAttempt,
    Adopt,
    CloseAttempt,
    RemoveNode,
    StartTermination,
    Terminate,
    TerminationReason,
    Wait,
)

READY = {"status": {"ready_at": ago(minutes=30), "node_class": "rented"}, "node": a_node()}
SILENT = a_node(ready=False, ready_since=ago(minutes=1))
STOPPED, DEARER = listed(InstanceState.STOPPED), listed(hourly_microusd=40_000_000)
ALMOST = timedelta(seconds=1)


def said(span: timedelta, lists: int = 9) -> Repeated:
    return Repeated(lists, span)


def end_of(**rest) -> TerminationReason | None:
    step = next_step(an_observation(a_machine(), **{**READY, **rest}))
    return step.end if isinstance(step, StartTermination) else None


def condition(kind: str, *attempts, **rest) -> tuple[str, str]:
    observation = an_observation(*(attempts or (a_machine(),)), **{**READY, **rest})
    found = {
        each.type: (each.reason, each.message) for each in compute_status(observation, next_step(observation)).updates
    }
    return found.get(kind, ("", ""))


# -- what is not listed ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lists", [2, 60, 10_000])
def test_a_machine_whose_node_is_ready_is_not_gone_whatever_lists_say(lists):
    absent = Absent(lists, timedelta(hours=lists))
    observation = {"presence": absent, **READY}

    assert end_of(**observation) is None
    reason, message = condition("ProviderInconsistent", **observation)
    assert reason == "MachineNotListed"
    assert message.startswith(
        "Provider vast does not list machine i-1, but Node train-1 is Ready. The machine is assumed to run at $0.40"
    )


@pytest.mark.parametrize(
    ("seen", "end"),
    [
        ({"node": SILENT}, TerminationReason.LOST),
        ({"node": a_node(node=None)}, TerminationReason.LOST),
        ({"node": a_node(), "mesh": MeshStatus(False, LEASE_STALE, "its Lease is old")}, TerminationReason.LOST),
        ({"node": a_node(node=None), "status": {}}, TerminationReason.BROKEN),
    ],
)
def test_a_machine_that_neither_lists_nor_the_cluster_show_is_lost(seen, end):
    assert end_of(presence=GONE, **{**READY, **seen}) == end


def test_an_order_in_doubt_is_not_settled_by_lists_that_contradict_the_nodes():
    """They leave out machines that run: so may they the one that it made. For an hour, as with everything they say."""
    doubted = {"distrusted": "lists of vast contradicted the Nodes", "presence": NEVER_MADE}
    step = next_step(an_observation(an_attempt(), **doubted))

    assert isinstance(step, Wait)
    assert (
        step.message
        == "Operator cannot check whether attempt 1 created a machine at vast: lists of vast contradicted the Nodes"
    )
    assert isinstance(next_step(an_observation(an_attempt(), presence=NEVER_MADE)), AbandonAttempt)
    believed = {**doubted, "presence": Absent(99, BELIEVED_AFTER)}
    assert isinstance(next_step(an_observation(an_attempt(), **believed)), AbandonAttempt)
    assert isinstance(next_step(an_observation(an_attempt(), **{**doubted, "presence": listed()})), Adopt)


def leaving(reason: str = "Lost", minutes: float = 1, **rest):
    conditions = (a_condition("Terminating", reason, since=ago(minutes=minutes)),)
    return next_step(an_observation(a_machine(), conditions=conditions, **{**READY, "presence": GONE, **rest}))


def test_the_end_of_a_machine_that_is_denied_while_its_node_is_ready_is_asked_for_by_its_id():
    assert leaving("Deleted") == Terminate(a_machine(), "i-1")
    assert isinstance(leaving("Deleted", node=SILENT), CloseAttempt), "its Node agrees: it is gone"
    assert isinstance(leaving("Deleted", termination_accepted=True), CloseAttempt), "its provider agreed: it is gone"
    doubted = {"termination_accepted": True, "distrusted": "its lists contradict other Nodes"}
    assert leaving("Deleted", **doubted) == Terminate(a_machine(), "i-1"), "404 for a machine that runs is no consent"
    assert isinstance(leaving("Deleted", node=SILENT, **doubted), CloseAttempt), "its Node agrees: it is gone"
    assert isinstance(leaving("Deleted", minutes=59), Terminate)
    assert isinstance(leaving("Deleted", minutes=60), CloseAttempt), "deletion ends in every case"


def test_a_ready_node_is_never_deleted_for_a_machine_that_was_lost():
    node = a_node().node
    left = {"node": a_node(leftover=node), "minutes": 61}

    assert isinstance(leaving("Lost", **left), CloseAttempt), "the Node stays"
    assert leaving("Lost", **left, termination_accepted=True) == RemoveNode(node)
    assert leaving("Expired", **left) == RemoveNode(node)
    silent = a_node(ready=False, leftover=SILENT.node)
    assert leaving("Lost", node=silent) == RemoveNode(SILENT.node)


@pytest.mark.parametrize(
    ("reason", "seen", "counts"),
    [
        ("Lost", {}, True),
        ("NodeLost", {}, True),
        ("Broken", {}, True),
        ("Lost", {"termination_accepted": True}, False),
        ("Lost", {"claims": Claims(leaving=True)}, False),
        ("Deleted", {}, False),
        ("Deleted", {"seen_listed": True}, True),
        ("Deleted", {"seen_listed": True, "termination_accepted": True}, False),
        ("Deleted", {"seen_listed": True, "termination_accepted": True, "distrusted": "lists contradict Nodes"}, True),
        ("PriceExceeded", {}, False),
    ],
)
def test_what_lists_alone_declare_gone_counts_on_for_an_hour(reason, seen, counts):
    step = leaving(reason, node=SILENT, **seen)

    assert isinstance(step, CloseAttempt)
    assert step.counts_until == (NOW + COUNTED_ON_FOR if counts else None)


def test_a_machine_that_counts_on_is_reported_of_with_its_cost_until_it_does_not():
    lost = over(1, "Lost", instance_id="i-1", counts_until=NOW + timedelta(minutes=20))

    reason, message = condition("PresumedLost", lost)
    assert reason == "NotListed"
    assert "Machine i-1 at vast ($0.40/h)" in message
    assert "class rented until 2026-11-16T12:20:00Z" in message
    assert next_step(an_observation(lost, **READY)).until == NOW + timedelta(minutes=20)
    assert condition("PresumedLost", over(1, "Lost", counts_until=NOW)) == ("", "")


# -- what is said of those that are listed -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("claims", "seen", "end"),
    [
        (NO_CLAIMS, {"node": SILENT}, None),
        (Claims(state=said(timedelta(0), 1)), {"node": SILENT}, None),
        (Claims(state=said(CONFIRMED_AFTER - ALMOST)), {"node": SILENT}, None),
        (Claims(state=said(CONFIRMED_AFTER)), {"node": SILENT}, TerminationReason.LOST),
        (Claims(state=said(CONFIRMED_AFTER), together=5), {"node": SILENT}, TerminationReason.LOST),
        (Claims(state=said(CONFIRMED_AFTER)), {}, None),
        (Claims(state=said(BELIEVED_AFTER - ALMOST), turn=True), {}, None),
        (Claims(state=said(BELIEVED_AFTER)), {}, None),
        (Claims(state=said(BELIEVED_AFTER), turn=True), {}, TerminationReason.LOST),
        (Claims(state=said(CONFIRMED_AFTER)), {"status": {}, "node": a_node(node=None)}, TerminationReason.BROKEN),
        (Claims(state=said(CONFIRMED_AFTER), together=2), {"status": {}, "node": a_node(node=None)}, None),
        (
            Claims(state=said(DOUBTED_FOR), together=2),
            {"status": {}, "node": a_node(node=None)},
            TerminationReason.BROKEN,
        ),
    ],
)
def test_a_bad_state_is_said_twice_and_the_node_does_not_contradict_it(claims, seen, end):
    assert end_of(presence=STOPPED, claims=claims, **{**READY, **seen}) == end


@pytest.mark.parametrize(
    ("claims", "end"),
    [
        (NO_CLAIMS, None),  # the list was read before the machine was on record
        (Claims(price=said(timedelta(0), 1), together=1), None),
        (Claims(price=said(CONFIRMED_AFTER - ALMOST), together=1), None),
        (Claims(price=said(CONFIRMED_AFTER), together=1), TerminationReason.PRICE_EXCEEDED),
        (Claims(price=said(CONFIRMED_AFTER), together=2), None),
        (Claims(price=said(BELIEVED_AFTER), together=2), None),
        (Claims(price=said(BELIEVED_AFTER), together=2, turn=True), TerminationReason.PRICE_EXCEEDED),
    ],
)
@pytest.mark.parametrize("limit", [{}, {"node_class": a_class("0.30")}])
def test_a_price_above_the_cap_or_a_limit_is_said_twice_and_of_few(claims, end, limit):
    assert end_of(presence=listed(hourly_microusd=1_000_000), claims=claims, **limit) == end


@pytest.mark.parametrize(
    ("claims", "end"),
    [
        (Claims(price=said(CONFIRMED_AFTER), together=1), None),
        (Claims(price=said(DOUBTED_FOR - ALMOST), together=1), None),
        (Claims(price=said(DOUBTED_FOR), together=1), TerminationReason.PRICE_EXCEEDED),
    ],
)
def test_a_price_that_looks_like_another_unit_is_said_for_longer(claims, end):
    """Cents for dollars, for a moment and of the only machine: it cost a machine that worked."""
    assert end_of(presence=DEARER, claims=claims) == end


def test_a_price_in_another_unit_is_reported_while_it_is_doubted():
    claims = Claims(price=said(CONFIRMED_AFTER), together=1)
    reason, message = condition("ProviderInconsistent", presence=DEARER, claims=claims)

    assert reason == "PriceImplausible"
    assert "$40.00/h, 100 times the agreed $0.40/h" in message
    assert "terminated only if" in message


def test_several_at_once_are_reported_as_the_providers_contradiction():
    reason, message = condition(
        "ProviderInconsistent", presence=DEARER, claims=Claims(price=said(CONFIRMED_AFTER), together=5)
    )

    assert reason == "SeveralAtOnce"
    assert message.startswith("Provider vast reports 5 machines at once")
    stopped = condition("ProviderInconsistent", presence=STOPPED, claims=Claims(state=said(CONFIRMED_AFTER)))
    assert stopped[0] == "StateContradicted"
    assert condition("ProviderInconsistent", presence=listed()) == ("", "")


@pytest.mark.parametrize("claims", [NO_CLAIMS, Claims(price=said(timedelta(0), 1))])
def test_what_is_said_once_is_looked_at_again_soon(claims):
    step = next_step(an_observation(a_machine(), presence=DEARER, claims=claims, **READY))

    assert isinstance(step, Wait)
    assert step.until is not None
    assert step.until - NOW <= LAG


# -- machines that are silent together ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("since", "turn", "end"),
    [
        (timedelta(minutes=11), True, None),
        (UNREACHABLE_AT_MOST - ALMOST, True, None),
        (UNREACHABLE_AT_MOST, False, None),
        (UNREACHABLE_AT_MOST, True, TerminationReason.NODE_LOST),
    ],
)
def test_machines_silent_together_are_given_up_after_two_hours_one_at_a_time(since, turn, end):
    silent = a_node(ready=False, ready_since=NOW - since)
    own, others = (an_observation().record, silent.node), AN_OUTAGE.unreachable

    assert end_of(presence=listed(), node=silent, in_use=MachinesInUse(6, (own, *others), not turn), status=LONG) == end
    assert end_of(presence=listed(), node=silent, in_use=MachinesInUse(10, (*others, *others)), status=LONG) is None, (
        "not its turn"
    )


LONG = {"ready_at": ago(hours=5)}


# -- an order whose outcome is unknown ---------------------------------------------------------------------------------


def test_an_order_whose_node_has_joined_was_not_in_vain_though_its_provider_denies_the_machine():
    ordered = an_attempt(instance_id="i-7", reserved_at=ago(minutes=5))
    joined = {"presence": NEVER_MADE, "termination_requests": 1, "node": a_node(registered=a_node().node)}

    step = next_step(an_observation(ordered, **joined))
    assert isinstance(step, Wait)
    assert "has joined, but vast does not list its machine" in step.message

    old = an_attempt(reserved_at=NOW - BELIEVED_AFTER)
    step = next_step(an_observation(old, **joined))
    assert isinstance(step, AbandonAttempt)
    assert step.counts_until == NOW + COUNTED_ON_FOR


@pytest.mark.parametrize(
    ("named", "accepted", "counts"),
    [
        pytest.param("i-7", False, True, id="a machine was named, and only lists deny it"),
        pytest.param("i-7", True, False, id="its termination was accepted"),
        pytest.param(None, False, False, id="no machine was ever heard of"),
    ],
)
def test_a_machine_that_an_error_named_counts_for_an_hour_unless_its_termination_was_accepted(named, accepted, counts):
    attempt = an_attempt(instance_id=named)
    seen = {"presence": NEVER_MADE, "termination_requests": 1, "termination_accepted": accepted}

    step = next_step(an_observation(attempt, **seen))
    assert isinstance(step, AbandonAttempt)
    assert step.counts_until == (NOW + COUNTED_ON_FOR if counts else None)
