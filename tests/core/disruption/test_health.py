"""When a machine is unhealthy, and what is done about it: replaced first, without budgets, and not if many are."""

from dataclasses import replace
from datetime import timedelta

import pytest

from tests.core.disruption.machines import a_machine, moving
from tests.core.disruption.test_moves import HELD, a_budget, only, seen
from tests.core.pools.builders import NOW, a_node, a_pool, ago, an_attempt, an_order, on_node, written
from tgp.core.disruption.causes import ILL, LEAVING, DisruptionCause, NoCause, cause_of
from tgp.core.disruption.health import (
    GPUS_MISSING_FOR,
    REPAIR_CONDITIONS,
    HealthProblem,
    RepairRule,
    gpus_missing,
    health_problem_of,
    missing_since,
    read_repair_rule,
    repair_halted,
)
from tgp.core.disruption.machine_state import budgets_left
from tgp.core.disruption.move_steps import Delete, OrderReplacements, Refit, Say, SetTaint, TakeBack, WriteDown
from tgp.core.disruption.moves import next_moves
from tgp.core.model.node import NodeCondition
from tgp.core.model.resources import Resources

DEADLOCK = RepairRule("KernelDeadlock")
PROBLEM = HealthProblem("Node n1 has 0 of 1 nvidia.com/gpu allocatable", ago(minutes=1))


def unhealthy(name="r1", builder=a_machine, **rest):
    return replace(builder(name, **rest), health_problem=PROBLEM)


def works(name="r1", builder=a_machine, **rest):
    return unhealthy(name, builder, pods=(on_node(node=f"node-{name}"),), **rest)


def with_gpus(**amounts):
    return a_node(allocatable=Resources(others=tuple(sorted(amounts.items()))))


# -- signs -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("KernelDeadlock", DEADLOCK),
        ("StorageReady=False", RepairRule("StorageReady", "False")),
        ("StorageReady=False/30m", RepairRule("StorageReady", "False", timedelta(minutes=30))),
        ("Odd=Unknown/0s", RepairRule("Odd", "Unknown", timedelta(0))),
    ],
)
def test_a_rule_is_a_condition_its_status_and_a_time(text, rule):
    assert read_repair_rule(text) == rule


@pytest.mark.parametrize("text", ["", "=True", "A=Yes", "A B", "A=True/soon", "A=True/-5m"])
def test_what_is_no_rule_is_refused(text):
    with pytest.raises(ValueError, match=r".+"):
        read_repair_rule(text)


def test_the_usual_rules_can_be_read():
    assert all(read_repair_rule(each).after > timedelta(0) for each in REPAIR_CONDITIONS)


@pytest.mark.parametrize(
    ("gpus", "missing"),
    [
        ({"nvidia.com/gpu": 1}, ""),
        ({"nvidia.com/gpu": 0}, "Node n1 has 0 of 1 nvidia.com/gpu allocatable"),
        ({}, "Node n1 has 0 of 1 nvidia.com/gpu allocatable"),
        ({"nvidia.com/gpu": 0, "nvidia.com/mig-1g.10gb": 7}, ""),
    ],
    ids=["there", "none", "not named", "divided"],
)
def test_gpus_that_were_promised_and_are_not_allocatable_are_missing(gpus, missing):
    record = a_machine(attempts=[an_attempt(outcome="Launched")]).record
    assert gpus_missing(record, with_gpus(**gpus)) == missing


def test_what_was_never_ready_or_is_not_seen_misses_nothing():
    assert gpus_missing(a_machine(readyAt=None).record, with_gpus()) == ""
    assert gpus_missing(a_machine().record, None) == ""
    assert gpus_missing(a_machine().record, a_node(unreadable="newer")) == ""


def test_each_sign_has_a_time_of_its_own_and_the_first_that_is_due_counts():
    rules = (DEADLOCK, RepairRule("StorageReady", "False", timedelta(minutes=30)))
    held = (
        NodeCondition("KernelDeadlock", "True", ago(minutes=2)),
        NodeCondition("StorageReady", "False", ago(minutes=25)),
    )
    node = a_node(conditions=held)

    found = health_problem_of(node, "", None, rules)
    assert found is not None
    assert found.due == ago(minutes=25) + timedelta(minutes=30)
    assert "StorageReady" in found.what
    assert health_problem_of(a_node(conditions=held[:1]), "", None, rules).due == ago(minutes=2) + DEADLOCK.after
    both = health_problem_of(node, "0 of 1", ago(minutes=9), rules)
    assert both.due == ago(minutes=9) + GPUS_MISSING_FOR


def test_another_status_and_a_condition_without_a_time_are_no_sign():
    for held in (NodeCondition("KernelDeadlock", "False", ago(minutes=99)), NodeCondition("KernelDeadlock", "True")):
        assert health_problem_of(a_node(conditions=(held,)), "", None, (DEADLOCK,)) is None


@pytest.mark.parametrize(
    ("ready", "rule", "due"),
    [
        (False, "Ready=False/5m", True),
        (None, "Ready=Unknown/5m", True),
        (None, "Ready=False/5m", False),
        (True, "Ready=False/5m", False),
    ],
)
def test_ready_is_a_condition_like_any_other(ready, rule, due):
    found = health_problem_of(a_node(ready=ready, ready_since=ago(minutes=2)), "", None, (read_repair_rule(rule),))

    assert (found.due if found is not None else None) == (ago(minutes=2) + timedelta(minutes=5) if due else None)


