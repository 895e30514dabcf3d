"""The stages of a packing: a first answer, better columns, a proven bound, whole numbers."""

from dataclasses import dataclass, replace

from tgp.core.model.arrays import np
from tgp.core.pools.planner.bins import bins
from tgp.core.pools.planner.columns import GAIN, Master, Relaxed
from tgp.core.pools.planner.exact import best_pattern, most_value, patterns_within
from tgp.core.pools.planner.greedy import greedy, value_alone
from tgp.core.pools.planner.problem import Bound, Packing, Problem
from tgp.core.pools.planner.rounding import best_whole, near_columns, rounded

MANY_CLASSES = 300  # with more, patterns are no longer counted where most of a machine is decided by host rules
TOO_MANY_CLASSES = 1200  # with more, no columns are made
BOUND_TO_HOSTS = 0.25  # share of pods that host rules name
ROUND_UP_FROM = (1.0, 0.7, 0.5)
EXTRA_ROUNDS = 1  # of pricing all sources between two exact ones
LEAST_VALUE = 1e-3  # micro-dollars: a pod that costs nothing more still has to go somewhere
CLOSED = 1e-9  # of a cost: a smaller gap is rounding
ROUNDED = 1.0  # micro-dollars: a smaller gap is rounding, too, and a reduced cost may be off by less


@dataclass(frozen=True, slots=True)
class Effort:
    """How hard to try, counted in steps: equal worlds give equal plans on any machine. 0 rounds: the greedy only."""

    rounds: int = 60  # of pricing all sources
    exact_rounds: int = 12
    columns: int = 1500  # most that the search for whole numbers gets
    nodes: int = 50  # of that search
    good: float = 5e-4  # of the cost: with a smaller gap, whole numbers are not searched for
    small: int = 300  # pods: up to that many, every pattern that may matter is listed to close the gap
    small_listed: int = 6000  # patterns
    small_nodes: int = 1000


THOROUGH = Effort()


@dataclass(frozen=True, slots=True)
class Solved:
    packing: Packing
    bound: Bound
    columns: int = 0  # patterns that were made

    @property
    def gap(self) -> float:
        """How far above the best possible the charge may be, as a share of that."""
        least = self.bound.least
        return max(self.packing.charged / least - 1.0, 0.0) if least > 0 else 0.0


def solve(problem: Problem, effort: Effort = THOROUGH) -> Solved:
    """The best packing that the effort finds. There is always an answer."""
    problem = _within_limits(problem)
    if problem.classes > MANY_CLASSES and _bound_to_hosts(problem) > BOUND_TO_HOSTS:
        packing = bins(problem)
        if any(packing.unserved):
            packing = min(packing, greedy(problem, value_alone(problem)), key=_preference)
        return Solved(packing, Bound(0.0, proven=False))
    first = greedy(problem, value_alone(problem))
    if not problem.hosts.any():
        return Solved(first, Bound(first.charged, proven=True))  # whatever is bought, no pod is served
    if not effort.rounds or problem.classes > TOO_MANY_CLASSES:
        return Solved(first, Bound(0.0, proven=False))
    return _Solving(problem, effort).run(first)


