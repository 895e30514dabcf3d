"""What the operator would buy for pods, computed at a terminal by its own planner. Nothing is bought or written."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from difflib import get_close_matches
from typing import TypeVar

import msgspec

from tgp.adapters.kube.connect import Connection
from tgp.adapters.kube.list import ListTarget
from tgp.adapters.kube.records.kinds import typed
from tgp.adapters.kube.store import Store
from tgp.api.budget import GPUWorkloadBudget
from tgp.api.resource import GPU_WORKLOAD_BUDGET
from tgp.core.budgets.admission import GATE
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.placement import Affinity, NodeTerm
from tgp.core.model.pod import Pod
from tgp.core.model.record import ObjectRecord, uid_text
from tgp.core.pools.capacity import living, with_placed
from tgp.core.pools.limits import after_orders
from tgp.core.pools.orders import anchor_of
from tgp.core.pools.planner.plan import plan
from tgp.core.pools.planner.world import NO_POOL, Capacity, Order, Plan, PlanInput, PlannedPool, Unserved
from tgp.core.pools.replicas import missing_slots, room_of_replica, world_of_slots
from tgp.ports.cluster import Forbidden, NotFound
from tgp.services.cluster_reads import ClusterReads
from tgp.services.consolidation import consolidation_of
from tgp.services.plan_answers import (
    ConsolidationPlan,
    LimitEffect,
    NodeEnquiry,
    NotPlanned,
    PlacedPod,
    PlanQuestion,
    PodEnquiry,
    PodPlan,
    PoolEnquiry,
    PoolNote,
    PreferenceCost,
)
from tgp.services.plan_enquiries import WAITS, behind_budget_gate, node_enquiry, pod_enquiry, pool_enquiry, state_of
from tgp.services.plan_world import TerminalWorld, VisibleCluster, fill, seen_by_user, world_of
from tgp.services.requests import MarketReader

R = TypeVar("R", bound=ObjectRecord)

LOOKS_AT_NEW_CLASSES, LOOK_EVERY_S = 10, 1.0
NEW_FOR = timedelta(minutes=1)  # a class that is older and not checked has no operator that would check it


@dataclass(frozen=True, slots=True)
class _Combined:
    """The plan of the pools that buy, and of those that only observe for the pods that are left."""

    orders: tuple[Order, ...]
    placed: Mapping[str, str]
    unserved: tuple[Unserved, ...]
    proof: Plan  # of which the bound and the gap are; empty: not proven

    @property
    def cost(self) -> int:
        return sum(order.hourly_microusd for order in self.orders)


@dataclass(frozen=True, slots=True)
class _Replicas:
    """Machines that pools with `replicas` miss, and the world once they are ordered."""

    world: PlanInput
    orders: tuple[Order, ...]
    machines: Mapping[str, ObjectKey]  # the pool, by name of the capacity
    problems: Mapping[ObjectKey, str]  # by pool: why some cannot be bought
    observed: tuple[Order, ...] = ()  # of `orders`, those of pools that only observe
    rooms: tuple[Capacity, ...] = ()  # of these, for pods that no other pool serves


class PlanService:
    def __init__(self, connection: Connection, market: MarketReader) -> None:
        self._reads = ClusterReads(connection)
        self._market = market
        self.namespace = self._reads.namespace

    async def plan(self, question: PlanQuestion) -> PodPlan:
        visible = await self._seen_once_checked()
        async with self._market(()) as market:
            world = await world_of(visible, market, question)
        return plan_of(world, question)

    async def _seen_once_checked(self) -> VisibleCluster:
        """A class that was applied a moment ago is waited for: the operator needs seconds to check it."""
        visible = await seen_by_user(self._reads)
        for _ in range(LOOKS_AT_NEW_CLASSES):
            if not _has_unchecked_class(visible):
                break
            await asyncio.sleep(LOOK_EVERY_S)
            await fill(visible.stores.classes, await self._reads.classes())
        return visible

    async def consolidation(self, pool: ObjectKey | None) -> ConsolidationPlan:
        """Raises NotFound, which names the nearest pools."""
        visible = await seen_by_user(self._reads)
        key = self._found("GPUNodePool", self._with_namespace(pool), visible.stores.pools).key if pool else None
        return consolidation_of(await self._world(visible), key)

    # -- tgp why -------------------------------------------------------------------------------------------------------

    async def pod(self, key: ObjectKey) -> PodEnquiry:
        visible = await seen_by_user(self._reads)
        pod = self._found("pod", self._with_namespace(key), visible.stores.pods)
        events = await self._reads.events(pod.key.namespace, uid_text(pod.uid))
        if state_of(pod)[0] != WAITS:
            return pod_enquiry(visible, pod, None, events, await self._budget_gate(visible, pod))
        world = await self._world(visible)
        refused = (each for each in world.observation.demand.refused if each.pod.uid == pod.uid)
        why = next(((each.reasons[0].reason, each.reasons[0].message) for each in refused), None)
        return pod_enquiry(world.visible, pod, plan_of(world, PlanQuestion()), events, why)

    async def _budget_gate(self, visible: VisibleCluster, pod: Pod) -> tuple[str, str] | None:
        """None: no gate of a budget holds it, or the user may not see budgets."""
        if GATE not in pod.gates or pod.node or pod.finished or pod.deleting:
            return None
        kind = typed(GPU_WORKLOAD_BUDGET, GPUWorkloadBudget)
        home = visible.stores.namespaces.get(ObjectKey("", pod.key.namespace))
        for namespace in ("", pod.key.namespace):  # of all, for some cover several; else those that the user may see
            with suppress(Forbidden, NotFound):
                budgets = await self._reads.listed(ListTarget(kind, namespace))
                return behind_budget_gate(pod, home.labels if home is not None else None, budgets)
        return None

    async def node(self, name: str) -> NodeEnquiry:
        visible = await seen_by_user(self._reads)
        return node_enquiry(visible, self._found("Node", ObjectKey("", name), visible.stores.nodes))

    async def pool(self, key: ObjectKey) -> PoolEnquiry:
        visible = await seen_by_user(self._reads)
        pool = self._found("GPUNodePool", self._with_namespace(key), visible.stores.pools)
        world = await self._world(visible)
        made = plan_of(world, PlanQuestion())
        return pool_enquiry(world, pool, made, next(each for each in made.pools if each.key == pool.key))

    async def _world(self, visible: VisibleCluster) -> TerminalWorld:
        async with self._market(()) as market:
            return await world_of(visible, market, PlanQuestion())

    def _found(self, kind: str, key: ObjectKey, there: Store[R]) -> R:
        found = there.get(key)
        if found is not None:
            return found
        keys = [each.key for each in there.values()]
        elsewhere = sorted(str(each) for each in keys if each.name == key.name)
        here = sorted(each.name for each in keys if each.namespace == key.namespace)
        near = elsewhere or get_close_matches(key.name, here, n=3)
        hint = f"; did you mean {', '.join(near)}?" if near else ", or you may not list it"
        raise NotFound(f"there is no {kind} {key}{hint}")

    def _with_namespace(self, key: ObjectKey) -> ObjectKey:
        return key if key.namespace else ObjectKey(self.namespace, key.name)


def _has_unchecked_class(visible: VisibleCluster) -> bool:
    """Is one used by a pool, and so new that an operator is about to check it?"""
    used = {pool.value.spec.node_class_ref.name for pool in visible.stores.pools.values() if pool.value is not None}
    return any(
        record.key.name in used
        and record.created_at is not None
        and visible.now < record.created_at + NEW_FOR
        and not any(condition.type == "Ready" for condition in record.value.status.conditions)
        for record in visible.stores.classes.values()
        if record.value is not None
    )


def plan_of(world: TerminalWorld, question: PlanQuestion) -> PodPlan:
    observation, visible = world.observation, world.visible
    replicas = _replicas(world)
    given = replicas.world
    made = _combined(replicas, observation.observing)
    there = (*given.capacity, *replicas.rooms)
    coming = {each.name: each.coming for each in there if each.coming is not None}
    by_uid = {uid_text(pod.uid): pod for pod in given.pods}
    placed = [
        PlacedPod(by_uid[uid], str(replicas.machines.get(where, where)), where in coming, where in replicas.machines)
        for uid, where in made.placed.items()
    ]
    skipped = tuple(_not_planned(world, question))
    return PodPlan(
        visible.now,
        len(given.pods) + len(observation.demand.refused),
        tuple(_pool_notes(world, replicas.problems)),
        made.orders,
        tuple(sorted(placed, key=lambda each: each.pod.key)),
        (*observation.demand.refused, *made.unserved),
        skipped,
        made.cost,
        made.proof.bound,
        made.proof.gap,
        tuple(_limit_effects(observation.world, observation.observing, (*replicas.orders, *made.orders))),
        _preference(replicas, observation.observing, made),
        str(visible.hold) if visible.hold is not None else "",
        world.price_sources,
        visible.unseen,
        tuple(f"pod {each.pod.key}: {each.message}" for each in observation.demand.ignored),
        replicas.orders,
        made.proof.bound_without,
        question.namespace,
    )


def _replicas(world: TerminalWorld) -> _Replicas:
    """As the operator does it: machines of `replicas` first, pool by pool; pods are planned for with their room."""
    given, observing = world.observation.world, world.observation.observing
    orders, observed, of_observed = list[Order](), list[Order](), list[Capacity]()
    machines, problems = dict[str, ObjectKey](), dict[ObjectKey, str]()
    pools = {each.key: each.pool for each in (*given.pools, *observing)}
    taken = _taken(world)
    for planned in (*given.pools, *observing):
        record = world.visible.stores.pools.get(planned.key)
        slots = tuple(missing_slots(record, taken)) if record is not None else ()
        if record is None or not slots:
            continue
        left = after_orders(given.limits, observed, pools)
        made = plan(world_of_slots(replace(given, limits=left), planned, slots))
        rooms = [room_of_replica(record, planned, order, given.shapes) for order in made.orders]
        machines |= {room.name: planned.key for room in rooms}
        orders += made.orders
        if made.unserved:
            problems[planned.key] = f"{len(made.unserved)} of them cannot be bought: {made.unserved[0].message}"
        if planned in observing:
            observed += made.orders
            of_observed += rooms
        else:
            limits = after_orders(given.limits, made.orders, pools)
            given = replace(given, capacity=(*given.capacity, *rooms), limits=limits)
    return _Replicas(given, tuple(orders), machines, problems, tuple(observed), tuple(of_observed))


def _taken(world: TerminalWorld) -> set[str]:
    return {anchor_of(record) for record in world.visible.stores.requests.values() if living(record)}


def _combined(replicas: _Replicas, observing: tuple[PlannedPool, ...]) -> _Combined:
    """As the operator does it: pools that only observe are asked about the pods that no other pool serves."""
    world = replicas.world
    first = plan(world)
    if not observing:
        return _Combined(first.orders, first.placed, first.unserved, first)
    left = tuple(each.pod for each in first.unserved)
    if not left:
        return _Combined(first.orders, first.placed, (), first)
    pools = {each.key: each.pool for each in (*world.pools, *observing)}
    limits = after_orders(world.limits, (*first.orders, *replicas.observed), pools)
    rooms = (*with_placed(world.capacity, world.pods, first.placed), *replicas.rooms)
    second = plan(replace(world, pods=left, pools=observing, capacity=rooms, limits=limits))
    reasons = {uid_text(each.pod.uid): each for each in first.unserved}
    unserved = tuple(_with_reasons(each, reasons[uid_text(each.pod.uid)]) for each in second.unserved)
    proof = second if not first.orders else Plan()  # a bound of both together is not known
    return _Combined((*first.orders, *second.orders), {**first.placed, **second.placed}, unserved, proof)


def _with_reasons(second: Unserved, first: Unserved) -> Unserved:
    """The reasons of all pools; a reason that is no pool's is said once."""
    told = [each for each in first.reasons if each.pool != NO_POOL]
    return Unserved(second.pod, (*told, *second.reasons))


