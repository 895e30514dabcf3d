"""The packing: never wrong, never worse than it says, and the best possible where that can be known."""

import itertools

import numpy as np
import pytest

from bench.planner.checker import violations
from tests.amounts import amount
from tgp.core.pools.planner.greedy import greedy, value_alone
from tgp.core.pools.planner.problem import HostRule, Limit, PackedMachines, Packing, Problem
from tgp.core.pools.planner.solve import Effort, solve

WORLDS = amount(60, 2000)


def a_world(seed: int, *, sources: int = 12, most_pods: int = 40) -> Problem:
    """Two resources and pods' own count, host rules and limits by chance."""
    luck = np.random.default_rng(seed)
    classes = int(luck.integers(1, 8))
    need = np.stack(
        [luck.integers(1, 9, classes) * 500.0, luck.integers(0, 5, classes) * 1.0, np.ones(classes)], axis=1
    )
    count = luck.multinomial(int(luck.integers(1, most_pods)), np.full(classes, 1 / classes)).astype(np.int64)
    gpus = luck.choice([1, 2, 4, 8], sources) * 1.0
    capacity = np.stack([luck.integers(2, 17, sources) * 1000.0, gpus, np.full(sources, 20.0)], axis=1)
    price = np.rint(gpus * luck.uniform(200_000, 900_000, sources))
    free = luck.random(sources) < 0.15
    stock = np.where(free, 1, luck.integers(0, 7, sources)).astype(np.int64)
    rules = tuple(a_rule(luck, classes, free) for _ in range(int(luck.integers(0, 3))))
    limits = []
    if luck.random() < 0.4:
        limits.append(Limit("money", np.where(free, 0.0, price), float(luck.integers(1, 12) * 1_000_000)))
    if luck.random() < 0.3:
        limits.append(Limit("nodes", np.where(free, 0.0, 1.0), float(luck.integers(0, 9))))
    penalty, fits = luck.choice([5e6, 5e7], classes), luck.random((classes, sources)) < 0.8
    shelf = shared_by_two(luck, free, stock) if luck.random() < 0.5 else None
    price = np.where(free, 0.0, price)
    return Problem(need, count, penalty, capacity, price, stock, fits, rules, tuple(limits), shelf)


def shared_by_two(luck: np.random.Generator, free: np.ndarray, stock: np.ndarray) -> np.ndarray:
    """Some machines for rent are offered twice, as to two pools."""
    shelf = np.arange(len(stock))
    rented = np.flatnonzero(~free)
    for first, second in itertools.pairwise(rented[::2].tolist()):
        if luck.random() < 0.5 and shelf[first] == first:
            shelf[second], stock[second] = first, stock[first]
    return shelf


def a_rule(luck: np.random.Generator, classes: int, free: np.ndarray) -> HostRule:
    """On machines that exist already, which cost nothing, members and owners may run."""
    owners, members, most = luck.random(classes) < 0.4, luck.random(classes) < 0.5, int(luck.integers(0, 4))
    if luck.random() < 0.5:
        return HostRule(owners, members, most)
    present = np.where(free, luck.integers(0, 4, len(free)), 0).astype(np.int64)
    return HostRule(owners, members, most, present, free & (luck.random(len(free)) < 0.5) & (present <= most))


@pytest.mark.parametrize("seed", range(WORLDS))
def test_a_packing_keeps_every_rule_and_its_bound(seed: int) -> None:
    problem = a_world(seed)
    first = greedy(problem, value_alone(problem))
    assert violations(problem, first.machines, first.unserved) == []
    found = solve(problem)
    assert violations(problem, found.packing.machines, found.packing.unserved) == []
    assert found.packing.charged <= first.charged
    assert found.bound.least <= found.packing.charged * (1 + 1e-9)
    assert solve(problem) == found


@pytest.mark.parametrize("seed", range(amount(40, 400)))
def test_in_a_tiny_world_it_is_the_best_possible(seed: int) -> None:
    problem = a_world(1000 + seed, sources=3, most_pods=5)
    found = solve(problem)
    assert found.packing.charged == pytest.approx(cheapest(problem), rel=1e-9)


@pytest.mark.parametrize("seed", range(amount(30, 400)))
def test_an_added_offer_never_raises_the_bound_nor_the_cost_by_more_than_the_gap(seed: int) -> None:
    problem = a_world(2000 + seed)
    fewer = without_last_source(problem)
    more, less = solve(problem), solve(fewer)
    assert more.bound.least <= less.packing.charged * (1 + 1e-9)
    if more.bound.proven and less.bound.proven:
        assert more.bound.least <= less.bound.least * (1 + 1e-5) + 1
    assert more.packing.charged <= less.packing.charged * (1 + more.gap) + 1


