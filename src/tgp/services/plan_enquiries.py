"""Why a pod waits, why a Node is kept, what a pool does: from what a terminal sees, by the operator's own rules."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import MAXYEAR, datetime

import msgspec

from tgp.api.budget import GPUWorkloadBudget
from tgp.api.nodepool import GPUNodePool, canonical_policy
from tgp.api.request import GPURequest
from tgp.api.values import NEVER, span
from tgp.controllers.disruption.machine_facts import machine_of
from tgp.controllers.pools.indexes import WAITING_PODS, YES
from tgp.controllers.requests.indexes import BY_NODE, PODS_BY_NODE
from tgp.core.budgets.admission import OFF, counts, meets, spans, waits_for
from tgp.core.disruption.candidates import standing_of, why_left
from tgp.core.disruption.causes import WHEN_UNDERUTILIZED, DisruptionCause, Machine, NoCause, cause_of
from tgp.core.disruption.machine_state import CONDITION
from tgp.core.model.conditions import condition_in
from tgp.core.model.event import Event
from tgp.core.model.gpus import resource_name
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.node import Node
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.pod import Pod
from tgp.core.model.record import uid_text
from tgp.core.model.workload import PodDisruptionBudget
from tgp.core.pools.capacity import ENDED
from tgp.core.pools.demand import asks_for_gpus, read_annotations, refusal_of, requests_gpus
from tgp.core.pools.nodepool import buys_nothing
from tgp.core.pools.orders import anchor_of, bought_for, slot_number
from tgp.core.pools.planner.classes import gang_of
from tgp.core.pools.planner.rows import own_price, own_price_until
from tgp.core.pools.upkeep import PoolRequest, Remove, care_for
from tgp.core.requests.node_metadata import pool_uid
from tgp.core.requests.node_state import users
from tgp.core.requests.own_node import owners_of
from tgp.core.requests.protection import protection_of
from tgp.services.plan_answers import NodeEnquiry, PodEnquiry, PodPlan, PoolEnquiry, PoolNote
from tgp.services.plan_world import SETTINGS, TerminalWorld, VisibleCluster

BUDGET_GATE = "BudgetGate"  # the reason of a pod that waits for hours of a budget
WAITS = "Waits"  # the reason of a pod that machines may be bought for
PURCHASE_EVENTS = frozenset({"TriggeredScaleUp", "NotTriggerScaleUp"})


def state_of(pod: Pod, schedulers: frozenset[str] = SETTINGS.scheduler_names) -> tuple[str, str]:
    """Whether machines may be bought for a pod, and why not: a reason and a message."""
    if pod.finished:
        return pod.phase, "the pod has ended"
    if pod.node:
        return "Scheduled", f"on Node {pod.node}"
    if pod.deleting:
        return "Deleting", "the pod is being deleted"
    if pod.of_daemon_set:
        return "DaemonSet", "it is a pod of a DaemonSet, which runs on Nodes that exist: no machine is bought for it"
    if pod.gates:
        why = f"the removal of its scheduling gates ({', '.join(pod.gates)}): before that nothing is bought for it"
        return "SchedulingGated", why
    refusal = refusal_of(pod, schedulers) if requests_gpus(pod) else None
    if refusal is not None:  # whether its scheduler has looked for a Node or not
        return refusal.reason, refusal.message
    if not pod.unschedulable:
        return "NotScheduledYet", "the scheduler to look for a Node: machines are bought once it has found none"
    if not asks_for_gpus(pod):
        return "NoGPU", "a Node with room: it requests no GPU, and machines are bought only for pods that do"
    return WAITS, "a machine with a GPU"


def behind_budget_gate(
    pod: Pod, namespace_labels: Mapping[str, str] | None, budgets: Iterable[KubeObject[GPUWorkloadBudget]]
) -> tuple[str, str]:
    """The same of a pod that waits behind the gate of budgets."""
    holders = [
        (record.key, record.value)
        for record in budgets
        if record.value is not None
        and record.value.spec.enforcement.admission != OFF
        and counts(record.value)
        # With a namespaceSelector only one that counts: it does so in the operator's namespace alone.
        and (record.value.spec.namespace_selector is None or record.value.status.account is not None)
        and spans(record.key, record.value.spec, pod.key.namespace, namespace_labels)
        and meets(record.value.spec, pod.labels, pod.requests.milli)
    ]
    return BUDGET_GATE, waits_for(holders)


def pod_enquiry(
    visible: VisibleCluster,
    pod: Pod,
    plan: PodPlan | None,
    events: tuple[Event, ...] | None,
    refusal: tuple[str, str] | None,
) -> PodEnquiry:
    reason, message = refusal or state_of(pod, visible.schedulers)
    annotations, ignored = read_annotations(pod)
    read = msgspec.structs.replace(pod, annotations=annotations)
    requests = visible.stores.requests
    uid = uid_text(pod.uid)
    return PodEnquiry(
        pod,
        visible.now,
        reason,
        message,
        _owner(visible, visible.stores.nodes.get(ObjectKey("", pod.node))) if pod.node else None,
        tuple(record for record in _ordered(requests.values()) if uid in bought_for(record) and not _ended(record)),
        plan,
        own_price(read, visible.now),
        own_price_until(read),
        gang_of(read),
        tuple(each for each in events or () if each.reason in PURCHASE_EVENTS),
        ignored,
    )


def _owner(visible: VisibleCluster, node: Node | None) -> KubeObject[GPURequest] | None:
    """The request whose Node it is; None: no request's, or it is not there."""
    return next(iter(owners_of(node, visible.stores.requests.by_index(BY_NODE, node.name))), None) if node else None


