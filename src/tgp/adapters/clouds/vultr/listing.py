"""Reads what Vultr sells: Cloud GPU plans (`GET /plans?type=vcg`) in the locations where each is to be had.

A plan tells the memory of all its GPUs together; divided by what one card has it is their number. Many plans are a
slice of one card, which Kubernetes would count as a whole one: left out, counted as "fractional GPU". A plan without
a location is sold out, and nothing tells where it would stand.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any

from tgp.adapters.clouds.reading import Odd, identifier, text, whole
from tgp.adapters.clouds.vultr.facts import FACTS
from tgp.core.model.gpus import Gpu, find
from tgp.core.model.offer import BootMode, Offer, Stock, Trust
from tgp.core.model.prices import NotAPrice, hourly_microusd
from tgp.core.model.regions import country_of, region_of
from tgp.ports.cloud import Listing

MOST_LOCATIONS = 200  # of one plan; Vultr has 33
MOST_GPUS = 64
MB_A_GIB = 1024


class Dropped(Exception):
    """This plan is left out; the text is the reason it is counted under."""


def read_regions(rows: list[Any]) -> dict[str, str]:
    """Location → ISO code of its country. What cannot be read is left out: an offer there tells no country."""
    return {
        row["id"]: row["country"]
        for row in rows
        if isinstance(row, dict) and isinstance(row.get("id"), str) and _is_country(row.get("country"))
    }


def read_plans(rows: list[Any], countries: Mapping[str, str]) -> Listing:
    offers: dict[str, Offer] = {}
    dropped: Counter[str] = Counter()
    for row in rows:
        try:
            offers |= {offer.key: offer for offer in _offers(row, countries)}
        except Dropped as reason:
            dropped[str(reason)] += 1
        except NotAPrice:
            dropped["bad price"] += 1
        except Odd:
            dropped["bad shape"] += 1
    return Listing(tuple(offers[key] for key in sorted(offers)), dict(dropped))


def _offers(row: Any, countries: Mapping[str, str]) -> list[Offer]:
    if not isinstance(row, dict):
        raise Odd("a plan is no object")
    gpu = _gpu(row)
    count = _count(row, gpu)
    price = hourly_microusd(row.get("hourly_cost"))
    if row.get("deploy_ondemand") is False:
        raise Dropped("not rentable")
    places = _places(row)
    if not places:
        raise Dropped("sold out")
    return [_offer(row, gpu, count, price=price, place=place, country=countries.get(place, "")) for place in places]


def _offer(row: dict[str, Any], gpu: Gpu, count: int, *, price: int, place: str, country: str) -> Offer:
    return Offer(
        provider=FACTS.provider,
        sku=identifier(row.get("id")),
        place=place,
        region=region_of(FACTS.provider, place, country=country),
        country=country or country_of(FACTS.provider, place),
        gpu=gpu.model,
        gpu_count=count,
        gpu_memory_gib=gpu.memory_gib,
        vcpus=whole(row, "vcpu_count", most=4096),
        memory_gib=whole(row, "ram", most=1 << 30) // MB_A_GIB,
        disk_gib=whole(row, "disk", most=1 << 24) * whole(row, "disk_count", least=1, most=64, default=1),
        hourly_microusd=price,
        stock=Stock.LIKELY,  # "where this plan is valid for use", which has meant where there are some
        trust=Trust.DATACENTER,
        boot=BootMode.NATIVE,
    )


def _gpu(row: dict[str, Any]) -> Gpu:
    found = find(text(row, "gpu_type"), provider=FACTS.provider)
    if found is None:
        raise Dropped("unknown GPU")
    return found


def _count(row: dict[str, Any], gpu: Gpu) -> int:
    """How many whole cards the plan's memory is."""
    told = whole(row, "gpu_vram_gb", most=MOST_GPUS * 1024)
    count = round(told / gpu.memory_gib)
    if count < 1 or not gpu.has_memory(told / count):
        raise Dropped("fractional GPU")
    if count > MOST_GPUS:
        raise Odd(f"gpu_vram_gb makes {count} cards")
    return count


def _places(row: dict[str, Any]) -> list[str]:
    rows = row.get("locations")
    if not isinstance(rows, list) or len(rows) > MOST_LOCATIONS:
        raise Odd("locations is no list")
    return sorted({identifier(each, "location") for each in rows if each != ""})  # empty strings have been seen


def _is_country(value: Any) -> bool:
    return isinstance(value, str) and len(value) == 2 and value.isascii() and value.isalpha() and value.isupper()
