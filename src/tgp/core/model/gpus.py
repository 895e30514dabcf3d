"""GPU models: our names for them, the families people ask by, other spellings, and the memory of one.

A family accepts any of its members; nothing is ever substituted for something else. Memory is what makers print on the
box, in GB, which providers report as GiB. Names and sizes are those the providers use in 2026; where two vendors
call different cards by one name (Paperspace's RTX4000 is a Turing Quadro, not the Ada card) they are two models here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from types import MappingProxyType

NEAREST_SHOWN = 3  # more is a list, not a hint
CLOSE_ENOUGH = 0.5


@dataclass(frozen=True, slots=True)
class Gpu:
    model: str
    memory_gib: int
    families: tuple[str, ...] = ()  # wider names, widest first
    aliases: tuple[str, ...] = ()  # other spellings of exactly this model


GPUS = (
    Gpu("RTX3080", 10),
    Gpu("RTX3090", 24),
    Gpu("RTX3090Ti", 24),
    Gpu("RTX4070Ti", 12),
    Gpu("RTX4080", 16),
    Gpu("RTX4090", 24),
    Gpu("RTX5080", 16),
    Gpu("RTX5090", 32),
    Gpu("A4000", 16, aliases=("RTX A4000",)),
    Gpu("A4500", 20, aliases=("RTX A4500",)),
    Gpu("A5000", 24, aliases=("RTX A5000",)),
    Gpu("A6000", 48, aliases=("RTX A6000",)),
    Gpu("RTX2000Ada", 16),
    Gpu("RTX4000Ada", 20, aliases=("RTX 4000 Ada Generation",)),
    Gpu("RTX5000Ada", 32),
    Gpu("RTX6000Ada", 48, aliases=("RTX 6000 Ada Generation",)),
    Gpu("RTXPRO6000", 96, aliases=("RTX PRO 6000 Blackwell",)),
    Gpu("RTX4000", 8, aliases=("Quadro RTX 4000",)),
    Gpu("RTX5000", 16, aliases=("Quadro RTX 5000",)),
    Gpu("RTX6000", 24, aliases=("Quadro RTX 6000", "Q RTX 6000")),
    Gpu("L4", 24),
    Gpu("L40", 48),
    Gpu("L40S", 48),
    Gpu("A2", 16),
    Gpu("A10", 24),
    Gpu("A16", 16),
    Gpu("A30", 24),
    Gpu("A40", 48),
    Gpu("A100-40GB-PCIE", 40, ("A100", "A100-40GB", "A100-PCIE"), ("A100-PCIE-40GB",)),
    Gpu("A100-40GB-SXM", 40, ("A100", "A100-40GB", "A100-SXM"), ("A100-SXM4-40GB",)),
    Gpu("A100-80GB-PCIE", 80, ("A100", "A100-80GB", "A100-PCIE"), ("A100-PCIE-80GB", "A100 80GB PCIe")),
    Gpu("A100-80GB-SXM", 80, ("A100", "A100-80GB", "A100-SXM"), ("A100-SXM4-80GB",)),
    Gpu("H100-PCIE", 80, ("H100", "H100-80GB")),
    Gpu("H100-SXM", 80, ("H100", "H100-80GB"), ("H100-SXM5", "H100 80GB HBM3")),
    Gpu("H100-NVL", 94, ("H100",)),
    Gpu("H200-SXM", 141, ("H200",)),
    Gpu("H200-NVL", 141, ("H200",)),
    Gpu("GH200", 96),
    Gpu("B200", 180),
    Gpu("B300", 288),
    Gpu("V100-16GB", 16, ("V100",), ("Tesla V100-SXM2-16GB", "Tesla V100-PCIE-16GB")),
    Gpu("V100-32GB", 32, ("V100",), ("Tesla V100-SXM2-32GB",)),
    Gpu("T4", 16, aliases=("Tesla T4",)),
    Gpu("P4", 8, aliases=("Tesla P4",)),
    Gpu("P40", 24, aliases=("Tesla P40",)),
    Gpu("P100", 16, aliases=("Tesla P100",)),
    Gpu("P4000", 8, aliases=("Quadro P4000",)),
    Gpu("P5000", 16, aliases=("Quadro P5000",)),
    Gpu("P6000", 24, aliases=("Quadro P6000",)),
    Gpu("M4000", 8, aliases=("Quadro M4000",)),
    Gpu("MI300X", 192, aliases=("Instinct MI300X",)),
    Gpu("MI325X", 256, aliases=("Instinct MI325X",)),
    Gpu("MI355X", 288, aliases=("Instinct MI355X",)),
)


def plain(name: str) -> str:
    """A name without what people write differently: case, blanks, dashes, the maker."""
    bare = "".join(sign for sign in name.lower() if sign.isalnum())
    return bare.removeprefix("nvidia").removeprefix("amd").removeprefix("geforce")


def _tabulate() -> Mapping[str, tuple[str, ...]]:
    table: dict[str, tuple[str, ...]] = {}
    for gpu in GPUS:
        for name in (gpu.model, *gpu.aliases):
            assert table.get(plain(name), (gpu.model,)) == (gpu.model,), f"two models are called {name}"
            table[plain(name)] = (gpu.model,)
    for gpu in GPUS:
        for family in gpu.families:
            table[plain(family)] = (*table.get(plain(family), ()), gpu.model)
    return MappingProxyType(table)


_MODELS = _tabulate()
_MEMORY = {gpu.model: gpu.memory_gib for gpu in GPUS}
_SPELLINGS = {plain(name): name for gpu in GPUS for name in (gpu.model, *gpu.families)}


def known(name: str) -> bool:
    """Does any table know it, as a model, another spelling of one, or a family?"""
    return plain(name) in _MODELS


def members(name: str) -> tuple[str, ...]:
    """The models a name accepts: one, or all of a family; none where nobody knows the name."""
    return _MODELS.get(plain(name), ())


def memory_gib(model: str) -> int | None:
    """Memory of one GPU of a model; None: not one of ours."""
    return _MEMORY.get(model)


def nearest(name: str) -> tuple[str, ...]:
    """Known names that look like this one, the most alike first."""
    close = get_close_matches(plain(name), _SPELLINGS, n=NEAREST_SHOWN, cutoff=CLOSE_ENOUGH)
    return tuple(_SPELLINGS[each] for each in close)
