"""What is left of the limits of classes and pools, for a plan to divide.

The ledger enforces limits again when a machine is reserved: what is computed here only keeps a plan within them.
"""

from collections.abc import Mapping, Sequence

from tgp.api.nodeclass import ClassLimits
from tgp.api.nodepool import PoolLimits
from tgp.api.quantity import Written, milli, whole
from tgp.api.request import GPURequest
from tgp.core.inventory.limits import NODES, Reservation, headroom_microusd
from tgp.core.model.gpus import resource_name
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.offer import Offer
from tgp.core.pools.planner.world import USD, LimitRoom
from tgp.core.requests.purchase import price_cap


def expected_reservation(uid: str, request: GPURequest, offer: Offer) -> Reservation:
    """What a request will use that has not reserved anything yet."""
    most = price_cap(request.spec)
    price = offer.hourly_microusd if most is None else most
    return Reservation(uid, price, offer.gpu_count, resource_name(offer.gpu), offer.vcpus, offer.memory_gib)


def class_rooms(
    name: str, limits: ClassLimits | None, held: Sequence[Reservation], pools: frozenset[ObjectKey]
) -> list[LimitRoom]:
    if limits is None:
        return []
    whose, rooms = f"GPUNodeClass {name}", []
    if limits.max_nodes is not None:
        text = f"{whose}: limits.maxNodes is {limits.max_nodes}"
        rooms.append(LimitRoom(text, NODES, max(limits.max_nodes - len(held), 0), pools))
    room = headroom_microusd(limits, held)
    if room is not None:
        text = f"{whose}: limits.maxHourlyCost is ${limits.max_hourly_cost}/h"
        rooms.append(LimitRoom(text, USD, room, pools))
    return rooms + _resource_rooms(whose, limits.resources, held, pools)


def pool_rooms(key: ObjectKey, limits: PoolLimits | None, held: Sequence[Reservation]) -> list[LimitRoom]:
    return _resource_rooms(f"GPUNodePool {key}", limits.resources, held, frozenset({key})) if limits is not None else []


def _resource_rooms(
    whose: str, limits: Mapping[str, Written], held: Sequence[Reservation], pools: frozenset[ObjectKey]
) -> list[LimitRoom]:
    rooms = []
    for resource, written in sorted(limits.items()):
        most = milli(written) if resource == "cpu" else whole(written)
        taken = [each.takes(resource) for each in held]
        # What cannot be counted may be all of it.
        left = 0 if None in taken else max(most - sum(each or 0 for each in taken), 0)
        rooms.append(LimitRoom(f"{whose}: limits.resources[{resource}] is {written}", resource, left, pools))
    return rooms
