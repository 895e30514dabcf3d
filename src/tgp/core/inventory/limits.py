"""Hard limits of classes and pools: running, reserved and doubtful machines together never exceed them."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import NamedTuple, TypeAlias

from tgp.api.nodeclass import ClassLimits
from tgp.api.nodepool import PoolLimits
from tgp.api.quantity import milli, whole
from tgp.api.request import Attempt, ChosenOffer
from tgp.api.values import microusd
from tgp.core.model.costs import read_amount
from tgp.core.model.gpus import GPU_RESOURCES, resource_name
from tgp.core.model.money import exact

GIB = 1 << 30
COUNTED_ON_FOR = timedelta(hours=1)  # a machine that only lists declare gone
USD, NODES = "usd", "nodes"  # resources of a limit, beside those of Kubernetes
COUNTED = (*sorted(GPU_RESOURCES, reverse=True), "cpu", "memory", NODES)  # what limits.resources may name
_KNOWN = frozenset({USD, *COUNTED})
Limits: TypeAlias = ClassLimits | PoolLimits


@dataclass(frozen=True, slots=True)
class Reservation:
    """What one machine uses of the limits of its class and its pool, from its reservation until it was shown to be
    gone.
    """

    uid: str  # of the request
    microusd: int  # an hour: as billed; until that is known, the most that the order allows
    gpus: int = 0
    gpu_resource: str = "nvidia.com/gpu"
    vcpus: int = 0  # 0: unknown
    memory_gib: int = 0  # 0: unknown
    presumed: bool = False  # only lists declare it gone: it may still run, so it counts for another hour

    def takes(self, resource: str) -> int | None:
        """Of a resource in a limit, CPU in milli; None: the amount is unknown, so it cannot be counted."""
        if resource not in _KNOWN:
            return None
        if resource == USD:
            return self.microusd
        if resource == "cpu":
            return self.vcpus * 1000 or None
        if resource == "memory":
            return self.memory_gib * GIB or None
        if resource == NODES:
            return 1
        return self.gpus if resource == self.gpu_resource else 0


@dataclass(frozen=True, slots=True)
class Usage:
    """What machines use of limits together: a sum, so that a check takes no longer with every machine."""

    nodes: int = 0
    microusd: int = 0
    presumed_nodes: int = 0  # of them those that only lists declare gone
    presumed_microusd: int = 0
    amounts: Mapping[str, int] = field(default_factory=dict)  # by resource, CPU in milli
    unknown: Mapping[str, int] = field(default_factory=dict)  # by resource: machines whose amount is unknown

    def plus(self, one: Reservation) -> "Usage":
        return self._changed(one, 1)

    def minus(self, one: Reservation) -> "Usage":
        """Without one that was added."""
        return self._changed(one, -1)

    def of(self, resource: str) -> int | None:
        """CPU in milli; None: the amount of a machine is unknown."""
        if resource not in _KNOWN:
            return None
        if resource == USD:
            return self.microusd
        if resource == NODES:
            return self.nodes
        return None if self.unknown.get(resource) else self.amounts.get(resource, 0)

    def _changed(self, one: Reservation, sign: int) -> "Usage":
        amounts, unknown = dict(self.amounts), dict(self.unknown)
        for resource in ("cpu", "memory", one.gpu_resource):
            takes = one.takes(resource)
            counted, by = (unknown, 1) if takes is None else (amounts, takes)
            counted[resource] = counted.get(resource, 0) + sign * by
        presumed = sign * one.presumed
        return Usage(
            self.nodes + sign,
            self.microusd + sign * one.microusd,
            self.presumed_nodes + presumed,
            self.presumed_microusd + presumed * one.microusd,
            amounts,
            unknown,
        )


NOTHING_USED = Usage()


def usage_of(reservations: Iterable[Reservation]) -> Usage:
    total = NOTHING_USED
    for each in reservations:
        total = total.plus(each)
    return total


def reservation_of(uid: str, attempt: Attempt) -> Reservation:
    """Of an attempt that may have a machine. A record without a price (of a newer version) counts as a machine."""
    offer = attempt.offer or ChosenOffer(provider="", instance_type="")
    billed, price = read_amount(attempt.hourly_price), read_amount(offer.hourly_price)
    counted = (price, read_amount(attempt.max_hourly_price))
    if billed is not None:
        counted = (billed, price if offer.spot else None)  # a bid may be charged in full at any time
    return Reservation(
        uid,
        max((amount for amount in counted if amount is not None), default=0),
        offer.gpu_count or 0,
        resource_name(offer.gpu_type or ""),
        offer.vcpus or 0,
        offer.memory_gib or 0,
    )


class _Limit(NamedTuple):
    """One limit of a class or a pool."""

    name: str  # "limits.maxHourlyCost is $4/h"
    resource: str  # USD (micro-dollars per hour), or one of COUNTED (CPU in milli); else nothing counts it
    most: int


class RoomLeft(NamedTuple):
    """What is left of one limit."""

    name: str  # as of the limit
    resource: str
    left: int
    most: int  # of which


def rooms_left(limits: Limits | None, held: Usage) -> list[RoomLeft]:
    """0 where the amount of a machine is unknown: a limit that cannot be counted cannot be kept."""
    rooms = []
    for limit in _every(limits):
        used = held.of(limit.resource)
        left = max(limit.most - used, 0) if used is not None else 0
        rooms.append(RoomLeft(limit.name, limit.resource, left, limit.most))
    return rooms


def shortage(limits: Limits | None, held: Usage, wanted: Reservation, *, only: str = "") -> str:
    """Why `wanted` does not fit beside what is in use, with the numbers; empty: it fits. `only`: of this resource."""
    for limit in _every(limits):
        if only and limit.resource != only:
            continue
        used, takes = held.of(limit.resource), wanted.takes(limit.resource)
        if limit.resource not in _KNOWN:
            return f"{limit.name}, a resource that is not counted"
        if used is None or takes is None:
            return f"{limit.name}, and a provider does not report the {limit.resource} of a machine"
        if used + takes <= limit.most:
            continue
        if limit.resource == NODES:
            return f"{limit.name}, and {used} are in use{_presumed(held)}"
        return (
            f"{limit.name}, of which {_amount(limit.resource, used)} is in use{_presumed(held)}: "
            f"{_amount(limit.resource, takes)} more does not fit"
        )
    return ""


def headroom_microusd(limits: ClassLimits | None, held: Usage) -> int | None:
    """What is left of maxHourlyCost; None: there is no such limit."""
    return next((room.left for room in rooms_left(limits, held) if room.resource == USD), None)


def counted_until(attempt: Attempt) -> datetime | None:
    """Until when the machine of an ended attempt counts: never longer than the operator itself would let it."""
    if attempt.counts_until is None or attempt.ended_at is None:
        return None
    if attempt.counts_until - attempt.ended_at <= COUNTED_ON_FOR:
        return attempt.counts_until
    return attempt.ended_at + COUNTED_ON_FOR


def presumed_of(attempts: Iterable[Attempt]) -> list[tuple[datetime, Reservation]]:
    """Machines of ended attempts that still count, and until when. Keyed by their tokens, beside a new one."""
    return [
        (until, replace(reservation_of(attempt.token, attempt), presumed=True))
        for attempt in attempts
        if (until := counted_until(attempt)) is not None
    ]


def _every(limits: Limits | None) -> Iterator[_Limit]:
    if limits is None:
        return
    if isinstance(limits, ClassLimits):
        if limits.max_nodes is not None:
            yield _Limit(f"limits.maxNodes is {limits.max_nodes}", NODES, limits.max_nodes)
        if limits.max_hourly_cost is not None:
            most = microusd(limits.max_hourly_cost, "spec.limits.maxHourlyCost")
            yield _Limit(f"limits.maxHourlyCost is ${limits.max_hourly_cost}/h", USD, most)
    for resource, written in sorted(limits.resources.items()):
        name, most = f"limits.resources[{resource}] is {written}", whole(written)
        if resource in COUNTED:
            yield _Limit(name, resource, milli(written) if resource == "cpu" else most)
        else:  # a condition says so, and nothing is bought; usd is no money here
            yield _Limit(name, f"resources[{resource}]", most)


def _presumed(held: Usage) -> str:
    if not held.presumed_nodes:
        return ""
    return f" ({held.presumed_nodes} of them presumed lost, at {exact(held.presumed_microusd)}/h)"


def _amount(resource: str, number: int) -> str:
    """As a user would write it."""
    if resource == USD:
        return f"{exact(number)}/h"
    if resource == "cpu":
        return f"{number // 1000}" if number % 1000 == 0 else f"{number}m"
    return f"{number // GIB}Gi" if resource == "memory" else str(number)
