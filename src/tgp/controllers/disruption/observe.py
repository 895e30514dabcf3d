"""Gathers what a decision about the machines of one pool may use, and plans where the pods of candidates would go.

Machines of a pool that moves pods together are searched for cheaper ones: at most once a minute, and only when
something has changed since the last search that may matter.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from tgp.api.nodeclass import GPUNodeClass
from tgp.api.nodepool import GPUNodePool, canonical_policy
from tgp.api.request import GPURequest
from tgp.api.values import go_duration
from tgp.controllers.pools.memory import PoolMemory
from tgp.controllers.pools.observe import PlanObservation, WorldObserver
from tgp.controllers.requests.indexes import BY_NODE, BY_POOL_UID, PODS_BY_NODE
from tgp.controllers.requests.purchase_gatherer import Views
from tgp.core.disruption.candidates import HELD_FOR, SETTLED_FOR, begins_at, standing_of, why_left
from tgp.core.disruption.causes import WHEN_UNDERUTILIZED, FoundExchange, Machine, Standing, holds
from tgp.core.disruption.drift import stamp_of
from tgp.core.disruption.illness import RepairRule, gpus_missing, illness_of
from tgp.core.disruption.machine_state import CONDITION, kept_free, move_of, pods_to_move, spares
from tgp.core.disruption.market_moves import LowestPrices, lowest_prices, moved
from tgp.core.disruption.move_steps import DisruptionObservation, Refit
from tgp.core.disruption.moves import to_plan
from tgp.core.market.sources import machines_of
from tgp.core.model.attempts import attempts_of, open_attempt, provider_of
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.node import Node
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.offer import BootMode
from tgp.core.model.pod import Pod
from tgp.core.model.record import uid_text
from tgp.core.model.spend import INSTANT
from tgp.core.pools.capacity import ENDED
from tgp.core.pools.orders import MOVE, REPLACES
from tgp.core.pools.planner.world import SpotKind
from tgp.core.power.times import stays_on_until
from tgp.core.requests.drain import DISRUPTED
from tgp.core.requests.node_metadata import pool_uid
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
    """One look at a pool, and the world that its candidates were planned in; None: none had to be."""

    seen: DisruptionObservation
    world: PlanObservation | None = None


@dataclass(frozen=True, slots=True)
class _Search:
    """The last search of a pool."""

    at: float  # Clock.boottime
    looked_at: object  # what it depended on, besides prices
    prices: LowestPrices
    book: int  # number of the price book
    found: "Consolidation | None" = None  # None: the pool buys nothing, so nothing was searched for
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
        self._searches: dict[ObjectKey, _Search] = {}  # by pool
        self._refits: dict[ObjectKey, _Refits] = {}  # by pool
        self._prices: tuple[int, LowestPrices] = (-1, {})  # of the price book with this number
        self._received: dict[str, datetime] = {}  # by Node: when pods of a machine that left were to come
        self._pods_on: dict[str, tuple[frozenset[str], datetime | None]] = {}  # by Node; and when that changed
        self._default_backend = default_backend  # the operator's own mesh
        self._repair_rules = repair_rules
        # By pool and uid of a request: since when promised GPUs are gone. A new process counts from its first look.
        self._missing: dict[ObjectKey, dict[str, datetime]] = {}
        self._memory = memory
        self._observer = observer
        self._compute = compute

    async def look(self, pool: KubeObject[GPUNodePool], now: datetime) -> PlannedLook:
        seen = self._observe(pool, now)
        if self._to_search(seen):
            await self._search(seen)
            seen = self._observe(pool, now)  # with what was found
        keys = to_plan(seen)
        if not keys:
            return PlannedLook(seen)
        seen, world, found = await self._planned(seen, keys)
        self._note_rooms(seen, found.refits)
        return PlannedLook(replace(seen, refits=found.refits), world)

    async def _planned(
        self, seen: DisruptionObservation, keys: tuple[ObjectKey, ...]
    ) -> "tuple[DisruptionObservation, PlanObservation, Refitted]":
        """With what stops the pool, the world, and where the pods of these candidates would go."""
        from tgp.core.disruption.refits import refits  # with the first move: it imports the planner and its solver

        for machine in seen.machines:
            self._memory.failures.learn(machine.record)
        world = self._observer.observe(seen.now, unreserved=frozenset(keys))
        planned = next((each for each in world.world.pools if each.key == seen.pool.key), None)
        seen = replace(seen, stopped=planned.stopped if planned is not None else "")
        placed = dict(self._memory.placed)
        unplanned = (pod for pod in world.world.pods if uid_text(pod.uid) not in placed)  # since the last plan
        leaving = (*self._leaving(frozenset(keys)), *unplanned)
        given = (replace(seen, now=ANY_TIME), keys, replace(world.world, now=ANY_TIME), placed, leaving)
        last = self._refits.get(seen.pool.key)
        if last is None or self._clock.boottime() >= last.at + REFITTED_FOR.total_seconds() or last.given != given:
            found = await self._compute.run(lambda: refits(seen, keys, world.world, placed, leaving))
            last = self._refits[seen.pool.key] = _Refits(self._clock.boottime(), given, found)
        return seen, world, last.found

    def forget(self, pool: ObjectKey) -> None:
        self._searches.pop(pool, None)
        self._refits.pop(pool, None)

    # -- cheaper machines ----------------------------------------------------------------------------------------------

    def _to_search(self, seen: DisruptionObservation) -> bool:
        last = self._searches.get(seen.pool.key)
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
        return candidates, seen.pool.generation, len(self._views.nodes), len(self._views.pods)

    async def _search(self, seen: DisruptionObservation) -> None:
        """In the room that other moves leave. What the last search found has no part in it: that may change."""
        from tgp.core.disruption.exchange import ExchangeInput, exchanges  # with the first search: as above

        key, found, prices, book = seen.pool.key, None, self._lowest(), self._observer.book.number
        others = replace(seen, machines=tuple(replace(each, exchange=None) for each in seen.machines))
        others, world, refitted = await self._planned(others, to_plan(others))
        buys = next((each for each in world.world.pools if each.key == key and not each.stopped), None)
        if buys is not None:
            pools = tuple(each for each in world.world.pools if each.key.namespace == key.namespace)
            given = ExchangeInput(
                replace(world.world, pools=pools, capacity=refitted.rooms), tuple(seen.standing.values()), seen.budgets
            )
            found = await self._compute.run(lambda: exchanges(given))
        before = self._searches[key].worth_since if key in self._searches else {}
        buying = (each for each in found.exchanges if each.orders) if found is not None else ()
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
        received_at = self._received.get(machine.node.name)
        return standing_of(
            machine, pool, losses, now, billing_step=step, changed_at=changed_at, received_at=received_at
        )

    def _note_rooms(self, seen: DisruptionObservation, found: Mapping[ObjectKey, Refit]) -> None:
        """Nodes that pods come to next, which then settle for a while."""
        leaving = (each.record.key for each in seen.machines if kept_free(each))
        names = {name for key in leaving if key in found for name in found[key].rooms}
        kept = {name: at for name, at in self._received.items() if seen.now < at + SETTLED_FOR}
        self._received = {**kept, **dict.fromkeys(names, seen.now)}

    def _changed_at(self, node: str, pods: Iterable[Pod], now: datetime) -> datetime | None:
        uids = frozenset(uid_text(pod.uid) for pod in pods if not pod.finished and not pod.of_daemon_set)
        before, at = self._pods_on.get(node, (uids, None))
        self._pods_on[node] = (uids, at if before == uids else now)
        return self._pods_on[node][1]

    def _observe(self, pool: KubeObject[GPUNodePool], now: datetime) -> DisruptionObservation:
        assert pool.value is not None, "a pool that cannot be read decides nothing"
        awaited = frozenset(self._memory.placed.values())
        records = sorted(self._views.requests.by_index(BY_POOL_UID, pool.uid_text), key=lambda each: each.key)
        moves = frozenset(move for each in self._views.requests.values() if (move := move_of(each)))
        machines, replacements = [], dict[str, list[Machine]]()
        missing = self._gpus_missing(pool.key, records, now)
        exchanges = self._found(pool.key, now)
        for record in records:
            if record.value is None or record.value.status.phase not in ENDED:
                machine = self._machine(
                    record, pool.value, awaited, moves, now=now, missing_since=missing.get(record.uid_text)
                )
                machines.append(replace(machine, **exchanges.get(record.key, {})))
        for record in self._replacing(pool.key.namespace, {move for record in records if (move := move_of(record))}):
            machine = self._machine(record, pool.value, awaited, moves, now=now)
            replacements.setdefault(record.annotations.get(MOVE, ""), []).append(machine)
        spare = spares(machines, now)
        machines = [replace(each, spare=each.record.key in spare) for each in machines] if spare else machines
        return DisruptionObservation(
            pool,
            now,
            tuple(machines),
            {move: tuple(found) for move, found in replacements.items()},
            tuple(sorted(self._views.budgets.values(), key=lambda each: each.key)),
            standing=self._standings(machines, pool.value, now),
        )

    def _gpus_missing(
        self, pool: ObjectKey, records: Iterable[KubeObject[GPURequest]], now: datetime
    ) -> dict[str, datetime]:
        """By uid of a request, since when; what is there again, or gone, is forgotten."""
        known = self._missing.pop(pool, {})
        ill = [each.uid_text for each in records if gpus_missing(each, self._node_of(each))]
        if ill:
            self._missing[pool] = {uid: known.get(uid, now) for uid in ill}
        return self._missing.get(pool, {})

    def _node_of(self, record: KubeObject[GPURequest]) -> Node | None:
        name = (record.value.status.node_name or "") if record.value is not None else ""
        return self._views.nodes.get(ObjectKey("", name)) if name else None

    def _standings(self, machines: Iterable[Machine], pool: GPUNodePool, now: datetime) -> dict[ObjectKey, Standing]:
        if canonical_policy(pool.spec.disruption.consolidation_policy) != WHEN_UNDERUTILIZED:
            return {}
        losses = self._memory.spot.loss(self._views.requests.values(), now)
        found = ((each.record.key, self._standing(each, pool, losses, now)) for each in machines)
        return {key: standing for key, standing in found if standing is not None}

    def _found(self, pool: ObjectKey, now: datetime) -> dict[ObjectKey, dict[str, Any]]:
        """By request, what the last search found of it."""
        search = self._searches.get(pool)
        if search is None or search.found is None:
            return {}
        said: dict[ObjectKey, dict[str, Any]] = {
            key: {"too_little": why} for key, why in search.found.too_little.items()
        }
        said |= {key: {"limited": why} for key, why in search.found.limited.items()}
        for rank, each in enumerate(search.found.exchanges):
            begins = begins_at(each.candidates, search.worth_since, now) if each.orders else now
            if now < begins:
                held = f"the saving has to hold for {go_duration(HELD_FOR)}, until {begins:%Y-%m-%d %H:%M:%S}Z"
                said |= {key: {"unproven": f"{each.message}; {held}"} for key in each.candidates}
                continue
            exchange = FoundExchange(each.message, each.candidates, each.savings.net, rank)
            said |= {key: {"exchange": exchange} for key in each.candidates}
        return said

    def _replacing(self, namespace: str, moves: Collection[str]) -> Iterator[KubeObject[GPURequest]]:
        """Replacements of these moves, of any pool there, also those that are not seen yet. Not what users annotate."""
        if moves:
            expected = (each.record for key, each in self._memory.expected.items() if not self._views.requests.get(key))
            for record in sorted((*self._views.requests.values(), *expected), key=lambda each: each.key):
                replaces = REPLACES in record.annotations and record.annotations.get(MOVE) in moves
                if replaces and pool_uid(record) and record.key.namespace == namespace:
                    yield record

    def _machine(
        self,
        record: KubeObject[GPURequest],
        pool: GPUNodePool,
        awaited: frozenset[str],
        moves: frozenset[str],
        *,
        now: datetime,
        missing_since: datetime | None = None,
    ) -> Machine:
        node = self._node_of(record)
        name = (record.value.status.node_name or "") if record.value is not None else ""
        offer = self._observer.offer_for(record)
        shape = self._memory.types.shapes.get(offer.key) if offer is not None else None
        return Machine(
            record,
            node,
            tuple(sorted(self._views.pods.by_index(PODS_BY_NODE, name), key=lambda pod: pod.key)) if name else (),
            awaited=name in awaited,
            given_up=self._memory.given_up.get(record.key, ""),
            keeps_place=REPLACES in record.annotations and record.annotations.get(MOVE) in moves,
            stamp=self._stamp(pool, offer.provider) if offer is not None else "",
            illness=illness_of(node, gpus_missing(record, node), missing_since, self._repair_rules),
            boot=timedelta(seconds=shape.boot_seconds if shape is not None else 0),
            stays_until=self._stays_until(record, pool, now),
        )

    def _stays_until(self, record: KubeObject[GPURequest], pool: GPUNodePool, now: datetime) -> datetime | None:
        """Of a machine you own, by its own settings; None: of any other."""
        attempt, node_class = open_attempt(attempts_of(record)), self._class_of(pool)
        owned = attempt is not None and attempt.offer is not None and attempt.offer.boot_mode == BootMode.POWER.value
        if attempt is None or attempt.offer is None or not owned or node_class is None:
            return None
        machine = machines_of(node_class).get(attempt.offer.instance_type or "")
        return stays_on_until(machine, attempt.launched_at, now) if machine is not None else None

    def _class_of(self, pool: GPUNodePool) -> GPUNodeClass | None:
        node_class = self._views.classes.get(ObjectKey("", pool.spec.node_class_ref.name))
        return node_class.value if node_class is not None and not node_class.deleting else None

    def _stamp(self, pool: GPUNodePool, provider: str) -> str:
        node_class = self._class_of(pool)
        return "" if node_class is None else stamp_of(pool, node_class, provider, self._default_backend)

    def _leaving(self, keys: frozenset[ObjectKey]) -> Iterator[Pod]:
        """Pods of other machines, of any pool, that are evicted or will be next."""
        for node in sorted(self._views.nodes.values(), key=lambda each: each.name):
            found = [each for each in self._views.requests.by_index(BY_NODE, node.name) if each.key not in keys]
            if any(each.deleting for each in found) or (found and DISRUPTED in node.taints):
                yield from pods_to_move(self._views.pods.by_index(PODS_BY_NODE, node.name))


def _unsaid(machine: Machine) -> bool:
    """Whether its move is written down, and its condition does not say so yet."""
    return bool(move_of(machine.record)) and holds(machine.record, CONDITION) is None
