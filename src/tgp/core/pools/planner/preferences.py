"""What pods only prefer decides between machines that cost the same: preferred affinity, soft spread, soft taints.

A plan is made without preferences. Then each machine that it buys may come from another offer instead: of the same
charge, from a pool of the same weight, with room for the same pods. The plan never gets more expensive.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tgp.core.model.arrays import Floats, Index, Ints, np
from tgp.core.model.pod import Pod
from tgp.core.model.taints import Taint
from tgp.core.pools.planner.classes import PodMatcher, matcher_of_spread, matcher_of_term
from tgp.core.pools.planner.masks import LabelColumn
from tgp.core.pools.planner.problem import PackedMachines, Pattern, Problem, Remaining, together
from tgp.core.pools.planner.rows import DemandRow
from tgp.core.pools.planner.sources import SourceSet

SOFT_TAINT = 100.0  # what one is worth: as much as the greatest weight of a preferred term
PASSES = 3  # over all machines: each may make another domain the emptier one
_Domain: TypeAlias = tuple[PodMatcher, str]  # pods that are counted, and the label whose values they are counted by


def preferred(
    problem: Problem, rows: Sequence[DemandRow], sources: SourceSet, machines: Iterable[PackedMachines]
) -> tuple[PackedMachines, ...]:
    """The same pods on machines that cost the same and that the pods like more."""
    made = tuple(machines)
    wishes = _Wishes(rows, sources)
    if not wishes.any:
        return made
    return _Choosing(problem, sources, wishes, made).run()


@dataclass(frozen=True, slots=True)
class _Counted:
    """A preference about pods in the same domain: each of them counts `weight`, a negative one pushes away."""

    domain: _Domain
    weight: float


class _Wishes:
    """By row: how much it likes each source, and which pods it would be near to or apart from."""

    def __init__(self, rows: Sequence[DemandRow], sources: SourceSet) -> None:
        self._rows = rows
        self._sources = sources
        self._known: dict[object, Floats | None] = {}
        self._soft = any(each.effect == "PreferNoSchedule" for taints in sources.table.taints for each in taints)
        self.liking = [self._liking(row.units[0]) for row in rows]
        self.counted = [tuple(each for pod in row.units[0] for each in _counted(pod)) for row in rows]
        self.any = any(each is not None for each in self.liking) or any(self.counted)

    def _liking(self, pods: Iterable[Pod]) -> Floats | None:
        """By source; None: all are liked the same."""
        found = [each for pod in pods if (each := self._liking_of(pod)) is not None]
        return np.sum(found, axis=0) if found else None

    def _liking_of(self, pod: Pod) -> Floats | None:
        key = (pod.affinity.preferred_nodes, pod.tolerations if self._soft else ())
        if key not in self._known:
            self._known[key] = self._made(pod)
        return self._known[key]

    def _made(self, pod: Pod) -> Floats | None:
        table = self._sources.table
        liking = np.zeros(table.size)
        for each in pod.affinity.preferred_nodes:
            liking += each.weight * table.admitted_by(each.term)
        if self._soft:
            disliked = np.array([_soft_taints(each, pod) for each in table.taints], np.float64)
            liking -= SOFT_TAINT * disliked[table.taint_place]
        return liking if liking.any() else None

    def members(self, matcher: PodMatcher, pods: Pattern) -> int:
        """How many of these pods it matches."""
        rows = self._rows
        return sum(amount * len(rows[number].units[0]) for number, amount in pods if matcher in rows[number].matched)

    def running(self, domain: _Domain, column: LabelColumn) -> Ints:
        """By value of the column: pods that run there already, or that a machine on its way was bought for."""
        matcher, world = domain[0], self._sources.world
        counts = np.zeros(len(column.values), np.int64)
        for place, there in enumerate(world.capacity):
            matched = sum(matcher.matches(pod.key.namespace, pod.labels, world.namespaces) for pod in there.pods)
            counts[column.place[place]] += matched
        return counts


def _counted(pod: Pod) -> Iterable[_Counted]:
    for each in pod.affinity.preferred_pods:
        yield _Counted((matcher_of_term(each.term, pod.key.namespace), each.term.topology_key), float(each.weight))
    for spread in pod.spreads:
        if not spread.hard:
            yield _Counted((matcher_of_spread(spread, pod), spread.topology_key), -1.0)


def _soft_taints(taints: Iterable[Taint], pod: Pod) -> int:
    soft = [each for each in taints if each.effect == "PreferNoSchedule"]
    return sum(not any(toleration.covers(each) for toleration in pod.tolerations) for each in soft)


class _Choosing:
    def __init__(
        self, problem: Problem, sources: SourceSet, wishes: _Wishes, machines: tuple[PackedMachines, ...]
    ) -> None:
        self._problem = problem
        self._sources = sources
        self._wishes = wishes
        self._left = Remaining.of(problem)
        for each in machines:
            problem.draw(self._left.stock, each.source, each.copies)
            if len(self._left.room):
                self._left.room -= problem.use[:, each.source] * each.copies
        domains = dict.fromkeys(each.domain for counted in wishes.counted for each in counted)
        self._columns = {domain: sources.table.values(domain[1]) for domain in domains}
        self._counts = {domain: wishes.running(domain, column) for domain, column in self._columns.items()}
        self._machines = [(each.source, each.pods) for each in machines for _ in range(each.copies)]
        for source, pods in self._machines:
            self._note(source, pods, 1)

    def run(self) -> tuple[PackedMachines, ...]:
        choosing = [place for place, (source, pods) in enumerate(self._machines) if self._may_choose(source, pods)]
        for _ in range(PASSES):
            if not sum([self._choose(place) for place in choosing]):
                break
        return together(PackedMachines(source, pods, 1) for source, pods in self._machines)

    def _may_choose(self, source: int, pods: Pattern) -> bool:
        wishes = self._wishes
        wished = any(wishes.liking[number] is not None or wishes.counted[number] for number, _ in pods)
        return wished and source >= self._sources.there

    def _choose(self, place: int) -> bool:
        """Take a machine that is liked more, if there is one. Was there?"""
        source, pods = self._machines[place]
        self._note(source, pods, -1)
        choice = np.append(source, self._others(source, pods))
        best = int(choice[np.argmax(self._liked(choice, pods))])  # the first of equals: it stays where it is
        self._note(best, pods, 1)
        if best == source:
            return False
        problem, left = self._problem, self._left
        problem.draw(left.stock, source, -1)
        problem.draw(left.stock, best, 1)
        if len(left.room):
            left.room += problem.use[:, source] - problem.use[:, best]
        self._machines[place] = best, pods
        return True

    def _others(self, source: int, pods: Pattern) -> Index:
        """Sources whose machines could take the place of one of this source."""
        problem, sources, left = self._problem, self._sources, self._left
        same = (problem.price == problem.price[source]) & (sources.price <= sources.price[source])
        same &= (sources.tier == sources.tier[source]) & (sources.row >= 0)
        stock = left.stock + (problem.shelves == problem.shelves[source])
        others: Index = np.flatnonzero(same & (stock > 0))
        others = others[others != source]
        numbers = [number for number, _ in pods]
        load = np.array([amount for _, amount in pods], np.float64) @ problem.need[numbers]
        others = others[(problem.capacity[others] >= load).all(axis=1) & problem.fits[numbers][:, others].all(axis=0)]
        if len(left.room) and len(others):
            room = (left.room + problem.use[:, source])[:, None]
            others = others[(problem.use[:, others] <= room).all(axis=0)]
        return others

    def _liked(self, choice: Index, pods: Pattern) -> Floats:
        """By source of the choice: how much these pods like it, beside all others that are planned."""
        liked = np.zeros(len(choice))
        for number, amount in pods:
            liking = self._wishes.liking[number]
            if liking is not None:
                liked += amount * liking[choice]
            for each in self._wishes.counted[number]:
                liked += amount * each.weight * self._counts[each.domain][self._columns[each.domain].place[choice]]
        return liked

    def _note(self, source: int, pods: Pattern, many: int) -> None:
        for domain, counts in self._counts.items():
            counts[self._columns[domain].place[source]] += many * self._wishes.members(domain[0], pods)
