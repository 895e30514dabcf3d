"""What is done next about machines that may be disrupted: step by step, within budgets, and back."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.disruption.machines import a_machine, moving
from tests.core.pools.builders import NOW, a_condition, a_pod, a_pool, ago, an_attempt, an_order, on_node, written
from tgp.api.nodepool import DisruptionRule
from tgp.core.disruption.budgets import nodes_of
from tgp.core.disruption.causes import FoundExchange, Machine
from tgp.core.disruption.health import MISSING_SINCE
from tgp.core.disruption.machine_state import disrupted, read_retry, spares
from tgp.core.disruption.move_steps import (
    Delete,
    DisruptionObservation,
    EvictFirst,
    NoteDrain,
    NoteMissing,
    NoteReplacements,
    OrderReplacements,
    PoolMachines,
    Refit,
    Say,
    SetTaint,
    TakeBack,
    Unsay,
    WriteDown,
    WriteStamp,
)
from tgp.core.disruption.moves import (
    BLOCKED_FOR,
    EVICTED_FIRST_FOR,
    HARD,
    LOOK_AGAIN,
    MOVE_AT_MOST,
    RETRIES,
    look_again_at,
    next_moves,
    to_plan,
)
from tgp.core.model.labels import selector
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.pod import OwnerRef
from tgp.core.model.taints import Taint
from tgp.core.model.workload import PodDisruptionBudget

HELD = {"tgp.io/do-not-disrupt": "true"}


def seen(*machines, **rest):
    spec = {key: rest.pop(key) for key in ("disruption", "replicas", "template") if key in rest}
    return DisruptionObservation((PoolMachines(a_pool(**spec), machines),), NOW, **rest)


def a_budget(allowed=0, **rest):
    return PodDisruptionBudget(
        key=ObjectKey("default", "guard"),
        disruptions_allowed=allowed,
        selector=selector({"app": "x"}),
        **rest,
    )


def guarding(name, allowed=1, **rest):
    key = ObjectKey("default", name)
    return PodDisruptionBudget(key=key, disruptions_allowed=allowed, selector=selector({"app": "x"}), **rest)


def only(observation):
    (step,) = next_moves(observation)
    return step


def test_a_pool_whose_machines_work_has_no_moves():
    used = [a_machine(f"r{number}", pods=(on_node(node=f"node-r{number}"),)) for number in range(5)]

    assert next_moves(seen(*used)) == ()
    assert look_again_at(seen(*used)) is None


def test_an_empty_machine_goes_step_by_step():
    """Written down, said, kept free of pods, deleted: each in a look of its own."""
    assert isinstance(only(seen(a_machine())), WriteDown)
    marked = only(seen(moving(marked=False)))
    assert isinstance(marked, Say)
    assert (marked.update.status, marked.update.reason) == (True, "Empty")
    assert marked.update.message.endswith(". Move m1 is under way.")
    hard = only(seen(moving()))
    assert isinstance(hard, SetTaint)
    assert hard.effect == "NoSchedule"
    assert isinstance(only(seen(moving(taint="NoSchedule"))), Delete)
    assert next_moves(seen(moving(taint="NoSchedule", deleting=True))) == ()


def test_pods_without_gpus_leave_an_empty_machine_before_its_request_is_deleted():
    guest = on_node(node="node-r1", gpus=0)
    assert isinstance(only(seen(moving(taint="NoSchedule", pods=(guest,)))), NoteDrain)
    asked = only(seen(drained(pods=(guest,))))
    assert isinstance(asked, EvictFirst)
    assert asked.pods == (guest,)
    going = msgspec.structs.replace(guest, deletion_requested_at=NOW + timedelta(minutes=1))
    waits = seen(drained(pods=(going,)))
    assert isinstance(only(waits), Say)
    assert look_again_at(waits) == NOW + LOOK_AGAIN
    late = drained(EVICTED_FIRST_FOR, pods=(going,))
    assert isinstance(only(seen(late)), Delete)


def test_pods_are_evicted_first_for_no_longer_than_leaves_time_for_the_rest_of_the_drain():
    """Pods of DaemonSets and critical ones are asked to leave only then."""
    going = msgspec.structs.replace(on_node(node="node-r1", gpus=0), deletion_requested_at=NOW + timedelta(minutes=1))

    assert isinstance(only(seen(with_grace(drained(timedelta(minutes=1), pods=(going,)), "4m"))), Say)
    assert isinstance(only(seen(with_grace(drained(timedelta(minutes=2), pods=(going,)), "4m"))), Delete)


def test_a_drain_that_begins_in_the_future_is_noted_again():
    """The annotation is on an object that users write."""
    guest = on_node(node="node-r1", gpus=0)

    assert isinstance(only(seen(drained(-timedelta(days=9), pods=(guest,)))), NoteDrain)


@pytest.mark.parametrize(
    ("grace", "stays", "goes"),
    [
        ("1h", timedelta(minutes=54), timedelta(minutes=55)),
        ("4m", timedelta(minutes=1), timedelta(minutes=2)),
        ("Never", timedelta(days=9), None),
    ],
)
def test_a_machine_you_own_can_stay_until_the_last_evictions_of_its_drain(grace, stays, goes):
    """Until then it is given back to a pod that waits; then its pods stop cleanly rather than by loss of power."""
    guest = on_node(node="node-r1", gpus=0)
    going = msgspec.structs.replace(guest, deletion_requested_at=NOW + timedelta(minutes=1))

    assert isinstance(only(seen(owned(drained(stays, pods=(going,)), grace))), Say)
    assert isinstance(only(seen(owned(drained(stays, pods=(going,), awaited=True), grace))), TakeBack)
    if goes is not None:
        assert isinstance(only(seen(owned(drained(goes, pods=(going,)), grace))), Delete)


def drained(for_: timedelta = timedelta(0), **rest: Any) -> Machine:
    """Its pods are evicted since then."""
    return moving(taint="NoSchedule", annotations={"tgp.io/drain-began": written(NOW - for_)}, **rest)


def owned(machine: Machine, grace: str) -> Machine:
    record = machine.record
    attempts = tuple(
        msgspec.structs.replace(each, offer=msgspec.structs.replace(each.offer, boot_mode="power"))
        for each in record.value.status.attempts
    )
    status = msgspec.structs.replace(record.value.status, attempts=attempts)
    value = msgspec.structs.replace(record.value, status=status)
    return with_grace(replace(machine, record=msgspec.structs.replace(record, value=value)), grace)


def with_grace(machine: Machine, grace: str) -> Machine:
    value = machine.record.value
    spec = msgspec.structs.replace(value.spec, termination_grace_period=grace)
    value = msgspec.structs.replace(value, spec=spec)
    return replace(machine, record=msgspec.structs.replace(machine.record, value=value))


def test_a_budget_of_pods_keeps_a_pod_on_an_empty_machine_until_it_allows_the_eviction():
    guest = on_node(node="node-r1", gpus=0, labels={"app": "x"})
    machine = drained(pods=(guest,))

    assert isinstance(only(seen(machine, budgets=(a_budget(),))), Say)
    assert isinstance(only(seen(machine, budgets=(a_budget(1),))), EvictFirst)


def test_a_machine_that_is_emptied_stays_for_a_pod_that_is_planned_there():
    guest = on_node(node="node-r1", gpus=0)

    assert isinstance(only(seen(moving(taint="NoSchedule", pods=(guest,), awaited=True))), TakeBack)


def test_equal_pools_have_equal_moves():
    machines = [a_machine(f"r{number}") for number in range(8)]

    assert next_moves(seen(*machines)) == next_moves(seen(*machines))
    began = {step.machine.record.key for step in next_moves(seen(*machines)) if isinstance(step, WriteDown)}
    backwards = {step.machine.record.key for step in next_moves(seen(*machines[::-1])) if isinstance(step, WriteDown)}
    assert began == backwards


@pytest.mark.parametrize(("nodes", "begun"), [("10%", 1), (3, 3), ("50%", 4), (0, 0)])
def test_no_more_begin_than_the_budget_allows(nodes, begun):
    machines = [a_machine(f"r{number}") for number in range(8)]
    steps = next_moves(seen(*machines, disruption={"budgets": [{"nodes": nodes}]}))

    assert sum(isinstance(step, WriteDown) for step in steps) == begun
    said = [step.update for step in steps if isinstance(step, Say)]
    assert len(said) == 8 - begun
    assert all((each.status, each.reason) == (False, "BudgetExhausted") for each in said)
    assert all(f"spec.disruption.budgets[0] (nodes: {nodes})" in each.message for each in said)


def test_the_dearest_idle_machine_goes_first():
    """Machines you own without a price cost by their size: the largest goes first."""

    def priced(name, price):
        attempt = an_attempt(outcome="Launched", launchedAt=written(ago(hours=2)))
        return a_machine(name, attempts=[{**attempt, "offer": {**attempt["offer"], "hourlyPrice": price}}])

    machines = priced("r1", "0.000002"), priced("r2", "0.000004"), priced("r3", "0.000001")
    begun = [step.machine.record.key.name for step in next_moves(seen(*machines)) if isinstance(step, WriteDown)]

    assert begun == ["r2"]


def test_moves_under_way_nodes_that_leave_and_nodes_that_are_not_ready_count():
    others = (
        moving("r2", taint="NoSchedule"),
        a_machine("r3", deleting=True),
        a_machine("r4", node={"ready": False}),
        moving("r5"),
    )
    for other in others:
        budget = {"budgets": [{"nodes": 1}]}
        steps = next_moves(seen(a_machine("r1"), other, disruption=budget))
        assert not any(isinstance(step, WriteDown) for step in steps)
    booting = a_machine("r6", readyAt=None, node={"ready": False})
    assert any(isinstance(step, WriteDown) for step in next_moves(seen(a_machine("r1"), booting)))


def test_the_budget_is_counted_once_more_before_pods_are_kept_off():
    """Between the beginning and the taint another node may have been lost."""
    lost = a_machine("r2", node={"ready": None})
    step = only(seen(moving("r1"), lost, disruption={"budgets": [{"nodes": 1}]}))

    assert isinstance(step, Say)
    assert "waiting for spec.disruption.budgets[0] (nodes: 1)" in step.update.message


def test_two_moves_do_not_take_the_last_place_of_a_budget_together():
    steps = next_moves(
        seen(moving("r1"), moving("r2", annotations={"tgp.io/move": "m2"}), disruption={"budgets": [{"nodes": 1}]})
    )

    assert [type(step) for step in steps] == [SetTaint, Say]


def test_a_budget_that_closes_ends_the_move():
    step = only(seen(moving(taint="NoSchedule"), disruption={"budgets": [{"nodes": 0}]}))

    assert isinstance(step, TakeBack)
    assert step.update is not None
    assert step.update.reason == "BudgetExhausted"


def test_a_closed_window_tells_when_it_opens_and_is_looked_at_then():
    office = {"nodes": 0, "schedule": "0 9 * * *", "duration": "8h"}  # NOW is 12:00
    world = seen(a_machine(), disruption={"budgets": [office]})
    step = only(world)

    assert isinstance(step, Say)
    assert "until 2026-11-17 17:00:00Z" in step.update.message
    assert look_again_at(world) <= NOW + timedelta(minutes=1)


def test_surplus_machines_wait_for_no_budget():
    pool = {"replicas": 0, "disruption": {"budgets": [{"nodes": 0}]}}
    machine = a_machine(anchor="slot-3.uid", pods=(on_node(annotations=HELD),))

    assert isinstance(only(seen(machine, **pool)), WriteDown)


def test_what_is_protected_does_not_begin_and_says_by_what():
    step = only(seen(a_machine(node={"annotations": HELD})))

    assert isinstance(step, Say)
    assert (step.update.status, step.update.reason) == (False, "Protected")
    assert "Node node-r1 is annotated tgp.io/do-not-disrupt" in step.update.message


def test_what_is_protected_midway_is_taken_back():
    machine = moving(taint="NoSchedule")
    protected = replace(machine, pods=(on_node(gpus=0, annotations=HELD),))

    assert isinstance(only(seen(protected)), TakeBack)


def test_a_budget_of_pods_that_allows_nothing_keeps_a_move_from_beginning():
    pods = (on_node(gpus=0, labels={"app": "x"}),)
    step = only(seen(a_machine(pods=pods), budgets=(a_budget(),)))

    assert isinstance(step, Say)
    assert step.update.reason == "PodDisruptionBudget"
    assert "default/guard" in step.update.message
    assert isinstance(only(seen(a_machine(pods=pods), budgets=(a_budget(1),))), WriteDown)


def test_a_machine_that_is_used_again_is_taken_back_and_may_go_at_once_next_time():
    used = replace(moving(taint="NoSchedule"), pods=(on_node(),))
    step = only(seen(used))

    assert isinstance(step, TakeBack)
    assert (step.update, step.retry) == (None, "")


def test_a_taint_without_a_move_is_removed():
    step = only(seen(a_machine(node={"taints": (HARD,)})))

    assert isinstance(step, SetTaint)
    assert step.effect == ""


def test_what_was_said_is_unsaid_when_its_cause_is_gone():
    said = [a_condition("Disrupted", "False", "BudgetExhausted")]

    assert isinstance(only(seen(a_machine(pods=(on_node(),), conditions=said))), Unsay)


def test_what_is_said_already_is_no_step():
    step = only(seen(a_machine(node={"annotations": HELD})))
    assert isinstance(step, Say)
    update = step.update
    written = {"type": update.type, "status": "False", "reason": update.reason, "message": update.message}
    machine = a_machine(node={"annotations": HELD}, conditions=[written])

    assert next_moves(seen(machine)) == ()


def test_a_move_that_was_given_up_is_tried_again_after_longer_and_longer():
    count, pauses, now = 0, [], NOW
    for _ in range(6):
        retry = {"tgp.io/move-retry": f"2020-01-01T00:00:00Z {count}"} if count else {}
        step = only(seen(moving(annotations=retry), disruption={"budgets": [{"nodes": 0}]}))
        assert isinstance(step, TakeBack)
        until, count = read_retry(a_machine(annotations={"tgp.io/move-retry": step.retry}).record)
        pauses.append(until - now)
    assert pauses == [*RETRIES, RETRIES[-1], RETRIES[-1]]
    assert pauses[0] == timedelta(minutes=10)


def test_a_retry_is_read_in_any_spelling_that_the_api_server_takes():
    until, count = read_retry(a_machine(annotations={"tgp.io/move-retry": "2026-11-17t12:05:00z 2"}).record)

    assert (until, count) == (NOW + timedelta(minutes=5), 2)


def test_nothing_begins_before_its_retry():
    waits = a_machine(annotations={"tgp.io/move-retry": "2026-11-17T12:05:00Z 1"})
    late = a_machine(annotations={"tgp.io/move-retry": "2026-11-17T11:55:00Z 1"})

    assert not any(isinstance(step, WriteDown) for step in next_moves(seen(waits)))
    assert isinstance(only(seen(late)), WriteDown)


@pytest.mark.parametrize("text", ["", "soon", "2026-11-17T12:05:00Z", "2026-11-17T12:05:00Z x", "2026-11-17 1", " 3"])
def test_a_retry_that_cannot_be_read_is_no_hindrance(text):
    machine = a_machine(annotations={"tgp.io/move-retry": text})

    assert isinstance(only(seen(machine)), WriteDown)


def test_empty_machines_need_no_plan():
    assert to_plan(seen(a_machine(), moving("r2"))) == ()


def test_a_machine_that_never_was_ready_disturbs_nothing():
    assert not disrupted(a_machine(readyAt=None))


# -- replaced first ----------------------------------------------------------------------------------------------------

AN_ORDER = an_order()
STAMPED = {"tgp.io/drift-hash": "1-old"}


def a_drifted(name="r1", *, pods=None, **rest):
    machine = a_machine(name, pods=(on_node(node=f"node-{name}"),) if pods is None else pods, idle=None, **rest)
    return drifted(machine)


def drifted(machine):
    record = msgspec.structs.replace(machine.record, annotations={**machine.record.annotations, **STAMPED})
    return replace(machine, record=record, stamp="1-new")


def drifting(name="r1", **rest):
    """A drifted machine in a move."""
    pods = rest.pop("pods", (on_node(node=f"node-{name}"),))
    return drifted(moving(name, "Drifted", pods=pods, idle=None, **rest))


def a_replacement(name="new", *, move="m1", **rest):
    usual = {"conditions": [a_condition("Initialized")], **rest}
    return a_machine(name, annotations={"tgp.io/move": move, "tgp.io/replaces": "r1"}, keeps_place=True, **usual)


ROOM = Refit()


def refitted(machine, refit=ROOM, **rest):
    return seen(machine, refits={machine.record.key: refit}, **rest)


ORDERED = {"tgp.io/replaced-by": "new"}
COMING = {"conditions": [], "readyAt": None, "node": {"ready": False}, "phase": "Provisioning"}


def test_a_drifted_machine_is_planned_for_and_begins_when_its_pods_have_a_place():
    machine = a_drifted()

    assert to_plan(seen(machine)) == (machine.record.key,)
    assert next_moves(seen(machine)) == (), "without a plan nothing begins"
    assert isinstance(only(refitted(machine)), WriteDown)
    assert isinstance(only(refitted(machine, Refit(orders=(AN_ORDER,)))), WriteDown)


def test_a_move_goes_step_by_step_and_pods_stay_until_the_replacement_is_ready():
    order = Refit(orders=(AN_ORDER,))
    soft = only(refitted(drifting(), order))
    assert isinstance(soft, SetTaint)
    assert soft.effect == "PreferNoSchedule"
    tainted = drifting(taint="PreferNoSchedule")
    ordered = only(refitted(tainted, order))
    assert isinstance(ordered, OrderReplacements)
    assert (ordered.move, ordered.orders) == ("m1", (AN_ORDER,))
    coming = {"m1": (a_replacement(**COMING),)}
    noted = only(refitted(tainted, Refit(coming=("default/new",)), replacements=coming))
    assert isinstance(noted, NoteReplacements)
    assert noted.names == ("new",)
    known = drifting(taint="PreferNoSchedule", annotations=ORDERED)
    waits = only(refitted(known, Refit(coming=("default/new",)), replacements=coming))
    assert isinstance(waits, Say)
    assert "waiting for" in waits.update.message
    ready = {"m1": (a_replacement(),)}
    hard = only(refitted(known, Refit(), replacements=ready))
    assert isinstance(hard, SetTaint)
    assert hard.effect == "NoSchedule"
    last = drifting(taint="NoSchedule", annotations=ORDERED)
    assert isinstance(only(refitted(last, Refit(), replacements=ready)), Delete)


def test_a_move_that_waits_for_machines_on_their_way_is_looked_at_when_they_tell_or_a_minute_later():
    known = drifting(taint="PreferNoSchedule", annotations=ORDERED)
    waits = refitted(known, Refit(coming=("default/new",)), replacements={"m1": (a_replacement(**COMING),)})
    assert look_again_at(waits) == NOW + BLOCKED_FOR

    begins = drifting("r2", marked=False)
    both = replace(waits, pools=(replace(waits.pools[0], machines=(*waits.machines, begins)),))
    assert look_again_at(both) == NOW + LOOK_AGAIN


@pytest.mark.parametrize("state", [COMING, {"node": {"ready": None}}, {"node": {"ready": False}}])
def test_no_pod_is_asked_to_leave_before_the_replacement_is_ready(state):
    """Also if the plan of this look finds room for them."""
    for taint in ("PreferNoSchedule", "NoSchedule"):
        machine = drifting(taint=taint, annotations=ORDERED)
        steps = next_moves(refitted(machine, Refit(), replacements={"m1": (a_replacement(**state),)}))
        assert all(isinstance(step, Say) for step in steps)


def test_pods_that_have_room_elsewhere_need_no_replacement():
    hard = only(refitted(drifting(taint="PreferNoSchedule"), Refit()))

    assert isinstance(hard, SetTaint)
    assert hard.effect == "NoSchedule"


def test_a_drifted_machine_without_pods_needs_no_replacement():
    assert isinstance(only(seen(a_drifted(pods=()))), WriteDown)
    assert isinstance(only(seen(drifting(pods=(), taint="NoSchedule"))), Delete)


@pytest.mark.parametrize(
    ("machine", "refit", "rest", "reason"),
    [
        (drifting(annotations=ORDERED), Refit(), {}, "ReplacementFailed"),
        (drifting(annotations=ORDERED), Refit(), {"m1": (a_replacement(phase="Failed"),)}, "ReplacementFailed"),
        (drifting(annotations=ORDERED), Refit(), {"m1": (a_replacement(deleting=True),)}, "ReplacementFailed"),
        (drifting(annotations=ORDERED), Refit(orders=(AN_ORDER,)), {"m1": (a_replacement(),)}, "NoLongerFits"),
        (drifting(), Refit(unserved="sold out"), {}, "NoReplacement"),
        (drifting(), Refit(unserved="maxNodes is 1", limited=True), {}, "LimitReached"),
    ],
    ids=["gone", "failed", "deleted", "pods changed", "sold out", "limit"],
)
def test_a_move_that_cannot_go_on_is_taken_back(machine, refit, rest, reason):
    for taint in ("PreferNoSchedule", "NoSchedule"):
        node = msgspec.structs.replace(machine.node, taints=(Taint("tgp.io/disrupted", taint),))
        step = only(refitted(replace(machine, node=node), refit, replacements=rest))
        assert isinstance(step, TakeBack)
        assert step.update is not None
        assert (step.update.status, step.update.reason) == (False, reason)
        assert step.retry


def test_a_replacement_that_could_not_be_bought_is_named_with_the_cause():
    why = "ImageRefused: Image factory has no Talos v1.13.1."
    (name,) = ORDERED["tgp.io/replaced-by"].split(",")
    replanned = {ObjectKey("default", name): why}
    step = only(refitted(drifting(annotations=ORDERED), Refit(), replanned=replanned))

    assert isinstance(step, TakeBack)
    assert f"Replacement {name} could not be bought: {why}" in step.why
    assert ".." not in step.update.message


@pytest.mark.parametrize(
    ("pods", "says"),
    [
        ((a_pod("one"),), "Pod default/one has no room on r2 or on any other machine."),
        (
            (a_pod("one"), a_pod("two")),
            "Pod default/one and 1 more have no room on r2 or on any other machine.",
        ),
    ],
)
def test_a_move_whose_replacement_has_no_room_for_all_pods_names_those_that_have_none(pods, says):
    refit, there = Refit(orders=(an_order(*pods),)), {"m1": (a_replacement("r2"),)}
    step = only(refitted(drifting(annotations={**ORDERED, "tgp.io/replaced-by": "r2"}), refit, replacements=there))

    assert isinstance(step, TakeBack)
    assert step.update is not None
    assert says in step.update.message


def test_what_is_taken_back_deletes_replacements_that_no_pod_uses_and_no_failed_ones():
    """A failed request is the memory of what did not work; one that pods use is a machine like any other."""
    there = (a_replacement("new"), a_replacement("used", pods=(on_node(),)), a_replacement("failed", phase="Failed"))
    step = only(refitted(drifting(annotations=ORDERED), Refit(), replacements={"m1": there}))

    assert isinstance(step, TakeBack)
    assert [each.record.key.name for each in step.unused] == ["new"]


def test_a_move_is_given_up_when_the_pool_that_buys_its_replacement_may_not_any_more():
    waits = drifting(annotations=ORDERED, taint="PreferNoSchedule")
    coming = {"m1": (a_replacement(**COMING),)}
    stopped = {ObjectKey("default", "train"): "NodeClassSuspended: GPUNodeClass rented is suspended"}
    back = only(refitted(waits, Refit(), replacements=coming, stopped=stopped))
    assert isinstance(back, TakeBack)
    assert "GPUNodePool default/train buys nothing now: NodeClassSuspended" in back.why
    another = {ObjectKey("default", "other"): "NodeClassSuspended"}
    assert isinstance(only(refitted(waits, Refit(), replacements=coming, stopped=another)), Say), "it buys nothing here"


def test_a_drifted_machine_gets_a_stamp_of_another_version_first():
    machine = replace(a_machine(annotations={"tgp.io/drift-hash": "0-old"}), stamp="1-new")

    assert isinstance(only(seen(machine)), WriteStamp)


def without_end(machine):
    """Its drain waits for ever."""
    spec = msgspec.structs.replace(machine.record.value.spec, termination_grace_period="Never")
    value = msgspec.structs.replace(machine.record.value, spec=spec)
    return replace(machine, record=msgspec.structs.replace(machine.record, value=value))


def test_an_expired_machine_is_protected_only_without_an_end_of_its_drain():
    held = (on_node(node="node-r1", annotations=HELD),)
    pool = {"disruption": {"expireAfter": "1h"}}
    machine = a_machine(pods=held, idle=None)

    assert isinstance(only(refitted(machine, **pool)), WriteDown)
    step = only(refitted(without_end(machine), **pool))
    assert isinstance(step, Say)
    assert step.update.reason == "Protected"


def test_a_budget_of_pods_keeps_an_expired_machine_only_without_an_end_of_its_drain():
    """Its own drain waits for that budget, until the grace period ends."""
    held = (on_node(node="node-r1", labels={"app": "x"}),)
    pool = {"disruption": {"expireAfter": "1h"}}
    machine = a_machine(pods=held, idle=None)

    assert isinstance(only(refitted(machine, budgets=(a_budget(),), **pool)), WriteDown)
    step = only(refitted(without_end(machine), budgets=(a_budget(),), **pool))
    assert isinstance(step, Say)
    assert step.update.reason == "PodDisruptionBudget"


def test_what_protects_a_node_keeps_an_expired_machine_until_its_grace_period_ends():
    """Its drain looks at pods only: what is said of the Node or the request is waited for before."""
    expired = {"disruption": {"expireAfter": "90m"}}  # launched two hours ago: 30 minutes, of a grace period of 1h
    long_expired = {"disruption": {"expireAfter": "45m"}}
    machine = a_machine(pods=(on_node(node="node-r1"),), idle=None, node={"annotations": HELD})

    step = only(refitted(machine, **expired))
    assert isinstance(step, Say)
    assert step.update.reason == "Protected"
    assert look_again_at(refitted(machine, **expired)) <= NOW + timedelta(minutes=30)
    assert isinstance(only(refitted(machine, **long_expired)), WriteDown)


def test_the_replacement_is_ordered_a_boot_time_before_the_end():
    machine = replace(a_machine(pods=(on_node(node="node-r1"),), idle=None), boot=timedelta(minutes=10))
    early, late = ({"disruption": {"expireAfter": length}} for length in ("131m", "129m"))  # launched two hours ago

    assert next_moves(refitted(machine, **early)) == ()
    assert isinstance(only(refitted(machine, **late)), WriteDown)


def test_a_move_that_takes_too_long_is_given_up():
    old = [a_condition("Disrupted", "True", "Drifted", NOW - MOVE_AT_MOST)]
    machine = drifted(
        a_machine(pods=(on_node(node="node-r1"),), idle=None, annotations={"tgp.io/move": "m1"}, conditions=old)
    )

    assert isinstance(only(refitted(machine)), TakeBack)


@given(
    kinds=st.lists(st.sampled_from(["empty", "drifted", "used", "lost", "moving", "tainted", "gone"]), max_size=12),
    nodes=st.one_of(st.integers(0, 5), st.sampled_from(["0%", "10%", "50%", "100%"])),
)
def test_no_look_disturbs_more_nodes_than_the_budget_allows(kinds, nodes):
    make = {
        "empty": a_machine,
        "drifted": a_drifted,
        "used": lambda name: a_machine(name, pods=(on_node(),), idle=None),
        "lost": lambda name: a_machine(name, node={"ready": None}),
        "moving": lambda name: drifting(name, taint="PreferNoSchedule"),
        "tainted": lambda name: drifting(name, taint="NoSchedule"),
        "gone": lambda name: a_machine(name, deleting=True),
    }
    machines = [make[kind](f"r{number}") for number, kind in enumerate(kinds)]
    refits = {each.record.key: Refit() for each in machines}
    steps = next_moves(seen(*machines, refits=refits, disruption={"budgets": [{"nodes": nodes}]}))
    more = sum(isinstance(step, SetTaint) and step.effect == "NoSchedule" for step in steps)

    most = nodes_of(DisruptionRule(nodes=nodes), len(machines))
    assert more == 0 or sum(disrupted(each) for each in machines) + more <= most
    keys = [step.machine.record.key for step in steps]
    assert len(set(keys)) == len(keys), "one step for a machine"


def test_of_machines_of_one_replica_those_that_nothing_needs_are_spare():
    old, new, used = (a_machine(name, anchor="slot-0.u") for name in ("old", "new", "used"))
    old = replace(old, record=msgspec.structs.replace(old.record, created_at=ago(hours=9)))
    used = replace(used, pods=(on_node(node="node-used"),))
    held = a_machine("held", anchor="slot-0.u", node={"annotations": HELD})
    other = a_machine("other", anchor="slot-1.u")
    coming = replace(new, keeps_place=True)

    assert spares((old, new, other), NOW) == {old.record.key}
    assert spares((old, coming), NOW) == frozenset(), "a replacement takes its place when it is its turn"
    assert spares((old, new, used), NOW) == {old.record.key, new.record.key}
    assert spares((used, held), NOW) == frozenset()
    (step,) = next_moves(seen(replace(old, spare=True), replicas=1))
    assert isinstance(step, WriteDown)


# -- what forbids a move -----------------------------------------------------------------------------------------------

OBSTACLES = ("none", "node", "request", "pod", "pdb", "limit")
SERVICE = (OwnerRef("ReplicaSet", "serve", "uid-serve", "apps/v1", controller=True),)


def held_back(name, kind, obstacle):
    """A machine that would go, but for the obstacle; and what a plan says of its pods."""
    protected = {"annotations": HELD}
    pod = on_node(
        f"pod-{name}",
        node=f"node-{name}",
        gpus=0 if kind == "empty" else 1,
        owners=SERVICE,
        labels={"app": "x" if obstacle == "pdb" else "y"},
        annotations=HELD if obstacle == "pod" else {},
    )
    said = {
        "pods": (pod,),
        "idle": 20.0 if kind == "empty" else None,
        "node": protected if obstacle == "node" else {},
        "annotations": HELD if obstacle == "request" else {},
    }
    machine = a_machine(name, **said)
    if kind == "drifted":
        machine = drifted(machine)
    if kind == "exchanged":
        machine = replace(machine, exchange=FoundExchange("for less", (machine.record.key,)))
    refit = Refit(unserved="limits.resources[nodes] is 4", limited=True) if obstacle == "limit" else Refit()
    return machine, refit


@given(
    drawn=st.lists(
        st.tuples(st.sampled_from(["empty", "drifted", "exchanged"]), st.sampled_from(OBSTACLES)), max_size=10
    ),
    allowed=st.sampled_from([0, 1]),
    closed=st.booleans(),
)
def test_a_move_begins_if_and_only_if_no_budget_limit_protection_or_pod_disruption_budget_forbids_it(
    drawn, allowed, closed
):
    built = [(*held_back(f"r{number}", *each), *each) for number, each in enumerate(drawn)]
    policy = {
        "consolidationPolicy": "WhenEmptyOrUnderutilized",
        "budgets": [{"nodes": 0 if closed else "100%"}],
    }
    observation = seen(
        *(machine for machine, *_ in built),
        refits={machine.record.key: refit for machine, refit, *_ in built},
        budgets=(a_budget(allowed),),
        disruption=policy,
    )
    begun = {step.machine.record.key for step in next_moves(observation) if isinstance(step, WriteDown)}

    free = set()
    for machine, _, kind, obstacle in built:
        forbidden = obstacle in {"node", "request", "pod"} or (obstacle == "pdb" and not allowed)
        forbidden = forbidden or (obstacle == "limit" and kind != "empty")  # an empty machine needs no other
        if not forbidden and not closed:
            free.add(machine.record.key)
    assert begun == free


@given(
    obstacles=st.lists(st.sampled_from(OBSTACLES), min_size=1, max_size=8),
    allowed=st.sampled_from([0, 1]),
)
def test_no_node_is_kept_free_and_no_machine_leaves_where_a_move_may_not_go_on(obstacles, allowed):
    """The obstacle came after the move had begun."""
    machines, refits = [], {}
    for number, obstacle in enumerate(obstacles):
        machine, refit = held_back(f"r{number}", "drifted", obstacle)
        condition = [a_condition("Disrupted", "True", "Drifted", ago(minutes=1))]
        soft = msgspec.structs.replace(machine.node, taints=(Taint("tgp.io/disrupted", "PreferNoSchedule"),))
        begun = a_machine(f"r{number}", idle=None, conditions=condition).record
        annotations = {**machine.record.annotations, "tgp.io/move": f"m{number}"}
        record = msgspec.structs.replace(begun, annotations=annotations)
        machines.append(replace(machine, record=record, node=soft))
        refits[record.key] = refit
    rules = {"budgets": [{"nodes": "100%"}]}
    steps = next_moves(seen(*machines, refits=refits, budgets=(a_budget(allowed),), disruption=rules))
    kept_free = {
        step.machine.record.key for step in steps if isinstance(step, SetTaint) and step.effect == "NoSchedule"
    }

    may = {"none", "pdb"} if allowed else {"none"}
    assert not any(isinstance(step, Delete) for step in steps)
    assert kept_free == {each.record.key for each, obstacle in zip(machines, obstacles, strict=True) if obstacle in may}


# -- PodDisruptionBudgets ----------------------------------------------------------------------------------------------


def guarded(*budgets, **pod):
    machine = drifted(a_machine("r1", idle=None, pods=(on_node(node="node-r1", labels={"app": "x"}, **pod),)))
    return only(refitted(machine, budgets=budgets))


def test_a_pod_with_two_budgets_can_never_be_evicted_and_the_message_says_so():
    """The API server answers each eviction with 500."""
    step = guarded(guarding("one"), guarding("two"))

    assert (step.update.status, step.update.reason) == (False, "PodDisruptionBudget")
    assert step.update.message.endswith(
        "has 2 PodDisruptionBudgets (default/one, default/two): it can only be evicted with one."
    )
    assert isinstance(guarded(guarding("one")), WriteDown)


def test_a_budget_that_always_allows_the_eviction_of_unready_pods_guards_those_that_are_ready():
    always = guarding("one", 0, evicts_unready=True)

    assert isinstance(guarded(always, ready=False), WriteDown)
    assert isinstance(guarded(always, ready=True), Say)
    assert isinstance(guarded(guarding("one", 0), ready=False), Say)


def test_since_when_gpus_are_missing_is_written_down_once_and_taken_off_again():
    gone = replace(a_machine(idle=None), missing_since=ago(minutes=3))
    noted = replace(a_machine(idle=None, annotations={MISSING_SINCE: written(ago(minutes=3))}), missing_since=None)

    assert only(seen(gone)) == NoteMissing(gone, ago(minutes=3))
    assert only(seen(noted)) == NoteMissing(noted, None)
    assert next_moves(seen(replace(noted, missing_since=ago(minutes=3)))) == ()