def test_two_pods_of_one_gpu_get_two_small_machines_not_one_large() -> None:
    """The list prices of the family that Karpenter's issue 1149 is about."""
    need = np.array([[1000.0, 1.0, 1.0]])
    capacity = np.array([[8000.0, 1, 110], [48000.0, 4, 110]])
    price = np.array([1_212_000.0, 5_672_000.0])
    problem = Problem(
        need, np.array([2]), np.array([1e9]), capacity, price, np.array([100, 100]), np.ones((1, 2), np.bool_)
    )
    assert solve(problem).packing.machines == (PackedMachines(0, ((0, 1),), 2),)


def test_a_machine_that_costs_nothing_is_used_first() -> None:
    need = np.array([[1000.0, 1.0]])
    capacity = np.array([[4000.0, 4.0], [4000.0, 4.0]])
    problem = Problem(
        need, np.array([6]), np.array([1e9]), capacity, np.array([0.0, 2e6]), np.array([1, 9]), np.ones((1, 2), bool)
    )
    packing = solve(problem).packing
    assert packing.cost == 2e6
    assert {each.source for each in packing.machines} == {0, 1}


def test_a_machine_that_is_too_much_for_a_limit_is_no_part_of_the_bound() -> None:
    money = Limit("money", np.array([4e6, 2.2e6]), 3e6)
    problem = Problem(
        np.ones((1, 1)), np.array([1]), np.array([1e9]), np.ones((2, 1)), np.array([2e6, 2.2e6]), np.array([9, 9]),
        np.ones((1, 2), bool), (), (money,),
    )  # fmt: skip
    found = solve(problem, Effort(small=0))
    assert (found.packing.charged, found.bound.proven) == (2.2e6, True)
    assert found.bound.least == pytest.approx(2.2e6)


def test_nothing_to_do_is_an_answer() -> None:
    nothing = Problem(
        np.zeros((0, 2)), np.zeros(0, np.int64), np.zeros(0), np.zeros((0, 2)), np.zeros(0), np.zeros(0, np.int64),
        np.zeros((0, 0), np.bool_),
    )  # fmt: skip
    assert solve(nothing).packing == Packing((), (), 0.0, 0.0)
    assert solve(a_world(3), Effort(rounds=0)).packing.machines == greedy(a_world(3), value_alone(a_world(3))).machines


def cheapest(problem: Problem) -> float:
    """By trying everything: every multiset of machines, every way to put pods on them."""
    patterns = [
        (source, pods)
        for source in range(problem.sources)
        for pods in itertools.product(*(range(int(count) + 1) for count in problem.count))
        if any(pods) and _allowed(problem, source, pods)
    ]
    best: dict[tuple[tuple[int, ...], tuple[int, ...]], float] = {}

    def least(left: tuple[int, ...], used: tuple[int, ...]) -> float:
        if (left, used) in best:
            return best[left, used]
        answer = float(np.dot(left, problem.penalty))
        for source, pods in patterns:
            more = tuple(many + (place == source) for place, many in enumerate(used))
            drawn = sum(many for place, many in enumerate(more) if problem.shelves[place] == problem.shelves[source])
            if drawn > problem.stock[source] or any(a < b for a, b in zip(left, pods, strict=True)):
                continue
            if any(float(limit.use @ np.array(more)) > limit.most for limit in problem.limits):
                continue
            rest = tuple(a - b for a, b in zip(left, pods, strict=True))
            answer = min(answer, float(problem.price[source]) + least(rest, more))
        best[left, used] = answer
        return answer

    return least(tuple(problem.count.tolist()), (0,) * problem.sources)


def _allowed(problem: Problem, source: int, pods: tuple[int, ...]) -> bool:
    machine = PackedMachines(source, tuple((number, many) for number, many in enumerate(pods) if many), 1)
    unserved = [int(count) - many for count, many in zip(problem.count, pods, strict=True)]
    if problem.stock[source] < 1:
        return False
    return not violations(
        Problem(
            problem.need, problem.count, problem.penalty, problem.capacity, problem.price, problem.stock, problem.fits,
            problem.host_rules,
        ),
        [machine],
        unserved,
    )  # fmt: skip


def without_last_source(problem: Problem) -> Problem:
    return Problem(
        problem.need,
        problem.count,
        problem.penalty,
        problem.capacity[:-1],
        problem.price[:-1],
        problem.stock[:-1],
        problem.fits[:, :-1],
        tuple(
            HostRule(
                rule.owners,
                rule.members,
                rule.most,
                None if rule.present is None else rule.present[:-1],
                None if rule.owned is None else rule.owned[:-1],
            )
            for rule in problem.host_rules
        ),
        tuple(Limit(limit.name, limit.use[:-1], limit.most) for limit in problem.limits),
        None if problem.shelf is None else problem.shelf[:-1],
    )
