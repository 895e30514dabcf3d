"""The market of Vast.ai: searches, and asks as offers. No I/O.

One ask is one machine, or a part of one, of some host. A search on demand returns both prices of each: the fixed one,
and the lowest winning bid (`min_bid`). So one search is enough; Vast has a daily search quota. Prices are for the disk
given in the search (`allocated_storage`), so that is the disk we order. Where the host allows it, the same ask is also
sold as a virtual machine: a second offer.

A search has no pages. Ours are made by the ask's own number: ascending, each page beyond the last number seen.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

from msgspec.structs import replace

from tgp.adapters.clouds.parse import ParseError, mapping_of, moment, rows_of, shown, text, whole
from tgp.adapters.clouds.redact import Confidence
from tgp.adapters.clouds.vast.errors import look_failed, succeeded, told_in
from tgp.adapters.clouds.vast.facts import PROVIDER, TITLE
from tgp.adapters.clouds.vast.wire import contract_id
from tgp.api.nodeclass import ProviderSettings
from tgp.core.model.cloud_errors import CannotTell
from tgp.core.model.gpus import find
from tgp.core.model.offer import ARCHITECTURES, BootMode, Offer, Stock, Trust
from tgp.core.model.prices import HIGHEST_HOURLY, NotAPrice, hourly_microusd
from tgp.core.model.regions import country_of, region_of
from tgp.ports.cloud import Listing
from tgp.ports.http import Call, Reply, json_call

ON_DEMAND = "on-demand"
PAGE_ROWS = 2500  # asks; at 3 KB each a page is half of what is read at most
DISK_GIB = 64  # an image with CUDA, and free space
MONTH_HOURS = 720  # storage is priced per GB and month of 30 days
MOST_GPUS = 64  # in one machine
LARGEST = 1 << 40  # gigabytes, cores or a share: more is an error
DATACENTER = 1  # hosting_type of certified data centres; 0: all others
VM_SUFFIX = ":vm"  # of the sku: the same ask, as a virtual machine
LONGEST_PLACE = 128
NEWEST_CUDA = 100  # more is an error
UNTOLD_PLACE = "unknown"  # some hosts have no location
FINEST = Decimal("1e-9")  # dollars; sums of finer ones are too long for a price
ABSURD_STORAGE = Decimal(1000)  # dollars per GB and month; more is an error


class _Dropped(Exception):
    """This ask is dropped; the text is the reason it is counted under."""


# -- searching ---------------------------------------------------------------------------------------------------------


def search(after: int, settings: ProviderSettings) -> Call:
    """One page of asks with numbers above `after` that match the settings."""
    filters: dict[str, Any] = {
        "rentable": {"eq": True},
        "external": {"eq": False},
        "disk_space": {"gte": DISK_GIB},
    }
    if settings.verified_only is not False:
        filters["verified"] = {"eq": True}
    if settings.min_reliability is not None:
        filters["reliability"] = {"gte": settings.min_reliability}
    if after:
        filters["id"] = {"gt": after}
    return _search(filters, PAGE_ROWS)


def search_one(ask: str) -> Call:
    """One ask by its number."""
    return _search({"id": {"eq": int(ask)}}, 1)


def search_little() -> Call:
    """The smallest search: shows whether a key may search."""
    return _search({"rentable": {"eq": True}}, 1)


def _search(filters: dict[str, Any], limit: int) -> Call:
    controls = {"type": ON_DEMAND, "order": [["id", "asc"]], "limit": limit, "allocated_storage": DISK_GIB}
    return json_call("POST", "/api/v0/bundles/", {**filters, **controls})


@dataclass(frozen=True, slots=True)
class OfferPage:
    rows: tuple[Any, ...]
    beyond: int | None  # where the next page begins; None: this was the last


def read_page(reply: Reply, after: int, now: datetime, *confidences: Confidence) -> OfferPage:
    if reply.status != 200:
        raise look_failed(reply, "searching offers", now, *confidences)
    body = mapping_of(reply, TITLE)
    if not succeeded(body):
        raise CannotTell(f"{TITLE} failed the search: {told_in(reply, *confidences).words}")
    rows = rows_of(body, "offers", TITLE)
    if len(rows) < PAGE_ROWS and body.get("truncated") is not True:
        return OfferPage(tuple(rows), None)
    return OfferPage(tuple(rows), _last_number(rows, after))


def _last_number(rows: list[Any], after: int) -> int:
    """Of rows that ascend from beyond `after`: otherwise the next page would omit asks, or paging would never end."""
    last = after
    for row in rows:
        try:
            number = int(contract_id(row.get("id") if isinstance(row, dict) else None))
        except ParseError as error:
            raise CannotTell(
                f"{TITLE} has more than one page of offers, and one offer has no numeric id: {error}"
            ) from error
        if number <= last:
            raise CannotTell(f"{TITLE} has more than one page of offers, and does not sort them by id")
        last = number
    if last == after:
        raise CannotTell(f"{TITLE} announced more offers, but returned none")
    return last


# -- offers ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OfferMarket:
    listing: Listing
    storage: Mapping[str, Decimal]  # of each ask: dollars per GB and hour


def read_market(rows: tuple[Any, ...], settings: ProviderSettings, now: datetime) -> OfferMarket:
    """Every ask on demand, and by bids where it tells the lowest. Invalid rows are dropped and counted."""
    dropped: Counter[str] = Counter()
    offers: dict[str, Offer] = {}
    storage: dict[str, Decimal] = {}
    for row in rows:
        try:
            ask = _Ask(row, settings, now)
            for offer in ask.offers():
                offers.setdefault(offer.key, offer)
            storage[ask.number] = ask.storage
            for offer in ask.bids():
                offers.setdefault(offer.key, offer)
        except _Dropped as why:
            dropped[str(why)] += 1
        except NotAPrice:
            dropped["bad price"] += 1
        except ParseError:
            dropped["bad shape"] += 1
    return OfferMarket(Listing(tuple(offers.values()), dict(dropped)), storage)


def storage_of(row: Any) -> Decimal:
    """Dollars for a GB and an hour; raises ParseError or NotAPrice."""
    told = row.get("storage_cost") if isinstance(row, dict) else None
    if isinstance(told, bool) or not isinstance(told, int | float):
        raise NotAPrice("storage_cost is not a number")
    try:
        monthly = Decimal(str(told))
    except InvalidOperation:
        raise NotAPrice("storage_cost is not a number") from None
    if not monthly.is_finite() or not 0 <= monthly <= ABSURD_STORAGE:
        raise NotAPrice("storage_cost is not a price")
    return (monthly / MONTH_HOURS).quantize(FINEST)


class _Ask:
    """One row of a search: a container, perhaps a virtual machine, and perhaps the same by bids."""

    def __init__(self, row: Any, settings: ProviderSettings, now: datetime) -> None:
        if not isinstance(row, dict):
            raise _Dropped("bad shape")
        self._row = row
        self._now = now
        self.number = contract_id(row.get("id"))
        self._refuse(settings)
        self.storage = storage_of(row)

    def _refuse(self, settings: ProviderSettings) -> None:
        """The filters of the search, checked again: an ignored filter costs money."""
        row = self._row
        if row.get("rentable") is False or row.get("rented") is True:
            raise _Dropped("not rentable")
        if settings.verified_only is not False and row.get("verification") != "verified":
            raise _Dropped("not verified")
        if settings.min_reliability is not None and _number(row, "reliability", "reliability2") < (
            settings.min_reliability
        ):
            raise _Dropped("unreliable")
        if _number(row, "disk_space") < DISK_GIB:
            raise _Dropped("small disk")

    def offers(self) -> tuple[Offer, ...]:
        """On demand."""
        container = self._offer("")
        if self._row.get("vms_enabled") is not True or self._row.get("is_vm_deverified") is True:
            return (container,)
        return container, self._offer(VM_SUFFIX)

    def bids(self) -> tuple[Offer, ...]:
        """Each with the price of the same machine on demand beside it; none if it accepts no bids."""
        if self._row.get("min_bid") is None:
            return ()
        lowest = self._lowest_bid()
        return tuple(
            replace(offer, spot=True, hourly_microusd=lowest, on_demand_microusd=offer.hourly_microusd)
            for offer in self.offers()
        )

    def _offer(self, suffix: str) -> Offer:
        row = self._row
        count = self._count()
        gib = whole(row, "gpu_ram", least=1, most=1 << 24) / 1024
        gpu = find(text(row, "gpu_name"), provider=PROVIDER, memory_gib=gib)
        if gpu is None:
            raise _Dropped("unknown GPU")
        place = shown(text(row, "geolocation", default="", longest=LONGEST_PLACE)) or UNTOLD_PLACE
        return Offer(
            provider=PROVIDER,
            sku=self.number + suffix,
            place=place,
            region=region_of(PROVIDER, place),
            country=country_of(PROVIDER, place),
            gpu=gpu.model,
            gpu_count=count,
            gpu_memory_gib=gpu.memory_gib,
            vcpus=whole(row, "cpu_cores_effective", most=4096, default=0),
            memory_gib=self._memory_gib(),
            disk_gib=DISK_GIB,
            arch=self._arch(),
            hourly_microusd=self._hourly(),
            stock=Stock.CONFIRMED,
            left=1,
            trust=self._trust(),
            boot=BootMode.CONTAINER,
            host=shown(str(row["machine_id"])) if isinstance(row.get("machine_id"), int) else "",
            until=self._until(),
            type_name=f"{count}x-{gpu.model}{'-VM' if suffix else ''}",
            open_ports=whole(row, "direct_port_count", most=1 << 16, default=0),
            cuda=self._cuda(),
            download_mbps=int(_number(row, "inet_down", default=0.0)),
        )

    def _cuda(self) -> str:
        """12.8 comes as a number."""
        told = _number(self._row, "cuda_max_good", default=0.0)
        return f"{told:.1f}" if 0 < told < NEWEST_CUDA else ""

    def _count(self) -> int:
        told = self._row.get("num_gpus")
        if isinstance(told, float) and not told.is_integer():
            raise _Dropped("fractional GPU")
        return whole(self._row, "num_gpus", least=1, most=MOST_GPUS)

    def _hourly(self) -> int:
        """With the disk; the higher of Vast's sum and ours: never below the bill."""
        disk = self.storage * DISK_GIB
        told = hourly_microusd(self._row.get("dph_total"))
        if self._row.get("dph_base") is None:
            return told
        return max(told, hourly_microusd(_decimal(self._row["dph_base"]) + disk))

    def _lowest_bid(self) -> int:
        """With the disk."""
        hourly_microusd(self._row.get("min_bid"))  # a bid of zero is not a price, whatever the disk costs
        return hourly_microusd(_decimal(self._row["min_bid"]) + self.storage * DISK_GIB)

    def _memory_gib(self) -> int:
        """The renter's share of the machine's memory, as of its cores; 0: unknown."""
        row = self._row
        megabytes = whole(row, "cpu_ram", most=1 << 30, default=0)
        cores = _number(row, "cpu_cores", default=0.0)
        if not cores:
            return 0
        share = min(_number(row, "cpu_cores_effective", default=0.0) / cores, 1.0)
        return int(megabytes * max(share, 0.0) / 1024)

    def _arch(self) -> str:
        arch = text(self._row, "cpu_arch", default="amd64")
        if arch not in ARCHITECTURES:
            raise ParseError("cpu_arch is unknown")
        return arch

    def _trust(self) -> Trust:
        if self._row.get("verification") != "verified":
            return Trust.ANY
        return Trust.DATACENTER if self._row.get("hosting_type") == DATACENTER else Trust.VERIFIED

    def _until(self) -> datetime | None:
        """When the host takes it back, to the minute, so that equal listings are equal."""
        end = self._row.get("end_date")
        ends = moment(end, "end_date") if isinstance(end, int | float) else None
        if ends is None:
            seconds = self._row.get("duration")
            if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds < 1e9:
                return None  # unknown, or more than thirty years
            ends = self._now + timedelta(seconds=max(seconds, 0.0))
        if ends <= self._now:
            raise _Dropped("not rentable")
        return ends.replace(second=0, microsecond=0)


def _number(row: Mapping[str, Any], *names: str, default: float | None = None) -> float:
    """The first one that is set, as a plausible number."""
    for name in names:
        value = row.get(name)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise ParseError(f"{name} is {type(value).__name__}, not a number")
        if not abs(value) <= LARGEST:  # NaN, too; and compared before the conversion to float, which may overflow
            raise ParseError(f"{name} is too large for a machine")
        return float(value)
    if default is None:
        raise ParseError(f"{names[0]} is missing")
    return default


def _decimal(told: Any) -> Decimal:
    """A part of a price: zero or more; the sum is checked later."""
    if isinstance(told, bool) or not isinstance(told, int | float):
        raise NotAPrice("a price is not a number")
    value = Decimal(str(told))
    if not value.is_finite() or value < 0:
        raise NotAPrice("a price is not a number")
    return min(value, Decimal(HIGHEST_HOURLY)).quantize(FINEST)
