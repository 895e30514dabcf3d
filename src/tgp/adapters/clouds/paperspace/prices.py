"""The dated table of machine types: their hardware, regions and hourly prices.

Paperspace's API has none of it. The file is checked when it is read: errors name the entry.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from tgp.core.data.loading import Table, parse
from tgp.core.model.gpus import Gpu, find
from tgp.core.model.prices import NotAPrice, hourly_microusd

FILE = "prices.toml"
FIELDS = ("type", "gpu", "gpus", "vcpus", "memory_gib", "price", "places", "nvlink")
MOST_GPUS = 16
MOST_VCPUS = 1_024
MOST_MEMORY_GIB = 16_384


@dataclass(frozen=True, slots=True)
class PaperspaceType:
    name: str  # as used in orders
    gpu: Gpu
    gpus: int
    vcpus: int
    memory_gib: int
    hourly_microusd: int
    places: tuple[str, ...]  # as used in orders
    nvlink: bool  # must be asked for
    priced_on: str = ""  # the day of the table; empty: the price is from the class


@dataclass(frozen=True, slots=True)
class PriceTable:
    types: tuple[PaperspaceType, ...]
    dropped: Mapping[str, int]  # why → how many of a class's prices were ignored


@cache
def shipped() -> PriceTable:
    return read(parse(FILE, Path(__file__).with_name(FILE).read_text(encoding="utf-8")))


def read(table: Table) -> PriceTable:
    """The machine types a data file describes; `BadTable` names the invalid entry."""
    table.only("machine")
    types: dict[str, PaperspaceType] = {}
    for row in table.rows("machine"):
        machine = _type(table, row)
        if machine.name in types:
            raise table.bad(f"machine {machine.name}", "is a duplicate")
        types[machine.name] = machine
    dated = table.dated.isoformat()
    return PriceTable(tuple(replace(machine, priced_on=dated) for machine in types.values()), {})


def overridden(table: PriceTable, prices: Mapping[str, str]) -> PriceTable:
    """The same table with a class's own prices; unknown types and invalid prices are counted."""
    own: dict[str, int] = {}
    dropped: dict[str, int] = {}
    known = {machine.name for machine in table.types}
    for name, told in prices.items():
        try:
            price = hourly_microusd(told)
        except NotAPrice:
            dropped["bad price"] = dropped.get("bad price", 0) + 1
            continue
        if name in known:
            own[name] = price
        else:
            dropped["unknown machine type"] = dropped.get("unknown machine type", 0) + 1
    types = tuple(
        replace(each, hourly_microusd=own[each.name], priced_on="") if each.name in own else each
        for each in table.types
    )
    return PriceTable(types, dropped)


def _type(table: Table, row: Mapping[str, Any]) -> PaperspaceType:
    name = table.text(row, "type", "machine")
    entry = f"machine {name}"
    table.expect(row, FIELDS, entry)
    gpu = find(table.text(row, "gpu", entry))
    if gpu is None:
        raise table.bad(entry, "gpu must be one of our models")
    places = table.texts(row, "places", entry)
    if not places:
        raise table.bad(entry, "has no region")
    nvlink = row.get("nvlink", False)
    if not isinstance(nvlink, bool):
        raise table.bad(entry, "nvlink must be true or false")
    return PaperspaceType(
        name,
        gpu,
        _number(table, row, "gpus", MOST_GPUS, entry),
        _number(table, row, "vcpus", MOST_VCPUS, entry),
        _number(table, row, "memory_gib", MOST_MEMORY_GIB, entry),
        _price(table, row, entry),
        places,
        nvlink,
    )


def _number(table: Table, row: Mapping[str, Any], key: str, most: int, entry: str) -> int:
    value = row.get(key)
    if type(value) is not int or not 1 <= value <= most:
        raise table.bad(entry, f"{key} must be a whole number from 1 to {most}")
    return value


def _price(table: Table, row: Mapping[str, Any], entry: str) -> int:
    try:
        return hourly_microusd(table.text(row, "price", entry))
    except NotAPrice as error:
        raise table.bad(entry, f"price: {error}") from error
