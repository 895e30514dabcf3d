"""Quantities (500m, 2Gi, 1e3) as numbers, and the refusal of what is none."""

import re
from decimal import Decimal
from functools import lru_cache
from typing import Any

from tgp.sim.apiserver.json_value import Json, list_at
from tgp.sim.apiserver.undecodable import Undecodable

FORM = re.compile(r"([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)\Z")
PLAIN = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)\Z")
EXPONENT = re.compile(r"[eE][-+]?[0-9]+\Z")
FORM_SAYS = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
SUFFIX_SAYS = "unable to parse quantity's suffix"
DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
REMEMBERED = 4096  # a cluster speaks of few different amounts


@lru_cache(maxsize=REMEMBERED)
def amount_of(text: str) -> Decimal:
    """The number a quantity stands for; Undecodable when it is none."""
    match = FORM.match(text)
    if match is None or not PLAIN.match(match.group(1)):
        raise Undecodable(FORM_SAYS)
    number, suffix = Decimal(match.group(1)), match.group(2)
    if suffix in DECIMAL:
        return number.scaleb(DECIMAL[suffix])
    if suffix in BINARY:
        return number * Decimal(1024) ** BINARY[suffix]
    if EXPONENT.match(suffix):
        return number.scaleb(int(suffix[1:]))
    raise Undecodable(SUFFIX_SAYS)


def check_amounts(amounts: Any) -> None:
    """A mapping of quantities can be decoded."""
    if isinstance(amounts, dict):
        for value in amounts.values():
            amount_of(str(value))


def check_pod_amounts(spec: Json) -> None:
    for part in ("initContainers", "containers"):
        for container in list_at(spec, part):
            resources = container.get("resources") or {}
            check_amounts(resources.get("limits"))
            check_amounts(resources.get("requests"))
    check_amounts(spec.get("overhead"))
