"""What is left of the limits of classes and pools, for a plan to divide.

The ledger enforces limits again when a machine is reserved: what is computed here only keeps a plan within them.
"""

from tgp.api.request import GPURequest
from tgp.core.inventory.limits import Limits, Reservation, Usage, rooms_left
from tgp.core.model.gpus import resource_name
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.offer import Offer
from tgp.core.pools.planner.world import LimitRoom
from tgp.core.requests.purchase import price_cap


def expected_reservation(uid: str, request: GPURequest, offer: Offer) -> Reservation:
    """What a request will use that has not reserved anything yet."""
    most = price_cap(request.spec)
    price = offer.hourly_microusd if most is None else most
    return Reservation(uid, price, offer.gpu_count, resource_name(offer.gpu), offer.vcpus, offer.memory_gib)


def limit_rooms(whose: str, limits: Limits | None, used: Usage, pools: frozenset[ObjectKey]) -> list[LimitRoom]:
    """`whose`: as a message names it, "GPUNodeClass cheap"."""
    return [LimitRoom(f"{whose}: {room.name}", room.resource, room.left, pools) for room in rooms_left(limits, used)]
