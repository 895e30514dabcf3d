"""Parses Vultr's offers: Cloud GPU plans, shared (`type=vcg`) and dedicated (`type=vdm`), with their regions.

A shared plan has the memory of all its GPUs together; divided by that of one card it is their number. A dedicated
one shows its GPUs only in its id (`vcg-h100-216c-1914gb-640vram`), and its locations only with a key, region
by region. A plan without a location is sold out everywhere.
"""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from tgp.adapters.clouds.parse import ParseError, identifier, rows_of, text, whole
from tgp.adapters.clouds.vultr.facts import FACTS
from tgp.core.model.cloud_errors import CannotTell
from tgp.core.model.gpus import Gpu, find
from tgp.core.model.offer import BootMode, Offer, Stock, Trust
from tgp.core.model.prices import NotAPrice, hourly_microusd
from tgp.core.model.regions import country_of, region_of
from tgp.ports.cloud import Listing

MOST_LOCATIONS = 200  # of one plan; Vultr has 33
MOST_GPUS = 64
MB_A_GIB = 1024
SHARED, DEDICATED = "vcg", "vdm"  # types of plans
PLAN_ID = re.compile(r"vcg-([a-z0-9]+)-\d+c-\d+gb?-(\d+)vram\Z")
IN_DOUBT = frozenset({"vcg-mi325x-252c-2872g-1536vram"})  # its id means six cards, Vultr's documentation says eight
VIRTUAL = frozenset({"A16", "A40", "A100-80GB-PCIE"})  # sold as vGPU; L40S and newer are whole cards
NO_DRIVER = "Vultr sells this GPU as vGPU, which Talos's NVIDIA drivers do not support"


class DroppedPlan(Exception):
    """A dropped plan; the text is the reason it is counted under."""


def read_regions(rows: list[Any]) -> dict[str, str]:
    """Location → ISO code of its country. Unreadable rows are dropped: offers there have no country."""
    return {
        row["id"]: row["country"]
        for row in rows
        if isinstance(row, dict) and isinstance(row.get("id"), str) and _is_country(row.get("country"))
    }


def read_available(body: dict[str, Any]) -> frozenset[str]:
    """Ids of plans that one region has."""
    rows = rows_of(body, "available_plans", FACTS.title)
    if not all(isinstance(row, str) for row in rows):
        raise CannotTell(f"{FACTS.title} returned available plans that are not strings")
    return frozenset(rows)


def read_plans(
    rows: list[Any], countries: Mapping[str, str], available: Mapping[str, frozenset[str]] | None = None
) -> Listing:
    """`available`: region → ids of dedicated plans available there; None: without a key no region shows them."""
    offers: dict[str, Offer] = {}
    dropped: Counter[str] = Counter()
    for row in rows:
        try:
            offers |= {offer.key: offer for offer in _offers(row, countries, available)}
        except DroppedPlan as reason:
            dropped[str(reason)] += 1
        except NotAPrice:
            dropped["bad price"] += 1
        except ParseError:
            dropped["bad shape"] += 1
    return Listing(tuple(offers[key] for key in sorted(offers)), dict(dropped))


@dataclass(frozen=True, slots=True)
class Cards:
    """The GPUs of a plan."""

    model: str
    count: int
    memory_gib: int  # of one
    no_driver: str = ""


def _offers(row: Any, countries: Mapping[str, str], available: Mapping[str, frozenset[str]] | None) -> list[Offer]:
    if not isinstance(row, dict):
        raise ParseError("a plan is not an object")
    dedicated = row.get("type") == DEDICATED
    cards = _whole_cards(*_named_in_id(row)) if dedicated else _shared_cards(row)
    price = hourly_microusd(row.get("hourly_cost"))
    if row.get("deploy_ondemand") is False:
        raise DroppedPlan("not rentable")
    if dedicated and available is None:
        raise DroppedPlan("region unknown without an API key")
    places = _available_at(row, available or {}) if dedicated else _places(row)
    if not places:
        raise DroppedPlan("sold out")
    return [_offer(row, cards, price, place=place, country=countries.get(place, "")) for place in places]


def _offer(row: dict[str, Any], cards: Cards, price: int, *, place: str, country: str) -> Offer:
    return Offer(
        provider=FACTS.provider,
        sku=identifier(row.get("id")),
        place=place,
        region=region_of(FACTS.provider, place, country=country),
        country=country or country_of(FACTS.provider, place),
        gpu=cards.model,
        gpu_count=cards.count,
        gpu_memory_gib=cards.memory_gib,
        vcpus=whole(row, "vcpu_count", most=4096),
        memory_gib=whole(row, "ram", most=1 << 30) // MB_A_GIB,
        disk_gib=whole(row, "disk", most=1 << 24) * whole(row, "disk_count", least=1, most=64, default=1),
        hourly_microusd=price,
        stock=Stock.LIKELY,  # "where this plan is valid for use", which has meant in stock
        trust=Trust.DATACENTER,
        boot=BootMode.NATIVE,
        no_driver=cards.no_driver,
    )


def _named_in_id(row: dict[str, Any]) -> tuple[str, int]:
    """The GPU and the total memory, from a dedicated plan's id."""
    plan = identifier(row.get("id"))
    found = PLAN_ID.match(plan)
    if found is None or plan in IN_DOUBT:
        raise DroppedPlan("unknown GPU")
    return found[1], int(found[2])


def _shared_cards(row: dict[str, Any]) -> Cards:
    """For models sold as vGPU any memory is valid: a part of a card counts as one GPU."""
    name, told = text(row, "gpu_type"), whole(row, "gpu_vram_gb", most=MOST_GPUS * 1024)
    gpu = _gpu(name)
    if gpu.model not in VIRTUAL:
        return _whole_cards(name, told)
    if 0 < told < gpu.memory_gib:
        return Cards(gpu.model, 1, told, NO_DRIVER)
    return replace(_whole_cards(name, told), no_driver=NO_DRIVER)


def _whole_cards(name: str, told: int) -> Cards:
    """The number of GPUs by their total memory."""
    gpu = _gpu(name)
    counts = (told // gpu.memory_gib, -(-told // gpu.memory_gib))  # a card may be listed with a little more, or less
    count = next((each for each in counts if each and gpu.has_memory(told / each)), 0)
    if not count:
        raise DroppedPlan("fractional GPU")
    if count > MOST_GPUS:
        raise ParseError(f"{told} GB of GPU memory would be {count} GPUs")
    return Cards(gpu.model, count, gpu.memory_gib)


def _gpu(name: str) -> Gpu:
    found = find(name, provider=FACTS.provider)
    if found is None:
        raise DroppedPlan("unknown GPU")
    return found


def _places(row: dict[str, Any]) -> list[str]:
    rows = row.get("locations")
    if not isinstance(rows, list) or len(rows) > MOST_LOCATIONS:
        raise ParseError("locations is not a list")
    return sorted({identifier(each, "location") for each in rows if each != ""})  # empty strings have been seen


def _available_at(row: dict[str, Any], available: Mapping[str, frozenset[str]]) -> list[str]:
    return sorted(place for place, plans in available.items() if row["id"] in plans)


def _is_country(value: Any) -> bool:
    return isinstance(value, str) and len(value) == 2 and value.isascii() and value.isalpha() and value.isupper()
