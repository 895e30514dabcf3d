"""The plan: which machines to buy for the pods that wait, which pods go where, and why the others wait."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from tgp.core.model.arrays import np
from tgp.core.model.pod import Pod
from tgp.core.model.record import uid_text
from tgp.core.pools.planner.classes import GANG_SIZE, gang_of, grouped, matchers_in_play
from tgp.core.pools.planner.domains import split_by_domain
from tgp.core.pools.planner.host_rules import host_rules, running_matchers
from tgp.core.pools.planner.offers import offers_of
from tgp.core.pools.planner.preferences import preferred
from tgp.core.pools.planner.problem import Problem
from tgp.core.pools.planner.reasons import Explaining, everywhere
from tgp.core.pools.planner.rows import DemandRow, resources_of, rows_of, sharing_machines
from tgp.core.pools.planner.solve import THOROUGH, Effort
from tgp.core.pools.planner.sources import SourceSet, sources_of
from tgp.core.pools.planner.stages import Staged, Stages, staged
from tgp.core.pools.planner.volumes import volume_problem
from tgp.core.pools.planner.world import Order, Plan, PlanInput, PoolReason, Unserved

UNSERVED_FACTOR = 10.0  # times the most expensive machine: what leaving a pod unserved is charged
LEAST_PENALTY = 1e9  # micro-dollars


def plan(world: PlanInput, effort: Effort = THOROUGH) -> Plan:
    """Equal worlds give equal plans."""
    pods, unserved = _plannable(world)
    if not pods:
        return Plan(unserved=tuple(unserved))
    return _Planning(world, pods, effort).run(unserved)


def _plannable(world: PlanInput) -> tuple[list[Pod], list[Unserved]]:
    """Pods that may be planned for; and those that wait for something that no machine would change."""
    refused: dict[str, tuple[PoolReason, ...]] = {}
    incomplete = incomplete_gangs(world)
    for pod in world.pods:
        uid = uid_text(pod.uid)
        if uid in world.refused:
            reason, _, message = world.refused[uid].partition(": ")
            refused[uid] = everywhere(reason, message)
        elif problem := volume_problem(pod, world):
            refused[uid] = everywhere("VolumeNotReady", problem)
        elif why := incomplete.get(gang_of(pod), ""):
            refused[uid] = everywhere("GangIncomplete", why)
    held = {gang_of(pod): pod for pod in world.pods if uid_text(pod.uid) in refused and gang_of(pod)}
    for pod in world.pods:
        if gang_of(pod) in held and uid_text(pod.uid) not in refused:
            other = held[gang_of(pod)]
            why = f"gang {gang_of(pod)} is served whole or not at all, and its pod {other.key.name} cannot be"
            refused[uid_text(pod.uid)] = everywhere("GangIncomplete", why)
    pods = [pod for pod in world.pods if uid_text(pod.uid) not in refused]
    return pods, [Unserved(pod, refused[uid_text(pod.uid)]) for pod in world.pods if uid_text(pod.uid) in refused]


def incomplete_gangs(world: PlanInput) -> dict[str, str]:
    """Gangs that miss pods, each with the message."""
    sizes: dict[str, int] = {}
    found: dict[str, int] = {}
    for pod in world.pods:
        if gang := gang_of(pod):
            written = pod.annotations.get(GANG_SIZE, "")
            sizes[gang] = max(sizes.get(gang, 0), int(written) if written.isascii() and written.isdigit() else 0)
            found[gang] = found.get(gang, 0) + 1
    for place in world.capacity:
        for pod in place.pods:
            if (gang := gang_of(pod)) in sizes:
                found[gang] += 1
    return {
        gang: f"gang {gang} has {found[gang]} of {size} pods; machines are bought when all of them wait"
        for gang, size in sizes.items()
        if found[gang] < size
    }


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of the problem, and what topology refused before it."""

    rows: list[DemandRow]
    refused: list[tuple[DemandRow, str]]


