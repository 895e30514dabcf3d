"""The catalogue: which GPUs RunPod sells, where, and how likely they are available. One call per cloud and number of
GPUs.

Prices are for one GPU of one cloud; a pod costs that times its GPUs, the same everywhere. The vendor calls the
catalogue a hint, not a reservation.
"""

import re
from collections import Counter
from dataclasses import dataclass
from typing import Any

from tgp.adapters.clouds.parse import ParseError, mapping_of, rows_of, text, whole
from tgp.adapters.clouds.redact import Confidence
from tgp.adapters.clouds.runpod.errors import ERRORS, said_in
from tgp.adapters.clouds.runpod.facts import FACTS, MIN_CUDA
from tgp.core.model.cloud_errors import CannotTell, OrderRefused
from tgp.core.model.gpus import Gpu, find
from tgp.core.model.offer import BootMode, Offer, Stock, Trust
from tgp.core.model.prices import HIGHEST_HOURLY, NotAPrice, hourly_microusd
from tgp.core.model.regions import country_of, region_of
from tgp.ports.cloud import Listing
from tgp.ports.http import Call, Reply

PATH = "/v2/catalog/gpus"
ANYWHERE = "anywhere"  # no data centre was named: community hosts have none, nor have GPUs that are sold out everywhere
MOST_GPUS = 16  # of one pod; the largest machines there have ten
ABSURD_COUNT = 1_000  # GPUs of one pod in a row; more is an error
MOST_TYPES = 1_000  # rows of a catalogue; there are about fifty
MOST_PLACES = 500  # data centres of one GPU; there are about thirty
DATA_CENTRE = re.compile(r"[A-Z0-9][A-Z0-9-]{0,31}\Z")
CUDA = re.compile(r"\d{1,4}\.\d{1,4}\Z", re.ASCII)
STOCKS = {"NONE": Stock.NONE, "LOW": Stock.LIKELY, "MEDIUM": Stock.LIKELY, "HIGH": Stock.CONFIRMED}
STANDS = {"SECURE": "secure", "COMMUNITY": "community"}  # cloud → its field in a row
TRUST = {"SECURE": Trust.DATACENTER, "COMMUNITY": Trust.ANY}  # RunPod does not publish how community hosts are verified


@dataclass(frozen=True, slots=True)
class CatalogPage:
    """One answer: the catalogue of one cloud for pods of one size."""

    cloud: str
    count: int
    rows: tuple[Any, ...]

    @property
    def most_gpus(self) -> int:
        """The largest pod of this cloud; larger ones need no call."""
        return max((_most(row, self.cloud) for row in self.rows), default=0)


class _LeftOut(Exception):
    """A dropped offer; the text is the reason it is counted under."""


def call(cloud: str, count: int) -> Call:
    query = (("include", "AVAILABILITY"), ("product", "POD"), ("cloud", cloud), ("count", str(count)))
    return Call("GET", PATH, query=query)


def read(reply: Reply, cloud: str, count: int, *confidences: Confidence) -> CatalogPage:
    if reply.status != 200:
        raise ERRORS.after_look(reply, said_in(reply, *confidences), f"GET {PATH}")
    rows = rows_of(mapping_of(reply, FACTS.title), "gpus", FACTS.title)
    if len(rows) > MOST_TYPES:
        raise CannotTell(f"RunPod lists {len(rows)} GPU types, which cannot be right")
    return CatalogPage(cloud, count, tuple(rows))


def listing(pages: list[CatalogPage]) -> Listing:
    """All pages as one market; invalid rows are dropped and counted."""
    offers: dict[str, Offer] = {}
    dropped: Counter[str] = Counter()
    for page in pages:
        for row in page.rows:
            for offer in _offers(row, page, dropped):
                if offer.key in offers:
                    dropped["repeated"] += 1
                offers.setdefault(offer.key, offer)
    return Listing(tuple(offers.values()), dict(dropped))


def sku_of(gpu_id: str, count: int, cloud: str) -> str:
    return f"{gpu_id}:{count}:{cloud}"


def parts_of(sku: str) -> tuple[str, int, str]:
    """GPU id, number of GPUs and cloud, as this adapter wrote them into an offer."""
    gpu_id, count, cloud = ("", "", *sku.rsplit(":", 2))[-3:]
    if not gpu_id or not count.isascii() or not count.isdigit() or cloud not in STANDS:
        raise OrderRefused("the offer is not from RunPod: select another offer")
    return gpu_id, int(count), cloud


