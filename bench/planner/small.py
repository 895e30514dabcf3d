"""Worlds small enough for a full search: every pattern of every machine, and whole numbers to the end."""

import itertools
from dataclasses import dataclass
from typing import Any

import highspy
import numpy as np

from bench.planner.worlds import Size, a_market
from tgp.core.pools.planner.problem import Problem
from tgp.core.pools.planner.solve import solve

OFFERS = 25
MOST_PATTERNS = 6_000


@dataclass(frozen=True)
class Compared:
    same: float  # share of worlds
    worst: float


def same_as_full(worlds: int) -> Compared:
    """Worlds whose patterns are too many for a full search are drawn again."""
    excess: list[float] = []
    for seed in itertools.count():
        if len(excess) == worlds:
            break
        luck = np.random.default_rng([77, seed])
        pods = int(luck.integers(1, 61))
        classes = max(1, int(pods * luck.uniform(0.1, 0.5)))
        problem = a_market(Size(pods, OFFERS, classes, tight=bool(luck.integers(2))), seed).problem
        least = full_search(problem)
        if least is not None:
            excess.append(solve(problem).packing.charged / least - 1.0)
    return Compared(float(np.mean(np.array(excess) < 1e-6)), max(0.0, *excess))


def full_search(problem: Problem) -> float | None:
    """The least charge of any packing; None: too many patterns."""
    columns: list[tuple[int, tuple[int, ...]]] = []
    for source in range(len(problem.price)):
        classes = [number for number in range(len(problem.count)) if problem.fits[number][source]]
        found = _patterns(problem, source, classes)
        if found is None or len(columns) + len(found) > MOST_PATTERNS:
            return None
        columns += [(source, pods) for pods in found]
    return _least(problem, columns)


def _patterns(problem: Problem, source: int, classes: list[int]) -> list[tuple[int, ...]] | None:
    """Every set of pods that fits, given as a count for each class, and to which no pod can be added."""
    rows: list[tuple[np.ndarray, tuple[int, ...]]] = [(problem.capacity[source].copy(), (0,) * len(problem.count))]
    for number in classes:
        more = []
        for room, pods in rows:
            need, many = problem.need[number], 0
            while many <= problem.count[number] and (need * many <= room).all():
                more.append((room - need * many, (*pods[:number], many, *pods[number + 1 :])))
                many += 1
        rows = more
        if len(rows) > 20 * MOST_PATTERNS:
            return None
    return [pods for room, pods in rows if any(pods) and not _more_fits(problem, classes, room, pods)]


def _more_fits(problem: Problem, classes: list[int], room: np.ndarray, pods: tuple[int, ...]) -> bool:
    return any(pods[number] < problem.count[number] and (problem.need[number] <= room).all() for number in classes)


def _least(problem: Problem, columns: list[tuple[int, tuple[int, ...]]]) -> float:
    solver: Any = highspy.Highs()  # type: ignore[no-untyped-call]
    solver.setOptionValue("output_flag", False)
    served: list[list[Any]] = [[] for _ in problem.count]
    drawn: dict[int, list[Any]] = {}
    cost: Any = 0
    for source, pods in columns:
        copies = solver.addVariable(lb=0, ub=float(problem.stock[source]), type=highspy.HighsVarType.kInteger)
        cost = cost + float(problem.price[source]) * copies
        drawn.setdefault(source, []).append(copies)
        for number, many in enumerate(pods):
            if many:
                served[number].append(many * copies)
    for number, terms in enumerate(served):
        unserved = solver.addVariable(lb=0, ub=float(problem.count[number]), type=highspy.HighsVarType.kInteger)
        cost = cost + float(problem.penalty[number]) * unserved
        solver.addConstr(sum(terms, start=unserved * 1.0) >= float(problem.count[number]))
    for source, taken in drawn.items():
        solver.addConstr(sum(taken[1:], start=taken[0] * 1.0) <= float(problem.stock[source]))
    solver.minimize(cost)
    return float(solver.getInfo().objective_function_value)
