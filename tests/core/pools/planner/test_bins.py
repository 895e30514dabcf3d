"""Pods that are nearly all different: every rule is kept, nothing is left out that fits, and room is used first."""

import numpy as np
import pytest

from bench.planner.checker import violations
from tests.amounts import amount
from tests.core.pools.planner.test_solve import a_world
from tgp.core.pools.planner.bins import bins
from tgp.core.pools.planner.problem import HostRule, Limit, PackedMachines, Problem
from tgp.core.pools.planner.solve import MANY_CLASSES, solve

SIZES = 20  # machines of 1 to so many CPUs, at one price per CPU
GIB = float(1 << 30)


def a_problem(
    need: list[tuple[float, float]],
    count: list[int],
    *,
    rules: tuple[HostRule, ...] = (),
    limits: tuple[Limit, ...] = (),
    stock: int = 1000,
) -> Problem:
    """Needs: CPU in milli, memory in GiB. Every size has twice as many GiB as CPUs."""
    cpus = np.arange(1, SIZES + 1)
    return Problem(
        np.array([[cpu, memory * GIB, 1.0] for cpu, memory in need]),
        np.array(count, np.int64),
        np.full(len(need), 1e9),
        np.stack([cpus * 1000.0, cpus * 2 * GIB, np.full(SIZES, 110.0)], axis=1),
        cpus * 100_000.0,
        np.full(SIZES, stock, np.int64),
        np.ones((len(need), SIZES), np.bool_),
        rules,
        limits,
    )


def named(classes: int, *numbers: int) -> np.ndarray:
    return np.isin(np.arange(classes), numbers)


@pytest.mark.parametrize("seed", range(amount(60, 2000)))
def test_every_rule_is_kept_in_any_world(seed: int) -> None:
    problem = a_world(seed)
    found = bins(problem)
    assert violations(problem, found.machines, found.unserved) == []
    assert bins(problem) == found


@pytest.mark.parametrize("seed", range(amount(5, 50)))
def test_many_different_pods_are_all_served_at_little_more_than_they_need(seed: int) -> None:
    luck = np.random.default_rng(seed)
    classes = 2 * MANY_CLASSES
    need = [(float(luck.integers(1, 16) * 100), float(luck.integers(1, 17) / 4)) for _ in range(classes)]
    rule = HostRule(*(2 * [luck.random(classes) < 0.3]), most=1)
    problem = a_problem(need, luck.integers(1, 4, classes).tolist(), rules=(rule,))
    found = solve(problem)
    assert violations(problem, found.packing.machines, found.packing.unserved) == []
    assert not any(found.packing.unserved)
    least = max(problem.count @ problem.need[:, 0] / 1000, problem.count @ problem.need[:, 1] / 2 / GIB) * 100_000
    assert found.packing.cost <= 1.15 * least


def test_pods_that_must_stand_apart_decide_how_many_machines_there_are() -> None:
    apart = named(3, 0)
    problem = a_problem([(500, 1), (1500, 1), (500, 2)], [4, 2, 2], rules=(HostRule(apart, apart, 1),))
    found = bins(problem)
    assert sum(machine.copies for machine in found.machines) == 4
    assert not any(found.unserved)


def test_a_pod_goes_where_the_other_resource_is_left() -> None:
    problem = a_problem([(3500, 1), (500, 7)], [1, 1])
    assert bins(problem).machines == (PackedMachines(3, ((0, 1), (1, 1)), 1),)


def test_a_machine_that_is_there_is_filled_first() -> None:
    problem = a_problem([(500, 1)], [4])
    there = Problem(
        problem.need,
        problem.count,
        problem.penalty,
        np.vstack([problem.capacity, [1500.0, 8 * GIB, 110.0]]),
        np.append(problem.price, 0.0),
        np.append(problem.stock, 1),
        np.ones((1, SIZES + 1), np.bool_),
    )
    assert bins(there).machines == (PackedMachines(0, ((0, 1),), 1), PackedMachines(SIZES, ((0, 3),), 1))


def test_what_is_sold_out_is_replaced_by_the_next_size_that_is_not() -> None:
    apart = named(1, 0)
    problem = a_problem([(500, 1)], [3], rules=(HostRule(apart, apart, 1),), stock=1)
    assert sorted(machine.source for machine in bins(problem).machines) == [0, 1, 2]


def test_a_limit_leaves_pods_unserved() -> None:
    apart = named(1, 0)
    nodes = Limit("nodes", np.ones(SIZES), 2.0)
    problem = a_problem([(500, 1)], [3], rules=(HostRule(apart, apart, 1),), limits=(nodes,))
    assert bins(problem).unserved == (1,)


def test_a_pod_that_may_not_even_be_beside_itself_is_not_placed() -> None:
    alone = named(2, 0)
    problem = a_problem([(500, 1), (500, 1)], [1, 1], rules=(HostRule(alone, alone, 0),))
    assert bins(problem).unserved == (1, 0)