def node_enquiry(visible: VisibleCluster, node: Node) -> NodeEnquiry:
    stores = visible.stores
    record = _owner(visible, node)
    pods = tuple(sorted(stores.pods.by_index(PODS_BY_NODE, node.name), key=lambda each: each.key))
    running = tuple(pod for pod in pods if not pod.finished)
    found = NodeEnquiry(node, visible.now, record, unseen=visible.unseen)
    if record is None or record.value is None:
        return replace(found, others=sum(not pod.of_daemon_set for pod in running))
    using = tuple(users(running, _resource(record)))
    pool = _pool_of(visible, record)
    found = replace(
        found,
        pool=pool.key if pool is not None else None,
        users=using,
        others=sum(not pod.of_daemon_set and pod not in using for pod in running),
        ends=_ends(record),
        idle_since=None if using else record.value.status.idle_since,
    )
    if pool is None or found.ends:
        return found
    care = care_for(PoolRequest(record, pool, visible.now))
    if isinstance(care, Remove):
        return replace(found, ends=f"the pool deletes its request next: {care.why}")
    if pool.value is None:
        return found
    nominated = {pod.nominated_node for pod in stores.pods.by_index(WAITING_PODS, YES) if pod.nominated_node}
    machine = machine_of(record, pool.value, stores, visible.now, awaited=nominated)
    kept = tuple(_kept(found, pool, machine, stores.disruption_budgets.values()))
    match cause_of(machine, pool.value, visible.now):
        case DisruptionCause(message=message):
            return replace(found, kept=kept) if kept else replace(found, ends=f"the pool deletes it next: {message}")
        case NoCause(until=until):
            return replace(found, kept=kept, deleted_at=until if machine.stays_until is None else None)


def pool_enquiry(world: TerminalWorld, pool: KubeObject[GPUNodePool], plan: PodPlan, note: PoolNote) -> PoolEnquiry:
    requests = _ordered(world.visible.stores.requests.values())
    return PoolEnquiry(
        pool,
        world.visible.now,
        note,
        plan,
        tuple(record for record in requests if pool_uid(record) == pool.uid_text and not _ended(record)),
        tuple(room for room in world.observation.world.limits if pool.key in room.pools),
    )


def _kept(
    found: NodeEnquiry, pool: KubeObject[GPUNodePool], machine: Machine, budgets: Iterable[PodDisruptionBudget]
) -> Iterator[str]:
    assert pool.value is not None, "a pool that cannot be read decides nothing"
    record, disruption = machine.record, pool.value.spec.disruption
    slot = slot_number(anchor_of(record))
    if pool.value.spec.replicas is not None and slot is not None:
        yield f"pool {pool.key} keeps {pool.value.spec.replicas} machines, used or not (spec.replicas)"
    if canonical_policy(disruption.consolidation_policy) == "Never":
        yield f"pool {pool.key} deletes no empty machines (spec.disruption.consolidationPolicy is Never)"
    elif span(disruption.consolidate_after, "spec.disruption.consolidateAfter") is NEVER:
        yield f"pool {pool.key} deletes no empty machines (spec.disruption.consolidateAfter is Never)"
    if (until := machine.stays_until) is not None:
        ends = f" until {until:%Y-%m-%d %H:%M:%S}Z" if until.year < MAXYEAR else ""
        yield f"minOnTime or keepOn of this machine keep it on{ends}"
    if machine.awaited and not found.users:
        yield "it has room for a pod that waits"
    if machine.keeps_place:
        yield "it is the replacement of a machine that is still there"
    held = condition_in(record.status, CONDITION)
    if held is not None and held.status is False:
        yield held.message
    protection = protection_of(record, found.node, machine.pods, found.now)
    if protection is not None:
        yield protection.text
    if found.node.ready is not True:
        yield "the Node is not Ready: whether pods use it is not known"
    elif protection is None and found.users and (why := _not_moved(machine, pool, pool.value, budgets, found.now)):
        yield f"its pods are not moved to cheaper machines: {why}"


def _not_moved(
    machine: Machine,
    record: KubeObject[GPUNodePool],
    pool: GPUNodePool,
    budgets: Iterable[PodDisruptionBudget],
    now: datetime,
) -> str:
    """Of a pool that moves pods together: what forbids it here; empty: nothing."""
    standing = standing_of(machine, pool, {}, now)
    if canonical_policy(pool.spec.disruption.consolidation_policy) != WHEN_UNDERUTILIZED or standing is None:
        return ""
    ready = condition_in(record.status, "Ready")
    stopped = ready.message if ready is not None and buys_nothing(ready) else ""
    return why_left(replace(standing, stopped=stopped), budgets, now)


def _ends(record: KubeObject[GPURequest]) -> str:
    for kind in ("Terminating", "Disrupted"):
        condition = condition_in(record.status, kind)
        if condition is not None and condition.status is True:
            return condition.message or condition.reason
    return "its request is being deleted" if record.deleting else ""


def _resource(record: KubeObject[GPURequest]) -> str:
    offer = record.value.status.offer if record.value is not None else None
    return resource_name((offer.gpu_type or "") if offer is not None else "")


def _pool_of(visible: VisibleCluster, record: KubeObject[GPURequest]) -> KubeObject[GPUNodePool] | None:
    uid = pool_uid(record)
    return next((pool for pool in visible.stores.pools.values() if uid and pool.uid_text == uid), None)


def _ended(record: KubeObject[GPURequest]) -> bool:
    return record.value is not None and record.value.status.phase in ENDED


def _ordered(records: Iterable[KubeObject[GPURequest]]) -> list[KubeObject[GPURequest]]:
    return sorted(records, key=lambda each: each.key)
