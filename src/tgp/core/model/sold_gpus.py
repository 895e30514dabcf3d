"""What providers whose machines can boot Talos are known to sell: a dated table for advice.

No purchase depends on it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType

from tgp.api.common import DEFAULT_KEYS
from tgp.core.data.loading import Table, load
from tgp.core.model import gpus
from tgp.core.model.prices import NotAPrice, hourly_microusd


@dataclass(frozen=True, slots=True)
class Sold:
    """The smallest machine with GPUs of a model, on demand."""

    gpu: str
    gpu_count: int
    hourly_microusd: int


@cache
def sold() -> Mapping[str, Mapping[str, Sold]]:
    """By provider and model: the table that ships with the package."""
    return read(load("sold.toml"))


def read(table: Table) -> Mapping[str, Mapping[str, Sold]]:
    table.only(*DEFAULT_KEYS)
    return MappingProxyType({provider: MappingProxyType(_sold(table, provider)) for provider in table.sections()})


def _sold(table: Table, provider: str) -> dict[str, Sold]:
    found = {}
    for model, listed in table.section(provider).items():
        entry = f"{provider} {model}"
        if gpus.get(model) is None:
            raise table.bad(entry, "is not a known GPU model")
        if not isinstance(listed, list) or len(listed) != 2 or type(listed[0]) is not int or listed[0] < 1:
            raise table.bad(entry, "must be a number of GPUs and dollars an hour")
        try:
            found[model] = Sold(model, listed[0], hourly_microusd(float(listed[1])))
        except (NotAPrice, TypeError, ValueError) as error:
            raise table.bad(entry, "must be a number of GPUs and dollars an hour") from error
    if not found:
        raise table.bad(provider, "sells nothing")
    return found
