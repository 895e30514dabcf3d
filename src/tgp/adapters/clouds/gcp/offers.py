"""Offers: machine types and GPUs of each zone as listed by the API, priced by the table or by the class."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from tgp.adapters.clouds.gcp.catalogue import SPOT_SUFFIX, GcpCatalogue, sku_of
from tgp.adapters.clouds.gcp.facts import FACTS
from tgp.adapters.clouds.gcp.names import named, region_of_zone
from tgp.adapters.clouds.parse import ParseError, text, whole
from tgp.core.model import gpus, regions
from tgp.core.model.offer import Offer, Stock
from tgp.core.model.prices import NotAPrice, hourly_microusd
from tgp.ports.cloud import Listing

MIB_PER_GIB = 1024
ARCHITECTURES = {"": "amd64", "X86_64": "amd64", "ARCHITECTURE_UNSPECIFIED": "amd64", "ARM64": "arm64"}
UNSELLABLE = frozenset({"OBSOLETE", "DELETED"})


@dataclass(frozen=True, slots=True)
class GcpMachineType:
    name: str
    zone: str
    vcpus: int
    memory_gib: int
    arch: str
    gpu: str  # built in; empty: none is
    gpu_count: int


@dataclass(frozen=True, slots=True)
class PricedType:
    """A machine type with its GPUs, in one zone."""

    machine: GcpMachineType
    gpu: str
    count: int
    sku: str


@dataclass(slots=True)
class PriceReader:
    """Gathers rows of both lists; `listing` makes offers of them."""

    catalogue: GcpCatalogue
    prices: Mapping[str, str]  # the class's own
    machines: list[GcpMachineType] = field(default_factory=list)
    cards: dict[tuple[str, str], int] = field(default_factory=dict)  # (zone, GPU) → most per machine
    dropped: Counter[str] = field(default_factory=Counter)

    def take_machine_types(self, rows: Iterable[tuple[str, Any]]) -> None:
        for scope, row in rows:
            try:
                machine = _machine_type(scope, row)
            except ParseError:
                self.dropped["bad shape"] += 1
            else:
                if machine is None:
                    self.dropped["not rentable"] += 1
                else:
                    self.machines.append(machine)

    def take_accelerators(self, rows: Iterable[tuple[str, Any]]) -> None:
        for scope, row in rows:
            try:
                if isinstance(row, dict) and not _is_unsellable(row):
                    self.cards[_zone(scope), named(row.get("name"), "name")] = whole(
                        row, "maximumCardsPerInstance", least=1, most=64, default=1
                    )
            except ParseError:
                self.dropped["bad shape"] += 1

    def listing(self) -> Listing:
        kept: dict[str, Offer] = {}
        for ware in self._wares():
            for spot in (False, True):
                offer = self._offer(ware, spot=spot)
                if offer is not None:
                    kept.setdefault(offer.key, offer)
        return Listing(tuple(kept[key] for key in sorted(kept)), dict(self.dropped))

    def _wares(self) -> Iterator[PricedType]:
        for machine in self.machines:
            if machine.gpu:
                yield PricedType(machine, machine.gpu, machine.gpu_count, machine.name)
                continue
            for each in self.catalogue.attachments:
                if each.machine_type == machine.name and self.cards.get((machine.zone, each.gpu), 0) >= each.count:
                    sku = sku_of(machine.name, each.gpu, each.count, attached=True)
                    yield PricedType(machine, each.gpu, each.count, sku)

    def _offer(self, ware: PricedType, *, spot: bool) -> Offer | None:
        family = self.catalogue.family_of(ware.machine.name)
        if not spot and family is not None and ware.machine.name in family.spot_only:
            return None  # not sold so: nothing is missing
        gpu = gpus.find(ware.gpu, provider=FACTS.provider)
        if gpu is None:
            self.dropped["unknown GPU"] += 1
            return None
        try:
            price = self._price(ware, spot=spot)
            beside = self._price(ware, spot=False) if spot else None
        except NotAPrice:
            self.dropped["bad price"] += 1
            return None
        if price is None:
            self.dropped["no price"] += 1
            return None
        zone = ware.machine.zone
        return Offer(
            provider=FACTS.provider,
            sku=ware.sku,
            place=zone,
            region=regions.region_of(FACTS.provider, zone),
            country=regions.country_of(FACTS.provider, zone),
            gpu=gpu.model,
            gpu_count=ware.count,
            gpu_memory_gib=gpu.memory_gib,
            vcpus=ware.machine.vcpus,
            memory_gib=ware.machine.memory_gib,
            disk_gib=0,
            arch=ware.machine.arch,
            spot=spot,
            hourly_microusd=price,
            priced_on="" if self._own_price(ware, spot=spot) is not None else self.catalogue.priced_on,
            on_demand_microusd=beside,
            stock=Stock.UNKNOWN,  # a listed type says nothing about free capacity
            boot=FACTS.boot[0],
            type_name=ware.sku.replace("+", "."),  # valid in a label
        )

    def _own_price(self, ware: PricedType, *, spot: bool) -> str | None:
        """The class's; None: it has none."""
        return self.prices.get(ware.sku + SPOT_SUFFIX if spot else ware.sku)

    def _price(self, ware: PricedType, *, spot: bool) -> int | None:
        own = self._own_price(ware, spot=spot)
        told: str | Decimal | None = own
        if own is None:
            machine, region = ware.machine, region_of_zone(ware.machine.zone)
            told = self.catalogue.price(machine.name, machine.vcpus, ware.gpu, ware.count, region, spot=spot)
            told = told if told is None else told.quantize(Decimal("0.000001"), rounding="ROUND_CEILING")
        return None if told is None else hourly_microusd(told)


def _machine_type(scope: str, row: Any) -> GcpMachineType | None:
    """None: listed, but no longer for sale."""
    if not isinstance(row, dict):
        raise ParseError("a machine type is not an object")
    if _is_unsellable(row):
        return None
    gpu, count = _built_in(row)
    architecture = text(row, "architecture", default="")
    if architecture not in ARCHITECTURES:
        raise ParseError("architecture is unknown")
    return GcpMachineType(
        named(row.get("name"), "name"),
        _zone(scope),
        whole(row, "guestCpus", least=1, most=4_096),
        whole(row, "memoryMb", least=MIB_PER_GIB, most=65_536 * MIB_PER_GIB) // MIB_PER_GIB,
        ARCHITECTURES[architecture],
        gpu,
        count,
    )


def _built_in(row: dict[str, Any]) -> tuple[str, int]:
    rows = [] if row.get("accelerators") is None else row["accelerators"]
    if not isinstance(rows, list) or len(rows) > 1 or not all(isinstance(each, dict) for each in rows):
        raise ParseError("accelerators is not a list with one entry")
    if not rows:
        return "", 0
    gpu = named(rows[0].get("guestAcceleratorType"), "guestAcceleratorType")
    return gpu, whole(rows[0], "guestAcceleratorCount", least=1, most=64)


def _is_unsellable(row: dict[str, Any]) -> bool:
    deprecated = row.get("deprecated")
    return isinstance(deprecated, dict) and str(deprecated.get("state")) in UNSELLABLE


def _zone(scope: str) -> str:
    kind, _, zone = scope.partition("/")
    if kind != "zones":
        raise ParseError("a scope is not a zone")
    return named(zone, "zone")
