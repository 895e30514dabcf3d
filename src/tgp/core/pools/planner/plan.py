"""The plan: which machines to buy for the pods that wait, which pods go where, and why the others wait."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from tgp.core.model.arrays import np
from tgp.core.model.pod import Pod
from tgp.core.model.record import uid_text
from tgp.core.pools.planner.classes import GANG_SIZE, gang_name, gang_of, grouped, matchers_in_play
from tgp.core.pools.planner.domains import left_alone, split_by_domain
from tgp.core.pools.planner.host_rules import host_rules, running_matchers
from tgp.core.pools.planner.offers import offers_of
from tgp.core.pools.planner.preferences import preferred
from tgp.core.pools.planner.problem import Problem
from tgp.core.pools.planner.reasons import Explaining, everywhere
from tgp.core.pools.planner.rows import (
    DemandRow,
    own_price,
    own_price_until,
    resources_of,
    rows_of,
    sharing_machines,
    without_ended_prices,
)
from tgp.core.pools.planner.solve import ROUNDED, THOROUGH, Effort
from tgp.core.pools.planner.sources import SourceSet, sources_of
from tgp.core.pools.planner.stages import Staged, Stages, staged
from tgp.core.pools.planner.volumes import tied_to_full_node, volume_problem
from tgp.core.pools.planner.world import Order, Plan, PlanInput, PoolReason, Unserved

UNSERVED_FACTOR = 10.0  # times the most expensive machine: what leaving a pod unserved is charged
LEAST_PENALTY = 1e9  # micro-dollars
# What a bound may have to leave out: pods are assigned to domains, and pools asked in turn, before prices are compared.
TOPOLOGY, WEIGHTS = "zone topology", "pool weights"
SIZE_DIGITS = 9  # of a gang's size: with more it is no number of pods


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
    held = dict(world.held_gangs)
    held |= {gang_of(pod): pod.key.name for pod in world.pods if uid_text(pod.uid) in refused and gang_of(pod)}
    for pod in world.pods:
        if gang_of(pod) in held and uid_text(pod.uid) not in refused:
            other = held[gang_of(pod)]
            why = f"gang {gang_of(pod)} is served whole or not at all, and its pod {other} cannot be served"
            refused[uid_text(pod.uid)] = everywhere("GangIncomplete", why)
    pods = without_ended_prices((pod for pod in world.pods if uid_text(pod.uid) not in refused), world.now)
    return pods, [Unserved(pod, refused[uid_text(pod.uid)]) for pod in world.pods if uid_text(pod.uid) in refused]


def incomplete_gangs(world: PlanInput) -> dict[str, str]:
    """Gangs that miss pods, each with the message."""
    sizes: dict[str, int] = {}
    found: dict[str, set[str]] = {}
    for pod in world.pods:
        if gang := gang_of(pod):
            written = pod.annotations.get(GANG_SIZE, "")
            sizes[gang] = max(sizes.get(gang, 0), int(written) if _is_size(written) else 0)
            found.setdefault(gang, set(world.gang_members.get(gang, ()))).add(uid_text(pod.uid))
    for place in world.capacity if sizes else ():
        for pod in place.pods:
            if (gang := gang_name(pod)) in sizes:
                found[gang].add(uid_text(pod.uid))
    return {
        gang: f"gang {gang}: {len(found[gang])} of {size} pods exist; machines are bought once all {size} are pending"
        for gang, size in sizes.items()
        if len(found[gang]) < size
    }


def _is_size(written: str) -> bool:
    return written.isascii() and written.isdigit() and len(written) <= SIZE_DIGITS


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of the problem, and what topology refused before it."""

    rows: list[DemandRow]
    refused: list[tuple[DemandRow, str]]

    def without(self, refused: Sequence[tuple[DemandRow, str]]) -> "_Rows":
        """These are refused, too, and with a pod its whole gang."""
        left, more = list(self.rows), list[tuple[DemandRow, str]]()
        gone = list(refused)
        while gone:
            torn = {gang: why for row, why in gone for gang in row.gangs}
            more += gone
            out = {id(row) for row, _ in gone}
            left = [row for row in left if id(row) not in out]
            gone = [
                (row, next(torn[gang] for gang in sorted(row.gangs) if gang in torn))
                for row in left
                if row.gangs & torn.keys()
            ]
        return _Rows(left, [*self.refused, *more])


