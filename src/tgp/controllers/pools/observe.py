"""Gathers the world that a plan is made from: nodes first, then pods, so that a race buys too little, not too much."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from operator import is_
from typing import Protocol

from tgp.api.budget import GPUWorkloadBudget
from tgp.api.nodeclass import GPUNodeClass
from tgp.api.nodepool import GPUNodePool
from tgp.api.request import GPURequest
from tgp.controllers.deps import FeatureSettings
from tgp.controllers.market.reconciler import MarketState
from tgp.controllers.pools.computed_once import SPARE, ComputedOnce, RequestsRead
from tgp.controllers.pools.indexes import GANG_PODS, WAITING_PODS, YES
from tgp.controllers.pools.memory import PoolMemory
from tgp.controllers.requests.indexes import BY_NODE, PODS_BY_NODE, own_node
from tgp.controllers.requests.ledger import Ledger
from tgp.controllers.requests.purchase_gatherer import Views
from tgp.core.budgets.admission import bought_nothing_for
from tgp.core.classes.nodeclass import namespace_allowed
from tgp.core.classes.semantic_validation import names_time_zone
from tgp.core.disruption.machine_state import move_of, pods_to_move
from tgp.core.inventory.limits import Reservation
from tgp.core.market.sources import machines_of
from tgp.core.model.attempts import attempts_of
from tgp.core.model.conditions import condition_in
from tgp.core.model.cooldowns import Cooldown, Cooldowns
from tgp.core.model.costs import class_of
from tgp.core.model.hold import Hold
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.node import Node
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.offer import BootMode, Offer
from tgp.core.model.pod import Pod
from tgp.core.model.price_book import PriceBook
from tgp.core.model.record import uid_text
from tgp.core.model.storage import Claim, StorageClass, Volume
from tgp.core.model.token import plain_uid
from tgp.core.pools.capacity import (
    coming_capacity,
    drained_capacity,
    living,
    node_capacity,
    on_its_way,
    serves,
    stays_if_needed,
    with_pods,
)
from tgp.core.pools.demand import Demand, PodDemand, demand_of, demand_of_pod
from tgp.core.pools.gangs import need_no_machine
from tgp.core.pools.limits import expected_reservation, limit_rooms
from tgp.core.pools.machine_types import owned_shape
from tgp.core.pools.nodepool import PoolObservation, buys_nothing, judge_pool
from tgp.core.pools.nominations import PricedRoom, node_of
from tgp.core.pools.orders import MOVE, REPLACES, bought_for
from tgp.core.pools.planner.classes import GANG_SIZE, gang_of
from tgp.core.pools.planner.rows import own_price_until
from tgp.core.pools.planner.world import Capacity, LimitRoom, PlanInput, PlannedPool, Shape
from tgp.core.pools.replicas import missing_slots
from tgp.core.pools.runaway import ReadyNode
from tgp.core.power.times import stays_off_until
from tgp.core.requests.node_metadata import labels_with, pool_key
from tgp.core.requests.observation import OwningPool
from tgp.core.requests.own_node import owners_of
from tgp.core.requests.purchase import ALLOW_UNTRUSTED, SourceObservation, own_cooldowns, takes_over
from tgp.ports.cluster import View

READ_AT_ONCE = 100  # objects, before other work gets the event loop
ANY_TIME = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class PlanObservation:
    """A world, and what an order needs beside it."""

    world: PlanInput
    demand: Demand
    pools: Mapping[ObjectKey, KubeObject[GPUNodePool]] = field(default_factory=dict)  # those that may buy
    observing: tuple[PlannedPool, ...] = ()  # those that only report
    ready_nodes: Mapping[str, ReadyNode] = field(default_factory=dict)  # by name
    machines: tuple[PricedRoom, ...] = ()  # with all room that waiting pods may get, nominated or not
    nominated: Mapping[str, str] = field(default_factory=dict)  # pod uid → name of the capacity that it has room at
    on_trial: Mapping[str, str] = field(default_factory=dict)  # pod uid → its family, for which one machine is tried
    paused: Mapping[str, datetime] = field(default_factory=dict)  # pod uid → until when nothing is bought for it
    look_again_at: datetime | None = None  # when the world changes by itself


@dataclass(frozen=True, slots=True)
class WaitingPods:
    pods: tuple[Pod, ...] = ()  # as the cache lists them
    asking: tuple[PodDemand, ...] = ()  # in the order of their keys
    by_uid: Mapping[str, Pod] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StorageViews:
    claims: View[Claim]
    volumes: View[Volume]
    classes: View[StorageClass]


class PurchaseFacts(Protocol):
    """What is known of purchases beside the caches: the operator's `PurchaseGatherer`, or what a terminal sees."""

    def hold(self) -> Hold | None: ...

    def sources(self, node_class: GPUNodeClass) -> Mapping[str, SourceObservation]: ...

    def pool_of(self, record: KubeObject[GPURequest]) -> OwningPool | None: ...


