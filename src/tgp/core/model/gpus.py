"""GPU models: tgp's names for them, families, other spellings, and what they are.

A family accepts any of its members; nothing is ever substituted for something else. Where two vendors call different
cards by one name (one's RTX4000 is a Turing Quadro, not the Ada card) they are two models here. The table is a
dated data file, read and checked at first use.
"""

import re
from collections.abc import Mapping
from difflib import get_close_matches
from functools import cache, lru_cache
from types import MappingProxyType
from typing import Any

import msgspec

from tgp.core.data.loading import Table, load

NEAREST_SHOWN = 3  # more is a list, not a hint
CLOSE_ENOUGH = 0.5
MEMORY_TOLERANCE = 0.07  # of the advertised size: drivers report 24564 MB of 24 GB; gpuhunt allows the same
LONGEST_NAME = 128  # characters a vendor may need for a card's name; longer names are not looked up
FORMS = ("pcie", "sxm", "nvl", "oam", "superchip", "mixed")  # mixed: sold as several under one name
MAKERS = ("nvidia", "amd")
_FIELDS = ("model", "memory_gib", "reported_gib", "maker", "architecture", "form", "families", "aliases")


class Gpu(msgspec.Struct, frozen=True):
    model: str
    memory_gib: int
    maker: str  # nvidia or amd
    architecture: str  # Ampere, Hopper, CDNA 3 …
    form: str  # one of FORMS
    families: tuple[str, ...] = ()  # wider names, widest first
    aliases: tuple[str, ...] = ()  # other spellings of exactly this model
    # what drivers report where it differs from memory_gib by more than the tolerance
    reported_gib: tuple[float, ...] = ()

    def has_memory(self, told_gib: float) -> bool:
        """Could a provider that reports so many GiB mean this card?"""
        if abs(told_gib - self.memory_gib) <= self.memory_gib * MEMORY_TOLERANCE:
            return True
        return any(abs(told_gib - each) <= each * MEMORY_TOLERANCE for each in self.reported_gib)


class GpuCatalogue(msgspec.Struct, frozen=True):
    """The whole table, indexed by plain names."""

    gpus: Mapping[str, Gpu]  # by model, in the file's order
    models: Mapping[str, tuple[str, ...]]  # plain model, alias or family → models
    names: Mapping[tuple[str, str], tuple[str, ...]]  # (provider, plain name) → models
    trims: Mapping[str, re.Pattern[str]]  # provider → what to take off the front
    spellings: Mapping[str, str]  # plain → display name, models and families
    dated: str


def plain(name: str) -> str:
    """A name without what is spelled differently: case, spaces, dashes, the vendor."""
    bare = "".join(sign for sign in name.lower() if sign.isalnum())
    return bare.removeprefix("nvidia").removeprefix("amd").removeprefix("geforce")


NAMES_REMEMBERED = 4_096  # listings repeat themselves every two minutes


@cache
def catalogue() -> GpuCatalogue:
    """The table that ships with the package."""
    return read(load("gpus.toml"))


def known(name: str) -> bool:
    """Is the name in the table, as a model, another spelling of one, or a family?"""
    return plain(name) in catalogue().models


def family_members(name: str) -> tuple[str, ...]:
    """The models a name accepts: one, or all of a family; none for an unknown name."""
    return catalogue().models.get(plain(name), ())


def common_models(asked: str, allowed: tuple[str, ...]) -> tuple[str, ...]:
    """The models that a name means and a list of names allows; no list: all. An unknown name stands for itself."""
    models = family_members(asked) or (asked,)
    if not allowed:
        return models
    within = {model for name in allowed for model in (family_members(name) or (name,))}
    return tuple(model for model in models if model in within)


def completed(name: str) -> tuple[str, ...]:
    """The known names that end as this one does: RTX4090 for 4090. The name itself, where it is known."""
    if known(name):
        return (name,)
    end, table = plain(name), catalogue()
    if not end or not any(sign.isdigit() for sign in end):
        return ()
    # 90 is not the end of RTX4090: numbers are compared whole.
    ends = [each for each in table.spellings if each.endswith(end) and not (each[: -len(end)] + " ")[-2:-1].isdigit()]
    return tuple(sorted(table.spellings[each] for each in ends))


def memory_gib(model: str) -> int | None:
    """Memory of one GPU of a model; None: not one of ours."""
    gpu = catalogue().gpus.get(model)
    return None if gpu is None else gpu.memory_gib


def get(model: str) -> Gpu | None:
    """Everything about one of our models; None: not one of ours."""
    return catalogue().gpus.get(model)


GPU_RESOURCES = frozenset({"nvidia.com/gpu", "amd.com/gpu"})  # that a device plugin provides for a whole GPU


def resource_name(model: str) -> str:
    """The extended resource its device plugin provides."""
    gpu = get(model)
    return "amd.com/gpu" if gpu is not None and gpu.maker == "amd" else "nvidia.com/gpu"


@lru_cache(NAMES_REMEMBERED)
def find(vendor_name: str, *, provider: str = "", memory_gib: float | None = None) -> Gpu | None:
    """The one model a provider means by a name, given the memory of one GPU where it reports it.

    None: the name is unknown, it could be several cards, or the memory belongs to none of them. Nothing is guessed.
    """
    if len(vendor_name) > LONGEST_NAME:
        return None
    table = catalogue()
    meant = [table.gpus[model] for model in _meant(table, vendor_name, provider)]
    if memory_gib is not None:
        meant = [gpu for gpu in meant if gpu.has_memory(memory_gib)]
    return meant[0] if len(meant) == 1 else None


