"""The one loop that buys for pools: gather the world, plan, create a GPURequest per ordered machine.

Pods are gathered for a moment first, so that what comes together is planned together. Nothing is planned while no pod
waits and no pool has `replicas`. Every order is checked against the views once more after the plan: if one of its pods
is gone or bound meanwhile, nothing is created for it, and the next plan decides again.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TypeAlias

import msgspec

from tgp.api.nodepool import GPUNodePool
from tgp.api.request import GPURequest
from tgp.api.resource import GPU_NODE_POOL, GPU_REQUEST, POD
from tgp.controllers.deps import FeatureSettings
from tgp.controllers.instances.spend_log import SpendLog
from tgp.controllers.pools.gangs import TornGangs
from tgp.controllers.pools.indexes import WAITING_PODS, YES
from tgp.controllers.pools.machine_types import ShapeTable, node_of
from tgp.controllers.pools.memory import EXPECTED_FOR, POOL_SAID, ExpectedRequest, PlanReport, PoolMemory
from tgp.controllers.pools.nominator import Nominator
from tgp.controllers.pools.observe import PlanObservation, WorldObserver
from tgp.controllers.pools.unusable import JustReady, UnusableMachines, UnusableTable
from tgp.controllers.requests.indexes import BY_POOL_UID, PODS_BY_NODE
from tgp.controllers.requests.memo import RequestMemos
from tgp.controllers.requests.purchase_gatherer import Views
from tgp.core.disruption.drift import STAMP, stamp_of
from tgp.core.market.ranking_messages import machine
from tgp.core.model.attempts import attempts_of, gpu_resource, open_attempt
from tgp.core.model.facts import (
    AnnotationIgnored,
    FactSubject,
    NoPodWaits,
    PlanMade,
    ScaleUpNotTriggered,
    ScaleUpTriggered,
)
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.node import Node
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.pod import Pod
from tgp.core.model.record import uid_text
from tgp.core.pools.capacity import living, on_its_way
from tgp.core.pools.demand import asks_for_gpus
from tgp.core.pools.limits import after_orders
from tgp.core.pools.nodepool import SOON_KNOWN
from tgp.core.pools.orders import (
    AnchoredOrder,
    anchor_of,
    anchored,
    family,
    free_names,
    is_ours,
    manifest_of,
    record_of,
    slot_number,
)
from tgp.core.pools.planner.world import NO_POOL, Order, Plan, PlanInput, PoolReason, Unserved
from tgp.core.pools.replicas import missing_slots, world_of_slots
from tgp.core.requests.node_metadata import pool_key
from tgp.core.requests.node_state import idle
from tgp.ports.clock import Clock
from tgp.ports.cluster import AlreadyExists, Cluster, ClusterError, NotFound, Refused, WriteUnknown
from tgp.ports.compute import Compute
from tgp.ports.journal import Journal

PLAN_KEY = ObjectKey("", "plan")  # there is one plan for all pools
POOL_FINALIZER = "tgp.io/machines"
LEAST_PAUSE, LONGEST_PAUSE = 1.0, 5.0  # seconds between two plans: on a busy machine a look takes long, and pods wait
PAUSE_BY_LOOK = 10.0  # times the time that the last look took, within these: other work needs the event loop, too
NOMINATED_AGAIN_AFTER = 2.0  # seconds, where a nomination could not be written
NOMINATIONS_EVERY = 0.2  # seconds at least between two rounds of nominations that the scheduler removed
CREATED_AT_ONCE = 8  # requests of one plan
EVENTS_PER_OWNER = 10  # in one plan
POOLS_NAMED = 3  # in one message

Planner: TypeAlias = Callable[[PlanInput], Plan]


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
        """The world was looked at, for `took` seconds."""
        self._not_before = began + max(LEAST_PAUSE, min(PAUSE_BY_LOOK * took, LONGEST_PAUSE))


class PoolPlanner:
    def __init__(
        self,
        views: Views,
        policy: FeatureSettings,
        *,
        plan: Planner,
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
        self._plan = plan
        self._observer = observer
        self._memory = memory
        self._shapes = shapes
        self._unusable = unusable
        self._machines = UnusableMachines(views, memory.runaways)
        self._gangs = TornGangs(views, memory)
        self._spend_log = spend_log
        self._memos = memos
        self._cluster = cluster
        self._compute = compute
        self._journal = journal
        self._clock = clock
        self._announce = announce  # that a plan says something new of this pool
        self._nominator = Nominator(memory, cluster=cluster, journal=journal, clock=clock)
        self._batch = Batch(policy.batch_idle, policy.batch_max)
        self._waiting = False  # something was waiting when the last reconcile looked
        self._removed = False  # the scheduler has removed a nomination since the last reconcile
        self._renominated_at = float("-inf")
        self._guarding = asyncio.Lock()  # of concurrent creates one adds the pool's finalizer

    # -- what wakes it -------------------------------------------------------------------------------------------------

    def of_pod(self, old: Pod | None, new: Pod | None) -> Iterable[ObjectKey]:
        asked, asks = old is not None and asks_for_gpus(old), new is not None and asks_for_gpus(new)
        if asks and not asked:
            self._batch.add(self._clock.boottime())
            return (PLAN_KEY,)
        if asked != asks:
            return (PLAN_KEY,)
        if asks and old is not None and old.nominated_node and new is not None and not new.nominated_node:
            self._removed = True
            return (PLAN_KEY,)
        return (PLAN_KEY,) if self._waiting and _room_changed(old, new) else ()

    def of_node(self, old: Node | None, new: Node | None) -> Iterable[ObjectKey]:
        return (PLAN_KEY,) if self._waiting and (new is None or not new.repeats(old)) else ()

    def of_request(self, old: KubeObject[GPURequest] | None, new: KubeObject[GPURequest] | None) -> Iterable[ObjectKey]:
        if _stage(old) == _stage(new):
            return ()
        record = old if new is None else new
        slot = record is not None and slot_number(anchor_of(record)) is not None  # whose end leaves a slot empty
        return (PLAN_KEY,) if self._waiting or slot else ()

    def of_pool(self, _old: object, _new: object) -> Iterable[ObjectKey]:
        return (PLAN_KEY,)

    def of_others(self, _old: object, _new: object) -> Iterable[ObjectKey]:
        return (PLAN_KEY,) if self._waiting else ()

    # -- one reconcile -------------------------------------------------------------------------------------------------

    async def reconcile(self, _key: ObjectKey) -> datetime | None:
        now, tick = self._clock.now(), self._clock.boottime()
        await self._settle_expected(tick)
        waited, self._waiting = self._waiting, self._anything_waits()
        if not self._waiting:
            if waited:
                self._journal.note(NoPodWaits())
            self._batch.close()
            self._machines.forget_served({}, now)
            self._memory.forget_pods({})
            self._memory.disagreements.learn({}, {}, {}, now)
            self._memory.given_up = {}
            self._nothing_waits(now)
            return None
        due = self._batch.due(tick)
        if tick < due:
            return now + timedelta(seconds=min(due, await self._nominate_again(now, tick)) - tick)
        self._batch.close()
        self._batch.pause(tick, 0.0)
        self._memory.types.restore((await self._shapes.entries()).values())
        await self._restore_spot_uses(now)
        self._machines.restore((await self._unusable.entries()).values(), now)
        waiting = self._waiting_pods()
        just_ready = self._machines.look(waiting, now)
        self._machines.forget_served(waiting, now)
        if not self._policy.observing:
            await self._machines.keep(self._unusable)
        waiting = self._waiting_pods()  # as they are now: a nomination that was removed meanwhile is written again
        began = self._clock.boottime()
        seen = self._gather(waiting, now)
        self._batch.pause(tick, self._clock.boottime() - began)
        self._removed = False
        nominated = await self._nominator.nominate(waiting.values(), seen.machines, self._node_names())
        if filled := await self._fill_replicas(seen, now):
            self._report_filled(filled, now)
            return now + timedelta(seconds=LEAST_PAUSE)  # limits have changed: pods are planned for after that
        plan = await self._planned(seen.world) if seen.world.pools else _without_pools(seen)
        self._memory.placed = {**plan.placed, **seen.nominated}
        ordered = await self._order(plan, seen, just_ready, now)
        abandoned = self._gangs.give_up(plan, waiting, seen.paused, now)
        for pool in abandoned.pools:
            self._announce(pool)
        observed = await self._observed(seen, plan)
        self._report(seen, plan, ordered, observed, now)
        soon = None if nominated else now + timedelta(seconds=NOMINATED_AGAIN_AFTER)
        moments = (seen.look_again_at, just_ready.until, abandoned.until, soon)
        return min((each for each in moments if each is not None), default=None)

    async def _nominate_again(self, now: datetime, tick: float) -> float:
        """At once, without a plan: until then another pod can take the machine. Returns when to look again."""
        if not self._removed:
            return float("inf")
        if tick < (next_round := self._renominated_at + NOMINATIONS_EVERY):
            return next_round
        self._removed, self._renominated_at = False, tick
        machines = self._observer.observe(now).machines
        done = await self._nominator.nominate(self._waiting_pods().values(), machines, self._node_names())
        self._removed = self._removed or not done
        return tick + NOMINATIONS_EVERY if self._removed else float("inf")

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

    def _gather(self, waiting: Mapping[str, Pod], now: datetime) -> PlanObservation:
        memory, requests = self._memory, self._views.requests
        for record in requests.values():
            memory.types.learn(record, node_of(self._views, record))
            memory.spot.learn(record)
            memory.failures.learn(record)
        seen = self._observer.observe(now)
        memory.disagreements.learn(memory.placed, waiting, seen.own_nodes, now)
        memory.forget_requests(record.key for record in requests.values())
        memory.forget_pods(waiting)
        return seen

    async def _planned(self, world: PlanInput, *, observing: bool = False) -> Plan:
        if not (world.pods and world.pools):
            return Plan()
        began = self._clock.boottime()
        plan = await self._compute.run(lambda: self._plan(world))
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
        self, plan: Plan, seen: PlanObservation, just_ready: JustReady, now: datetime
    ) -> list[AnchoredOrder]:
        still = [
            each
            for each in plan.orders
            if all(self._still_waits(pod) and uid_text(pod.uid) not in just_ready.pods for pod in each.pods)
        ]
        wanted, created = list(anchored(still, self._taken(), self._coming(seen))), []
        for start in range(0, len(wanted), CREATED_AT_ONCE):
            some = wanted[start : start + CREATED_AT_ONCE]
            found = await asyncio.gather(*(self.create(each, seen, now) for each in some), return_exceptions=True)
            created += [each for each, there in zip(some, found, strict=True) if there is True]
            if errors := [each for each in found if isinstance(each, BaseException)]:
                raise errors[0]
        return created

    def _still_waits(self, pod: Pod) -> bool:
        found = self._views.pods.get(pod.key)
        return found is not None and found.uid == pod.uid and asks_for_gpus(found)

    def _taken(self) -> set[str]:
        """Anchors of requests that live, or may. Only those of pools count: what a user annotates anchors nothing."""
        there = {
            anchor_of(record)
            for pool in self._views.pools.values()
            for record in self._views.requests.by_index(BY_POOL_UID, pool.uid_text)
            if record.key.namespace == pool.key.namespace and self._anchors(record)
        }
        return there | {anchor_of(each.record) for each in self._memory.expected.values()}

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
        there = self._views.pods.by_index(PODS_BY_NODE, record.value.status.node_name or "")
        return idle(there, gpu_resource(open_attempt(attempts_of(record))))

    async def create(self, wanted: AnchoredOrder, seen: PlanObservation, now: datetime) -> bool:
        """Whether the request is there, or may be."""
        pool = self._views.pools.get(wanted.order.pool)
        before = seen.pools.get(wanted.order.pool)
        if (
            pool is None
            or before is None
            or pool.deleting
            or pool.value is None
            or pool.generation != before.generation
        ):
            return False  # it changed while the plan was made
        if not await self._guard(pool.key, pool.uid_text):
            return False
        class_name = pool.value.spec.node_class_ref.name
        node_class = self._views.classes.get(ObjectKey("", class_name))
        if node_class is not None and node_class.value is not None:
            stamp = stamp_of(pool.value, node_class.value, wanted.order.offer.provider, self._policy.default_backend)
            wanted = replace(wanted, marks={**wanted.marks, STAMP: stamp})
        for key in free_names(pool, wanted.anchor, self._known):
            manifest = manifest_of(key, wanted, pool, class_name, f"{now:%Y%m%dT%H%M%SZ}")
            self._expect(key, wanted, record_of(manifest, pool))
            try:
                await self._create(key, manifest)
            except AlreadyExists:
                if await self._is_there(key, pool, wanted.anchor):
                    return True
                self._forget(key)
                continue
            except Refused as error:
                self._forget(key)
                self._memory.leave_out(wanted.order.offer, f"the API server refused the GPURequest: {error}", now)
                return False
            except WriteUnknown:
                return True  # it may exist: it counts until that is known
            except ClusterError:  # nothing was created
                self._forget(key)
                raise
            return True
        return False

    async def _create(self, key: ObjectKey, manifest: Mapping[str, object]) -> None:
        """Without an answer it is not known to be new: then every provider is listed before anything is bought."""
        uid = ""
        self._memos.creating(key)
        try:
            uid = (await self._cluster.create(GPU_REQUEST, manifest)).uid
        finally:
            self._memos.created(key, uid)

    def _expect(self, key: ObjectKey, wanted: AnchoredOrder, record: KubeObject[GPURequest]) -> None:
        memory = self._memory
        memory.expected[key] = ExpectedRequest(record, wanted.order, self._clock.boottime())
        memory.offers[key] = wanted.order.offer

    def _forget(self, key: ObjectKey) -> None:
        self._memory.expected.pop(key, None)
        self._memory.offers.pop(key, None)

    async def _is_there(self, key: ObjectKey, pool: KubeObject[GPUNodePool], anchor: str) -> bool:
        try:
            return is_ours(await self._cluster.read(GPU_REQUEST, key), pool, anchor)
        except NotFound:
            return False

    async def _guard(self, key: ObjectKey, uid: str) -> bool:
        """A pool that has machines is deleted after them. False: it is gone, or being deleted."""
        async with self._guarding:
            pool = self._views.pools.get(key)
            if pool is None or pool.uid_text != uid or pool.deleting:
                return False
            if POOL_FINALIZER not in pool.finalizers:
                change = {"metadata": {"finalizers": [*pool.finalizers, POOL_FINALIZER]}}
                version = str(pool.resource_version)
                await self._cluster.patch(GPU_NODE_POOL, key, change, resource_version=version, uid=uid)
                await self._views.pools.wait_for_own_write(key)
            return True

    def _known(self, key: ObjectKey) -> bool:
        return key in self._memory.expected or self._views.requests.get(key) is not None

    async def _settle_expected(self, tick: float) -> None:
        """Forget what the view shows, and what was never created."""
        for key, each in list(self._memory.expected.items()):
            if self._views.requests.get(key) is not None:
                del self._memory.expected[key]
            elif tick - each.since > EXPECTED_FOR:
                try:
                    await self._cluster.read(GPU_REQUEST, key)
                except NotFound:
                    self._forget(key)

    # -- replicas ------------------------------------------------------------------------------------------------------

    def _missing(self, pool: KubeObject[GPUNodePool]) -> Iterator[str]:
        taken = self._taken() if pool.value is not None and pool.value.spec.replicas else set()
        return missing_slots(pool, taken)

    async def _fill_replicas(self, seen: PlanObservation, now: datetime) -> list[AnchoredOrder]:
        created = []
        for planned in seen.world.pools:
            pool = seen.pools.get(planned.key)
            slots = tuple(self._missing(pool)) if pool is not None else ()
            if not slots or pool is None:
                continue
            world = world_of_slots(seen.world, planned, slots)
            plan = await self._planned(world)
            self._tell_pool(pool, plan.unserved, now)
            for order in plan.orders:
                for each in anchored((order,), self._taken()):
                    if await self.create(each, seen, now):
                        self._memory.ordered_for(f"{POOL_SAID}{pool.uid_text}")
                        created.append(each)
        return created

    def _tell_pool(self, pool: KubeObject[GPUNodePool], unserved: tuple[Unserved, ...], now: datetime) -> None:
        """Why it has too few replicas: of the first that gets no machine."""
        for each in unserved[:1]:
            reasons = ",".join(reason.reason for reason in each.reasons)
            if self._memory.news(f"{POOL_SAID}{pool.uid_text}", reasons, now):
                text = f"{len(unserved)} of its replicas get no machine now. {each.message}"
                self._journal.note(ScaleUpNotTriggered(FactSubject(GPU_NODE_POOL, pool.key, pool.uid_text), text))

    # -- what is said --------------------------------------------------------------------------------------------------

    async def _observed(self, seen: PlanObservation, plan: Plan) -> Plan:
        """What pools that only observe would buy for the pods that no other pool serves."""
        if not seen.observing:
            return Plan()
        served = {uid_text(pod.uid) for order in plan.orders for pod in order.pods} | set(plan.placed)
        left = tuple(pod for pod in seen.world.pods if uid_text(pod.uid) not in served)
        rooms = after_orders(seen.world.limits, plan.orders, {each.key: each.pool for each in seen.world.pools})
        world = replace(seen.world, pods=left, pools=seen.observing, limits=rooms)
        return await self._planned(world, observing=True)

    def _report(
        self, seen: PlanObservation, plan: Plan, ordered: Iterable[AnchoredOrder], observed: Plan, now: datetime
    ) -> None:
        made = list(ordered)
        coming = self._pods_on_their_way(seen)
        for pool in seen.pools:
            orders = [each.order for each in made if each.order.pool == pool]
            self._keep(pool, _report_of(pool, plan, now, orders=orders, coming=coming.get(pool, 0)))
        for each in seen.observing:
            would_buy = tuple(order for order in observed.orders if order.pool == each.key)
            self._keep(each.key, _report_of(each.key, observed, now, would_buy=would_buy))
        self._tell(seen, plan, made, now)

    def _report_filled(self, filled: Iterable[AnchoredOrder], now: datetime) -> None:
        """Of machines for replicas. What pods wait for is planned, and told, next."""
        for pool, orders in Counter(each.order.pool for each in filled).items():
            before = self._memory.reports.get(pool, PlanReport(now))
            self._keep(pool, replace(before, at=now, gap=None, orders=orders))

    def _pods_on_their_way(self, seen: PlanObservation) -> Mapping[ObjectKey, int]:
        """By pool: pods for which a machine was ordered before, and is not there yet."""
        owners: dict[str, ObjectKey] = {}
        for room in seen.world.capacity:
            record = self._views.requests.get(room.coming) if room.coming is not None else None
            pool = pool_key(record) if record is not None else None
            if pool is not None:
                owners[room.name] = pool
        return Counter(owners[name] for name in self._memory.placed.values() if name in owners)

    def _keep(self, pool: ObjectKey, report: PlanReport) -> None:
        before = self._memory.reports.get(pool)
        if before is not None and report.says_nothing_new(before):
            report = replace(before, waiting=report.waiting)
        if report != before:
            self._memory.reports[pool] = report
            self._announce(pool)

    def _nothing_waits(self, now: datetime) -> None:
        for pool in self._views.pools.values():
            report, status = self._memory.reports.get(pool.key), pool.value.status if pool.value is not None else None
            if report is not None:
                stale = bool(report.waiting or report.would_buy or report.limited)
            else:  # what a process before this one wrote
                stale = status is not None and bool(status.waiting_pods or status.would_buy)
            if stale:
                self._keep(pool.key, PlanReport(now))

    def _tell(self, seen: PlanObservation, plan: Plan, made: Iterable[AnchoredOrder], now: datetime) -> None:
        told: dict[str, int] = {}
        for each in made:
            order = each.order
            ordered = machine(msgspec.structs.replace(order.offer, hourly_microusd=order.hourly_microusd))
            text = f"Pool {order.pool} orders {ordered}; {order.compared or 'no offer is cheaper'}"
            for pod in order.pods:
                if self._views.pods.get(pod.key) is not None and self._may_tell(pod, told):
                    self._memory.ordered_for(uid_text(pod.uid))
                    self._journal.note(ScaleUpTriggered(_subject(pod), text))
        for unserved in (*seen.demand.refused, *plan.unserved):
            self._tell_unserved(unserved, told, now)
        for ignored in seen.demand.ignored:
            pair = (uid_text(ignored.pod.uid), ignored.message)
            if pair not in self._memory.ignored and self._may_tell(ignored.pod, told):
                self._memory.ignored.add(pair)
                self._journal.note(AnnotationIgnored(_subject(ignored.pod), ignored.message))

    def _tell_unserved(self, unserved: Unserved, told: dict[str, int], now: datetime) -> None:
        pod = unserved.pod
        if unserved.reasons and all(each.reason in SOON_KNOWN for each in unserved.reasons):
            return  # the operator has just started, or the class is new: the next plan says more
        reasons = ",".join(f"{each.pool}={each.reason}" for each in unserved.reasons)
        if self._memory.news(uid_text(pod.uid), reasons, now) and self._may_tell(pod, told):
            self._journal.note(ScaleUpNotTriggered(_subject(pod), unserved.message))

    @staticmethod
    def _may_tell(pod: Pod, told: dict[str, int]) -> bool:
        owner = family(pod)
        told[owner] = told.get(owner, 0) + 1
        return told[owner] <= EVENTS_PER_OWNER


def _report_of(
    pool: ObjectKey,
    plan: Plan,
    now: datetime,
    *,
    orders: Sequence[Order] = (),
    would_buy: tuple[Order, ...] = (),
    coming: int = 0,
) -> PlanReport:
    unserved = [each for each in plan.unserved if any(reason.pool in (pool, NO_POOL) for reason in each.reasons)]
    limits = (reason.limit for each in unserved for reason in each.reasons if reason.pool == pool)
    waiting = len(unserved) + coming + sum(len(each.pods) for each in (*orders, *would_buy))
    return PlanReport(now, plan.gap, len(orders), len(unserved), waiting, would_buy, next(filter(None, limits), ""))


def _without_pools(seen: PlanObservation) -> Plan:
    """Where no pool may buy, every pod that waits gets that as its reason."""
    reason = PoolReason(NO_POOL, "NoPoolReady", "no GPUNodePool can buy: see kubectl get gpunodepools -A")
    if seen.observing:
        names = ", ".join(str(each.key) for each in seen.observing[:POOLS_NAMED])
        reason = PoolReason(NO_POOL, "Observing", f"only pools that observe exist, and they launch nothing: {names}")
    return Plan(unserved=tuple(Unserved(pod, (reason,)) for pod in seen.world.pods))


def _subject(pod: Pod) -> FactSubject:
    return FactSubject(POD, pod.key, uid_text(pod.uid))


def _room_changed(old: Pod | None, new: Pod | None) -> bool:
    """A pod came to a Node, left it, or is about to."""
    before = (old.node, old.finished, old.deletion_requested_at) if old is not None else ("", False, None)
    after = (new.node, new.finished, new.deletion_requested_at) if new is not None else ("", False, None)
    return before != after


def _stage(record: KubeObject[GPURequest] | None) -> tuple[object, ...]:
    """What a plan reads of a request."""
    if record is None or record.value is None:
        return ()
    attempt, status = open_attempt(attempts_of(record)), record.value.status
    held = frozenset(each.type for each in status.conditions if each.status == "True")
    marks: Mapping[str, bool] = {kind: kind in held for kind in ("Initialized", "Terminating", "Disrupted", "Ended")}
    return (record.deleting, status.phase, attempt.token if attempt is not None else "", tuple(marks.items()))