class WorldObserver:
    def __init__(
        self,
        views: Views,
        policy: FeatureSettings,
        *,
        purchases: PurchaseFacts,
        market: MarketState,
        ledger: Ledger,
        memory: PoolMemory,
        storage: StorageViews,
        budgets: View[KubeObject[GPUWorkloadBudget]],
    ) -> None:
        self._views = views
        self._budgets = budgets
        self._storage = storage
        self._policy = policy
        self._purchases = purchases
        self._market = market
        self._ledger = ledger
        self._memory = memory
        self._read = RequestsRead()
        self._rooms: ComputedOnce[tuple[Capacity, datetime | None]] = ComputedOnce()  # by name of a Node
        self._coming_rooms: ComputedOnce[Capacity] = ComputedOnce()  # by key of a request
        self._waiting = WaitingPods()
        self._asked: dict[ObjectKey, tuple[Pod, PodDemand | None]] = {}  # of pods that waited in the last plan
        self._owned: tuple[int, tuple[Offer, ...]] = (-1, ())
        self._by_pin: tuple[int, dict[tuple[str, str, bool], list[Offer]]] = (-1, {})

    @property
    def scheduler_names(self) -> frozenset[str]:
        """Whose pods are planned for."""
        return self._policy.scheduler_names

    def observe(self, now: datetime, unreserved: frozenset[ObjectKey] = frozenset()) -> PlanObservation:
        """`unreserved`: machines for whose pods no room is kept on their replacements."""
        waiting = self._waiting_pods()  # nothing changes until this returns
        self._forget_gone(waiting.pods)
        memory, moments = self._memory, []
        shapes = {**self._owned_shapes(), **memory.types.shapes}
        machines, ready = list[PricedRoom](), dict[str, ReadyNode]()
        refused = memory.disagreements.by_node(waiting.pods)
        for node in sorted(self._views.nodes.values(), key=lambda each: each.name):
            requests = owners_of(node, self._views.requests.by_index(BY_NODE, node.name))
            drains = stays_if_needed(node, requests)
            if not drains and (not serves(node) or self._ends(requests)):
                continue
            room, until = self._room(node, now, refused.get(node.name, frozenset()), drains=drains)
            machines.append(PricedRoom(room, self._price(requests)))
            moments.append(until)
            if not drains:
                ready[node.name] = ReadyNode.of(node, bought=any(self._read.of(each).of_pool for each in requests))
        machines += self._coming(shapes)
        kept = self._reserved(unreserved)
        if kept:
            machines = [replace(each, room=with_pods(each.room, kept.get(each.room.name, ()))) for each in machines]
        room_at = {name: each.room for each in machines if (name := node_of(each))}
        demand = demand_of(waiting.asking, room_at, self._used_up(waiting.pods))
        nominated: dict[str, list[Pod]] = {}  # by name of the capacity: a Node has two until its machine is initialised
        for pod in demand.nominated:
            nominated.setdefault(room_at[pod.nominated_node].name, []).append(pod)
        rooms = tuple(with_pods(each.room, nominated.get(each.room.name, ())) for each in machines)
        cooldowns = self._cooldowns()
        coming = {uid for each in machines if each.request is not None for uid in each.pods} | memory.just_ready
        coming.update(uid for each in memory.expected.values() for uid in bought_for(each.record))
        runaways = memory.runaways.refusals({**waiting.by_uid, **dict.fromkeys(self._slots())}, now, coming)
        planned = tuple(self._pools(now))
        buying = tuple(each for each in planned if not self._observes(each.pool))
        moments += [*runaways.until.values(), memory.disagreements.next_change(now), _first_end(cooldowns, now)]
        moments += [held.until for each in planned for held in (*each.cooldowns.values(), *each.left_out.values())]
        moments += [ends for pod in demand.pods if pod.annotations and (ends := own_price_until(pod)) is not None]
        moments += [
            stop.until for each in self._views.pools.values() if (stop := memory.stop_of(each, now)) is not None
        ]
        moments += [until for each in buying for until in self._switched_on_again(each, now)]
        world = PlanInput(
            now,
            demand.pods,
            buying,
            self._market.book,
            cooldowns,
            rooms,
            tuple(self._limits(planned)),
            tuple(sorted(self._views.daemon_sets.values(), key=lambda each: each.key)),
            self._policy.device_plugin_required,
            self._policy.default_backend,
            {each.key.name: each.labels for each in self._views.namespaces.values()},
            claims={each.key: each for each in self._storage.claims.values()},
            volumes={each.key.name: each for each in self._storage.volumes.values()},
            storage_classes={each.key.name: each for each in self._storage.classes.values()},
            shapes=shapes,
            owned_nodes=self._owned_nodes(),
            successes=dict(memory.types.successes),
            spot_loss=memory.spot.loss(self._views.requests.values(), now),
            not_for=runaways.not_for,
            refused={**memory.disagreements.refusals(demand.pods, now), **runaways.refused},
            gang_members=self._gang_members(demand.pods),
            held_gangs=demand.held_gangs,
        )
        return PlanObservation(
            world,
            demand,
            {each.key: found for each in buying if (found := self._views.pools.get(each.key)) is not None},
            tuple(each for each in planned if self._observes(each.pool)),
            ready,
            tuple(machines),
            {uid_text(pod.uid): name for name, pods in nominated.items() for pod in pods},
            runaways.on_trial,
            runaways.until,
            min((each for each in moments if each is not None and each > now), default=None),
        )

    def _used_up(self, pods: Sequence[Pod]) -> dict[str, str]:
        """Of pods whose budget would stop them, by uid: why no machine is bought for them."""
        found = ((each.key, each.value) for each in self._budgets.values() if not each.deleting)
        budgets = [(key, budget) for key, budget in found if budget is not None]
        return bought_nothing_for(
            pods, budgets, {each.key.name: each.labels for each in self._views.namespaces.values()}
        )

    def _gang_members(self, pods: Iterable[Pod]) -> dict[str, frozenset[str]]:
        """Of gangs that say how many they are, and have pods that wait."""
        waiting: dict[str, set[str]] = {}
        for pod in pods:
            if GANG_SIZE in pod.annotations and (gang := gang_of(pod)):
                waiting.setdefault(gang, set()).update(each.uid for each in (pod.controller,) if each is not None)
        return {
            gang: need_no_machine(self._views.pods.by_index(GANG_PODS, gang), owners)
            for gang, owners in waiting.items()
        }

    def _forget_gone(self, waiting: Sequence[Pod]) -> None:
        keys = {record.key for record in self._views.requests.values()} | self._memory.expected.keys()
        self._read.keep(keys)
        self._coming_rooms.keep(keys)
        self._rooms.keep({node.name for node in self._views.nodes.values()})
        if len(self._asked) > 2 * len(waiting) + SPARE:
            self._asked = {pod.key: held for pod in waiting if (held := self._asked.get(pod.key)) is not None}

    async def read_ahead(self) -> None:
        """What is computed of each object, a few at a time: `observe`, which does not yield, finds most of it done."""
        for number, record in enumerate(tuple(self._views.requests.values()), 1):
            self._read.of(record)
            if number % READ_AT_ONCE == 0:
                await asyncio.sleep(0)
        for number, node in enumerate(tuple(self._views.nodes.values()), 1):
            self._lasting_room(node, self._pods_on(node))
            if number % READ_AT_ONCE == 0:
                await asyncio.sleep(0)
        for number, pod in enumerate(tuple(self._views.pods.by_index(WAITING_PODS, YES)), 1):
            self._asked_by(pod)
            if number % READ_AT_ONCE == 0:
                await asyncio.sleep(0)
        await asyncio.sleep(0)
        self._waiting_pods()
        await asyncio.sleep(0)

    def _waiting_pods(self) -> WaitingPods:
        """Put together once for as long as the same pods wait."""
        pods = tuple(self._views.pods.by_index(WAITING_PODS, YES))
        held = self._waiting
        if len(held.pods) != len(pods) or not all(map(is_, held.pods, pods)):
            asked = (self._asked_by(pod) for pod in pods)
            asking = sorted((each for each in asked if each is not None), key=lambda each: each.pod.key)
            self._waiting = WaitingPods(pods, tuple(asking), {uid_text(pod.uid): pod for pod in pods})
        return self._waiting

    def _asked_by(self, pod: Pod) -> PodDemand | None:
        """Read once for each version of a pod."""
        held = self._asked.get(pod.key)
        if held is None or held[0] is not pod:
            held = self._asked[pod.key] = (pod, demand_of_pod(pod, self._policy.scheduler_names))
        return held[1]

    # -- machines ------------------------------------------------------------------------------------------------------

    def _room(
        self, node: Node, now: datetime, refused: frozenset[str], *, drains: bool
    ) -> tuple[Capacity, datetime | None]:
        pods = self._pods_on(node)
        if drains:
            return drained_capacity(node, pods, now, refused)
        if refused or any(pod.deletion_requested_at is not None for pod in pods):
            return node_capacity(node, pods, now, refused)  # it changes with time, or with what was refused
        return self._lasting_room(node, pods)

    def _pods_on(self, node: Node) -> list[Pod]:
        return sorted(self._views.pods.by_index(PODS_BY_NODE, node.name), key=lambda each: each.key)

    def _lasting_room(self, node: Node, pods: Sequence[Pod]) -> tuple[Capacity, datetime | None]:
        """Of a Node that no pod is leaving: when it is looked at makes no difference."""
        return self._rooms.get(node.name, (node, *pods), lambda: node_capacity(node, pods, ANY_TIME))

    def _ends(self, requests: Iterable[KubeObject[GPURequest]]) -> bool:
        """Whether the machine of a Node is being terminated, or will be next."""
        return any(self._read.of(each).ends for each in requests)

    def _price(self, requests: Iterable[KubeObject[GPURequest]]) -> int:
        """What the machine of a Node costs in an hour; 0: it is no machine of ours."""
        offers = (self.offer_for(each) for each in requests)
        return max((each.hourly_microusd for each in offers if each is not None), default=0)

    def _coming(self, shapes: Mapping[str, Shape]) -> Iterator[PricedRoom]:
        """Machines on their way, of any pool or user, and requests that were created and are not seen yet.

        A machine that is taken over is a Node already.
        """
        placed: dict[str, list[str]] = {}
        for uid, name in self._memory.placed.items():
            placed.setdefault(name, []).append(uid)
        for record in sorted(self._views.requests.values(), key=lambda each: each.key):
            facts = self._read.of(record)
            offer = self.offer_for(record) if facts.coming else None
            if offer is not None:
                yield PricedRoom(
                    self._coming_room(record, offer, shapes),
                    offer.hourly_microusd,
                    record,
                    self._views.nodes.get(ObjectKey("", facts.node_name)) if facts.node_name else None,
                    self._pods_for(record, facts.bought_for, placed) if facts.of_pool else (),
                )
        for key, expected in sorted(self._memory.expected.items()):
            if self._views.requests.get(key) is None and not takes_over(expected.record):
                pool = self._pool_of(expected.record)
                room = coming_capacity(expected.record, expected.order.offer, pool, shapes=shapes)
                room = self._as_node(room, expected.order.offer)
                yield PricedRoom(room, expected.order.hourly_microusd)

    def _coming_room(self, record: KubeObject[GPURequest], offer: Offer, shapes: Mapping[str, Shape]) -> Capacity:
        pool = self._pool_of(record)
        room = self._coming_rooms.get(
            record.key,
            (record, offer, pool, shapes.get(offer.key)),
            lambda: coming_capacity(record, offer, pool, shapes=shapes),
        )
        return self._as_node(room, offer)

    def _pods_for(
        self, record: KubeObject[GPURequest], wanted: Iterable[str], placed: Mapping[str, Sequence[str]]
    ) -> tuple[str, ...]:
        """The pods that the last plan put there, and of those it was bought for the ones that it put nowhere else."""
        bought = (uid for uid in wanted if uid not in self._memory.placed)
        return (*placed.get(str(record.key), ()), *bought)

    def _reserved(self, unreserved: frozenset[ObjectKey]) -> dict[str, tuple[Pod, ...]]:
        """By name of a replacement's capacity, the pods that move there: they are still on the machines it replaces.

        Of a move with several candidates, those that it was bought for.
        """
        leaving: dict[str, list[KubeObject[GPURequest]]] = {}
        for record in self._views.requests.values():
            if (move := move_of(record)) and record.key not in unreserved:
                leaving.setdefault(move, []).append(record)
        kept: dict[str, tuple[Pod, ...]] = {}
        for record in self._views.requests.values() if leaving else ():
            found = leaving.get(record.annotations.get(MOVE, ""), ()) if REPLACES in record.annotations else ()
            if not found or record.value is None or not living(record):
                continue
            own = own_node(self._views.nodes, record)
            name = str(record.key) if on_its_way(record) or own is None else own.name
            nodes = [node for each in found if (node := own_node(self._views.nodes, each)) is not None]
            pods = pods_to_move(pod for node in nodes for pod in self._views.pods.by_index(PODS_BY_NODE, node.name))
            wanted = bought_for(record)
            kept[name] = pods if len(found) == 1 else tuple(pod for pod in pods if uid_text(pod.uid) in wanted)
        return kept

    @property
    def book(self) -> PriceBook:
        return self._market.book

    def _owned_shapes(self) -> dict[str, Shape]:
        nodes = self._owned_nodes()
        found = ((each.key, owned_shape(each, nodes.get(each.key))) for each in self._owned[1])
        return {key: shape for key, shape in found if shape is not None}

    def _owned_nodes(self) -> dict[str, Node]:
        """By offer key. An owned machine is the Node of its name, also while it is off."""
        book = self._market.book
        if self._owned[0] != book.number:
            self._owned = (book.number, tuple(each for each in book.offers if each.boot is BootMode.POWER))
        found = ((each.key, self._views.nodes.get(ObjectKey("", each.sku))) for each in self._owned[1])
        return {key: node for key, node in found if node is not None}

    def _as_node(self, room: Capacity, offer: Offer) -> Capacity:
        """A machine you own that wakes has the labels of its Node."""
        node = self._views.nodes.get(ObjectKey("", offer.sku)) if offer.boot is BootMode.POWER else None
        return room if node is None else replace(room, labels=labels_with(node, room.labels))

    def _switched_on_again(self, pool: PlannedPool, now: datetime) -> Iterator[datetime]:
        """When machines you own that were switched off just now may be switched on again."""
        for machine in machines_of(pool.node_class).values():
            until = stays_off_until(machine, self._views.nodes.get(ObjectKey("", machine.name)), now)
            if until is not None:
                yield until

    def _pool_of(self, record: KubeObject[GPURequest]) -> GPUNodePool | None:
        pool = self._purchases.pool_of(record)
        return pool.value if pool is not None else None

    def offer_for(self, record: KubeObject[GPURequest]) -> Offer | None:
        """What it has bought or will buy; None: that is open."""
        if (bought := self._read.of(record).offer) is not None:
            return bought
        planned = self._memory.offers.get(record.key)
        if planned is not None or record.value is None or record.value.spec.offer is None:
            return planned
        pin, spot = record.value.spec.offer, record.value.spec.spot
        found = self._pinned(pin.provider, pin.instance_type, spot)
        return next((each for each in found if pin.region in (None, each.place, each.region)), None)

    def _pinned(self, provider: str, instance_type: str, spot: bool) -> list[Offer]:
        book = self._market.book
        if self._by_pin[0] != book.number:
            by_pin: dict[tuple[str, str, bool], list[Offer]] = {}
            for offer in book.offers:
                by_pin.setdefault((offer.provider, offer.instance_type, offer.spot), []).append(offer)
            self._by_pin = (book.number, by_pin)
        return self._by_pin[1].get((provider, instance_type, spot), [])

    # -- pools and limits ----------------------------------------------------------------------------------------------

    def _pools(self, now: datetime) -> Iterator[PlannedPool]:
        hold = self._purchases.hold()
        for record in sorted(self._views.pools.values(), key=lambda each: each.key):
            node_class = self._class_of(record.value) if record.value is not None else None
            if record.value is None or record.deleting or node_class is None or node_class.value is None:
                continue
            stopped = self._stopped(record.key, record.value, node_class)
            if not stopped and hold is not None:
                stopped = f"PurchasesPaused: all purchases are paused ({hold})"
            if not stopped and (stop := self._memory.stop_of(record, now)) is not None:
                stopped = f"{stop.reason}: {stop.message}"
            allowed = tuple(self._allowed(node_class.value))
            yield PlannedPool(
                record.key,
                record.value,
                node_class.key.name,
                node_class.value,
                stopped,
                frozenset(name for name, _ in allowed),
                frozenset(name for name, untrusted in allowed if untrusted),
                self._purchases.sources(node_class.value),
                self._memory.failures.cooldowns(str(record.key), now),
                self._left_out(record.key, now),
            )

    def _left_out(self, pool: ObjectKey, now: datetime) -> Mapping[str, Cooldown]:
        """By key, offers that this pool does not buy now."""
        found = self._memory.left_out.get(pool, Cooldowns()).offers
        return {key: each for key, each in found.items() if each.cools_down(now)}

    def _class_of(self, pool: GPUNodePool) -> KubeObject[GPUNodeClass] | None:
        return self._views.classes.get(ObjectKey("", pool.spec.node_class_ref.name))

    def _allowed(self, node_class: GPUNodeClass) -> Iterator[tuple[str, bool]]:
        """Namespaces that the class serves, and whether their pods may run on hosts of third parties."""
        required = self._policy.allowed_namespaces_required
        for namespace in self._views.namespaces.values():
            if namespace_allowed(node_class, namespace.labels, required=required):
                yield namespace.key.name, namespace.labels.get(ALLOW_UNTRUSTED) == "true"

    def pool_observation(
        self, key: ObjectKey, pool: GPUNodePool, node_class: KubeObject[GPUNodeClass] | None
    ) -> PoolObservation:
        namespace = self._views.namespaces.get(ObjectKey("", key.namespace))
        return PoolObservation(
            pool=pool,
            node_class=None if node_class is None else node_class.value,
            class_unreadable=node_class is not None and node_class.value is None,
            class_ready=None if node_class is None else condition_in(node_class.status, "Ready"),
            namespace_labels=None if namespace is None else namespace.labels,
            allowed_namespaces_required=self._policy.allowed_namespaces_required,
            observing=self._policy.observing,
            time_zones=self._policy.time_zones() if names_time_zone(pool) else frozenset(),
        )

    def _stopped(self, key: ObjectKey, pool: GPUNodePool, node_class: KubeObject[GPUNodeClass]) -> str:
        if node_class.deleting:
            return f"NodeClassDeleted: GPUNodeClass {node_class.key.name} is being deleted"
        verdicts = judge_pool(self.pool_observation(key, pool, node_class))
        ready = next(each for each in verdicts if each.type == "Ready")
        return f"{ready.reason}: {ready.message}" if buys_nothing(ready) else ""

    def _observes(self, pool: GPUNodePool) -> bool:
        return self._policy.observing or pool.spec.mode == "Observe"

    def _slots(self) -> Iterator[str]:
        for pool in self._views.pools.values():
            yield from missing_slots(pool, ())

    def _limits(self, pools: tuple[PlannedPool, ...]) -> Iterator[LimitRoom]:
        by_class: dict[str, list[PlannedPool]] = {}
        for each in pools:
            by_class.setdefault(each.class_name, []).append(each)
        waiting = tuple(self._waiting_reservations())
        for name, members in sorted(by_class.items()):
            used = self._ledger.used(name)
            for of_class, _, reservation in waiting:
                used = used.plus(reservation) if of_class == name else used
            keys = frozenset(each.key for each in members)
            yield from limit_rooms(f"GPUNodeClass {name}", members[0].node_class.spec.limits, used, keys)
            for member in members:
                yield from self._pool_limits(member, waiting)

    def _pool_limits(
        self, pool: PlannedPool, waiting: tuple[tuple[str, ObjectKey | None, Reservation], ...]
    ) -> Iterator[LimitRoom]:
        used = self._ledger.used(pool.key)
        for _, of_pool, each in waiting:
            used = used.plus(each) if of_pool == pool.key else used
        yield from limit_rooms(f"GPUNodePool {pool.key}", pool.pool.spec.limits, used, frozenset({pool.key}))

    def _waiting_reservations(self) -> Iterator[tuple[str, ObjectKey | None, Reservation]]:
        """(class, pool, what it will use) of requests that have reserved nothing yet."""
        for record in self._views.requests.values():
            facts = self._read.of(record)
            if not facts.living or record.value is None or facts.reserves:
                continue
            offer = self.offer_for(record) if facts.of_pool else None
            if offer is not None:
                uid = plain_uid(record.uid_text)
                yield class_of(record), pool_key(record), expected_reservation(uid, record.value, offer)
        for key, expected in self._memory.expected.items():
            if self._views.requests.get(key) is None and expected.record.value is not None:
                held = expected_reservation(str(key), expected.record.value, expected.order.offer)
                yield class_of(expected.record), pool_key(expected.record), held

    # -- memory --------------------------------------------------------------------------------------------------------

    def _cooldowns(self) -> Cooldowns:
        """Also those that failed requests of pools tell of: a new leader knows no others."""
        cooldowns = self._memory.cooldowns(self._market.cooldowns)
        found = ((record, self._read.of(record)) for record in self._views.requests.values())
        failed = (record for record, facts in found if facts.of_pool and facts.failed)
        for record in sorted(failed, key=lambda each: each.key):
            cooldowns = own_cooldowns(cooldowns, attempts_of(record))
        return cooldowns


def _first_end(cooldowns: Cooldowns, now: datetime) -> datetime | None:
    every = (cooldowns.offers, cooldowns.hosts, cooldowns.providers, cooldowns.accounts)
    ends = (each.until for kind in every for each in kind.values() if each.cools_down(now))
    return min(ends, default=None)