def _pool_notes(world: TerminalWorld, problems: Mapping[ObjectKey, str]) -> Iterator[PoolNote]:
    observation = world.observation
    planned = {each.key: each for each in (*observation.world.pools, *observation.observing)}
    observing = {each.key for each in observation.observing}
    taken = _taken(world)
    for record in sorted(world.visible.stores.pools.values(), key=lambda each: each.key):
        known = planned.get(record.key)
        if known is not None:
            missing = sum(1 for _ in missing_slots(record, taken))
            problem = problems.get(record.key, "")
            yield PoolNote(record.key, known.class_name, record.key in observing, known.stopped, missing, problem)
            continue
        name = record.value.spec.node_class_ref.name if record.value is not None else ""
        yield PoolNote(record.key, name, stopped=_why_left_out(deleting=record.deleting, class_name=name))


def _why_left_out(*, deleting: bool, class_name: str) -> str:
    if deleting:
        return "Deleting: the pool is being deleted"
    if not class_name:
        return "PoolUnreadable: the pool was written by a newer version; upgrade tgp"
    return f"NodeClassNotFound: GPUNodeClass {class_name} does not exist, or you may not read it"


def _not_planned(world: TerminalWorld, question: PlanQuestion) -> Iterator[NotPlanned]:
    """Pods of the manifest that are no demand: a machine would not change that they wait."""
    demand = world.observation.demand
    known = {uid_text(pod.uid) for pod in demand.pods} | {uid_text(each.pod.uid) for each in demand.refused}
    for pod in question.pods or ():
        if uid_text(pod.uid) not in known:
            yield NotPlanned(pod, _why_no_demand(pod))