class _Planning:
    def __init__(self, world: PlanInput, pods: Sequence[Pod], effort: Effort) -> None:
        self._world = world
        self._effort = effort
        self._pods = pods
        offers = [offers_of(pool, world) for pool in world.pools if not pool.stopped]
        self._sources: SourceSet = sources_of(world, offers, resources_of(pods))

    def run(self, unserved: list[Unserved]) -> Plan:
        asked, sources = self._rows(), self._sources
        problem, stages, found = self._solved(asked.rows)
        while alone := left_alone(asked.rows, found.machines, sources):
            asked = asked.without(alone)
            problem, stages, found = self._solved(asked.rows)
        rows = asked.rows
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
            *self._proven(rows, problem, stages, found, cost),
            columns=found.columns,
        )

    def _solved(self, rows: Sequence[DemandRow]) -> tuple[Problem, Stages, Staged]:
        problem, sources = self._problem(rows), self._sources
        priority = np.array([row.pod.priority for row in rows], np.int64)
        stages = Stages(sources.tier, priority, [row.gangs for row in rows])
        found = staged(problem, stages, self._effort)
        return problem, stages, replace(found, machines=preferred(problem, rows, sources, found.machines))

    def _rows(self) -> _Rows:
        world, sources = self._world, self._sources
        matchers = (*matchers_in_play(self._pods), *running_matchers(world.capacity))
        rows = rows_of(grouped(self._pods, matchers, world.namespaces), sources)
        rows, refused = sharing_machines(rows, sources)
        rows, more = split_by_domain(rows, sources)
        return _Rows(rows, []).without([*refused, *more])

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
            self._wanted_up_to(book.offers[row].gpu_count, pods),
        )

    def _wanted_up_to(self, gpus: int, pods: Sequence[Pod]) -> int | None:
        """What the pods' own prices allow for a machine with so many GPUs; None: no pod has one."""
        prices = (own_price(pod, self._world.now) for pod in pods if pod.annotations)
        return min((price * max(gpus, 1) for price in prices if price is not None), default=None)

    def _explained(self, rows: Iterable[tuple[DemandRow, str]], explaining: Explaining) -> list[Unserved]:
        explained: list[Unserved] = []
        for row, why in _by_patience(rows):
            reasons: tuple[PoolReason, ...] = everywhere("Topology", why) if why else ()
            if tied := tied_to_full_node(row.pod, self._world):
                reasons = everywhere("VolumeNotReady", tied)
            reasons = reasons or explaining.pool_reasons(row, self._world.pools)
            reasons = reasons or everywhere("NoPool", "no GPUNodePool exists")
            if row.gangs:
                gangs = " and ".join(f"gang {gang}" for gang in sorted(row.gangs))
                many = "are each" if len(row.gangs) > 1 else "is"
                reasons = (*everywhere("GangNotServed", f"{gangs} {many} served whole or not at all"), *reasons)
            explained += [Unserved(pod, reasons) for pod in row.pods]
        return explained

    def _proven(
        self, rows: Sequence[DemandRow], problem: Problem, stages: Stages, found: Staged, cost: int
    ) -> tuple[int, float | None, tuple[str, ...]]:
        """The bound and the gap, of what is paid to serve as many pods; and what had to be left out of them."""
        least, left_out = found.least, list[str]()
        if found.proven and any(_narrowed(row) for row in rows):
            left_out.append(TOPOLOGY)
        if found.proven and (least is None or left_out) and len(stages.tiers) > 1:
            left_out.append(WEIGHTS)
        if left_out:
            least = self._least_without(rows, problem, stages, found)
        charged = sum(float(problem.price[each.source]) * each.copies for each in found.machines)
        if least is None or (least <= 0 and charged > ROUNDED):
            return 0, None, ()
        more = charged - least
        if abs(more) <= ROUNDED:
            return cost, 0.0, ()  # with what is left out no plan costs less, either
        return int(cost - more), max(charged / least - 1.0, 0.0), tuple(left_out)

    def _least_without(
        self, rows: Sequence[DemandRow], problem: Problem, stages: Stages, found: Staged
    ) -> float | None:
        """A bound of all plans that serve the same pods, in any zone and by any pool."""
        fits = np.array([row.whole for row in rows], np.bool_).reshape(problem.fits.shape)
        one_tier = replace(stages, tier=np.minimum(stages.tier, 1))
        loose = staged(replace(problem, fits=fits), one_tier, replace(self._effort, good=np.inf))
        return loose.least if loose.unserved == found.unserved else None


def _by_patience(rows: Iterable[tuple[DemandRow, str]]) -> Iterator[tuple[DemandRow, str]]:
    """Pods whose own price ends at different times are told different moments."""
    for row, why in rows:
        parts: dict[datetime | None, list[tuple[Pod, ...]]] = {}
        for unit in row.units:
            parts.setdefault(own_price_until(unit[0]) if unit[0].annotations else None, []).append(unit)
        yield from ((row if len(parts) == 1 else _only(row, units), why) for units in parts.values())


def _narrowed(row: DemandRow) -> bool:
    """Whether the pods' topology leaves them fewer sources."""
    return row.mask is not row.whole and not np.array_equal(row.mask, row.whole)


def _only(row: DemandRow, units: Sequence[tuple[Pod, ...]]) -> DemandRow:
    return DemandRow(tuple(units), row.matched, row.need, row.mask, row.whole)
