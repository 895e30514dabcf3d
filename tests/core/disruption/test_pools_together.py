"""Pools of one class are looked at together: exchanges over several of them, and each keeps its own budgets."""

from dataclasses import replace

import pytest

from tests.core.disruption.exchange_worlds import SERVING
from tests.core.disruption.machines import a_machine, moving
from tests.core.pools.builders import NOW, a_condition, a_pool, on_node
from tgp.core.disruption.causes import UNDERUTILIZED, FoundExchange
from tgp.core.disruption.health import HealthProblem
from tgp.core.disruption.machine_state import is_going, parted_moves
from tgp.core.disruption.move_steps import (
    Delete,
    DisruptionObservation,
    PoolMachines,
    Refit,
    Say,
    SetTaint,
    TakeBack,
    WriteDown,
)
from tgp.core.disruption.moves import MOST_PLANNED, next_moves, nodes_that_go, to_plan
from tgp.core.model.object_key import ObjectKey

POLICY = {"consolidationPolicy": "WhenEmptyOrUnderutilized"}
KEYS = (ObjectKey("default", "r1"), ObjectKey("default", "r2"))
FOUND = FoundExchange("2 machines for 1 cheap one", KEYS, 500_000)
HERE = dict.fromkeys(KEYS, Refit())


def of_pool(name, *machines, nodes="100%"):
    disruption = {**POLICY, "budgets": [{"nodes": nodes}]}
    return PoolMachines(a_pool(name, uid=f"uid-{name}", disruption=disruption), machines)


def looked_at(*pools, **rest):
    return DisruptionObservation(pools, NOW, **rest)


def used(name, **rest):
    pod = on_node(f"pod-{name}", f"node-{name}", labels={"app": "x"}, owners=SERVING)
    return a_machine(name, idle=None, pods=(pod,), **rest)


def candidate(name, **rest):
    return replace(used(name, **rest), exchange=FOUND)


def under_way(name, taint="PreferNoSchedule", **rest):
    pod = on_node(f"pod-{name}", f"node-{name}", labels={"app": "x"}, owners=SERVING)
    return moving(name, UNDERUTILIZED, idle=None, taint=taint, pods=(pod,), **rest)


def begun(seen):
    return sorted(step.machine.record.key.name for step in next_moves(seen) if isinstance(step, WriteDown))


def test_pools_whose_machines_work_have_no_moves():
    assert next_moves(looked_at(of_pool("a", used("r1")), of_pool("b", used("r2")), of_pool("c"))) == ()
    assert next_moves(looked_at()) == ()


def test_equal_pools_have_equal_moves_in_any_order():
    pools = [of_pool(name, *(a_machine(f"{name}{n}") for n in range(4)), nodes=2) for name in ("a", "b", "c")]

    assert next_moves(looked_at(*pools)) == next_moves(looked_at(*pools))
    assert begun(looked_at(*pools)) == begun(looked_at(*pools[::-1]))


def test_each_pool_has_its_own_budget():
    """Of an own number of nodes: 10 % of 4 and of 20."""
    machines = {name: [a_machine(f"{name}{n}") for n in range(many)] for name, many in (("a", 4), ("b", 20))}
    seen = looked_at(*(of_pool(name, *found, nodes="10%") for name, found in machines.items()))

    assert [name[0] for name in begun(seen)] == ["a", "b", "b"]
    closed = looked_at(of_pool("a", *machines["a"], nodes=0), of_pool("b", *machines["b"], nodes=1))
    assert [name[0] for name in begun(closed)] == ["b"]


def test_machines_of_one_pool_that_find_no_place_do_not_keep_those_of_another_from_being_planned():
    def drifted(name):
        return replace(used(name, annotations={"tgp.io/drift-hash": "1-old"}), stamp="1-new")

    many = of_pool("a", *(drifted(f"a{n}") for n in range(MOST_PLANNED + 2)))
    planned = to_plan(looked_at(many, of_pool("b", drifted("b0"))))

    assert len(planned) == MOST_PLANNED + 1
    assert ObjectKey("default", "b0") in planned


def test_many_ill_machines_in_one_pool_do_not_halt_the_repair_of_another():
    def unhealthy(name):
        return replace(a_machine(name, idle=None), health_problem=HealthProblem("GPUs are missing", NOW))

    sick = of_pool("a", *(unhealthy(f"a{n}") for n in range(3)))
    well = of_pool("b", unhealthy("b0"), *(a_machine(f"b{n}", idle=None) for n in range(1, 10)))

    assert begun(looked_at(sick, well)) == ["b0"]
    assert begun(looked_at(PoolMachines(sick.pool, (*sick.machines, *well.machines)))) == []


def test_machines_of_two_pools_begin_one_move():
    seen = looked_at(of_pool("a", candidate("r1")), of_pool("b", candidate("r2")), refits=HERE)

    steps = next_moves(seen)
    assert [type(step) for step in steps] == [WriteDown, WriteDown]
    assert steps[0].move == steps[1].move
    assert to_plan(seen) == KEYS


