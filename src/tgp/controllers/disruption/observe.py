"""Gathers what a decision about the machines of pools may use, and plans where the pods of candidates would go.

Pools of one class in one namespace are looked at together: their machines may be exchanged for one another's. Where a
pool moves pods together, cheaper machines are searched for: at most once a minute, and only when something has changed
since the last search that may matter.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from tgp.api.nodepool import GPUNodePool, canonical_policy
from tgp.api.request import GPURequest
from tgp.api.values import go_duration
from tgp.controllers.disruption.machine_facts import class_of, ending_machines, kept_on_until, moves_under_way
from tgp.controllers.pools.memory import PoolMemory
from tgp.controllers.pools.observe import PlanObservation, WorldObserver
from tgp.controllers.requests.indexes import BY_NODE, BY_POOL_UID, PODS_BY_NODE, own_node
from tgp.controllers.requests.purchase_gatherer import Views
from tgp.core.disruption.candidates import HELD_FOR, begins_at, standing_of, why_left, with_stopped
from tgp.core.disruption.causes import WHEN_UNDERUTILIZED, FoundExchange, Machine, Standing, holds
from tgp.core.disruption.drift import stamp_of
from tgp.core.disruption.ending import EndingMachine
from tgp.core.disruption.health import RepairRule, gpus_missing, health_problem_of, missing_since
from tgp.core.disruption.machine_state import (
    CONDITION,
    is_going,
    keeps_place,
    move_of,
    parted_moves,
    pods_to_move,
    spares,
)
from tgp.core.disruption.market_moves import LowestPrices, lowest_prices, moved
from tgp.core.disruption.move_steps import DisruptionObservation, PoolMachines
from tgp.core.disruption.moves import to_plan
from tgp.core.model.attempts import attempts_of, open_attempt, provider_of
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.node import Node
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.offer import Offer
from tgp.core.model.pod import Pod
from tgp.core.model.record import uid_text
from tgp.core.model.spend import INSTANT
from tgp.core.pools.capacity import ENDED, living
from tgp.core.pools.orders import MOVE, REPLACES
from tgp.core.pools.planner.world import SpotKind
from tgp.core.requests.drain import DISRUPTED
from tgp.core.requests.node_metadata import pool_uid
from tgp.core.requests.own_node import owners_of, reserved_node_name
from tgp.ports.clock import Clock
from tgp.ports.clouds import Clouds, known_facts
from tgp.ports.compute import Compute

if TYPE_CHECKING:
    from tgp.core.disruption.exchange import Consolidation  # it imports the planner and its solver
    from tgp.core.disruption.refits import Refitted

SEARCHED_EVERY = timedelta(minutes=1)  # at most
REFITTED_FOR = timedelta(minutes=1)  # a place for pods is planned again after so long, also where nothing changed
ANY_TIME = datetime.min.replace(tzinfo=UTC)  # two observations that differ in nothing but their moment are equal
LISTED_FOR = timedelta(minutes=10)  # after so long new listings count, however little has changed in them


@dataclass(frozen=True, slots=True)
class PlannedLook:
    """One look at pools, and the world that their candidates were planned in; None: none had to be."""

    seen: DisruptionObservation
    world: PlanObservation | None = None


@dataclass(frozen=True, slots=True)
class _Search:
    """The last search among the machines of pools of one class."""

    at: float  # Clock.boottime
    looked_at: object  # what it depended on, besides prices
    prices: LowestPrices
    book: int  # number of the price book
    found: "Consolidation"
    # Machines that an exchange at market prices is worth it for; since when every search has found one.
    worth_since: Mapping[ObjectKey, datetime] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Refits:
    """Where the pods of candidates would go, as planned last."""

    at: float  # Clock.boottime
    given: object  # all that it depended on but the time
    found: "Refitted"


class DisruptionObserver:
    def __init__(
        self,
        views: Views,
        default_backend: str,
        repair_rules: tuple[RepairRule, ...],
        *,
        memory: PoolMemory,
        observer: WorldObserver,
        compute: Compute,
        clouds: Clouds,
        clock: Clock,
    ) -> None:
        self._views = views
        self._clouds = clouds
        self._clock = clock
        self._searches: dict[ObjectKey, _Search] = {}  # by namespace and class
        self._refits: dict[ObjectKey, _Refits] = {}  # by namespace and class
        self._prices: tuple[int, LowestPrices] = (-1, {})  # of the price book with this number
        self._pods_on: dict[str, tuple[frozenset[str], datetime | None]] = {}  # by Node; and when that changed
        self._default_backend = default_backend  # the operator's own mesh
        self._repair_rules = repair_rules
        self._memory = memory
        self._observer = observer
        self._compute = compute

    async def look(self, key: ObjectKey, pools: Sequence[KubeObject[GPUNodePool]], now: datetime) -> PlannedLook:
        """`key`: the namespace and the class of these pools."""
        seen = self._observe(key, pools, now)
        if self._to_search(key, seen):
            await self._search(key, seen)
            seen = self._observe(key, pools, now)  # with what was found
        keys = to_plan(seen)
        if not keys:
            return PlannedLook(seen)
        seen, world, found = await self._planned(key, seen, keys)
        return PlannedLook(replace(seen, refits=found.refits), world)

    async def _planned(
        self, key: ObjectKey, seen: DisruptionObservation, keys: tuple[ObjectKey, ...]
    ) -> "tuple[DisruptionObservation, PlanObservation, Refitted]":
        """With what stops pools, the world, and where the pods of these candidates would go."""
        from tgp.core.disruption.refits import refits  # with the first move: it imports the planner and its solver

        for machine in seen.machines:
            self._memory.failures.learn(machine.record)
        world = self._observer.observe(seen.now, unreserved=frozenset(keys))
        world = replace(world, world=replace(world.world, taken=self._ordered()))
        stopped = {each.key: each.stopped for each in world.world.pools if each.stopped}
        seen = replace(
            seen, stopped=stopped, ending=self._ending(world.world.spot_loss, seen.now) if seen.standing else {}
        )
        placed = dict(self._memory.placed)
        unplanned = (pod for pod in world.world.pods if uid_text(pod.uid) not in placed)  # since the last plan
        leaving = (*self._leaving(frozenset(keys)), *unplanned)
        given = (replace(seen, now=ANY_TIME), keys, replace(world.world, now=ANY_TIME), placed, leaving)
        last = self._refits.get(key)
        if last is None or self._clock.boottime() >= last.at + REFITTED_FOR.total_seconds() or last.given != given:
            found = await self._compute.run(lambda: refits(seen, keys, world.world, placed, leaving))
            last = self._refits[key] = _Refits(self._clock.boottime(), given, found)
        return seen, world, last.found

    def _ordered(self) -> Mapping[str, int]:
        """By offer key, replacements that are not launched yet: what they buy is still listed."""
        expected = (each.record for key, each in self._memory.expected.items() if not self._views.requests.get(key))
        found = Counter[str]()
        for record in (*self._views.requests.values(), *expected):
            if REPLACES in record.annotations and pool_uid(record) and living(record):
                attempt, offer = open_attempt(attempts_of(record)), self._observer.offer_for(record)
                if offer is not None and (attempt is None or attempt.launched_at is None):
                    found[offer.key] += 1
        return found

    def forget(self, key: ObjectKey) -> None:
        self._searches.pop(key, None)
        self._refits.pop(key, None)

    # -- cheaper machines ----------------------------------------------------------------------------------------------

    def _to_search(self, key: ObjectKey, seen: DisruptionObservation) -> bool:
        last = self._searches.get(key)
        if not seen.standing or (
            last is not None and self._clock.boottime() < last.at + SEARCHED_EVERY.total_seconds()
        ):
            return False
        if any(each.exchange is not None and _unsaid(each) for each in seen.machines):
            return False  # the next search would not find it any more, and the move would be taken back
        if last is None or moved(last.prices, self._lowest()) or last.looked_at != self._looked_at(seen):
            return True
        listed = last.book != self._observer.book.number
        return listed and self._clock.boottime() >= last.at + LISTED_FOR.total_seconds()

    def _lowest(self) -> LowestPrices:
        """Every listing makes a new price book, also one with the same prices."""
        book = self._observer.book
        if self._prices[0] != book.number:
            self._prices = (book.number, lowest_prices(book.offers))
        return self._prices[1]

    def _looked_at(self, seen: DisruptionObservation) -> object:
        """What a search depends on besides prices: candidates and their pods, and the room on all Nodes."""
        candidates = frozenset(
            (each.machine.record.uid_text, frozenset(uid_text(pod.uid) for pod in each.machine.pods))
            for each in seen.standing.values()
            if not why_left(each, seen.budgets, seen.now)
        )
        pools = tuple((each.pool.key, each.pool.generation) for each in seen.pools)
        return candidates, pools, len(self._views.nodes), len(self._views.pods)

    async def _search(self, key: ObjectKey, seen: DisruptionObservation) -> None:
        """In the room that other moves leave. What the last search found has no part in it: that may change."""
        from tgp.core.disruption.exchange import ExchangeInput, exchanges  # with the first search: as above

        prices, book = self._lowest(), self._observer.book.number
        others = _unfound(seen)
        others, world, refitted = await self._planned(key, others, to_plan(others))
        pools = tuple(each for each in world.world.pools if each.key.namespace == key.namespace)
        machines = with_stopped(seen.standing.values(), pools)
        given = ExchangeInput(replace(refitted.world, pools=pools), machines, seen.budgets, others.ending)
        found = await self._compute.run(lambda: exchanges(given))
        before = self._searches[key].worth_since if key in self._searches else {}
        buying = (each for each in found.exchanges if each.orders)
        worth = {one: before.get(one, seen.now) for each in buying for one in each.candidates}
        self._searches[key] = _Search(self._clock.boottime(), self._looked_at(seen), prices, book, found, worth)
        there = {node.name for node in self._views.nodes.values()}
        self._pods_on = {name: row for name, row in self._pods_on.items() if name in there}

    def _standing(
        self, machine: Machine, pool: GPUNodePool, losses: Mapping[SpotKind, float], now: datetime
    ) -> Standing | None:
        if machine.node is None:
            return None
        facts = known_facts(self._clouds, provider_of(open_attempt(attempts_of(machine.record))))
        step = facts.billing_step if facts is not None else INSTANT
        changed_at = self._changed_at(machine.node.name, machine.pods, now)
        return standing_of(machine, pool, losses, now, billing_step=step, changed_at=changed_at)

    def _ending(self, losses: Mapping[SpotKind, float], now: datetime) -> dict[str, EndingMachine]:
        records = tuple(self._views.requests.values())
        joined = ((node.name, each) for each in records if (node := self._node_of(each)) is not None)
        pools, classes = self._views.pools.values(), self._views.classes
        return ending_machines(joined, moves_under_way(records), pools, classes, losses=losses, now=now)

    def _changed_at(self, node: str, pods: Iterable[Pod], now: datetime) -> datetime | None:
        uids = frozenset(uid_text(pod.uid) for pod in pods if not pod.finished and not pod.of_daemon_set)
        before, at = self._pods_on.get(node, (uids, None))
        self._pods_on[node] = (uids, at if before == uids else now)
        return self._pods_on[node][1]

    def _observe(
        self, key: ObjectKey, pools: Sequence[KubeObject[GPUNodePool]], now: datetime
    ) -> DisruptionObservation:
        awaited = frozenset(self._memory.placed.values())
        moves = moves_under_way(self._views.requests.values())
        exchanges = self._found(key, now)
        members = tuple(self._members(pool, awaited, moves, exchanges, now) for pool in pools)
        replacements = dict[str, list[Machine]]()
        under_way = {move for each in members for one in each.machines if (move := move_of(one.record))}
        for record in self._replacing(key.namespace, under_way):
            machine = self._machine(record, None, awaited, moves, now=now)
            replacements.setdefault(record.annotations.get(MOVE, ""), []).append(machine)
        own = {pool.uid_text for pool in pools}
        others = [each for each in self._views.requests.values() if is_going(each) and pool_uid(each) not in own]
        parted = parted_moves(under_way, key.namespace, (each for each in others if pool_uid(each)))
        return DisruptionObservation(
            members,
            now,
            {move: tuple(found) for move, found in replacements.items()},
            tuple(sorted(self._views.budgets.values(), key=lambda each: each.key)),
            standing=self._standings(members, now),
            going=frozenset(node.name for each in others if (node := self._node_of(each)) is not None),
            parted={
                move: tuple(self._machine(each, None, awaited, moves, now=now) for each in found)
                for move, found in parted.items()
            },
            replanned=dict(self._memory.replanned),
        )

    def _members(
        self,
        pool: KubeObject[GPUNodePool],
        awaited: frozenset[str],
        moves: frozenset[str],
        exchanges: Mapping[ObjectKey, dict[str, Any]],
        now: datetime,
    ) -> PoolMachines:
        records = sorted(self._views.requests.by_index(BY_POOL_UID, pool.uid_text), key=lambda each: each.key)
        machines = []
        for record in records:
            if record.value is None or record.value.status.phase not in ENDED:
                machine = self._machine(record, pool.value, awaited, moves, now=now)
                machines.append(replace(machine, **exchanges.get(record.key, {})))
        spare = spares(machines, now)
        machines = [replace(each, spare=each.record.key in spare) for each in machines] if spare else machines
        return PoolMachines(pool, tuple(machines))

    def _node_of(self, record: KubeObject[GPURequest]) -> Node | None:
        return own_node(self._views.nodes, record)

    def _standings(self, pools: Iterable[PoolMachines], now: datetime) -> dict[ObjectKey, Standing]:
        moving = [each for each in pools if _moves_pods(each.value)]
        losses = self._memory.spot.loss(self._views.requests.values(), now) if moving else {}
        found = (self._standing(one, each.value, losses, now) for each in moving for one in each.machines)
        return {standing.key: standing for standing in found if standing is not None}

    def _found(self, key: ObjectKey, now: datetime) -> dict[ObjectKey, dict[str, Any]]:
        """By request, what the last search found of it."""
        search = self._searches.get(key)
        if search is None:
            return {}
        said: dict[ObjectKey, dict[str, Any]] = {
            one: {"too_little": why} for one, why in search.found.too_little.items()
        }
        said |= {one: {"limited": why} for one, why in search.found.limited.items()}
        for rank, each in enumerate(search.found.exchanges):
            begins = begins_at(each.candidates, search.worth_since, now) if each.orders else now
            if now < begins:
                lasts = f"savings must last {go_duration(HELD_FOR)} before machines are replaced"
                held = f"waiting until {begins:%Y-%m-%d %H:%M:%S}Z: {lasts}"
                said |= {one: {"unproven": f"{each.message}; {held}"} for one in each.candidates}
                continue
            exchange = FoundExchange(each.message, each.candidates, each.savings.net, rank, bool(each.orders))
            said |= {one: {"exchange": exchange} for one in each.candidates}
        return said

    def _replacing(self, namespace: str, moves: Collection[str]) -> Iterator[KubeObject[GPURequest]]:
        """Replacements of these moves, of any pool there, also those that are not seen yet. Not what users annotate."""
        if moves:
            expected = (each.record for key, each in self._memory.expected.items() if not self._views.requests.get(key))
            for record in sorted((*self._views.requests.values(), *expected), key=lambda each: each.key):
                if keeps_place(record, moves) and pool_uid(record) and record.key.namespace == namespace:
                    yield record

    def _machine(
        self,
        record: KubeObject[GPURequest],
        pool: GPUNodePool | None,
        awaited: frozenset[str],
        moves: frozenset[str],
        *,
        now: datetime,
    ) -> Machine:
        """`pool`: whose machine it is; None: of a replacement, which is only waited for."""
        node = self._node_of(record)
        name = reserved_node_name(record)
        offer = self._observer.offer_for(record)
        shape = self._memory.types.shapes.get(offer.key) if offer is not None else None
        missing = gpus_missing(record, node) if pool is not None else ""
        since = missing_since(record, now) if missing else None
        return Machine(
            record,
            node,
            tuple(sorted(self._views.pods.by_index(PODS_BY_NODE, name), key=lambda pod: pod.key)) if name else (),
            awaited=name in awaited,
            given_up=self._memory.given_up.get(record.key, ""),
            keeps_place=keeps_place(record, moves),
            stamp=self._stamp(pool, offer) if offer is not None and pool is not None else "",
            health_problem=health_problem_of(node, missing, since, self._repair_rules),
            missing_since=since,
            boot=timedelta(seconds=shape.boot_seconds if shape is not None else 0),
            stays_until=kept_on_until(record, class_of(pool, self._views.classes), now) if pool is not None else None,
        )

    def _stamp(self, pool: GPUNodePool, offer: Offer) -> str:
        node_class = class_of(pool, self._views.classes)
        return "" if node_class is None else stamp_of(pool, node_class, offer, self._default_backend)

    def _leaving(self, keys: frozenset[ObjectKey]) -> Iterator[Pod]:
        """Pods of other machines, of any pool, that are evicted or will be next."""
        for node in sorted(self._views.nodes.values(), key=lambda each: each.name):
            owners = owners_of(node, self._views.requests.by_index(BY_NODE, node.name))
            found = [each for each in owners if each.key not in keys]
            if any(each.deleting for each in found) or (found and DISRUPTED in node.taints):
                yield from pods_to_move(self._views.pods.by_index(PODS_BY_NODE, node.name))


def _moves_pods(pool: GPUNodePool) -> bool:
    return canonical_policy(pool.spec.disruption.consolidation_policy) == WHEN_UNDERUTILIZED


def _unfound(seen: DisruptionObservation) -> DisruptionObservation:
    """As if nothing had been found yet."""
    pools = (replace(each, machines=tuple(replace(one, exchange=None) for one in each.machines)) for each in seen.pools)
    return replace(seen, pools=tuple(pools))


def _unsaid(machine: Machine) -> bool:
    """Whether its move is written down, and its condition does not say so yet."""
    return bool(move_of(machine.record)) and holds(machine.record, CONDITION) is None
