"""What is left of the limits of classes and pools, for a plan to divide.

The ledger enforces limits again when a machine is reserved: what is computed here only keeps a plan within them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from tgp.api.nodepool import GPUNodePool
from tgp.api.request import GPURequest
from tgp.core.inventory.limits import GIB, NODES, USD, Limits, Reservation, Usage, rooms_left
from tgp.core.model.gpus import resource_name
from tgp.core.model.money import dollars
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.offer import Offer
from tgp.core.model.resources import decimal
from tgp.core.pools.orders import most_microusd
from tgp.core.pools.planner.world import LimitRoom, Order
from tgp.core.requests.purchase import price_cap


def expected_reservation(uid: str, request: GPURequest, offer: Offer) -> Reservation:
    """What a request will use that has not reserved anything yet."""
    most = price_cap(request.spec)
    price = offer.hourly_microusd if most is None else most
    return Reservation(uid, price, offer.gpu_count, resource_name(offer.gpu), offer.vcpus, offer.memory_gib)


def limit_rooms(whose: str, limits: Limits | None, used: Usage, pools: frozenset[ObjectKey]) -> list[LimitRoom]:
    """`whose`: as a message names it, "GPUNodeClass cheap"."""
    return [LimitRoom(f"{whose}: {room.name}", room.resource, room.left, pools) for room in rooms_left(limits, used)]


def after_orders(
    rooms: Iterable[LimitRoom], orders: Iterable[Order], pools: Mapping[ObjectKey, GPUNodePool]
) -> tuple[LimitRoom, ...]:
    """What these orders leave. Until a machine is billed, the most that its request may pay counts."""
    made = [(each.pool, _reservation(each, pools[each.pool])) for each in orders]
    return tuple(
        replace(room, left=room.left - sum(held.takes(room.resource) or 0 for pool, held in made if pool in room.pools))
        for room in rooms
    )


def _reservation(order: Order, pool: GPUNodePool) -> Reservation:
    offer, most = order.offer, most_microusd(order, pool)
    return Reservation("", most, offer.gpu_count, resource_name(offer.gpu), offer.vcpus, offer.memory_gib)


def limit_amount(resource: str, amount: int) -> str:
    """Of a limit, in text for users."""
    if resource == USD:
        return f"{dollars(amount)}/h" if amount >= 0 else f"-{dollars(-amount)}/h"
    if resource == "cpu":
        return f"{decimal(amount / 1000)} CPU"
    if resource == "memory":
        return f"{decimal(amount / GIB)} GiB"
    if resource == NODES:
        return "1 machine" if amount == 1 else f"{amount} machines"
    return f"{amount} {resource}"
