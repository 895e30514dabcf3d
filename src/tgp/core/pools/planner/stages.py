"""The order in which pods and sources are brought together: pools by weight, pods by priority, gangs whole."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from tgp.core.model.arrays import Bools, Floats, Index, Ints, np
from tgp.core.pools.planner.problem import HostRule, Limit, PackedMachines, Packing, Problem, together
from tgp.core.pools.planner.solve import Effort, solve

MOST_REPEATS = 16  # plans that are made again because a gang was served in part; then all such gangs are left out

Step: TypeAlias = tuple[Bools, Bools]  # rows and sources that take part


@dataclass(frozen=True, slots=True, eq=False)
class Stages:
    tier: Ints  # by source; 0: there already
    priority: Ints  # by row
    gangs: Sequence[frozenset[str]]  # by row: of which gangs its pods are

    @property
    def tiers(self) -> list[int]:
        """In turn. What is there already takes part in each."""
        return sorted(set(self.tier.tolist()) - {0})


@dataclass(frozen=True, slots=True)
class Staged:
    machines: tuple[PackedMachines, ...]
    unserved: tuple[int, ...]  # by row
    # What machines cost at least that serve as many pods, tier by tier; None: not known. Penalties are no part of it.
    least: float | None
    proven: bool  # each step has a bound; with several of them, that may be none of the whole
    columns: int = 0  # patterns that were made for it
    left: tuple[float, ...] = ()  # of each limit


def staged(problem: Problem, stages: Stages, effort: Effort) -> Staged:
    gangs = stages.gangs
    kept, found = problem, _by_priority(problem, stages, effort)
    for repeat in range(MOST_REPEATS + 1):
        torn = _served_in_part(problem, kept, found, gangs)
        if not torn:
            break
        dropped = torn if repeat == MOST_REPEATS else torn[:1]
        out = np.array([not of.isdisjoint(dropped) for of in gangs], np.bool_)
        kept = replace(kept, count=np.where(out, 0, kept.count))
        found = _by_priority(kept, stages, effort)
    missing = problem.count - kept.count
    return replace(found, unserved=tuple((np.array(found.unserved, np.int64) + missing).tolist()))


def _served_in_part(problem: Problem, kept: Problem, found: Staged, gangs: Sequence[frozenset[str]]) -> list[str]:
    """Gangs of which some pods are served and others are not, left out ones among them: the fewest served first."""
    served: dict[str, int] = {}
    unserved: dict[str, int] = {}
    for number, each in enumerate(gangs):
        for gang in each:
            many = int(kept.count[number]) - found.unserved[number]
            served[gang] = served.get(gang, 0) + many
            unserved[gang] = unserved.get(gang, 0) + int(problem.count[number]) - many
    torn = [gang for gang, many in served.items() if many and unserved[gang]]
    return sorted(torn, key=lambda gang: (served[gang], gang))


def _by_priority(problem: Problem, stages: Stages, effort: Effort) -> Staged:
    """All at once; only if pods stay unserved, those of the highest priority first."""
    priority, tiers = stages.priority, [(stages.tier == each) | (stages.tier == 0) for each in stages.tiers or [0]]
    every = np.ones(problem.classes, np.bool_)
    found = _run(problem, [(every, allowed) for allowed in tiers], effort)
    levels = sorted(set(priority[problem.count > 0].tolist()), reverse=True)
    if len(levels) < 2 or not any(found.unserved):
        return found
    steps = [(priority == level, allowed) for level in levels for allowed in tiers]
    return replace(_run(problem, steps, effort), least=None, proven=False)


def _run(problem: Problem, steps: Sequence[Step], effort: Effort) -> Staged:
    bought = _Bought(problem)
    least, added_up, proven, columns = 0.0, True, True, 0
    decided = True  # which pods come to the next step
    for rows, sources in steps:
        part = bought.rest(rows, sources)
        if not part.count.any():
            continue
        added_up &= decided and _same_supply(part, sources, bought.machines)
        solved = solve(part, effort)
        bought.add(solved.packing.machines)
        columns += solved.columns
        decided = _leaves_no_choice(part, solved.packing)
        proven &= solved.bound.proven
        penalties = solved.packing.charged - solved.packing.cost
        least += max(solved.bound.least - penalties, 0.0)
    return Staged(
        together(bought.machines),
        tuple(bought.count.tolist()),
        least if proven and added_up else None,
        proven,
        columns,
        tuple(bought.room.tolist()),
    )


def _leaves_no_choice(part: Problem, packing: Packing) -> bool:
    """Whether every answer that serves as many pods passes the same ones on to the next step.

    Otherwise the bound of the next step is one of these pods only, and the steps' bounds cannot be added up.
    """
    could = (part.count > 0) & (part.hosts & (part.stock > 0)).any(axis=1)
    return bool(could.sum() <= 1) or not np.array(packing.unserved, np.int64)[could].any()


def _same_supply(part: Problem, sources: Bools, earlier: Sequence[PackedMachines]) -> bool:
    """Whether these pods find the same stock and limits, or more than they can use, whatever earlier steps bought."""
    pods, mine = int(part.count.sum()), np.flatnonzero(sources)  # a machine holds at least one pod
    for source in {each.source for each in earlier}:
        drawn = mine[(part.shelves[mine] == part.shelves[source]) & (mine != source)]
        if (part.stock[drawn] < pods).any():
            return False
        for limit in part.limits:
            if limit.use[source] > 0 and limit.use[mine].max(initial=0.0) * pods > limit.most:
                return False
    return True


@dataclass(slots=True)
class _Bought:
    """What earlier steps took, and the room that is left on their machines."""

    problem: Problem
    count: Ints = field(init=False)
    machines: list[PackedMachines] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.count = self.problem.count.copy()

    @property
    def room(self) -> Floats:
        room = self.problem.room.copy()
        for each in self.machines:
            if len(room):
                room -= self.problem.use[:, each.source] * each.copies
        return np.maximum(room, 0)

    def rest(self, rows: Bools, sources: Bools) -> Problem:
        """The problem that is left for these rows and sources; machines bought before cost nothing more."""
        problem = self.problem
        stock = np.where(sources, problem.stock, 0)
        for each in self.machines:
            problem.draw(stock, each.source, each.copies)
        count = np.where(rows, self.count, 0)
        limits = tuple(
            Limit(limit.name, limit.use, float(left)) for limit, left in zip(problem.limits, self.room, strict=True)
        )
        rest = replace(problem, count=count, stock=np.maximum(stock, 0), limits=limits)
        return _with_machines(rest, self.machines) if self.machines else rest

    def add(self, machines: Iterable[PackedMachines]) -> None:
        earlier, taken = list(self.machines), [0] * len(self.machines)
        for each in machines:
            for number, amount in each.pods:
                self.count[number] -= amount * each.copies
            place = each.source - self.problem.sources
            if place < 0:
                self.machines.append(each)
                continue
            base = earlier[place]
            taken[place] += each.copies
            pods = dict(base.pods)
            for number, amount in each.pods:
                pods[number] = pods.get(number, 0) + amount
            self.machines.append(PackedMachines(base.source, tuple(sorted(pods.items())), each.copies))
        for place, copies in enumerate(taken):
            self.machines[place] = earlier[place]._replace(copies=earlier[place].copies - copies)
        self.machines = [each for each in self.machines if each.copies > 0]


def _with_machines(problem: Problem, machines: Sequence[PackedMachines]) -> Problem:
    """Machines with pods on them as more sources, with the room that is left."""
    source = np.array([each.source for each in machines], np.intp)
    pods = np.zeros((len(machines), problem.classes))
    for place, each in enumerate(machines):
        for number, amount in each.pods:
            pods[place, number] = amount
    return replace(
        problem,
        capacity=np.concatenate([problem.capacity, np.maximum(problem.capacity[source] - pods @ problem.need, 0)]),
        price=np.concatenate([problem.price, np.zeros(len(machines))]),
        stock=np.concatenate([problem.stock, np.array([each.copies for each in machines], np.int64)]),
        fits=np.concatenate([problem.fits, problem.fits[:, source]], axis=1),
        host_rules=tuple(_with_pods(rule, problem.sources, source, pods) for rule in problem.host_rules),
        limits=tuple(
            Limit(limit.name, np.concatenate([limit.use, np.zeros(len(machines))]), limit.most)
            for limit in problem.limits
        ),
        shelf=np.concatenate([problem.shelves, problem.shelves.max(initial=-1) + 1 + np.arange(len(machines))]),
    )


def _with_pods(rule: HostRule, sources: int, source: Index, pods: Floats) -> HostRule:
    present = rule.present if rule.present is not None else np.zeros(sources, np.int64)
    owned = rule.owned if rule.owned is not None else np.zeros(sources, np.bool_)
    more = (pods @ rule.members.astype(np.float64)).astype(np.int64)
    owning = (pods @ rule.owners.astype(np.float64)) > 0
    return HostRule(
        rule.owners,
        rule.members,
        rule.most,
        np.concatenate([present, present[source] + more]),
        np.concatenate([owned, owned[source] | owning]),
    )