def nearest(name: str) -> tuple[str, ...]:
    """Known names that look like this one, the most alike first."""
    spellings = catalogue().spellings
    close = get_close_matches(plain(name), spellings, n=NEAREST_SHOWN, cutoff=CLOSE_ENOUGH)
    return tuple(spellings[each] for each in close)


def read(table: Table) -> GpuCatalogue:
    """The catalogue a data file describes; `BadTable` names the invalid entry."""
    table.only("gpu", "names", "trim")
    gpus = _gpus(table)
    return GpuCatalogue(
        MappingProxyType(gpus),
        MappingProxyType(_models(table, gpus)),
        MappingProxyType(_names(table, gpus)),
        MappingProxyType(_trims(table)),
        MappingProxyType({plain(name): name for gpu in gpus.values() for name in (gpu.model, *gpu.families)}),
        table.dated.isoformat(),
    )


def _meant(table: GpuCatalogue, vendor_name: str, provider: str) -> tuple[str, ...]:
    """By the provider's own names, else by the common ones; the whole name first, then the trimmed one."""
    trim = table.trims.get(provider)
    trimmed = trim.sub("", vendor_name, count=1) if trim and trim.match(vendor_name) else vendor_name
    for name in (vendor_name, trimmed):
        found = table.names.get((provider, plain(name))) or table.models.get(plain(name))
        if found:
            return found
    return ()


def _gpus(table: Table) -> dict[str, Gpu]:
    gpus: dict[str, Gpu] = {}
    for row in table.rows("gpu"):
        gpu = _gpu(table, row)
        if gpu.model in gpus:
            raise table.bad(f"gpu {gpu.model}", "is listed twice")
        gpus[gpu.model] = gpu
    return gpus


def _gpu(table: Table, row: Mapping[str, Any]) -> Gpu:
    model = table.text(row, "model", "gpu")
    entry = f"gpu {model}"
    table.expect(row, _FIELDS, entry)
    return Gpu(
        model,
        _memory(table, row, entry),
        _one_of(table, row, "maker", MAKERS, entry),
        table.text(row, "architecture", entry),
        _one_of(table, row, "form", FORMS, entry),
        table.texts(row, "families", entry),
        table.texts(row, "aliases", entry),
        _reported(table, row, entry),
    )


def _memory(table: Table, row: Mapping[str, Any], entry: str) -> int:
    memory = row.get("memory_gib")
    if type(memory) is not int or not 0 < memory < 1024:
        raise table.bad(entry, "memory_gib must be a whole number of GiB, 1 to 1023")
    return memory


def _reported(table: Table, row: Mapping[str, Any], entry: str) -> tuple[float, ...]:
    reported = row.get("reported_gib", [])
    if not isinstance(reported, list) or not all(isinstance(each, float) and 0 < each < 1024 for each in reported):
        raise table.bad(entry, "reported_gib must be a list of numbers such as 22.2")
    return tuple(reported)


def _one_of(table: Table, row: Mapping[str, Any], key: str, allowed: tuple[str, ...], entry: str) -> str:
    value = table.text(row, key, entry)
    if value not in allowed:
        raise table.bad(entry, f"{key} must be one of {', '.join(allowed)}, not {value}")
    return value


def _models(table: Table, gpus: Mapping[str, Gpu]) -> dict[str, tuple[str, ...]]:
    models: dict[str, tuple[str, ...]] = {}
    for gpu in gpus.values():
        for name in (gpu.model, *gpu.aliases):
            if plain(name) in models:
                raise table.bad(f"gpu {gpu.model}", f"{name} is already a name of {models[plain(name)][0]}")
            models[plain(name)] = (gpu.model,)
    families: dict[str, tuple[str, ...]] = {}
    for gpu in gpus.values():
        for family in gpu.families:
            if plain(family) in models:
                raise table.bad(f"gpu {gpu.model}", f"the family {family} is already a name of one model")
            families[plain(family)] = (*families.get(plain(family), ()), gpu.model)
    return models | families


def _names(table: Table, gpus: Mapping[str, Gpu]) -> dict[tuple[str, str], tuple[str, ...]]:
    names: dict[tuple[str, str], tuple[str, ...]] = {}
    for provider, section in table.section("names").items():
        for name in table.section("names", provider):
            entry = f"names.{provider} {name}"
            meant = table.texts(section, name, entry)
            for model in meant:
                if model not in gpus:
                    raise table.bad(entry, f"{model} is not a model of this file")
            if not meant:
                raise table.bad(entry, "names no model")
            if (provider, plain(name)) in names:
                raise table.bad(entry, "is listed twice")
            names[provider, plain(name)] = meant
    return names


def _trims(table: Table) -> dict[str, re.Pattern[str]]:
    trims: dict[str, re.Pattern[str]] = {}
    section = table.section("trim")
    for provider in section:
        try:
            trims[provider] = re.compile(table.text(section, provider, "trim"))
        except re.error as error:
            raise table.bad(f"trim {provider}", f"is not a valid pattern: {error}") from error
    return trims
