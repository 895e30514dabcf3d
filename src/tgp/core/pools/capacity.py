"""Room that is paid for already: on Nodes, and on machines that are on their way."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

import msgspec

from tgp.api.nodepool import GPUNodePool
from tgp.api.request import GPURequest
from tgp.core.inventory.limits import GIB
from tgp.core.model.gpus import resource_name
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.node import Node
from tgp.core.model.offer import Offer
from tgp.core.model.pod import Pod
from tgp.core.model.record import uid_text
from tgp.core.model.resources import Resources
from tgp.core.model.taints import Taint
from tgp.core.pools.planner.sources import EPHEMERAL_STORAGE, KERNEL_SHARE, PODS, PODS_PER_NODE, SYSTEM_CPU_MILLI
from tgp.core.pools.planner.world import Capacity, Shape
from tgp.core.requests.drain import DISRUPTED
from tgp.core.requests.node_metadata import future_node

LEAVING_WITHIN = timedelta(minutes=5)  # a pod that ends later is as good as one that stays
LEAVING_SPARE = timedelta(seconds=30)  # after its deadline a pod is gone, or does not go
ENDED = ("Finished", "Failed")
UNTOLD = 1 << 50  # milli-CPU or bytes, where a provider does not say
CORDONED = Taint("node.kubernetes.io/unschedulable", "NoSchedule")


def less(room: Resources, taken: Resources) -> Resources:
    """What is left; never below zero."""
    return Resources(
        max(room.cpu_milli - taken.cpu_milli, 0),
        max(room.memory_bytes - taken.memory_bytes, 0),
        tuple((name, max(amount - taken.of(name), 0)) for name, amount in room.others),
    )


def taken_by(pod: Pod) -> Resources:
    return pod.requests + Resources(others=((PODS, 1),))


def with_pods(room: Capacity, pods: Iterable[Pod]) -> Capacity:
    """As if these pods were there already."""
    free, more = room.free, tuple(pods)
    for pod in more:
        free = less(free, taken_by(pod))
    return replace(room, free=free, pods=(*room.pods, *more)) if more else room


def with_placed(rooms: Iterable[Capacity], pods: Iterable[Pod], placed: Mapping[str, str]) -> tuple[Capacity, ...]:
    """What a plan leaves of its rooms. `placed`: uid of a pod → name of its room."""
    there: dict[str, list[Pod]] = {}
    for pod in pods:
        if where := placed.get(uid_text(pod.uid)):
            there.setdefault(where, []).append(pod)
    return tuple(with_pods(room, there.get(room.name, ())) for room in rooms)


def serves(node: Node) -> bool:
    """Whether the scheduler may bind pods there now."""
    ready = node.ready is True and not node.deleting and not node.unreadable
    return ready and not node.cordoned and DISRUPTED not in node.taints


def stays_if_needed(node: Node, records: Iterable[KubeObject[GPURequest]]) -> bool:
    """Whether the machine is about to leave because no pod uses it, and may still stay: its request is not deleted."""
    ready = node.ready is True and not node.deleting and not node.unreadable and not node.cordoned
    return ready and any(_is_idle(each) for each in records)


def _is_idle(record: KubeObject[GPURequest]) -> bool:
    conditions = record.value.status.conditions if record.value is not None and not record.deleting else ()
    held = {each.type: each.reason for each in conditions if each.status == "True"}
    return held.get("Disrupted") == "Empty" and "Terminating" not in held


def drained_capacity(
    node: Node, pods: Iterable[Pod], now: datetime, refused: frozenset[str] = frozenset()
) -> tuple[Capacity, datetime | None]:
    """As `node_capacity`, of a machine that stays if it is needed: then our taint goes."""
    kept = tuple(taint for taint in node.taints if taint.key != DISRUPTED.key)
    room, until = node_capacity(msgspec.structs.replace(node, taints=kept), pods, now, refused)
    return replace(room, drains=True), until


def node_capacity(
    node: Node, pods: Iterable[Pod], now: datetime, refused: frozenset[str] = frozenset()
) -> tuple[Capacity, datetime | None]:
    """The room of a Node, and when that changes by itself: a pod that has to be gone by then still counts as gone."""
    free, staying, until = node.allocatable, [], None
    for pod in pods:
        if pod.finished:
            continue
        deadline = leaves_by(pod, now)
        if deadline is not None:
            until = deadline if until is None else min(until, deadline)
            continue
        staying.append(pod)
        free = less(free, taken_by(pod))
    taints = (*node.taints, CORDONED) if node.cordoned and CORDONED not in node.taints else node.taints
    return Capacity(node.name, free, node.labels, taints, tuple(staying), refused=refused), until


def leaves_by(pod: Pod, now: datetime) -> datetime | None:
    """Until when a pod that is being deleted may still be there; None: it stays, or nothing is known of its end."""
    if pod.deletion_requested_at is None:
        return None
    deadline = pod.deletion_requested_at + LEAVING_SPARE
    return deadline if now < deadline <= now + LEAVING_WITHIN else None


def on_its_way(record: KubeObject[GPURequest]) -> bool:
    """Whether a machine of it may still become a Node with room: it is not initialised, and it does not end."""
    if record.value is None or record.deleting or record.value.status.phase in ENDED:
        return False
    held = {each.type for each in record.value.status.conditions if each.status == "True"}
    return not held & {"Initialized", "Terminating", "Ended", "Restored", "Disrupted"}


def living(record: KubeObject[GPURequest]) -> bool:
    """Whether it has a machine, or may get one."""
    return not record.deleting and (record.value is None or record.value.status.phase not in ENDED)


def coming_capacity(
    record: KubeObject[GPURequest],
    offer: Offer,
    pool: GPUNodePool | None = None,
    *,
    shapes: Mapping[str, Shape] | None = None,
) -> Capacity:
    """The pods that it was bought for still wait, so that a plan finds room for them here."""
    future = future_node(record, offer, pool)
    return Capacity(str(record.key), promised(offer, shapes or {}), future.labels, future.taints, coming=record.key)


def promised(offer: Offer, shapes: Mapping[str, Shape]) -> Resources:
    """What pods may use there. A size that is not told is taken to be enough: the machine was bought all the same."""
    known = shapes.get(offer.key)
    if known is not None:
        return known.allocatable
    others = {
        resource_name(offer.gpu): offer.gpu_count,
        PODS: PODS_PER_NODE,
        EPHEMERAL_STORAGE: _less_kernel(offer.disk_gib),
    }
    cpu = offer.vcpus * 1000 - SYSTEM_CPU_MILLI if offer.vcpus else UNTOLD
    return Resources(cpu, _less_kernel(offer.memory_gib), tuple(sorted(others.items())))


def _less_kernel(gib: int) -> int:
    return int(gib * GIB * (1 - KERNEL_SHARE)) if gib else UNTOLD
