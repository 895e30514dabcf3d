"""Which machines to empty, as a linear program: shares from 0 to 1, which are rounded and planned afterwards.

Every pod of a machine that may be emptied is demand. A machine that stays serves its own pods and what fits into the
room beside them, for what emptying it would gain; the market serves the others for its prices.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tgp.core.model.arrays import Floats, np
from tgp.core.model.pod import Pod
from tgp.core.model.record import uid_text
from tgp.core.pools.planner.classes import PodClass, grouped, matchers_in_play
from tgp.core.pools.planner.columns import GAIN, Duals, Master, Relaxed
from tgp.core.pools.planner.exact import best_pattern, most_value
from tgp.core.pools.planner.host_rules import host_rules, running_matchers
from tgp.core.pools.planner.offers import offers_of
from tgp.core.pools.planner.plan import LEAST_PENALTY, UNSERVED_FACTOR
from tgp.core.pools.planner.problem import Problem
from tgp.core.pools.planner.rows import resources_of, rows_of
from tgp.core.pools.planner.sources import SourceSet, sources_of
from tgp.core.pools.planner.world import PlanInput

MOST_ROUNDS = 40  # of pricing
MOST_NEW = 600  # columns in one round


@dataclass(frozen=True, slots=True)
class Occupied:
    """A machine that may be emptied, and what that would gain in an hour, in micro-dollars."""

    name: str  # of its Node, as in the world's capacity
    pods: tuple[Pod, ...]
    gain: float


@dataclass(frozen=True, slots=True)
class Relaxation:
    emptied: Floats  # by machine: the share that is emptied
    saving: float  # micro-dollars an hour; no plan saves more, if it is proven
    proven: bool


def classes_of(pods: Sequence[Pod], world: PlanInput) -> tuple[PodClass, ...]:
    """Pods that may take each other's places in a plan."""
    matchers = (*matchers_in_play(pods), *running_matchers(world.capacity))
    return grouped(pods, matchers, world.namespaces)


def relax(world: PlanInput, occupied: Sequence[Occupied], boots: float, exact_rounds: int = 0) -> Relaxation:
    """`boots`: what is paid while a machine boots, as a share of its price over the horizon."""
    pods = [pod for each in occupied for pod in each.pods]
    if not pods:
        return Relaxation(np.ones(len(occupied)), sum(max(each.gain, 0.0) for each in occupied), proven=True)
    return _Relaxing(world, occupied, pods, boots).run(exact_rounds)


class _Relaxing:
    def __init__(self, world: PlanInput, occupied: Sequence[Occupied], pods: Sequence[Pod], boots: float) -> None:
        offers = [offers_of(pool, world) for pool in world.pools if not pool.stopped]
        sources = sources_of(world, offers, resources_of(pods))
        classes = classes_of(pods, world)
        number = {uid_text(pod.uid): place for place, each in enumerate(classes) for pod in each.pods}
        places = {each.name: place for place, each in enumerate(world.capacity)}
        self._source = [places[each.name] for each in occupied]
        self._gain = np.array([each.gain for each in occupied])
        held = np.zeros((sources.size, len(classes)))  # by source: its own pods, of those that may be emptied
        for source, each in zip(self._source, occupied, strict=True):
            for pod in each.pods:
                held[source, number[uid_text(pod.uid)]] += 1
        self._problem = self._made(world, sources, classes, boots)
        self._master = Master(self._problem, held)
        self._live = np.flatnonzero((self._problem.stock > 0) & self._problem.hosts.any(axis=0))

    def _made(self, world: PlanInput, sources: SourceSet, classes: Sequence[PodClass], boots: float) -> Problem:
        rows = rows_of(classes, sources)
        price = sources.charge * (1 + boots)
        price[self._source] = self._gain
        dearest = float(price.max(initial=0.0))
        return Problem(
            np.array([row.need for row in rows]),
            np.array([len(row.units) for row in rows], np.int64),
            np.full(len(rows), max(dearest * UNSERVED_FACTOR, LEAST_PENALTY)),
            sources.capacity,
            price,
            sources.stock,
            np.array([row.mask for row in rows], np.bool_),
            host_rules(rows, world, sources.size),
            sources.limits,
            sources.shelf,
        )

    def run(self, exact_rounds: int) -> Relaxation:
        for source in self._source:
            self._master.add(source, ())
        relaxed = self._improved(MOST_ROUNDS)
        least, proven = relaxed.charged, False
        for _ in range(exact_rounds):
            least, added = self._exact(relaxed.duals)
            if not added:
                proven = True
                break
            relaxed = self._improved(MOST_ROUNDS)
        kept = np.zeros(self._problem.sources)
        np.add.at(kept, self._master.columns.source, relaxed.taken)
        emptied = np.clip(1.0 - kept[self._source], 0.0, 1.0)
        return Relaxation(emptied, float(self._gain.sum()) - min(least, relaxed.charged), proven)

    def _improved(self, rounds: int) -> Relaxed:
        relaxed = self._master.solve()
        for _ in range(rounds):
            if not self._master.add_priced(relaxed.duals, self._live, MOST_NEW):
                break
            relaxed = self._master.solve()
        return relaxed

    def _exact(self, duals: Duals) -> tuple[float, int]:
        """A bound on the charge of any answer, and the number of better patterns that were found on the way."""
        problem, live = self._problem, self._live
        charge = self._master.charge(duals)
        enough = charge + GAIN * (problem.price + 1)
        most = most_value(problem, duals.value, enough)
        added = 0
        for source in live[most[live] > enough[live]].tolist():
            search = best_pattern(problem, source, duals.value, max(float(enough[source]), 0.0))
            most[source] = min(most[source], max(search.most, 0.0))
            added += self._master.add(source, search.pods) if search.pods else 0
        most[~problem.hosts.any(axis=0)] = 0.0
        own = charge - duals.stock  # the stock's price is counted by what it saves below
        machines = np.minimum(problem.stock, problem.count.sum())
        saved = np.zeros(int(problem.shelves.max(initial=-1)) + 1)
        np.minimum.at(saved, problem.shelves, (own - most) * machines)
        least = float(duals.value @ problem.count) - float(duals.limit @ problem.room) + float(saved.sum())
        return least, added
