"""The one loop that buys for pools: gather the world, plan, create a GPURequest per ordered machine.

Pods are gathered for a moment first, so that what comes together is planned together. Nothing is planned while no pod
waits and no pool has `replicas`. Every order is checked against the views once more after the plan: if one of its pods
is gone or bound meanwhile, nothing is created for it, and the next plan decides again.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial

from tgp.api.budget import GPUWorkloadBudget
from tgp.api.nodepool import GPUNodePool
from tgp.api.request import GPURequest
from tgp.controllers.deps import FeatureSettings
from tgp.controllers.instances.spend_log import SpendLog
from tgp.controllers.pools.computed_once import ComputedOnce
from tgp.controllers.pools.gangs import TornGangs
from tgp.controllers.pools.indexes import WAITING_PODS, YES
from tgp.controllers.pools.machine_types import ShapeTable
from tgp.controllers.pools.memory import POOL_SAID, PoolMemory
from tgp.controllers.pools.nominator import Nominator
from tgp.controllers.pools.observe import PlanObservation, WorldObserver
from tgp.controllers.pools.order_creation import OrderCreator
from tgp.controllers.pools.plan_reports import PlanReporter
from tgp.controllers.pools.plan_runner import Planner, PlanOverdue, PlanRunner
from tgp.controllers.pools.unusable import JustReady, UnusableMachines, UnusableTable
from tgp.controllers.requests.indexes import BY_POOL_UID, PODS_BY_NODE, own_node
from tgp.controllers.requests.memo import RequestMemos
from tgp.controllers.requests.purchase_gatherer import Views
from tgp.core.budgets.admission import stops_pods
from tgp.core.model.attempts import attempts_of, gpu_resource, open_attempt
from tgp.core.model.facts import NoPodWaits, PlanMade
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.node import Node
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.pod import Pod
from tgp.core.model.record import uid_text
from tgp.core.pools.capacity import ENDED, living, on_its_way, with_placed
from tgp.core.pools.demand import asks_for_gpus, asks_the_same
from tgp.core.pools.limits import after_orders
from tgp.core.pools.orders import (
    AnchoredOrder,
    anchor_of,
    anchored,
    one_for_each,
    slot_number,
)
from tgp.core.pools.planner.classes import gang_name
from tgp.core.pools.planner.world import NO_POOL, Order, Plan, PlanInput, PoolReason, Unserved
from tgp.core.pools.replicas import missing_slots, room_of_replica, world_of_slots
from tgp.core.requests.node_state import idle
from tgp.core.requests.own_node import reserved_node_name
from tgp.ports.clock import Clock
from tgp.ports.cluster import Cluster, ClusterError
from tgp.ports.compute import Compute
from tgp.ports.journal import Journal

PLAN_KEY = ObjectKey("", "plan")  # there is one plan for all pools
LEAST_PAUSE, LONGEST_PAUSE = 1.0, 5.0  # seconds between two plans: on a busy machine a look takes long, and pods wait
PAUSE_BY_LOOK = 10.0  # times the time that the last look took, within these: other work needs the event loop, too
CREATED_AT_ONCE = 8  # requests of one plan
POOLS_NAMED = 3  # in one message


class Batch:
    """When to plan: once no further pod has come for a moment, and at the latest a while after the first."""

    def __init__(self, idle: timedelta, most: timedelta) -> None:
        self._idle, self._most = idle.total_seconds(), most.total_seconds()
        self._first: float | None = None  # None: no batch is open
        self._last = 0.0
        self._not_before = float("-inf")

    def add(self, now: float) -> None:
        self._first = now if self._first is None else self._first
        self._last = now

    def due(self, now: float) -> float:
        if self._first is None:
            self.add(now)
        assert self._first is not None, "a batch is open"
        return max(min(self._last + self._idle, self._first + self._most), self._not_before)

    def close(self) -> None:
        self._first = None

    def pause(self, began: float, took: float) -> None:
        """The world was looked at, and planned for, for `took` seconds."""
        self._not_before = began + max(LEAST_PAUSE, min(PAUSE_BY_LOOK * took, LONGEST_PAUSE))


class PoolPlanner:
    def __init__(
        self,
        views: Views,
        policy: FeatureSettings,
        *,
        plan: Planner,
        quick_plan: Planner,
        observer: WorldObserver,
        memory: PoolMemory,
        shapes: ShapeTable,
        unusable: UnusableTable,
        spend_log: SpendLog,
        memos: RequestMemos,
        cluster: Cluster,
        compute: Compute,
        journal: Journal,
        clock: Clock,
        announce: Callable[[ObjectKey], None],
    ) -> None:
        self._views = views
        self._policy = policy
        self._runner = PlanRunner(views, plan=plan, quick_plan=quick_plan, compute=compute, journal=journal)
        self._observer = observer
        self._memory = memory
        self._shapes = shapes
        self._unusable = unusable
        self._machines = UnusableMachines(views, memory.runaways)
        self._gangs = TornGangs(views, memory)
        self._spend_log = spend_log
        self._journal = journal
        self._clock = clock
        self._announce = announce  # that a plan says something new of this pool
        self._creator = OrderCreator(views, policy, memory, memos, cluster=cluster, clock=clock, announce=announce)
        self._reporter = PlanReporter(views, memory, journal=journal, announce=announce)
        self._nominator = Nominator(memory, cluster=cluster, journal=journal, clock=clock)
        self._learned: ComputedOnce[None] = ComputedOnce()
        self._batch = Batch(policy.batch_idle, policy.batch_max)
        self._waiting = False  # something was waiting when the last reconcile looked

    # -- what wakes it -------------------------------------------------------------------------------------------------

    def of_pod(self, old: Pod | None, new: Pod | None) -> Iterable[ObjectKey]:
        asked, asks = old is not None and asks_for_gpus(old), new is not None and asks_for_gpus(new)
        if asks and not asked:
            self._batch.add(self._clock.boottime())
            return (PLAN_KEY,)
        if asked != asks or (asks and old is not None and new is not None and not asks_the_same(old, new)):
            return (PLAN_KEY,)
        if asks and old is not None and old.nominated_node and new is not None and not new.nominated_node:
            self._nominator.pace.removed(self._clock.boottime())
            return (PLAN_KEY,)
        return (PLAN_KEY,) if self._waiting and (_room_changed(old, new) or _gang_changed(old, new)) else ()

    def of_node(self, old: Node | None, new: Node | None) -> Iterable[ObjectKey]:
        return (PLAN_KEY,) if self._waiting and (new is None or not new.repeats(old)) else ()

    def of_request(self, old: KubeObject[GPURequest] | None, new: KubeObject[GPURequest] | None) -> Iterable[ObjectKey]:
        record = old if new is None else new
        if record is not None and record.key in self._memory.expected:
            return (PLAN_KEY,)  # it is seen, or gone again: from now on the view alone counts
        if _stage(old) == _stage(new):
            return ()
        slot = record is not None and slot_number(anchor_of(record)) is not None  # whose end leaves a slot empty
        return (PLAN_KEY,) if self._waiting or slot else ()

    @staticmethod
    def of_pool(old: KubeObject[GPUNodePool] | None, new: KubeObject[GPUNodePool] | None) -> Iterable[ObjectKey]:
        """Its status is written after every plan, and no plan reads it."""
        return (PLAN_KEY,) if _asked(old) != _asked(new) else ()

    def of_others(self, _old: object, _new: object) -> Iterable[ObjectKey]:
        return (PLAN_KEY,) if self._waiting else ()

    def of_budget(
        self, old: KubeObject[GPUWorkloadBudget] | None, new: KubeObject[GPUWorkloadBudget] | None
    ) -> Iterable[ObjectKey]:
        """Its status is written often, and seldom says that pods may start again, or may not."""
        return (PLAN_KEY,) if self._waiting and _stopping(old) != _stopping(new) else ()

    # -- one reconcile -------------------------------------------------------------------------------------------------

    async def reconcile(self, _key: ObjectKey) -> datetime | None:
        try:
            return await self._serve_pods()
        except PlanOverdue:
            return self._clock.now() + timedelta(seconds=LEAST_PAUSE)

    async def _serve_pods(self) -> datetime | None:
        now, tick = self._clock.now(), self._clock.boottime()
        await self._creator.settle_expected(tick)
        waited, self._waiting = self._waiting, self._anything_waits()
        if not self._waiting:
            if waited:
                self._journal.note(NoPodWaits())
            self._batch.close()
            self._machines.forget_served({}, now)
            self._memory.forget_pods({})
            self._memory.disagreements.learn({}, {}, {}, now)
            self._memory.given_up = {}
            self._reporter.nothing_waits(now)
            return self._creator.settled_at(now, tick)
        due = self._batch.due(tick)
        if tick < due:
            return now + timedelta(seconds=min(due, await self._nominate_again(now, tick)) - tick)
        self._batch.close()
        self._batch.pause(tick, 0.0)
        self._memory.types.restore((await self._shapes.entries()).values())
        await self._restore_spot_uses(now)
        self._machines.restore((await self._unusable.entries()).values(), now)
        waiting = self._waiting_pods()
        just_ready = self._look_at_machines(waiting, now)
        if not self._policy.observing:
            await self._machines.keep(self._unusable)
        self._learn()
        await self._observer.read_ahead()
        await asyncio.sleep(0)  # other work waits for the event loop, and what that wakes
        waiting = self._waiting_pods()  # as they are now: a nomination that was removed meanwhile is written again
        began = self._clock.boottime()
        seen = self._gather(waiting, now)
        took = self._clock.boottime() - began
        self._batch.pause(tick, took)
        await self._nominator.nominate(waiting.values(), seen.machines, self._node_names())
        if filled := await self._fill_replicas(seen, now):
            self._reporter.report_filled(filled, now)
            return now + timedelta(seconds=LEAST_PAUSE)  # limits have changed: pods are planned for after that
        began = self._clock.boottime()
        plan = await self._planned(seen.world) if seen.world.pools else _without_pools(seen)
        self._batch.pause(tick, took + self._clock.boottime() - began)  # a plan takes the processor, too
        self._memory.placed = {**plan.placed, **seen.nominated}
        ordered = await self._order(plan, seen, waiting, just_ready, now)
        abandoned = self._gangs.give_up(plan, waiting, seen.paused, now)
        for pool in abandoned.pools:
            self._announce(pool)
        observed = await self._observed(seen, plan)
        refused = any(each.failed_at == now for each in self._memory.refused.values())
        soon = now + timedelta(seconds=LEAST_PAUSE) if refused else None  # other pools may serve the pods
        if ordered or not refused:  # else the next plan tells why nothing was ordered
            self._reporter.report(seen, plan, ordered, observed, now)
        removed = self._nominator.pace.due
        again = None if removed is None else now + timedelta(seconds=removed - tick)
        moments = (
            soon,
            seen.look_again_at,
            just_ready.until,
            abandoned.until,
            again,
            self._creator.settled_at(now, tick),
        )
        return min((each for each in moments if each is not None), default=None)

    def _look_at_machines(self, waiting: Mapping[str, Pod], now: datetime) -> JustReady:
        just_ready = self._machines.look(waiting, now)
        self._machines.forget_served(waiting, now)
        self._memory.just_ready = just_ready.pods
        return just_ready

    async def _nominate_again(self, now: datetime, tick: float) -> float:
        """Without a plan: until then another pod can take the machine. Returns when to look again."""
        due = self._nominator.pace.due
        if due is not None and due <= tick:
            machines = self._observer.observe(now).machines
            await self._nominator.nominate(self._waiting_pods().values(), machines, self._node_names())
            due = self._nominator.pace.due
        return float("inf") if due is None else due

    def _waiting_pods(self) -> dict[str, Pod]:
        """By uid."""
        return {uid_text(pod.uid): pod for pod in self._views.pods.by_index(WAITING_PODS, YES)}

    def _node_names(self) -> set[str]:
        return {node.name for node in self._views.nodes.values()}

    def _anything_waits(self) -> bool:
        if not len(self._views.pools):
            return False
        if any(True for _ in self._views.pods.by_index(WAITING_PODS, YES)):
            return True
        return any(True for pool in self._views.pools.values() for _ in self._missing(pool))

    async def _restore_spot_uses(self, now: datetime) -> None:
        """Once. Nothing depends on it: without the record losses are assumed."""
        if not self._memory.spot.restored:
            self._memory.spot.restored = True
            with suppress(ClusterError):
                recent = await self._spend_log.recent(now)
                self._memory.spot.restore(recent)
                self._memory.failures.restore(recent)

    def _learn(self) -> None:
        """From each request once, as long as neither it nor its Node changes."""
        requests = self._views.requests
        for record in requests.values():
            node = own_node(self._views.nodes, record)
            self._learned.get(record.key, (record, node), partial(self._learn_from, record, node))
        self._learned.keep({record.key for record in requests.values()})

    def _learn_from(self, record: KubeObject[GPURequest], node: Node | None) -> None:
        self._memory.types.learn(record, node)
        self._memory.spot.learn(record)
        self._memory.failures.learn(record)

    def _gather(self, waiting: Mapping[str, Pod], now: datetime) -> PlanObservation:
        memory = self._memory
        seen = self._observer.observe(now)
        memory.disagreements.learn(memory.placed, waiting, seen.ready_nodes, now)
        memory.forget_requests(record.key for record in self._views.requests.values())
        memory.forget_pods(waiting)
        memory.forget_pools({pool.key for pool in self._views.pools.values()})
        return seen

    async def _planned(self, world: PlanInput, *, observing: bool = False) -> Plan:
        if not (world.pods and world.pools):
            return Plan()
        began = self._clock.boottime()
        plan = await self._runner.run(world)
        reasons = Counter(each.reasons[0].reason for each in plan.unserved if each.reasons)
        outcome = "Ordered" if plan.orders else "Unserved" if plan.unserved else "Placed"
        self._journal.note(
            PlanMade(
                "Observed" if observing else outcome,
                len(world.pods),
                len(plan.orders),
                dict(sorted(reasons.items())),
                timedelta(seconds=self._clock.boottime() - began),
                -1 if plan.gap is None else round(plan.gap * 1_000_000),
                plan.columns,
            )
        )
        return plan

    # -- orders --------------------------------------------------------------------------------------------------------

    async def _order(
        self,
        plan: Plan,
        seen: PlanObservation,
        waiting: Mapping[str, Pod],
        just_ready: JustReady,
        now: datetime,
    ) -> list[AnchoredOrder]:
        """`waiting`: pods as they were when the plan was made, by uid."""
        still = [
            each
            for each in plan.orders
            if all(self._still_waits(uid, waiting) and uid not in just_ready.pods for uid in map(_uid, each.pods))
        ]
        wanted = one_for_each(still, seen.on_trial)
        return await self._create_all(anchored(wanted, self._taken(), self._coming(seen)), seen, now)

    async def _create_all(
        self, wanted: Iterable[AnchoredOrder], seen: PlanObservation, now: datetime
    ) -> list[AnchoredOrder]:
        """Those whose requests are there, or may be."""
        left, created = list(wanted), list[AnchoredOrder]()
        for start in range(0, len(left), CREATED_AT_ONCE):
            some = left[start : start + CREATED_AT_ONCE]
            found = await asyncio.gather(*(self.create(each, seen, now) for each in some), return_exceptions=True)
            created += [each for each, there in zip(some, found, strict=True) if there is True]
            if errors := [each for each in found if isinstance(each, BaseException)]:
                raise errors[0]
        return created

    def _still_waits(self, uid: str, waiting: Mapping[str, Pod]) -> bool:
        """As it did when the plan was made: it may have been bound, deleted or edited meanwhile."""
        before = waiting.get(uid)
        found = self._views.pods.get(before.key) if before is not None else None
        if before is None or found is None or found.uid != before.uid:
            return False
        return found is before or (asks_for_gpus(found) and asks_the_same(found, before))

    def _taken(self) -> set[str]:
        """Anchors of requests that live, or may. Only those of pools count: what a user annotates anchors nothing."""
        there = {anchor for pool in self._views.pools.values() for anchor in self._anchored_by(pool)}
        return there | {anchor_of(each.record) for each in self._memory.expected.values()}

    def _anchored_by(self, pool: KubeObject[GPUNodePool]) -> Iterator[str]:
        """Anchors of its requests that live."""
        for record in self._views.requests.by_index(BY_POOL_UID, pool.uid_text):
            if record.key.namespace == pool.key.namespace and self._anchors(record):
                yield anchor_of(record)

    def _coming(self, seen: PlanObservation) -> Mapping[str, Collection[str]]:
        """Anchor of a machine on its way → the pods that the plan gives it to."""
        anchors = {}
        for room in seen.world.capacity:
            if room.coming is not None:
                expected = self._memory.expected.get(room.coming)
                record = self._views.requests.get(room.coming) or (expected.record if expected is not None else None)
                if record is not None:
                    anchors[room.name] = anchor_of(record)
        pods: dict[str, list[str]] = {}
        for uid, name in self._memory.placed.items():
            if name in anchors:
                pods.setdefault(anchors[name], []).append(uid)
        return pods

    def _anchors(self, record: KubeObject[GPURequest]) -> bool:
        """A machine that has come and serves other pods anchors its own pod no longer.

        One that serves none still does: what kept its pod off would keep it off the next machine, too.
        """
        if not living(record) or record.value is None or on_its_way(record):
            return living(record)
        if slot_number(anchor_of(record)) is not None:
            return True
        there = self._views.pods.by_index(PODS_BY_NODE, reserved_node_name(record))
        return idle(there, gpu_resource(open_attempt(attempts_of(record))))

    async def create(self, wanted: AnchoredOrder, seen: PlanObservation, now: datetime) -> bool:
        """Whether the request is there, or may be."""
        return await self._creator.create(wanted, seen, now)

    # -- replicas ------------------------------------------------------------------------------------------------------

    def _missing(self, pool: KubeObject[GPUNodePool]) -> Iterator[str]:
        """Only its own requests keep its slots: those of other pools are not looked at."""
        taken = set[str]()
        if pool.value is not None and pool.value.spec.replicas:
            taken = {anchor_of(each.record) for each in self._memory.expected.values()}
            taken.update(self._anchored_by(pool))
        return missing_slots(pool, taken)

    async def _fill_replicas(self, seen: PlanObservation, now: datetime) -> list[AnchoredOrder]:
        created = list[AnchoredOrder]()
        specs = {each.key: each.pool for each in seen.world.pools}
        for planned in seen.world.pools:
            pool = seen.pools.get(planned.key)
            slots = tuple(self._missing(pool)) if pool is not None else ()
            if not slots or pool is None:
                continue
            rooms = after_orders(seen.world.limits, (each.order for each in created), specs)
            world = world_of_slots(replace(seen.world, limits=rooms), planned, slots)
            plan = await self._planned(world)
            self._reporter.tell_pool(pool, plan.unserved, now)
            filled = await self._create_all(anchored(plan.orders, self._taken()), seen, now)
            if filled:
                self._memory.ordered_for(f"{POOL_SAID}{pool.uid_text}")
            created += filled
        return created

    async def _observed(self, seen: PlanObservation, plan: Plan) -> Plan:
        """What pools that only observe would buy: their replicas, and for the pods that no other pool serves."""
        if not seen.observing:
            return Plan()
        served = {uid_text(pod.uid) for order in plan.orders for pod in order.pods} | set(plan.placed)
        left = tuple(pod for pod in seen.world.pods if uid_text(pod.uid) not in served)
        specs = {each.key: each.pool for each in (*seen.world.pools, *seen.observing)}
        limits = after_orders(seen.world.limits, plan.orders, specs)
        rooms = with_placed(seen.world.capacity, seen.world.pods, plan.placed)
        world = replace(seen.world, pods=left, pools=seen.observing, capacity=rooms, limits=limits)
        replicas = list[Order]()
        for planned in seen.observing:
            pool = self._views.pools.get(planned.key)
            slots = tuple(self._missing(pool)) if pool is not None else ()
            if pool is None or not slots:
                continue
            filled = await self._planned(world_of_slots(world, planned, slots), observing=True)
            replicas += filled.orders
            filled_rooms = (room_of_replica(pool, planned, each, world.shapes) for each in filled.orders)
            limits = after_orders(world.limits, filled.orders, specs)
            world = replace(world, capacity=(*world.capacity, *filled_rooms), limits=limits)
        found = await self._planned(world, observing=True)
        return replace(found, orders=(*replicas, *found.orders))


def _without_pools(seen: PlanObservation) -> Plan:
    """Where no pool may buy, every pod that waits gets that as its reason."""
    reason = PoolReason(NO_POOL, "NoPoolReady", "no GPUNodePool can buy; kubectl get gpunodepools -A shows why")
    if seen.observing:
        names = ", ".join(str(each.key) for each in seen.observing[:POOLS_NAMED])
        reason = PoolReason(NO_POOL, "Observing", f"only pools that observe exist, and they launch nothing: {names}")
    return Plan(unserved=tuple(Unserved(pod, (reason,)) for pod in seen.world.pods))


def _room_changed(old: Pod | None, new: Pod | None) -> bool:
    """A pod came to a Node, left it, or is about to."""
    before = (old.node, old.finished, old.deletion_requested_at) if old is not None else ("", False, None)
    after = (new.node, new.finished, new.deletion_requested_at) if new is not None else ("", False, None)
    return before != after


def _uid(pod: Pod) -> str:
    return uid_text(pod.uid)


def _gang_changed(old: Pod | None, new: Pod | None) -> bool:
    """A pod of a gang came or went: whatever it asks for, the others may have waited for it."""
    only = (new or old) if old is None or new is None else None
    return only is not None and bool(gang_name(only))


def _stopping(budget: KubeObject[GPUWorkloadBudget] | None) -> int | None:
    """Of one for whose pods nothing is bought, by which spec; None: it is none."""
    if budget is None or budget.value is None or budget.deleting or not stops_pods(budget.value):
        return None
    return budget.generation


def _asked(pool: KubeObject[GPUNodePool] | None) -> tuple[object, ...]:
    """What a plan reads of a pool."""
    return () if pool is None else (pool.uid, pool.generation, pool.deleting, pool.value is None)


def _stage(record: KubeObject[GPURequest] | None) -> tuple[object, ...]:
    """What a plan reads of a request."""
    if record is None or record.value is None:
        return ()
    attempt, status = open_attempt(attempts_of(record)), record.value.status
    held = frozenset(each.type for each in status.conditions if each.status == "True")
    marks = tuple(kind in held for kind in ("Initialized", "Terminating", "Disrupted", "Ended", "Restored"))
    # Whether a machine is ordered, boots or joins makes no difference to its room.
    phase = status.phase if status.phase in (*ENDED, "Ready", "Terminating") else ""
    return (record.deleting, phase, attempt.token if attempt is not None else "", marks)