def _most(row: Any, cloud: str) -> int:
    try:
        return (
            min(whole(_inner(row, "maxCount"), STANDS[cloud], most=ABSURD_COUNT), MOST_GPUS)
            if isinstance(row, dict)
            else 0
        )
    except ParseError:
        return 0


def _offers(row: Any, page: CatalogPage, dropped: Counter[str]) -> list[Offer]:
    if isinstance(row, dict) and row.get(STANDS[page.cloud]) is False:
        return []  # this cloud does not sell it
    try:
        return _sold(row, page, dropped)
    except ParseError:
        dropped["bad shape"] += 1
    except NotAPrice:
        dropped["bad price"] += 1
    except _LeftOut as reason:
        dropped[str(reason)] += 1
    return []


def _sold(row: Any, page: CatalogPage, dropped: Counter[str]) -> list[Offer]:
    if not isinstance(row, dict):
        raise ParseError("a GPU type is not an object")
    if page.count > whole(_inner(row, "maxCount"), STANDS[page.cloud], most=ABSURD_COUNT):
        return []
    gpu_id, gpu = text(row, "id", longest=128), _gpu(row)
    price = hourly_microusd(_inner(row, "price").get(STANDS[page.cloud])) * page.count
    if price > HIGHEST_HOURLY:
        raise NotAPrice(f"{page.count} of them have an impossible price")
    return [
        Offer(
            provider=FACTS.provider,
            sku=sku_of(gpu_id, page.count, page.cloud),
            place=place,
            region=region_of(FACTS.provider, place),
            country=country_of(FACTS.provider, place),
            gpu=gpu.model,
            gpu_count=page.count,
            gpu_memory_gib=gpu.memory_gib,
            vcpus=0,
            memory_gib=0,
            sized_by_order=True,
            disk_gib=0,
            hourly_microusd=price,
            stock=stock,
            trust=TRUST[page.cloud],
            boot=BootMode.CONTAINER,
            type_name=f"{page.count}x-{gpu.model}-{STANDS[page.cloud]}",
        )
        for place, stock in _places(row, dropped)
    ]


def _gpu(row: dict[str, Any]) -> Gpu:
    gpu = find(text(row, "id", longest=128), provider=FACTS.provider, memory_gib=whole(row, "memory", most=4096))
    if gpu is None:
        raise _LeftOut("unknown GPU")
    return gpu


def _places(row: dict[str, Any], dropped: Counter[str]) -> list[tuple[str, Stock]]:
    """Its places and stock; at least one, so that users see the price of sold-out types."""
    if not _has_cuda(row):
        return [(ANYWHERE, Stock.NONE)]
    centres = row.get("dataCenters")
    if centres is None or centres == []:
        return [(ANYWHERE, _stock(row))]
    if not isinstance(centres, list) or len(centres) > MOST_PLACES:
        raise ParseError("dataCenters is not a list")
    places = []
    for centre in centres:
        if isinstance(centre, dict) and isinstance(name := centre.get("id"), str) and DATA_CENTRE.match(name):
            places.append((name, _stock(centre)))
        else:
            dropped["bad shape"] += 1
    return places


def _has_cuda(row: dict[str, Any]) -> bool:
    """True: an order with MIN_CUDA is possible. Also if unknown, as for GPUs of other vendors."""
    versions = row.get("cudaVersions")
    told = [each for each in versions if isinstance(each, dict)] if isinstance(versions, list) else []
    return not told or any(each.get("available") and _at_least(each.get("version"), MIN_CUDA) for each in told)


def _at_least(version: Any, least: str) -> bool:
    return isinstance(version, str) and bool(CUDA.match(version)) and _numbers(version) >= _numbers(least)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def _stock(row: dict[str, Any]) -> Stock:
    level = row.get("availability")
    return STOCKS.get(level, Stock.UNKNOWN) if isinstance(level, str) else Stock.UNKNOWN


def _inner(row: dict[str, Any], name: str) -> dict[str, Any]:
    value = row.get(name)
    if not isinstance(value, dict):
        raise ParseError(f"{name} is not an object")
    return value