def test_neither_begins_where_the_budget_of_one_pool_is_closed():
    steps = next_moves(looked_at(of_pool("a", candidate("r1")), of_pool("b", candidate("r2"), nodes=0), refits=HERE))

    assert [type(step) for step in steps] == [Say, Say]
    assert {step.update.reason for step in steps} == {"BudgetExhausted"}
    whose = "GPUNodePool default/b: spec.disruption.budgets[0] (nodes: 0) allows no more disruption now"
    assert all(whose in step.update.message for step in steps)


def test_a_budget_that_one_pool_has_used_up_holds_back_only_its_own_machine():
    """The other is kept free of pods, and drained."""
    leaving = moving("x", taint="NoSchedule", deleting=True)
    seen = looked_at(
        of_pool("a", under_way("r1"), leaving, nodes=1), of_pool("b", under_way("r2"), nodes=1), refits=HERE
    )
    steps = {step.machine.record.key.name: step for step in next_moves(seen)}

    assert isinstance(steps["r1"], Say)
    assert "waiting for spec.disruption.budgets[0] (nodes: 1)" in steps["r1"].update.message
    assert isinstance(steps["r2"], SetTaint)


def test_they_are_drained_one_by_one_and_given_up_together():
    hard = {"taint": "NoSchedule"}
    steps = next_moves(
        looked_at(of_pool("a", under_way("r1", **hard)), of_pool("b", under_way("r2", **hard)), refits=HERE)
    )
    assert [type(step) for step in steps] == [Delete, Say]
    closed = looked_at(of_pool("a", under_way("r1")), of_pool("b", under_way("r2"), nodes=0), refits=HERE)
    assert [type(step) for step in next_moves(closed)] == [TakeBack, TakeBack]


def test_a_move_is_taken_back_when_one_of_its_machines_is_in_a_pool_of_another_class_now():
    seen = looked_at(of_pool("a", under_way("r1")), refits=HERE)
    assert [type(step) for step in next_moves(seen)] == [SetTaint]
    steps = next_moves(replace(seen, parted={"m1": (under_way("r2"),), "m2": (under_way("r3"),)}))
    assert [step.machine.record.key.name for step in steps] == ["r2", "r1"], "the mark that shows it is removed last"
    for back in steps:
        assert isinstance(back, TakeBack)
        assert (back.update.reason, bool(back.retry)) == ("MoveGivenUp", True)
        assert "is now in a pool of another class" in back.update.message


def test_a_machine_of_a_parted_move_that_is_drained_already_goes_on():
    """And its pods have room on the replacement: that stays, too."""
    seen = looked_at(of_pool("a", under_way("r1")), refits=HERE, replacements={"m1": (a_machine("new"),)})
    leaving = under_way("r2", conditions=[a_condition("Terminating", "True", "NodeLost")])
    (back,) = next_moves(replace(seen, parted={"m1": (leaving,)}))
    both = next_moves(replace(seen, parted={"m1": (under_way("r2"),)}))

    assert (back.machine.record.key.name, back.unused) == ("r1", ())
    assert [each.record.key.name for step in both for each in step.unused] == ["new", "new"]


@pytest.mark.parametrize(
    ("machine", "goes"),
    [
        (a_machine(), False),
        (moving(marked=False), True),
        (moving(), True),
        (a_machine(conditions=[a_condition("Disrupted", "False", "BudgetExhausted")]), True),
        (a_machine(conditions=[a_condition("Disrupted", "False", "Unconsolidatable")]), False),
        (a_machine(conditions=[a_condition("Disrupted", "False", "SavingUnproven")]), False),
        (a_machine(annotations={"tgp.io/move": "m1", "tgp.io/replaces": "r0"}), False),
    ],
)
def test_what_the_objects_of_a_machine_say_of_its_leaving(machine, goes):
    assert is_going(machine.record) is goes


@pytest.mark.parametrize(
    ("other", "parted"),
    [
        (moving("x"), True),
        (moving("x", deleting=True), False),
        (moving("x", phase="Failed"), False),
        (a_machine("x", annotations={"tgp.io/move": "m1", "tgp.io/replaces": "r1"}), False),
        (a_machine("x", annotations={"tgp.io/move": "another"}), False),
    ],
)
def test_a_move_has_parted_where_a_living_candidate_is_among_other_machines(other, parted):
    assert parted_moves({"m1"}, "default", [other.record]) == ({"m1": (other.record,)} if parted else {})
    assert parted_moves({"m1"}, "elsewhere", [other.record]) == {}, "tenants do not end each other's moves"


def test_no_pod_is_moved_to_a_machine_of_another_pool_that_goes():
    drifted = replace(used("r2", annotations={"tgp.io/drift-hash": "1-old"}), stamp="1-new")

    assert nodes_that_go(looked_at(of_pool("a", used("r1")), of_pool("b", drifted))) == {"node-r2"}
    elsewhere = looked_at(of_pool("a", used("r1")), going=frozenset({"node-x"}))
    assert nodes_that_go(elsewhere) == {"node-x"}
