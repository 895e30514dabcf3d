"""Modes and delays of bonded interfaces in the classic document, as Talos accepts them together."""

from collections.abc import Iterator, Mapping
from typing import Any

from tgp.core.joining.talos.document_view import ConfigDocument
from tgp.core.joining.talos.stream import Path
from tgp.core.model.machine_config import ConfigFinding

MODES = ("balance-rr", "active-backup", "balance-xor", "broadcast", "802.3ad", "balance-tlb", "balance-alb")
HASH_POLICIES = ("layer2", "layer3+4", "layer2+3", "encap2+3", "encap3+4")
LACP_RATES = ("slow", "fast")
ARP_VALIDATIONS = ("none", "active", "backup", "all", "filter", "filter-active", "filter-backup")
ARP_TARGETS = ("any", "all")
RESELECTIONS = ("always", "better", "failure")
FAIL_OVERS = ("none", "active", "follow")
FAIL_OVER_WORDS = f"one of {', '.join(FAIL_OVERS)}"
AD_SELECTS = ("stable", "bandwidth", "count")
_LACP = "802.3ad"
_BALANCED = frozenset(("balance-tlb", "balance-alb"))
_ALL = frozenset(MODES)
_WORDS: Mapping[str, tuple[str, ...]] = {
    "mode": MODES,
    "xmitHashPolicy": HASH_POLICIES,
    "lacpRate": LACP_RATES,
    "arpValidate": ARP_VALIDATIONS,
    "arpAllTargets": ARP_TARGETS,
    "primaryReselect": RESELECTIONS,
    "failOverMac": FAIL_OVERS,
    "adSelect": AD_SELECTS,
}
# Which modes a setting is valid with; numbers count above the neutral value.
_MODES_OF: Mapping[str, frozenset[str]] = {
    "lacpRate": frozenset((_LACP,)),
    "arpValidate": _ALL - _BALANCED - {_LACP},
    "primary": _BALANCED | {"active-backup"},
    "arpInterval": _ALL - _BALANCED - {_LACP},
    "packetsPerSlave": frozenset(("balance-rr",)),
    "tlbDynamicLb": _BALANCED,
    "adActorSysPrio": frozenset((_LACP,)),
    "adUserPortKey": frozenset((_LACP,)),
}
_MEANS_NOTHING = {"packetsPerSlave": 1}


def check_bond(page: ConfigDocument, path: Path) -> Iterator[ConfigFinding]:
    """`path`: of the bond section of a classic interface."""
    for key, words in _WORDS.items():
        if page.text(*path, key) not in {"", *words}:
            yield page.error((*path, key), f"must be one of {', '.join(words)}")
    mode = page.text(*path, "mode") or MODES[0]
    for key, modes in _MODES_OF.items():
        if mode in _ALL and mode not in modes and _says(page.at(*path, key), _MEANS_NOTHING.get(key, 0)):
            yield page.error((*path, key), f"is not valid with mode {mode}, only with {', '.join(sorted(modes))}")
    yield from _delays(page, path)
    for key in ("arpIPTarget", "adActorSystem"):
        if page.at(*path, key):
            yield page.error((*path, key), "is a setting that Talos does not support")


def _delays(page: ConfigDocument, path: Path) -> Iterator[ConfigFinding]:
    every = _number(page.at(*path, "miimon"))
    for key in ("updelay", "downdelay"):
        delay = _number(page.at(*path, key))
        if delay and not every:
            yield page.error((*path, key), "requires miimon, of which it must be a multiple")
        elif every and delay % every:
            yield page.error((*path, key), f"must be a multiple of miimon, which is {every}")


def _says(value: Any, nothing: int) -> bool:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value > nothing
    return bool(value)


def _number(value: Any) -> int:
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0 else 0
