"""Parses Lambda's offers: `GET /instance-types`, a map from the name of a type to its description and regions.

Prices are cents for the whole machine, equal everywhere. The memory of a GPU is only in its description:
"A100 (40 GB SXM4)". A type without a region is sold out everywhere: counted, not offered.
"""

import re
from collections import Counter
from typing import Any

from tgp.adapters.clouds.lambdalabs.facts import FACTS
from tgp.adapters.clouds.parse import LONGEST_ID, ParseError, text, whole
from tgp.core.model.cloud_errors import CannotTell
from tgp.core.model.gpus import Gpu, find
from tgp.core.model.offer import BootMode, Offer, Stock, Trust
from tgp.core.model.prices import NotAPrice, hourly_microusd
from tgp.core.model.regions import country_of, region_of
from tgp.ports.cloud import Listing

MOST_TYPES = 1_000  # 22 were listed at the end of 2025
MOST_REGIONS = 100  # of one type; 17 were known
MOST_GPUS = 64
CENTS = 100
ARM = frozenset({"GH200", "GB200", "GB300"})  # models whose host is Grace, which is arm64
COUNT = re.compile(r"\A\d{1,2}x ")  # "8x A100 (80 GB SXM4)": the description of the whole machine
MEMORY = re.compile(r"\((\d{1,4}(?:\.\d{1,2})?)\s?GB\b")


class DroppedRow(Exception):
    """A dropped row; the text is the reason it is counted under."""


def read_types(data: Any) -> Listing:
    """The whole listing; `CannotTell` if it is not a map of types. One bad row does not fail the list."""
    if not isinstance(data, dict):
        raise CannotTell(f"{FACTS.title} answered instance-types without a map of types")
    if len(data) > MOST_TYPES:
        raise CannotTell(f"{FACTS.title} lists {len(data)} instance types; more than {MOST_TYPES} cannot be right")
    offers: list[Offer] = []
    dropped: Counter[str] = Counter()
    for name in sorted(data):
        try:
            offers += _offers(data[name])
        except DroppedRow as reason:
            dropped[str(reason)] += 1
        except NotAPrice:
            dropped["bad price"] += 1
        except ParseError:
            dropped["bad shape"] += 1
    return Listing(tuple(offers), dict(dropped))


def _offers(item: Any) -> list[Offer]:
    kind = _object(item, "instance_type")
    specs = _object(kind, "specs")
    count = whole(specs, "gpus", most=MOST_GPUS)
    if count == 0:
        raise DroppedRow("no GPU")
    gpu = _gpu(kind)
    price = hourly_microusd(kind.get("price_cents_per_hour"), per_dollar=CENTS)
    places = _places(item)
    if not places:
        raise DroppedRow("sold out")
    return [_offer(kind, specs, gpu, price, place) for place in places]


def _offer(kind: dict[str, Any], specs: dict[str, Any], gpu: Gpu, price: int, place: str) -> Offer:
    return Offer(
        provider=FACTS.provider,
        sku=_name(kind),
        place=place,
        region=region_of(FACTS.provider, place),
        country=country_of(FACTS.provider, place),
        gpu=gpu.model,
        gpu_count=whole(specs, "gpus", least=1, most=MOST_GPUS),
        gpu_memory_gib=gpu.memory_gib,
        vcpus=whole(specs, "vcpus", most=4096),
        memory_gib=whole(specs, "memory_gib", most=1 << 20),
        disk_gib=whole(specs, "storage_gib", most=1 << 24),
        arch="arm64" if gpu.model in ARM else "amd64",
        hourly_microusd=price,
        stock=Stock.CONFIRMED,  # Lambda lists a region only while it has some
        trust=Trust.DATACENTER,
        boot=BootMode.TAKEOVER,
    )


def _gpu(kind: dict[str, Any]) -> Gpu:
    """By the whole description, else by the text before the bracket; the memory in the bracket must match.

    Where nothing describes the GPU, the description of the machine does: it is the same with a count before it.
    """
    machine = text(kind, "description", default="")
    described = text(kind, "gpu_description", default="") or COUNT.sub("", machine)
    told = MEMORY.search(described) or MEMORY.search(machine)
    memory = float(told[1]) if told else None
    words = described.partition("(")[0].strip()
    found = find(described, provider=FACTS.provider, memory_gib=memory) or find(
        words, provider=FACTS.provider, memory_gib=memory
    )
    if found is None:
        raise DroppedRow("unknown GPU")
    return found


def _places(item: dict[str, Any]) -> list[str]:
    rows = item.get("regions_with_capacity_available")
    if not isinstance(rows, list) or len(rows) > MOST_REGIONS:
        raise ParseError("regions_with_capacity_available is not a list of regions")
    places = {_place(row) for row in rows}
    return sorted(places)


def _place(row: Any) -> str:
    if not isinstance(row, dict) or not (name := text(row, "name", longest=LONGEST_ID)):
        raise ParseError("a region has no name")
    return name


def _name(kind: dict[str, Any]) -> str:
    name = text(kind, "name", longest=LONGEST_ID)
    if not name:
        raise ParseError("name is empty")
    return name


def _object(row: Any, name: str) -> dict[str, Any]:
    value = row.get(name) if isinstance(row, dict) else None
    if not isinstance(value, dict):
        raise ParseError(f"{name} is not an object")
    return value