class _Planning:
    def __init__(self, world: PlanInput, pods: Sequence[Pod], effort: Effort) -> None:
        self._world = world
        self._effort = effort
        self._pods = pods
        offers = [offers_of(pool, world) for pool in world.pools if not pool.stopped]
        self._sources: SourceSet = sources_of(world, offers, resources_of(pods))

    def run(self, unserved: list[Unserved]) -> Plan:
        asked = self._rows()
        rows, sources = asked.rows, self._sources
        problem = self._problem(rows)
        priority = np.array([row.pod.priority for row in rows], np.int64)
        stages = Stages(sources.tier, priority, [gang_of(row.pod) for row in rows])
        found = staged(problem, stages, self._effort)
        found = replace(found, machines=preferred(problem, rows, sources, found.machines))
        explaining = Explaining(sources, sources.limits, found.left or tuple(limit.most for limit in sources.limits))
        orders, placed, left = self._dealt(rows, found, explaining)
        unserved += self._explained(left, explaining)
        unserved += self._explained(asked.refused, explaining)
        cost = sum(order.hourly_microusd for order in orders)
        return Plan(
            tuple(orders),
            placed,
            tuple(sorted(unserved, key=lambda each: str(each.pod.key))),
            cost,
            *self._proven(rows, problem, found),
            columns=found.columns,
        )

    def _rows(self) -> _Rows:
        world, sources = self._world, self._sources
        matchers = (*matchers_in_play(self._pods), *running_matchers(world.capacity))
        rows = rows_of(grouped(self._pods, matchers, world.namespaces), sources)
        rows, refused = sharing_machines(rows, sources)
        rows, more = split_by_domain(rows, sources)
        refused += more
        torn = {gang_of(row.pod): why for row, why in refused if gang_of(row.pod)}
        refused += [(row, torn[gang_of(row.pod)]) for row in rows if gang_of(row.pod) in torn]
        return _Rows([row for row in rows if gang_of(row.pod) not in torn], refused)

    def _problem(self, rows: Sequence[DemandRow]) -> Problem:
        sources = self._sources
        dearest = float(sources.charge.max(initial=0.0))
        return Problem(
            np.array([row.need for row in rows]).reshape(len(rows), len(sources.resources)),
            np.array([len(row.units) for row in rows], np.int64),
            np.full(len(rows), max(dearest * UNSERVED_FACTOR, LEAST_PENALTY)),
            sources.capacity,
            sources.charge,
            sources.stock,
            np.array([row.mask for row in rows], np.bool_).reshape(len(rows), sources.size),
            host_rules(rows, self._world, sources.size),
            sources.limits,
            sources.shelf,
        )

    def _dealt(
        self, rows: Sequence[DemandRow], found: Staged, explaining: Explaining
    ) -> tuple[list[Order], dict[str, str], list[tuple[DemandRow, str]]]:
        """Pods by name again: the oldest of each row are served first."""
        sources = self._sources
        waiting = [list(row.units[::-1]) for row in rows]
        orders: list[Order] = []
        placed: dict[str, str] = {}
        for each in found.machines:
            compared = "" if each.source < sources.there else explaining.compared(each.source, each.pods, rows)
            for _ in range(each.copies):
                pods = [pod for number, amount in each.pods for _ in range(amount) for pod in waiting[number].pop()]
                if each.source < sources.there:
                    placed |= {uid_text(pod.uid): self._world.capacity[each.source].name for pod in pods}
                    continue
                orders.append(self._order(each.source, pods, compared))
        orders.sort(
            key=lambda order: (str(order.pool), -order.hourly_microusd, order.offer.key, str(order.pods[0].key))
        )
        left = [(_only(row, units), "") for row, units in zip(rows, waiting, strict=True) if units]
        return orders, placed, left

    def _order(self, source: int, pods: Sequence[Pod], compared: str) -> Order:
        sources, book = self._sources, self._world.book
        row = int(sources.row[source])
        return Order(
            sources.offers[int(sources.pool[source])].pool.key,
            book.offers[row],
            book.sources[book.source_of[row]].source,
            int(sources.price[source]),
            tuple(sorted(pods, key=lambda pod: (pod.created_at.timestamp() if pod.created_at else 0.0, str(pod.key)))),
            compared,
            float(sources.spot_loss[source]),
        )

    def _explained(self, rows: Iterable[tuple[DemandRow, str]], explaining: Explaining) -> list[Unserved]:
        explained: list[Unserved] = []
        for row, why in rows:
            reasons: tuple[PoolReason, ...] = everywhere("Topology", why) if why else ()
            reasons = reasons or explaining.pool_reasons(row, self._world.pools)
            reasons = reasons or everywhere("NoPool", "no GPUNodePool exists")
            if gang := gang_of(row.pod):
                reasons = (*everywhere("GangNotServed", f"gang {gang} is served whole or not at all"), *reasons)
            explained += [Unserved(pod, reasons) for pod in row.pods]
        return explained

    def _proven(self, rows: Sequence[DemandRow], problem: Problem, found: Staged) -> tuple[int, float | None]:
        """The bound of what machines cost, and the gap. With pods unserved it is a bound of nothing that is paid."""
        if found.bound is None or any(row.mask is not row.whole for row in rows):
            return 0, None
        charged = sum(float(problem.price[each.source]) * each.copies for each in found.machines)
        charged += float(np.dot(found.unserved, problem.penalty))
        least = found.bound
        gap = max(charged / least - 1.0, 0.0) if least > 0 else 0.0
        paid = least - float(np.dot(found.unserved, problem.penalty))
        return max(int(paid), 0), gap


def _only(row: DemandRow, units: Sequence[tuple[Pod, ...]]) -> DemandRow:
    return DemandRow(tuple(units), row.matched, row.need, row.mask, row.whole)