# -- what follows ------------------------------------------------------------------------------------------------------


def test_an_ill_machine_is_left_until_its_time_has_passed():
    waiting = replace(works(), health_problem=HealthProblem("…", NOW + timedelta(minutes=3)))
    pool = a_pool().value

    assert cause_of(waiting, pool, NOW) == NoCause(NOW + timedelta(minutes=3))
    assert cause_of(works(), pool, NOW) == DisruptionCause(ILL, PROBLEM.what)


def test_no_budget_pod_disruption_budget_or_annotation_holds_an_ill_machine_back():
    """Its drain waits for pods as long as `terminationGracePeriod` allows."""
    machine = unhealthy(pods=(on_node(node="node-r1", annotations=HELD, labels={"app": "x"}),))
    refits = {machine.record.key: Refit()}
    closed = {"disruption": {"budgets": [{"nodes": 0}]}, "budgets": (a_budget(),), "refits": refits}

    assert isinstance(only(seen(machine, **closed)), WriteDown)
    under_way = works(builder=moving, reason="Ill", taint="PreferNoSchedule")
    assert isinstance(only(seen(under_way, **closed)), SetTaint)
    assert isinstance(only(seen(works(builder=moving, reason="Ill", taint="NoSchedule"), **closed)), Delete)


def test_its_replacement_comes_first():
    under_way = works(builder=moving, reason="Ill", taint="PreferNoSchedule")
    refits = {under_way.record.key: Refit((an_order(),))}

    assert isinstance(only(seen(under_way, refits=refits)), OrderReplacements)


def test_an_ill_machine_that_no_pod_uses_goes_without_a_replacement():
    assert isinstance(only(seen(unhealthy(builder=moving, reason="Ill", taint="NoSchedule"))), Delete)


@pytest.mark.parametrize(
    ("sick", "nodes", "halted"), [(1, 1, False), (1, 5, False), (2, 10, False), (2, 9, True), (3, 10, True)]
)
def test_a_repair_is_halted_when_many_are_ill(sick, nodes, halted):
    assert repair_halted(sick, nodes) is halted


def test_while_many_are_ill_none_is_replaced_for_it_and_a_move_is_taken_back():
    machines = [works("r1"), works("r2"), works("r3", moving, reason="Ill")]
    steps = next_moves(seen(*machines, *(a_machine(f"w{number}", idle=None) for number in range(5))))

    said = [step.update for step in steps if isinstance(step, Say)]
    assert [(each.status, each.reason) for each in said] == [(False, "RepairHalted")] * 2
    assert "3 of 8 nodes are unhealthy (more than 20 %)" in said[0].message
    (back,) = [step for step in steps if isinstance(step, TakeBack)]
    assert back.update is not None
    assert back.update.reason == "RepairHalted"


# -- its provider takes it back ----------------------------------------------------------------------------------------


def until(hours, **rest):
    attempt = an_attempt(outcome="Launched", launchedAt=written(ago(hours=2)))
    attempt["offer"] = {**attempt["offer"], "until": written(NOW + timedelta(hours=hours))}
    return a_machine(idle=None, attempts=[attempt], **rest)


def test_a_machine_that_its_provider_takes_back_is_replaced_in_time():
    pool = a_pool().value
    far = cause_of(until(5), pool, NOW)

    assert far == NoCause(NOW + timedelta(hours=5 - 1 - 0.5 - 0.5))  # grace, spare, a second try
    near = cause_of(until(1.9), pool, NOW)
    assert isinstance(near, DisruptionCause)
    assert near.reason == LEAVING
    end = NOW + timedelta(hours=1.9)
    assert near.message == f"Provider simulated ends the machine of attempt 1 at {end:%Y-%m-%d %H:%M:%S}Z"
    slow = replace(until(2.5), boot=timedelta(minutes=40))
    assert isinstance(cause_of(slow, pool, NOW), DisruptionCause)


# -- what is counted ---------------------------------------------------------------------------------------------------


def test_what_budgets_leave_is_told_by_reason_and_when_it_changes():
    rules = [{"nodes": "50%"}, {"nodes": 1, "reasons": ["Drifted"]}]
    machines = [a_machine(f"r{number}", idle=None) for number in range(4)]
    gone = a_machine("r9", deleting=True)

    left, edge = budgets_left(seen(*machines, gone, disruption={"budgets": rules}).pools[0], NOW)
    assert left == {"Empty": 2, "Drifted": 0, "Expired": 2, "Underutilized": 2}
    assert edge is None
    rules = [{"nodes": 0, "schedule": "0 0 * * *", "duration": "1h"}]
    _, edge = budgets_left(seen(*machines, disruption={"budgets": rules}).pools[0], NOW)
    assert edge is not None


@pytest.mark.parametrize(
    ("noted", "since"),
    [
        ("", NOW),
        (written(ago(minutes=4)), ago(minutes=4)),
        (written(ago(minutes=-4)), NOW),
        ("yesterday", NOW),
    ],
)
def test_since_when_gpus_are_missing_is_noted_on_the_request(noted, since):
    record = a_machine(annotations={"tgp.io/gpus-missing-since": noted} if noted else {}).record

    assert missing_since(record, NOW) == since
