"""Quantities as the API server writes them back: one text for each amount in each of the three notations."""

import re
from fractions import Fraction
from math import ceil

_QUANTITY = re.compile(r"([+-]?(?:\d+(?:\.\d*)?|\.\d+))(?:([eE][+-]?\d+)|(Ki|Mi|Gi|Ti|Pi|Ei|[numkMGTPE])?)")
_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_DECIMAL = ("n", "u", "m", "", "k", "M", "G", "T", "P", "E")
_SMALLEST = Fraction(1, 10**9)  # a nano; what is finer is rounded up


def canonical_quantity(value: float | str) -> str | None:
    """The same amount in its shortest whole-number form; None: it is no quantity."""
    text = str(value) if not isinstance(value, float) else format(value, "f").rstrip("0").rstrip(".")
    match = _QUANTITY.fullmatch(text.strip())
    if match is None:
        return None
    number, exponent, suffix = Fraction(match[1]), match[2], match[3] or ""
    if suffix in _BINARY[1:]:
        return _binary(number * 1024 ** _BINARY.index(suffix))
    if exponent:
        return _exponent(_rounded(number * Fraction(10) ** int(exponent[1:])))
    return _decimal(_rounded(number * Fraction(1000) ** (_DECIMAL.index(suffix) - 3)))


def _rounded(amount: Fraction) -> Fraction:
    """Away from zero to a whole number of nanos."""
    steps = amount / _SMALLEST
    return Fraction(ceil(abs(steps)) * (1 if steps >= 0 else -1)) * _SMALLEST


def _binary(amount: Fraction) -> str:
    if abs(amount) < 1024:
        return _decimal(_rounded(amount))
    whole = ceil(abs(amount)) * (1 if amount > 0 else -1)
    power = 0
    while whole % 1024 == 0 and power < len(_BINARY) - 1:
        whole //= 1024
        power += 1
    return f"{whole}{_BINARY[power]}"


def _thousands(amount: Fraction) -> tuple[int, int]:
    """A whole mantissa without trailing thousands, and its power of a thousand."""
    whole, power = int(amount / _SMALLEST), -3
    if whole == 0:
        return 0, 0
    while whole % 1000 == 0 and power < len(_DECIMAL) - 4:
        whole //= 1000
        power += 1
    return whole, power


def _decimal(amount: Fraction) -> str:
    whole, power = _thousands(amount)
    return f"{whole}{_DECIMAL[power + 3]}"


def _exponent(amount: Fraction) -> str:
    whole, power = _thousands(amount)
    return f"{whole}e{3 * power}" if power else str(whole)
