"""Exact pricing: the most valuable pattern of one source, by dominance and branch and bound."""

from collections.abc import Sequence
from dataclasses import dataclass

from tgp.core.model.arrays import Bools, Floats, Index, np
from tgp.core.pools.planner.problem import Pattern, Problem

MOST_NODES = 20_000  # of one search; beyond that its bound is reported instead
TINY = 1e-9  # in place of no room at all
AT_ONCE = 1000  # sources: more would take too much memory
EQUAL = 1e-9  # of a value: less is rounding


@dataclass(frozen=True, slots=True)
class Search:
    """What a search found: the best pattern above the floor, and a bound that no pattern exceeds."""

    pods: Pattern  # empty: none is above the floor
    value: float
    most: float  # no pattern is worth more


def most_value(problem: Problem, value: Floats, enough: Floats) -> Floats:
    """By source: a bound on the value of any pattern; once it is below `enough`, it is not made tighter."""
    bound = np.full(problem.sources, np.inf)
    worthy = np.flatnonzero(value > EQUAL)
    resources = np.flatnonzero(problem.need.any(axis=0))
    wanted = problem.count @ problem.need[:, resources] / np.maximum(problem.capacity[:, resources].sum(axis=0), TINY)
    resources = resources[np.argsort(-wanted, kind="stable")]  # the scarcest first: it bounds the most sources
    per_value = problem.need[np.ix_(worthy, resources)] / value[worthy][:, None]
    for weights in _weights(len(resources)):
        open_ = np.flatnonzero(bound > enough)
        for part in np.array_split(open_, len(open_) // AT_ONCE + 1):
            room = np.maximum(problem.capacity[np.ix_(part, resources)], TINY)
            share = (per_value * weights) @ (1.0 / room).T  # class by source: of a machine, for one unit of value
            np.copyto(share, np.inf, where=~problem.hosts[np.ix_(worthy, part)])
            with np.errstate(divide="ignore"):
                bound[part] = np.minimum(bound[part], 1.0 / share.min(axis=0, initial=np.inf))
    return bound


def _weights(many: int) -> Floats:
    """Each resource alone, every pair, and all of them: a sum of constraints is a constraint."""
    rows = [np.eye(many)[place] for place in range(many)]
    rows += [(np.eye(many)[a] + np.eye(many)[b]) / 2 for a in range(many) for b in range(a)]
    if many > 2:
        rows.append(np.full(many, 1.0 / many))
    return np.array(rows)


def best_pattern(problem: Problem, source: int, value: Floats, floor: float, most_nodes: int = MOST_NODES) -> Search:
    """The most valuable pattern of a source, if it is worth more than `floor`."""
    candidates = np.flatnonzero(problem.hosts[:, source] & (value > EQUAL))
    if not len(candidates):
        return Search((), 0.0, 0.0)
    candidates = _undominated(problem, source, candidates, value)
    room = problem.capacity[source]
    share = (problem.need[candidates] / np.maximum(room, TINY)).max(axis=1)
    candidates = candidates[np.argsort(-value[candidates] / share, kind="stable")]
    return _Branching(problem, source, candidates.tolist(), value, floor=floor, most_nodes=most_nodes).run()


def _undominated(problem: Problem, source: int, candidates: Index, value: Floats) -> Index:
    """A class matters only if no other has at least its value at no more of any need, and pods enough to fill it."""
    need, worth = problem.need[candidates], value[candidates]
    enough = problem.alone[candidates, source] < problem.count[candidates]
    enough |= _fills(problem, source, candidates)
    free = np.array([not problem.rules_of[number] for number in candidates.tolist()])
    better = (worth[:, None] >= worth[None, :]) & (need[:, None, :] <= need[None, :, :]).all(axis=2)
    equal = (worth[:, None] == worth[None, :]) & (need[:, None, :] == need[None, :, :]).all(axis=2)
    first = np.arange(len(candidates))[:, None] < np.arange(len(candidates))[None, :]
    dominates = better & (enough & free)[:, None] & (~equal | first)
    np.fill_diagonal(dominates, False)
    kept: Index = candidates[~dominates.any(axis=0)]
    return kept


def _fills(problem: Problem, source: int, candidates: Index) -> Bools:
    """Whether all pods of the class do not fit on one machine together."""
    total = problem.need[candidates] * (problem.count[candidates][:, None] + 1)
    fills: Bools = (total > problem.capacity[source]).any(axis=1)
    return fills


class _Branching:
    def __init__(
        self,
        problem: Problem,
        source: int,
        order: Sequence[int],
        value: Floats,
        *,
        floor: float,
        most_nodes: int = MOST_NODES,
    ) -> None:
        resources = np.flatnonzero(problem.need[list(order)].any(axis=0)).tolist()
        self._order = order
        self._worth = [float(value[number]) for number in order]
        self._needs = [[float(problem.need[number, resource]) for resource in resources] for number in order]
        self._most = [int(problem.alone[number, source]) for number in order]
        self._room = [float(problem.capacity[source, resource]) for resource in resources]
        self._rules = [problem.rules_of[number] for number in order]
        self._problem = problem
        self._source = source
        self._ruled = any(bool(rules) for rules in self._rules)
        self._ratios = self._suffix_ratios()
        self._best = floor
        self._found: Pattern = ()
        self._chosen: list[tuple[int, int]] = []
        self._nodes = most_nodes
        self._highest_cut = 0.0

    def _suffix_ratios(self) -> list[list[float]]:
        """By place in the order and resource: the best value per unit among the classes from there on."""
        ratios = [[0.0] * len(self._room)]
        for worth, needs in zip(reversed(self._worth), reversed(self._needs), strict=True):
            last = ratios[-1]
            ratios.append(
                [max(before, worth / need if need else np.inf) for before, need in zip(last, needs, strict=True)]
            )
        ratios.reverse()
        return ratios

    def run(self) -> Search:
        self._branch(0, 0.0, self._room)
        most = max(self._best, self._highest_cut)
        return Search(tuple(sorted(self._found)), self._best if self._found else 0.0, most)

    def _branch(self, place: int, worth: float, free: list[float]) -> None:
        if worth > self._best * (1 + EQUAL) + EQUAL:
            self._best, self._found = worth, tuple(self._chosen)
        if place == len(self._order):
            return
        bound = worth + self._at_most(place, free)
        if bound <= self._best * (1 + EQUAL) + EQUAL:
            return
        self._nodes -= 1
        if self._nodes < 0:
            self._highest_cut = max(self._highest_cut, bound)
            return
        needs = self._needs[place]
        for many in range(self._fitting(place, free), 0, -1):
            self._chosen.append((self._order[place], many))
            left = [room - many * need for room, need in zip(free, needs, strict=True)]
            self._branch(place + 1, worth + many * self._worth[place], left)
            self._chosen.pop()
        self._branch(place + 1, worth, free)

    def _at_most(self, place: int, free: list[float]) -> float:
        """What the classes from here on can add."""
        return min(
            [room * ratio if ratio < np.inf else np.inf for room, ratio in zip(free, self._ratios[place], strict=True)]
        )

    def _fitting(self, place: int, free: list[float]) -> int:
        most = self._most[place]
        for room, need in zip(free, self._needs[place], strict=True):
            if need:
                most = min(most, int(room // need))
        return self._allowed(place, most) if self._ruled and most > 0 else most

    def _allowed(self, place: int, most: int) -> int:
        """How many the host rules allow beside what is chosen."""
        number = self._order[place]
        for name in self._rules[place]:
            rule = self._problem.host_rules[name]
            there = 0 if rule.present is None else int(rule.present[self._source])
            members = there + sum(many for other, many in self._chosen if rule.members[other])
            owned = rule.owners[number] or any(rule.owners[other] for other, _ in self._chosen)
            owned = owned or (rule.owned is not None and bool(rule.owned[self._source]))
            if rule.members[number] and owned:
                most = min(most, rule.most - members)
            elif rule.owners[number] and members > rule.most:
                most = 0
        return max(most, 0)


def patterns_within(problem: Problem, source: int, value: Floats, floor: float, most: int) -> list[Pattern] | None:
    """Every pattern of a source that is worth at least `floor` and has no room for another pod; None: over `most`."""
    candidates = np.flatnonzero(problem.hosts[:, source])
    if not len(candidates):
        return []
    share = (problem.need[candidates] / np.maximum(problem.capacity[source], TINY)).max(axis=1)
    candidates = candidates[np.argsort(-value[candidates] / share, kind="stable")]
    return _Listing(problem, source, candidates.tolist(), value, floor=floor).run_all(most)


class _Listing(_Branching):
    """The same search, for all patterns above the floor."""

    def run_all(self, most: int) -> list[Pattern] | None:
        self._all: list[Pattern] = []
        self._most_listed = most
        self._list(0, 0.0, self._room)
        return None if self._nodes < 0 or len(self._all) > most else self._all

    def _list(self, place: int, worth: float, free: list[float]) -> None:
        if self._nodes < 0 or len(self._all) > self._most_listed:
            return
        self._nodes -= 1
        if place == len(self._order):
            if worth >= self._best - EQUAL and self._full(free):
                self._all.append(tuple(sorted(self._chosen)))
            return
        if worth + self._at_most(place, free) < self._best - EQUAL:
            return
        needs = self._needs[place]
        for many in range(self._fitting(place, free), -1, -1):
            if many:
                self._chosen.append((self._order[place], many))
            left = [room - many * need for room, need in zip(free, needs, strict=True)]
            self._list(place + 1, worth + many * self._worth[place], left)
            if many:
                self._chosen.pop()

    def _full(self, free: list[float]) -> bool:
        chosen = dict(self._chosen)
        return not any(
            self._fitting(place, free) > 0 and chosen.get(number, 0) < self._most[place]
            for place, number in enumerate(self._order)
        )
