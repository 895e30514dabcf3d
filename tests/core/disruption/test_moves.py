"""What is done next about machines that may be disrupted: step by step, within budgets, and back."""

from dataclasses import replace
from datetime import timedelta

import pytest

from tests.core.disruption.machines import a_machine, moving
from tests.core.pools.builders import NOW, a_condition, a_pool, on_node
from tgp.core.disruption.moves import (
    HARD,
    RETRIES,
    Delete,
    DisruptionObservation,
    Say,
    SetTaint,
    TakeBack,
    Unsay,
    WriteDown,
    disturbed,
    look_again_at,
    next_moves,
    read_retry,
    to_plan,
)
from tgp.core.model.labels import selector
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.workload import PodDisruptionBudget

HELD = {"tgp.io/do-not-disrupt": "true"}


def seen(*machines, **rest):
    spec = {key: rest.pop(key) for key in ("disruption", "replicas", "template") if key in rest}
    return DisruptionObservation(a_pool(**spec), NOW, machines, **rest)


def a_budget(allowed=0, **rest):
    return PodDisruptionBudget(
        key=ObjectKey("default", "guard"),
        disruptions_allowed=allowed,
        selector=selector({"app": "x"}),
        **rest,
    )


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
    assert "Move m1" in marked.update.message
    hard = only(seen(moving()))
    assert isinstance(hard, SetTaint)
    assert hard.effect == "NoSchedule"
    assert isinstance(only(seen(moving(taint="NoSchedule"))), Delete)
    assert next_moves(seen(moving(taint="NoSchedule", deleting=True))) == ()


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
    assert "waits for spec.disruption.budgets[0] (nodes: 1)" in step.update.message


def test_two_moves_do_not_take_the_last_place_of_a_budget_together():
    steps = next_moves(seen(moving("r1"), moving("r2"), disruption={"budgets": [{"nodes": 1}]}))

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
    assert not disturbed(a_machine(readyAt=None))
