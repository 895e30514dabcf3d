"""Hard limits of a class: what lives, is reserved or is in doubt never exceeds them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from tgp.api.nodeclass import ClassLimits
from tgp.api.quantity import milli, whole
from tgp.api.request import Attempt, ChosenOffer
from tgp.api.values import microusd, usd
from tgp.core.model.gpus import resource_name
from tgp.core.rules.costs import read_amount

GIB = 1 << 30
NODES = "nodes"


@dataclass(frozen=True, slots=True)
class Holding:
    """What one machine takes of its class's limits, from its reservation until it was shown to be gone."""

    uid: str  # of the request
    microusd: int  # an hour: as billed; until that is known, the most that the order allows
    gpus: int = 0
    gpu_resource: str = "nvidia.com/gpu"
    vcpus: int = 0  # 0: not told
    memory_gib: int = 0  # 0: not told
    presumed: bool = False  # gone by lists alone: it may run on, so it counts on for an hour

    def takes(self, resource: str) -> int | None:
        """Of a resource in a limit, CPU in milli; None: nobody told how much, so it cannot be counted."""
        if resource == "cpu":
            return self.vcpus * 1000 or None
        if resource == "memory":
            return self.memory_gib * GIB or None
        if resource == NODES:
            return 1
        return self.gpus if resource == self.gpu_resource else 0


def holding_of(uid: str, attempt: Attempt) -> Holding:
    """Of an attempt that may have a machine. A record without a price (of a newer version) is counted as a machine."""
    offer = attempt.offer or ChosenOffer(provider="", instance_type="")
    billed, price = read_amount(attempt.hourly_price), read_amount(offer.hourly_price)
    counted = (price, read_amount(attempt.max_hourly_price))
    if billed is not None:
        counted = (billed, price if offer.spot else None)  # a bid may be asked for in full at any time
    return Holding(
        uid,
        max((amount for amount in counted if amount is not None), default=0),
        offer.gpu_count or 0,
        resource_name(offer.gpu_type or ""),
        offer.vcpus or 0,
        offer.memory_gib or 0,
    )


def shortage(limits: ClassLimits | None, held: Sequence[Holding], wanted: Holding) -> str:
    """Why `wanted` does not fit beside what is held, in words with the numbers; empty: it fits."""
    if limits is None:
        return ""
    if limits.max_nodes is not None and len(held) + 1 > limits.max_nodes:
        return f"limits.maxNodes is {limits.max_nodes}, and {len(held)} are held{_presumed(held)}"
    room = headroom_microusd(limits, held)
    if room is not None and wanted.microusd > room:
        return (
            f"limits.maxHourlyCost is ${limits.max_hourly_cost}/h, of which ${usd(sum(each.microusd for each in held))}"
            f"/h is held{_presumed(held)}: ${usd(wanted.microusd)}/h does not fit"
        )
    for resource in sorted(limits.resources):
        if said := _resource_shortage(resource, limits, held, wanted):
            return said
    return ""


def _presumed(held: Iterable[Holding]) -> str:
    lost = [each for each in held if each.presumed]
    return f" ({len(lost)} of them presumed lost, at ${usd(sum(each.microusd for each in lost))}/h)" if lost else ""


def presumed_of(attempts: Iterable[Attempt]) -> list[tuple[datetime, Holding]]:
    """Machines of attempts that are over which count on, and until when. Held under their tokens, beside a new one."""
    return [
        (attempt.counts_until, replace(holding_of(attempt.token, attempt), presumed=True))
        for attempt in attempts
        if attempt.counts_until is not None and attempt.ended_at is not None
    ]


def headroom_microusd(limits: ClassLimits | None, held: Iterable[Holding]) -> int | None:
    """What is left of maxHourlyCost; None: there is no such limit."""
    if limits is None or limits.max_hourly_cost is None:
        return None
    most = microusd(limits.max_hourly_cost, "spec.limits.maxHourlyCost")
    return max(most - sum(each.microusd for each in held), 0)


def _resource_shortage(resource: str, limits: ClassLimits, held: Sequence[Holding], wanted: Holding) -> str:
    written = limits.resources[resource]
    most = milli(written) if resource == "cpu" else whole(written)
    taken = 0
    for each in (*held, wanted):
        takes = each.takes(resource)
        if takes is None:
            return f"limits.resources[{resource}] is {written}, and a provider does not tell how much a machine has"
        taken += takes
    if taken <= most:
        return ""
    return f"limits.resources[{resource}] is {written}: one more machine would exceed it"
