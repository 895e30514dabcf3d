"""Whether prices have moved by enough since the last search for cheaper machines that another one may find more.

A search plans for all machines of a pool many times over. Listings come every few seconds, and most change nothing, or
a tenth of a cent: far less than `minSavings`, which a saving has to reach. What an exchange costs is counted again, at
the prices of that moment, before it begins.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeAlias

from tgp.core.model.offer import Offer, Stock

MATTERS = 0.01  # of a price: a fifth of the usual minSavings


class MachineKind(NamedTuple):
    """Offers of one kind differ by little but their prices."""

    provider: str
    region: str
    gpu: str
    gpu_count: int
    spot: bool


LowestPrices: TypeAlias = Mapping[MachineKind, int]  # micro-dollars an hour


def lowest_prices(offers: Iterable[Offer]) -> LowestPrices:
    """By kind, of what is in stock."""
    found: dict[MachineKind, int] = {}
    for each in offers:
        if each.stock is not Stock.NONE:
            kind = MachineKind(each.provider, each.region, each.gpu, each.gpu_count, each.spot)
            found[kind] = min(found.get(kind, each.hourly_microusd), each.hourly_microusd)
    return found


def moved(before: LowestPrices, now: LowestPrices) -> bool:
    """Whether a kind came or went, or its lowest price has moved by more than `MATTERS`."""
    if before is now:
        return False
    return before.keys() != now.keys() or any(abs(now[kind] - was) > MATTERS * was for kind, was in before.items())
