"""What is done next about a request: every line of the policy, and what must never follow from what."""

from datetime import timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.core.requests.an_observation import (
    AN_OUTAGE,
    BUY,
    GONE,
    LAG,
    NEVER_MADE,
    NOT_SHOWN,
    NOW,
    OFFER,
    ON_SALE,
    SILENT,
    SOLD_OUT,
    UID,
    WINDOW,
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
from tgp.api.values import usd
from tgp.core.classes.default_class import Why
from tgp.core.inventory.limits import Reservation, usage_of
from tgp.core.model.hold import Hold
from tgp.core.model.instance import InstanceState
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.pod import Pod
from tgp.core.model.presence import Absent, AccountProblem, Claims, Repeated, Unknown
from tgp.core.requests.lifecycle import FAILURES_MAX, LOSSES_MAX, next_step
from tgp.core.requests.observation import AccessObservation, NodeObservation
from tgp.core.requests.protection import Protection
from tgp.core.requests.provider_reports import CONFIRMED_AFTER, PRICE_ROUNDING
from tgp.core.requests.steps import (
    AbandonAttempt,
    AddFinalizer,
    Adopt,
    CloseAttempt,
    Complete,
    DeleteRequest,
    DrainNode,
    Launch,
    PatchNode,
    RemoveFinalizer,
    RemoveNode,
    Reserve,
    StartTermination,
    Terminate,
    TerminationReason,
    Wait,
)

MACHINE = {"presence": listed(), "status": {"ready_at": ago(minutes=3)}, "node": a_node()}
ENDING = a_condition("Terminating", "Idle", since=ago(minutes=1))
SILENT_NODE = a_node(ready=False, ready_since=ago(minutes=1))
BAD_TWICE = Claims(state=Repeated(2, CONFIRMED_AFTER), together=1)
DEAR_TWICE = Claims(price=Repeated(2, CONFIRMED_AFTER), together=1)


# -- before anything is bought -----------------------------------------------------------------------------------------


def test_the_finalizer_comes_before_anything_else():
    assert next_step(an_observation(finalizers=(), annotations={}, purchase=ON_SALE)) == AddFinalizer()


def test_a_new_request_reserves_the_offer_that_was_chosen():
    assert next_step(an_observation(purchase=ON_SALE, blank=True)) == Reserve(BUY, 1)


def test_without_an_offer_it_waits_and_says_why():
    step = next_step(an_observation(purchase=SOLD_OUT))

    assert isinstance(step, Wait)
    assert (step.reason, bool(step.message), step.until) == ("NoOfferFits", True, None)


def test_nothing_is_chosen_while_purchases_are_stopped():
    step = next_step(an_observation(purchase=ON_SALE, hold=Hold("stopped")))

    assert isinstance(step, Wait)
    assert step.reason == "PurchasesPaused"


def test_a_request_whose_status_was_erased_buys_nothing_before_every_provider_was_asked():
    step = next_step(an_observation(purchase=ON_SALE, accesses={"vast": AccessObservation()}))

    assert isinstance(step, Wait)
    assert step.reason == "LaunchOutcomePending"


def test_a_machine_that_no_attempt_explains_is_waited_for():
    step = next_step(an_observation(over(), purchase=ON_SALE, listed=(("vast", listed().instance),)))

    assert isinstance(step, Wait)
    assert step.reason == "UnclaimedInstance"
    assert step.message.startswith(f"Machine {listed().instance.id} at vast of an earlier attempt is terminated")


def test_the_next_attempt_is_above_every_number_ever_seen():
    assert next_step(an_observation(over(3, "SoldOut"), purchase=ON_SALE, highest=7)) == Reserve(BUY, 8)


def test_a_restored_copy_buys_nothing_and_can_be_deleted():
    copy = {"annotations": {"tgp.io/uid": "another"}}

    assert isinstance(next_step(an_observation(purchase=ON_SALE, **copy)), Wait)
    assert next_step(an_observation(deleting=True, **copy)) == RemoveFinalizer()


def test_attempts_that_fail_are_followed_by_longer_and_longer_pauses():
    def waits(failures: int) -> timedelta:
        attempts = [over(number, ended_at=NOW) for number in range(1, failures + 1)]
        step = next_step(an_observation(*attempts, purchase=ON_SALE))
        assert isinstance(step, Wait)
        assert step.until is not None
        return step.until - NOW

    assert waits(1) < waits(2) < waits(3) < waits(4)


def test_five_failed_launches_end_the_request():
    failed = [over(number) for number in range(1, FAILURES_MAX + 1)]

    step = next_step(an_observation(*failed, purchase=ON_SALE))

    assert isinstance(step, Complete)
    assert (step.phase, step.reason) == ("Failed", "TooManyFailures")


def test_sold_out_offers_are_no_failure():
    sold_out = [over(number, "SoldOut") for number in range(1, 3 * FAILURES_MAX)]

    assert next_step(an_observation(*sold_out, purchase=ON_SALE)) == Reserve(BUY, 3 * FAILURES_MAX)


def test_a_machine_that_is_lost_again_and_again_is_not_replaced_for_ever():
    lost = [over(number, "Lost", launched_at=ago(hours=2)) for number in range(1, LOSSES_MAX + 1)]

    step = next_step(an_observation(*lost, purchase=ON_SALE, spec={"restart_policy": "OnLoss"}))

    assert isinstance(step, Complete)
    assert step.phase == "Failed"


def test_the_life_of_a_lost_machine_counts_for_the_one_that_replaces_it():
    lost = over(1, "Lost", launched_at=ago(hours=5))

    step = next_step(an_observation(lost, purchase=ON_SALE, spec={"restart_policy": "OnLoss", "max_lifetime": "4h"}))

    assert isinstance(step, Complete)
    assert (step.phase, step.reason) == ("Finished", "Expired")


# -- reserved ----------------------------------------------------------------------------------------------------------


def test_what_this_process_reserved_is_ordered():
    attempt = an_attempt()

    assert next_step(an_observation(attempt, presence=NOT_SHOWN, may_order=True)) == Launch(attempt)


def test_what_another_leader_reserved_is_only_looked_for():
    step = next_step(an_observation(an_attempt(), presence=NOT_SHOWN))

    assert isinstance(step, Wait)
    assert step.reason == "LaunchOutcomePending"


def test_what_is_found_under_our_token_is_ours():
    attempt, found = an_attempt(), listed()

    assert next_step(an_observation(attempt, presence=found)) == Adopt(attempt, found.instance)


def test_an_order_is_given_up_only_after_the_whole_window():
    attempt = an_attempt()
    nearly = Absent(9, WINDOW - timedelta(seconds=1))

    assert isinstance(next_step(an_observation(attempt, presence=nearly)), Wait)
    step = next_step(an_observation(attempt, presence=NEVER_MADE))
    assert isinstance(step, AbandonAttempt)
    assert step.outcome == "NotCreated"


def test_one_list_proves_nothing_however_long_ago():
    assert isinstance(next_step(an_observation(an_attempt(), presence=Absent(1, WINDOW))), Wait)


def test_a_machine_that_an_error_named_is_ended_whatever_the_lists_say():
    attempt = an_attempt(instance_id="i-7")

    assert next_step(an_observation(attempt, presence=NEVER_MADE)) == Terminate(attempt, "i-7")
    assert isinstance(next_step(an_observation(attempt, presence=NEVER_MADE, termination_requests=1)), AbandonAttempt)


def test_a_machine_that_cannot_be_asked_is_no_proof_of_an_order():
    """Without a status endpoint every token looks alike: a reservation that was not ordered is ordered."""
    offer = msgspec.structs.replace(OFFER, boot_mode="power")
    attempt, unknown = an_attempt(offer=offer), listed(InstanceState.UNKNOWN)

    assert next_step(an_observation(attempt, presence=unknown, may_order=True)) == Launch(attempt)
    assert next_step(an_observation(attempt, presence=unknown)) == Adopt(attempt, unknown.instance)


@pytest.mark.parametrize("stop", [{"deleting": True}, {"chosen": Why("Suspended", "so")}])
def test_a_reservation_that_was_not_ordered_can_be_taken_back(stop):
    step = next_step(an_observation(an_attempt(), presence=NOT_SHOWN, may_order=True, **stop))

    assert isinstance(step, AbandonAttempt)
    assert step.outcome == "NotOrdered"


def test_a_deleted_request_in_doubt_is_not_let_go():
    assert isinstance(next_step(an_observation(an_attempt(), presence=NOT_SHOWN, deleting=True)), Wait)


# -- a machine ---------------------------------------------------------------------------------------------------------


def test_a_machine_in_use_is_left_alone():
    step = next_step(an_observation(a_machine(), **MACHINE))

    assert isinstance(step, Wait)
    assert step.until == a_machine().launched_at + timedelta(hours=24) * 0.8


def test_a_node_that_does_not_look_as_it_should_is_fixed():
    node, joined = a_node(metadata_patch={"metadata": {}}), (a_condition("Registered"),)

    step = next_step(an_observation(a_machine(), **{**MACHINE, "node": node}, conditions=joined))
    assert step == PatchNode(node.node, {"metadata": {}})


def ends(**rest) -> TerminationReason:
    step = next_step(an_observation(a_machine(), **{**MACHINE, **rest}))
    assert isinstance(step, StartTermination), step
    return step.end


@pytest.mark.parametrize(
    ("why", "end"),
    [
        ({"deleting": True}, TerminationReason.DELETED),
        ({"spec": {"max_lifetime": "4m"}}, TerminationReason.EXPIRED),
        ({"spec": {"ttl": "4m"}}, TerminationReason.EXPIRED),
        ({"presence": GONE, "node": SILENT_NODE}, TerminationReason.LOST),
        ({"presence": listed(InstanceState.STOPPED), "node": SILENT_NODE, "claims": BAD_TWICE}, TerminationReason.LOST),
        ({"presence": listed(InstanceState.BROKEN), "node": SILENT_NODE, "claims": BAD_TWICE}, TerminationReason.LOST),
        ({"presence": listed(interrupted=True), "node": SILENT_NODE, "claims": BAD_TWICE}, TerminationReason.LOST),
        ({"presence": listed(hourly_microusd=600_000), "claims": DEAR_TWICE}, TerminationReason.PRICE_EXCEEDED),
        (
            {
                "presence": listed(hourly_microusd=410_000),
                "claims": DEAR_TWICE,
                "spec": {"max_hourly_price": "0.40"},
            },
            TerminationReason.PRICE_EXCEEDED,
        ),
        ({"node": a_node(ready=False, ready_since=ago(minutes=11))}, TerminationReason.NODE_LOST),
        (
            {
                "node": a_node(node=None),
                "conditions": (a_condition("Registered", "NodeGone", "False", ago(minutes=11)),),
            },
            TerminationReason.NODE_LOST,
        ),
        (
            {"node": a_node(idle=True), "status": {"ready_at": ago(hours=2), "idle_since": ago(minutes=31)}},
            TerminationReason.IDLE,
        ),
    ],
)
def test_a_machine_that_was_of_use_is_terminated_for_a_reason(why, end):
    assert ends(**why) == end


@pytest.mark.parametrize(
    ("why", "end"),
    [
        ({"presence": listed(InstanceState.STARTING)}, TerminationReason.NEVER_STARTED),
        ({"presence": listed()}, TerminationReason.NEVER_JOINED),
        (
            {"presence": listed(), "conditions": (a_condition("Registered", since=ago(minutes=11)),)},
            TerminationReason.NEVER_INITIALIZED,
        ),
        ({"presence": GONE}, TerminationReason.BROKEN),
        ({"presence": listed(InstanceState.BROKEN), "claims": BAD_TWICE}, TerminationReason.BROKEN),
        ({"presence": SILENT}, TerminationReason.NEVER_JOINED),
    ],
)
def test_a_machine_that_never_was_of_use_is_not_paid_for_longer(why, end):
    attempt = a_machine(launched_at=ago(minutes=26))
    step = next_step(an_observation(attempt, node=a_node(node=None, initialized=False), **why))

    assert isinstance(step, StartTermination)
    assert step.end == end


def test_progress_extends_a_start_and_no_further_than_twice_its_time():
    def given_up(launched: float, progress: float) -> bool:
        attempt = a_machine(launched_at=ago(minutes=launched), progress_at=ago(minutes=progress))
        return isinstance(
            next_step(an_observation(attempt, presence=listed(), node=a_node(node=None))), StartTermination
        )

    assert not given_up(launched=26, progress=10)
    assert given_up(launched=26, progress=26)
    assert not given_up(launched=49, progress=1)
    assert given_up(launched=50, progress=1)


@pytest.mark.parametrize(
    "evidence",
    [
        {"node": a_node(idle=None)},
        {"node": a_node(idle=True, protection=Protection("a pod asks", None))},
        {"node": a_node(idle=True), "spec": {"idle_timeout": "Never"}},
        {"node": a_node(idle=True, ready=False, ready_since=ago(minutes=1))},
    ],
    ids=["no evidence", "protected", "never", "node unreachable"],
)
def test_missing_evidence_counts_as_busy(evidence):
    status = {"ready_at": ago(hours=9), "idle_since": ago(hours=8)}

    assert not isinstance(
        next_step(an_observation(a_machine(), **{**MACHINE, "status": status, **evidence})), StartTermination
    )


@pytest.mark.parametrize("trouble", list(AccountProblem))
def test_a_provider_that_cannot_be_asked_ends_nothing(trouble):
    """Unknown is never absent."""
    step = next_step(an_observation(a_machine(), **{**MACHINE, "presence": Unknown(trouble, "why")}))

    assert isinstance(step, Wait)


def test_a_life_of_never_does_not_end():
    attempt = a_machine(launched_at=ago(days=900))

    assert isinstance(next_step(an_observation(attempt, **{**MACHINE, "spec": {"max_lifetime": "Never"}})), Wait)


# -- the way out -------------------------------------------------------------------------------------------------------


def leaving(reason: str = "Idle", **rest):
    conditions = (a_condition("Terminating", reason, since=ago(minutes=1)),)
    return next_step(an_observation(a_machine(), conditions=conditions, **{**MACHINE, **rest}))


def test_pods_leave_before_the_machine_does():
    node = a_node()
    busy = replace(node, registered=node.node, pods=(Pod(key=ObjectKey("default", "train"), node="train-1"),))
    step = leaving(node=busy)

    assert isinstance(step, DrainNode)
    assert [pod.key.name for pod in step.drain.evict] == ["train"]
    assert leaving() == Terminate(a_machine(), "i-1")


def test_the_end_is_asked_for_again_after_a_pause():
    assert isinstance(leaving(ask_again_at=NOW + timedelta(seconds=1), termination_requests=1), Wait)
    assert leaving(ask_again_at=NOW, termination_requests=1) == Terminate(a_machine(), "i-1")


def test_the_end_is_asked_for_also_where_lists_fail():
    assert leaving(presence=SILENT) == Terminate(a_machine(), "i-1")


OWNED = a_machine(offer=replace(OFFER, provider="webhook", instance_type="train-1", boot_mode="power"))
ASLEEP = NodeObservation(silent_since=ago(minutes=5))


@pytest.mark.parametrize(
    ("seen", "step"),
    [
        pytest.param({"presence": SILENT}, Wait, id="its status errs"),
        pytest.param({"presence": SILENT, "termination_requests": 2}, Wait, id="its status errs after an off call"),
        pytest.param({"presence": GONE}, Wait, id="its status says off, and its Node is Ready"),
        pytest.param({"presence": GONE, "never_listed": True}, Wait, id="the same, after a restart"),
        pytest.param({"presence": GONE, "since": ago(hours=3)}, Wait, id="the same, for hours"),
        pytest.param({"presence": GONE, "termination_accepted": True}, CloseAttempt, id="switched off, and off"),
        pytest.param({"presence": GONE, "node": ASLEEP}, CloseAttempt, id="off, and its Node agrees"),
        pytest.param({"presence": listed()}, Terminate, id="on"),
        pytest.param({"presence": listed(InstanceState.UNKNOWN)}, Terminate, id="no status endpoint"),
        pytest.param(
            {"presence": listed(InstanceState.UNKNOWN), "termination_requests": 1, "node": ASLEEP},
            CloseAttempt,
            id="no status endpoint, and its Node is silent",
        ),
    ],
)
def test_a_machine_you_own_is_not_switched_off_on_missing_data(seen, step):
    conditions = (a_condition("Terminating", "Deleted", since=seen.pop("since", ago(minutes=1))),)
    found = next_step(an_observation(OWNED, conditions=conditions, **{**MACHINE, **seen}))

    assert isinstance(found, step), found


@pytest.mark.parametrize(
    "trouble", [AccountProblem.ACCOUNT_CHANGED, AccountProblem.CREDENTIALS_MISSING, AccountProblem.NOT_ASKED_YET]
)
def test_nothing_is_ended_under_a_key_that_is_not_the_right_one(trouble):
    step = leaving(presence=Unknown(trouble, "why"))

    assert isinstance(step, Wait)
    assert step.reason == trouble.value


def test_gone_is_what_two_lists_a_lag_apart_do_not_show():
    assert isinstance(leaving(presence=Absent(2, LAG - timedelta(seconds=1)), termination_accepted=True), Wait)
    assert isinstance(leaving(presence=GONE, termination_accepted=True), CloseAttempt)


def test_the_node_goes_before_the_books_are_closed():
    node = a_node()

    fields = {"presence": GONE, "termination_accepted": True}
    assert leaving(**fields, node=a_node(leftover=node.node)) == RemoveNode(node.node)
    assert leaving(**fields, node=a_node(leftover=node.node, cleanup_patch={})) == PatchNode(node.node, {})


@pytest.mark.parametrize(
    ("reason", "spec", "outcome", "phase"),
    [
        ("Idle", {}, "Terminated", "Finished"),
        ("Expired", {}, "Terminated", "Finished"),
        ("NeverJoined", {}, "Failed", None),
        ("PriceExceeded", {}, "Failed", None),
        ("Lost", {}, "Lost", "Failed"),
        ("NodeLost", {}, "Lost", "Failed"),
        ("Lost", {"restart_policy": "OnLoss"}, "Lost", None),
    ],
)
def test_what_follows_a_machine_that_is_gone(reason, spec, outcome, phase):
    step = leaving(reason, presence=GONE, spec=spec, termination_accepted=True)

    assert isinstance(step, CloseAttempt)
    assert step.outcome == outcome
    assert (step.finished.phase if step.finished is not None else None) == phase


def test_a_deleted_request_is_let_go_when_nothing_of_it_is_left():
    assert next_step(an_observation(over(1, "Terminated"), deleting=True)) == RemoveFinalizer()
    assert isinstance(
        next_step(an_observation(over(1, "Terminated"), deleting=True, listed=(("vast", listed().instance),))), Wait
    )


def test_a_finished_request_stays_without_our_finalizer_and_for_as_long_as_it_is_kept():
    ended = (a_condition("Ended", "Idle", since=ago(hours=3)),)
    kept = {"conditions": ended, "purchase": ON_SALE, "status": {"phase": "Finished"}}

    assert next_step(an_observation(over(1, "Terminated"), **kept)) == RemoveFinalizer()
    free = {**kept, "finalizers": ()}
    assert next_step(an_observation(over(1, "Terminated"), **free, keep_finished=timedelta(hours=3))) == DeleteRequest()
    assert isinstance(next_step(an_observation(over(1, "Terminated"), **free, keep_finished=timedelta(hours=4))), Wait)
    assert isinstance(next_step(an_observation(over(1, "Terminated"), **free, keep_finished=None)), Wait)


@pytest.mark.parametrize("place", ["labels", "annotations"])
@pytest.mark.parametrize(
    "mark",
    [
        "argocd.argoproj.io/tracking-id",
        "argocd.argoproj.io/instance",
        "app.kubernetes.io/instance",  # by which Argo CD tracks before 3.0
        "kustomize.toolkit.fluxcd.io/name",
        "helm.toolkit.fluxcd.io/name",
        "configsync.gke.io/declared-version",
        "objectset.rio.cattle.io/id",
        "meta.helm.sh/release-name",
    ],
)
def test_a_finished_request_that_a_tool_keeps_there_is_not_discarded(mark, place):
    """The tool would write it again, and it would buy again."""
    ended = (a_condition("Ended", "Idle", since=ago(hours=3)),)
    free = {"conditions": ended, "status": {"phase": "Finished"}, "finalizers": ()}
    kept = an_observation(over(1, "Terminated"), **free, keep_finished=timedelta(0))
    marked = replace(kept, record=replace(kept.record, **{place: {**getattr(kept.record, place), mark: "x"}}))

    assert next_step(kept) == DeleteRequest()
    assert next_step(marked) == Wait("Idle", "as it was said")


# -- promises over everything ------------------------------------------------------------------------------------------

PRESENCES = st.sampled_from(
    [listed(), NOT_SHOWN, GONE, NEVER_MADE, SILENT, Unknown(AccountProblem.ACCOUNT_CHANGED, "x")]
)
ATTEMPTS = st.sampled_from([an_attempt(), a_machine(), over(), over(1, "Terminated"), over(1, "Lost")])


@given(
    attempt=ATTEMPTS,
    presence=PRESENCES,
    deleting=st.booleans(),
    may_order=st.booleans(),
    been=st.tuples(st.booleans(), st.booleans()),
)
def test_a_purchase_follows_only_from_nothing_and_a_release_only_from_nothing_left(
    attempt, presence, deleting, may_order, been
):
    """Whatever else is true: with an attempt that may have a machine nothing is reserved, and nothing is let go."""
    ending, ready = been
    observation = an_observation(
        attempt,
        presence=presence if attempt.ended_at is None else None,
        conditions=(ENDING,) if ending else (),
        status={"ready_at": ago(minutes=3)} if ready else {},
        deleting=deleting,
        may_order=may_order,
        purchase=ON_SALE,
        node=a_node(),
    )
    step = next_step(observation)

    if attempt.ended_at is None:
        assert not isinstance(step, Reserve | RemoveFinalizer | Complete | DeleteRequest)
    if isinstance(step, Launch):
        assert may_order
        assert attempt.outcome is None
        assert not deleting
    if isinstance(step, CloseAttempt):
        assert presence.shown(LAG)
    assert observation.record.uid_text == UID


# -- what must not follow ----------------------------------------------------------------------------------------------


def test_a_price_above_the_reserved_one_does_not_overdraw_the_class():
    within, limit = listed(hourly_microusd=410_000), {"node_class": a_class("0.45")}
    beside = usage_of([Reservation("another", 100_000)])

    assert isinstance(next_step(an_observation(a_machine(), **{**MACHINE, "presence": within})), Wait)
    assert isinstance(next_step(an_observation(a_machine(), **{**MACHINE, "presence": within}, **limit)), Wait)
    end = ends(presence=within, claims=DEAR_TWICE, held=beside, **limit)
    assert end == TerminationReason.PRICE_EXCEEDED


@pytest.mark.parametrize(("above", "ended"), [(38, False), (PRICE_ROUNDING, False), (PRICE_ROUNDING + 1, True)])
@pytest.mark.parametrize("told_at_launch", [True, False])
def test_no_machine_is_terminated_because_a_provider_rounds_elsewhere(above, ended, told_at_launch):
    """It is paid for as soon as it runs, and the next one would be billed alike."""
    billed = 400_000 + above
    machine = replace(a_machine(), hourly_price=usd(billed)) if told_at_launch else a_machine()
    seen = {**MACHINE, "presence": listed(hourly_microusd=billed), "claims": DEAR_TWICE}
    asked = next_step(an_observation(machine, **seen, spec={"max_hourly_price": "0.40"}))
    limited = next_step(an_observation(machine, **seen, node_class=a_class("0.40")))

    assert isinstance(asked, StartTermination) is ended
    assert isinstance(limited, StartTermination) is (ended and told_at_launch)  # a limit counts what is recorded


def test_a_generous_owner_does_not_pay_another_machines_price():
    another = listed(hourly_microusd=900_000)

    assert (
        ends(presence=another, claims=DEAR_TWICE, spec={"max_hourly_price": "5.00"}) == TerminationReason.PRICE_EXCEEDED
    )


def test_many_silent_nodes_at_once_end_nothing():
    silent = a_node(ready=False, ready_since=ago(hours=1))

    step = next_step(an_observation(a_machine(), **{**MACHINE, "node": silent, "in_use": AN_OUTAGE}))

    assert isinstance(step, Wait)


def test_that_a_node_joined_is_recorded_before_it_is_dressed():
    """An admission webhook that refuses the metadata must not stop the deadlines."""
    node = a_node(metadata_patch={"metadata": {}}, initialized=False)

    assert isinstance(next_step(an_observation(a_machine(), presence=listed(), node=node)), Wait)
