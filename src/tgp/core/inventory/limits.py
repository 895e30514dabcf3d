"""Hard limits of a class: running, reserved and doubtful machines together never exceed them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from tgp.api.nodeclass import ClassLimits
from tgp.api.quantity import milli, whole
from tgp.api.request import Attempt, ChosenOffer
from tgp.api.values import microusd
from tgp.core.model.costs import read_amount
from tgp.core.model.gpus import resource_name
from tgp.core.model.money import exact

GIB = 1 << 30
NODES = "nodes"


@dataclass(frozen=True, slots=True)
class Reservation:
    """What one machine uses of its class's limits, from its reservation until it was shown to be gone."""

    uid: str  # of the request
    microusd: int  # an hour: as billed; until that is known, the most that the order allows
    gpus: int = 0
    gpu_resource: str = "nvidia.com/gpu"
    vcpus: int = 0  # 0: unknown
    memory_gib: int = 0  # 0: unknown
    presumed: bool = False  # only lists declare it gone: it may still run, so it counts for another hour

    def takes(self, resource: str) -> int | None:
        """Of a resource in a limit, CPU in milli; None: the amount is unknown, so it cannot be counted."""
        if resource == "cpu":
            return self.vcpus * 1000 or None
        if resource == "memory":
            return self.memory_gib * GIB or None
        if resource == NODES:
            return 1
        return self.gpus if resource == self.gpu_resource else 0


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


def shortage(limits: ClassLimits | None, held: Sequence[Reservation], wanted: Reservation) -> str:
    """Why `wanted` does not fit beside what is in use, with the numbers; empty: it fits."""
    if limits is None:
        return ""
    if limits.max_nodes is not None and len(held) + 1 > limits.max_nodes:
        return f"limits.maxNodes is {limits.max_nodes}, and {len(held)} are in use{_presumed(held)}"
    room = headroom_microusd(limits, held)
    if room is not None and wanted.microusd > room:
        used = exact(sum(each.microusd for each in held))
        return (
            f"limits.maxHourlyCost is ${limits.max_hourly_cost}/h, of which {used}/h is in use{_presumed(held)}: "
            f"{exact(wanted.microusd)}/h more does not fit"
        )
    for resource in sorted(limits.resources):
        if said := _resource_shortage(resource, limits, held, wanted):
            return said
    return ""


def _presumed(held: Iterable[Reservation]) -> str:
    lost = [each for each in held if each.presumed]
    return f" ({len(lost)} of them presumed lost, at {exact(sum(each.microusd for each in lost))}/h)" if lost else ""


def presumed_of(attempts: Iterable[Attempt]) -> list[tuple[datetime, Reservation]]:
    """Machines of ended attempts that still count, and until when. Keyed by their tokens, beside a new one."""
    return [
        (attempt.counts_until, replace(reservation_of(attempt.token, attempt), presumed=True))
        for attempt in attempts
        if attempt.counts_until is not None and attempt.ended_at is not None
    ]


def headroom_microusd(limits: ClassLimits | None, held: Iterable[Reservation]) -> int | None:
    """What is left of maxHourlyCost; None: there is no such limit."""
    if limits is None or limits.max_hourly_cost is None:
        return None
    most = microusd(limits.max_hourly_cost, "spec.limits.maxHourlyCost")
    return max(most - sum(each.microusd for each in held), 0)


def _resource_shortage(resource: str, limits: ClassLimits, held: Sequence[Reservation], wanted: Reservation) -> str:
    written = limits.resources[resource]
    most = milli(written) if resource == "cpu" else whole(written)
    taken = 0
    for each in (*held, wanted):
        takes = each.takes(resource)
        if takes is None:
            return (
                f"limits.resources[{resource}] is {written}, but a provider does not report the {resource} of a "
                "machine, so the limit cannot be checked"
            )
        taken += takes
    if taken <= most:
        return ""
    return f"limits.resources[{resource}] is {written}: one more machine would exceed it"