def _why_no_demand(pod: Pod) -> str:
    if pod.gates:
        return f"it has scheduling gates ({', '.join(pod.gates)}): nothing is bought before they are removed"
    return "it requests no GPU (nvidia.com/gpu or amd.com/gpu): machines are bought only for pods that do"


def _limit_effects(
    world: PlanInput, observing: tuple[PlannedPool, ...], orders: Iterable[Order]
) -> Iterator[LimitEffect]:
    pools = {each.key: each.pool for each in (*world.pools, *observing)}
    for before, after in zip(world.limits, after_orders(world.limits, orders, pools), strict=True):
        if after.left != before.left:
            yield LimitEffect(before.name, before.resource, before.left, after.left)


def _preference(replicas: _Replicas, observing: tuple[PlannedPool, ...], made: _Combined) -> PreferenceCost | None:
    """What it would cost to honour what pods only prefer."""
    world = replicas.world
    wanted = [pod for pod in world.pods if _prefers(pod)]
    if not wanted:
        return None
    known: dict[int, Affinity] = {}
    hard = replace(world, pods=tuple(_strict(pod, known) for pod in world.pods))
    strict = _combined(replace(replicas, world=hard), observing)
    more = len(strict.unserved) - len(made.unserved)
    return PreferenceCost(len(wanted), strict.cost, max(more, 0))


def _prefers(pod: Pod) -> bool:
    return bool(pod.affinity.preferred_nodes) or any(not each.hard for each in pod.spreads)


def _strict(pod: Pod, known: dict[int, Affinity]) -> Pod:
    """Every soft spread as a requirement, and of preferred node affinity the term of the greatest weight.

    `known`: by the identity of an affinity, so that pods that share one still do: by that a plan tells them alike.
    """
    if not _prefers(pod):
        return pod
    affinity = known.setdefault(id(pod.affinity), _required(pod.affinity))
    spreads = tuple(msgspec.structs.replace(each, hard=True) for each in pod.spreads)
    return msgspec.structs.replace(pod, affinity=affinity, spreads=spreads)


def _required(affinity: Affinity) -> Affinity:
    if not affinity.preferred_nodes:
        return affinity
    wanted = max(affinity.preferred_nodes, key=lambda each: each.weight).term
    terms = (NodeTerm(),) if affinity.node_terms is None else affinity.node_terms
    both = tuple(NodeTerm((*each.labels, *wanted.labels), (*each.fields, *wanted.fields)) for each in terms)
    return msgspec.structs.replace(affinity, node_terms=both)