class _Solving:
    def __init__(self, problem: Problem, effort: Effort) -> None:
        self._problem = problem
        self._effort = effort
        self._master = Master(problem)
        self._live = np.flatnonzero((problem.stock > 0) & problem.hosts.any(axis=0))

    def run(self, first: Packing) -> Solved:
        problem, columns = self._problem, self._master.columns
        self._master.add_machines(first.machines)
        relaxed, bound = self._proven(self._improved(self._effort.rounds))
        value = np.maximum(relaxed.duals.value, LEAST_VALUE)
        whole = [rounded(problem, columns, relaxed, value, up_from) for up_from in ROUND_UP_FROM]
        best, bound = self._searched(relaxed, bound, min((first, *whole), key=_preference))
        return Solved(best, bound, len(columns))

    def _improved(self, rounds: int) -> Relaxed:
        relaxed = self._master.solve()
        for _ in range(rounds):
            if not self._master.add_priced(relaxed.duals, self._live):
                break
            relaxed = self._master.solve()
        return relaxed

    def _proven(self, relaxed: Relaxed) -> tuple[Relaxed, Bound]:
        """Exact pricing until no source has a better pattern; with the best bound seen on the way."""
        problem, live, least = self._problem, self._live, 0.0
        for _ in range(self._effort.exact_rounds):
            duals = relaxed.duals
            charge = duals.charge(problem)
            enough = charge + duals.stock + GAIN * (problem.price + 1)
            most = most_value(problem, duals.value, enough)
            added = 0
            for source in live[most[live] > enough[live]].tolist():
                search = best_pattern(problem, source, duals.value, float(enough[source]))
                most[source] = min(most[source], search.most)
                added += self._master.columns.add(source, search.pods)
            machines = np.minimum(problem.stock[live], problem.count.sum())  # each has at least one pod
            saved = np.zeros(int(problem.shelves.max(initial=-1)) + 1)  # by stock: by the best source that draws on it
            np.minimum.at(saved, problem.shelves[live], (charge - most)[live] * machines)
            bound = float(duals.value @ problem.count) - float(duals.limit @ problem.room) + float(saved.sum())
            least = max(least, bound)
            if not added:
                return relaxed, Bound(min(least, relaxed.charged), proven=True)
            relaxed = self._improved(EXTRA_ROUNDS)
        return relaxed, Bound(min(least, relaxed.charged), proven=False)

    def _searched(self, relaxed: Relaxed, bound: Bound, best: Packing) -> tuple[Packing, Bound]:
        """A search over the columns that a better answer may use; in small worlds then over all patterns that may.

        The second search, where it ends, proves what no fractions do: what whole machines cost at least.
        """
        problem, effort, columns = self._problem, self._effort, self._master.columns
        small = int(problem.count.sum()) <= effort.small
        if best.charged - bound.least > max((CLOSED if small else effort.good) * best.cost, ROUNDED):
            near = near_columns(relaxed, best.charged - bound.least, effort.columns)
            best = best_whole(problem, columns, near, best, effort.nodes).packing
        gap = best.charged - bound.least
        if small and bound.proven and gap > max(CLOSED * best.cost, ROUNDED) and self._list_all(relaxed, gap + ROUNDED):
            near = near_columns(self._master.solve(), gap + ROUNDED, len(columns))
            best, least = best_whole(problem, columns, near, best, effort.small_nodes)
            if least is not None:
                bound = Bound(max(bound.least, min(least, best.charged)), proven=True)
        return best, bound

    def _list_all(self, relaxed: Relaxed, gap: float) -> bool:
        """Add every pattern whose reduced cost is below the gap: a better answer uses no other. False: too many."""
        problem, duals, left = self._problem, relaxed.duals, self._effort.small_listed
        floor = duals.charge(problem) + duals.stock - gap
        most = most_value(problem, duals.value, floor)
        for source in self._live[most[self._live] >= floor[self._live]].tolist():
            found = patterns_within(problem, source, duals.value, float(floor[source]), left)
            if found is None:
                return False
            left -= len(found)
            for pods in found:
                self._master.columns.add(source, pods)
        return True


def _within_limits(problem: Problem) -> Problem:
    """A machine that is too much for what a limit has left cannot be had: a fraction of it would lower the bound."""
    over = (problem.use > problem.room[:, None]).any(axis=0)
    return replace(problem, stock=np.where(over, 0, problem.stock)) if over.any() else problem


def _bound_to_hosts(problem: Problem) -> float:
    """The share of pods that a host rule names."""
    named = np.zeros(problem.classes, np.bool_)
    for rule in problem.host_rules:
        named |= rule.owners | rule.members
    return float(problem.count[named].sum()) / max(int(problem.count.sum()), 1)


def _preference(packing: Packing) -> tuple[float, int]:
    return packing.charged, sum(each.copies for each in packing.machines)
