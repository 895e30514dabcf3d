"""The dated table of prices beside this file, read and checked once.

It says which machine types are for sale with which GPUs, and what they cost where. A class's `prices` win over it. A
machine without a price is not offered: prices are never guessed from another region.
"""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

TABLE = Path(__file__).with_name("prices.toml")
ATTACHED = re.compile(r"([a-z0-9-]{1,63})\+([1-9][0-9]?)x-([a-z0-9-]{1,63})\Z")  # n1-standard-8+1x-nvidia-tesla-t4
SPOT_SUFFIX = ":spot"  # of a key in a class's `prices`

ByRegion: TypeAlias = Mapping[str, tuple[Decimal, Decimal]]  # on demand, spot


@dataclass(frozen=True, slots=True)
class Family:
    name: str
    vcpus: Decimal  # that the prices are for
    prices: ByRegion
    attaches: bool  # its GPUs are ordered beside it; else they are part of the machine type
    local_ssd_gib_per_gpu: int
    spot_only: frozenset[str]


@dataclass(frozen=True, slots=True)
class Attachment:
    """A machine type that is sold with GPUs attached to it."""

    machine_type: str
    gpu: str
    count: int


@dataclass(frozen=True, slots=True)
class GcpCatalogue:
    priced_on: str
    families: Mapping[str, Family]
    gpus: Mapping[str, ByRegion]
    attachments: tuple[Attachment, ...]
    local_ssd_gib: Decimal  # dollars an hour
    boot_disk: Decimal
    boot_disk_gib: int

    def family_of(self, machine_type: str) -> Family | None:
        return self.families.get(machine_type.rpartition("-")[0])

    def price(self, machine_type: str, vcpus: int, gpu: str, count: int, region: str, *, spot: bool) -> Decimal | None:
        """Dollars an hour of the whole machine with its boot disk; None: not in the table."""
        family, gpus = self.family_of(machine_type), self.gpus.get(gpu, {})
        if family is None or region not in family.prices or region not in gpus:
            return None
        base, each = family.prices[region][spot], gpus[region][spot]
        ssd = self.local_ssd_gib * family.local_ssd_gib_per_gpu * count
        return base * vcpus / family.vcpus + each * count + ssd + self.boot_disk

    @property
    def machine_types(self) -> str:
        """A pattern for every machine type that could be offered, in the API's regular expressions."""
        attached = sorted({each.machine_type for each in self.attachments})
        built_in = [f"{family.name}-[0-9]+g?" for family in self.families.values() if not family.attaches]
        return "|".join((*attached, *built_in))


@cache
def catalogue() -> GcpCatalogue:
    return read(tomllib.loads(TABLE.read_text()))


def sku_of(machine_type: str, gpu: str, count: int, *, attached: bool) -> str:
    """What is ordered: the machine type, and the GPUs where they are not part of it."""
    return f"{machine_type}+{count}x-{gpu}" if attached else machine_type


def parts_of(sku: str) -> tuple[str, str, int]:
    """Machine type, and what is attached to it: the GPU's name and how many, or nothing."""
    found = ATTACHED.match(sku)
    return (found[1], found[3], int(found[2])) if found else (sku, "", 0)


def read(table: Mapping[str, Any]) -> GcpCatalogue:
    """Raises if the table is invalid: it is ours, so that is a bug."""
    extras = table["extras"]
    size = int(extras["boot_disk_size_gib"])
    return GcpCatalogue(
        priced_on=date.fromisoformat(table["priced_on"]).isoformat(),
        families={name: _family(name, entry) for name, entry in table["family"].items()},
        gpus={name: _regions(entry["regions"]) for name, entry in table["gpu"].items()},
        attachments=tuple(
            Attachment(machine_type, gpu, int(count))
            for gpu, entry in table["gpu"].items()
            for count, machine_types in entry.get("on", {}).items()
            for machine_type in machine_types
        ),
        local_ssd_gib=Decimal(extras["local_ssd_gib"]),
        boot_disk=Decimal(extras["boot_disk_gib"]) * size,
        boot_disk_gib=size,
    )


def _family(name: str, entry: Mapping[str, Any]) -> Family:
    return Family(
        name,
        Decimal(entry["vcpus"]),
        _regions(entry["regions"]),
        bool(entry.get("attach", False)),
        int(entry.get("local_ssd_gib_per_gpu", 0)),
        frozenset(entry.get("spot_only", ())),
    )


def _regions(entry: Mapping[str, Any]) -> ByRegion:
    prices: dict[str, tuple[Decimal, Decimal]] = {}
    for region, (on_demand, spot) in entry.items():
        prices[region] = (Decimal(on_demand), Decimal(spot))
        assert Decimal(0) < prices[region][1] <= prices[region][0], f"the price in {region} is invalid"
    return prices
