"""Kubernetes quantities as integers: `500m` CPU is 500 milli, `2Gi` memory is 2147483648 bytes.

Fractions are rounded up, away from zero, as the API machinery does: a request is never made smaller than it was.
"""

import re
from collections.abc import Mapping
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import TypeAlias

Written: TypeAlias = str | int | float  # in JSON a quantity is a string or a bare number

_FORM = re.compile(r"([+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))(?:([eE][+-]?[0-9]{1,3})|(Ki|Mi|Gi|Ti|Pi|Ei|[numkMGTPE]))?")
_SUFFIXES: Mapping[str, Decimal] = {
    "": Decimal(1),
    "n": Decimal("1e-9"),
    "u": Decimal("1e-6"),
    "m": Decimal("1e-3"),
    "k": Decimal(10**3),
    "M": Decimal(10**6),
    "G": Decimal(10**9),
    "T": Decimal(10**12),
    "P": Decimal(10**15),
    "E": Decimal(10**18),
    "Ki": Decimal(2**10),
    "Mi": Decimal(2**20),
    "Gi": Decimal(2**30),
    "Ti": Decimal(2**40),
    "Pi": Decimal(2**50),
    "Ei": Decimal(2**60),
}
_LONGEST = 64  # characters; the API server writes at most some twenty
LARGEST = 2**63 - 1  # the API machinery caps there too


class NotAQuantity(ValueError):
    """It cannot be read as a quantity."""


def whole(written: Written) -> int:
    """In the resource's own unit (bytes, GPUs), rounded up."""
    return _rounded(exact(written))


def milli(written: Written) -> int:
    """In thousandths of the resource's unit, rounded up."""
    return _rounded(exact(written) * 1000)


def exact(written: Written) -> Decimal:
    """The number itself, to 28 digits; NotAQuantity if it is none."""
    if isinstance(written, bool):
        raise NotAQuantity(f"{written!r} is not a quantity")
    text = str(written).strip()
    form = _FORM.fullmatch(text) if len(text) <= _LONGEST else None
    if form is None:
        raise NotAQuantity(f"{text[:_LONGEST]!r} is not a quantity")
    number, exponent, suffix = form.groups()
    if exponent:
        return Decimal(number + exponent)
    return Decimal(number) * _SUFFIXES[suffix or ""]


def _rounded(value: Decimal) -> int:
    # Comparing first keeps an absurd exponent (1e999) from becoming a thousand-digit integer.
    if value >= LARGEST:
        return LARGEST
    if value <= -LARGEST:
        return -LARGEST
    return int(value.to_integral_value(ROUND_CEILING if value > 0 else ROUND_FLOOR))
