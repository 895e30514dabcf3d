"""From fractions of patterns to whole machines."""

from collections.abc import Sequence
from typing import NamedTuple

from tgp.core.model.arrays import Floats, np
from tgp.core.pools.planner.columns import ColumnSet, Program, Relaxed
from tgp.core.pools.planner.greedy import greedy
from tgp.core.pools.planner.problem import Packing, Pattern, Problem, Remaining

WHOLE = 1e-6  # a fraction nearer to a whole number is taken for it
FEASIBLE = 2  # HiGHS: the solution status of an answer that keeps all constraints
SAME_CHARGE = 1e-9  # of a charge: answers that differ by less are one; penalties are much larger than prices


class WholeAnswer(NamedTuple):
    packing: Packing
    least: float | None  # no whole numbers of these columns are charged less; None: the search did not finish


def rounded(problem: Problem, columns: ColumnSet, relaxed: Relaxed, value: Floats, up_from: float) -> Packing:
    """Whole machines: fractions from `up_from` on are rounded up, the others down; what is left is packed greedily."""
    left = Remaining.of(problem)
    whole = np.floor(relaxed.taken + max(1.0 - up_from, WHOLE)).astype(np.int64)
    used = np.flatnonzero(whole > 0)
    for place in used[np.argsort(-whole[used], kind="stable")].tolist():
        source = columns.source[place]
        copies = min(int(whole[place]), left.most(problem, source))
        _take(problem, left, source, columns.pods[place], copies, at_least=0.5)
    return greedy(problem, value, left)


def best_whole(
    problem: Problem, columns: ColumnSet, chosen: Sequence[int], incumbent: Packing, most_nodes: int
) -> WholeAnswer:
    """The best whole numbers of these columns that a search of so many nodes finds; else `incumbent`."""
    import highspy  # as in columns.py

    sources, pods = [columns.source[place] for place in chosen], [columns.pods[place] for place in chosen]
    program = Program(problem)
    program.add(sources, pods)
    solver, many = program.solver, problem.classes + len(chosen)
    for name, setting in (
        ("mip_max_nodes", most_nodes),
        ("mip_rel_gap", SAME_CHARGE),
        ("objective_bound", incumbent.charged),
    ):
        solver.setOptionValue(name, setting)
    whole = np.full(many, int(highspy.HighsVarType.kInteger), np.uint8)
    solver.changeColsIntegrality(many, np.arange(many, dtype=np.int32), whole)
    solver.run()
    status, info, least = solver.getModelStatus(), solver.getInfo(), None
    if status == highspy.HighsModelStatus.kOptimal:
        least = min(float(info.mip_dual_bound), incumbent.charged)
    elif status in (highspy.HighsModelStatus.kInfeasible, highspy.HighsModelStatus.kObjectiveBound):
        least = incumbent.charged  # to leave every pod unserved is an answer: only those below the bound are missing
    if info.primal_solution_status != FEASIBLE:
        return WholeAnswer(incumbent, least)
    copies = np.rint(np.array(solver.getSolution().col_value)[problem.classes :]).astype(np.int64)
    left = Remaining.of(problem)
    for place in np.flatnonzero(copies > 0).tolist():
        _take(problem, left, sources[place], pods[place], int(copies[place]), at_least=0.0)
    found = Packing.of(problem, left.taken)
    return WholeAnswer(found if found.charged < incumbent.charged else incumbent, least)


def near_columns(relaxed: Relaxed, gap: float, most: int) -> list[int]:
    """Columns that an answer better by `gap` may use: those with a smaller reduced cost. The best come first."""
    order = np.argsort(relaxed.reduced, kind="stable")
    near: list[int] = order[relaxed.reduced[order] <= gap][:most].tolist()
    return near


def _take(problem: Problem, left: Remaining, source: int, pods: Pattern, copies: int, *, at_least: float) -> None:
    """All copies; those for which pods are lacking with what is left, if that is a share of `at_least` of the pods."""
    whole = min([copies, *(int(left.count[number] // amount) for number, amount in pods)])
    if whole > 0:
        left.take(problem, source, dict(pods), whole)
    for _ in range(copies - whole):
        some = {number: min(amount, int(left.count[number])) for number, amount in pods if left.count[number] > 0}
        if not some or sum(some.values()) < at_least * sum(amount for _, amount in pods):
            break
        left.take(problem, source, some, 1)
