"""Pools with a fixed number of machines: each slot that has none is planned for as a pod that needs a machine alone."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from tgp.api.nodepool import GPUNodePool
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.placement import HostPort
from tgp.core.model.pod import Pod
from tgp.core.model.record import uid_text
from tgp.core.model.resources import Resources
from tgp.core.model.taints import Toleration
from tgp.core.pools.capacity import coming_capacity
from tgp.core.pools.orders import AnchoredOrder, free_names, manifest_of, record_of, slot_of
from tgp.core.pools.planner.world import Capacity, Order, PlanInput, PlannedPool, Shape

ANY_TAINT = (Toleration(operator="Exists"),)
ALONE = (HostPort(1, "TCP", ""),)  # two pods with one port of the host are never on one machine


def missing_slots(pool: KubeObject[GPUNodePool], taken: Collection[str]) -> Iterator[str]:
    """Anchors without a living request."""
    if pool.value is None or pool.deleting or pool.value.spec.replicas is None:
        return
    for number in range(pool.value.spec.replicas):
        anchor = slot_of(pool.uid_text, number)
        if anchor not in taken:
            yield anchor


def world_of_slots(world: PlanInput, pool: PlannedPool, slots: Iterable[str]) -> PlanInput:
    """Room elsewhere does not count: a replica is a machine of this pool."""
    return replace(world, pods=tuple(_pod(pool.key.namespace, slot) for slot in slots), pools=(pool,), capacity=())


def room_of_replica(
    pool: KubeObject[GPUNodePool], planned: PlannedPool, order: Order, shapes: Mapping[str, Shape]
) -> Capacity:
    """What pods would have on a machine that is planned for a slot, and not ordered."""
    anchor = uid_text(order.pods[0].uid)
    key = next(free_names(pool, anchor, taken=lambda _: False))
    request = record_of(manifest_of(key, AnchoredOrder(order, anchor), pool, planned.class_name, ""), pool)
    return coming_capacity(request, order.offer, planned.pool, shapes=shapes)


def _pod(namespace: str, slot: str) -> Pod:
    return Pod(key=ObjectKey(namespace, slot), uid=slot, requests=Resources(), tolerations=ANY_TAINT, host_ports=ALONE)
