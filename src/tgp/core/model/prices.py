"""Prices as providers tell them, and micro-dollars, which is all that anybody else sees.

A price is parsed or refused, never guessed: text, NaN, a negative number or a fortune is `NotAPrice`, and whoever
read it drops the offer or the answer. Decimal arithmetic
throughout: a float's 0.1 must not become $0.10000000000000001.
"""

from decimal import Decimal, InvalidOperation
from typing import Any

MICRO = 1_000_000
DEAREST_HOURLY = 1_000 * MICRO  # $1,000 an hour: ten times the dearest machine anybody rents; beyond it lies an error
LONGEST_TEXT = 32  # characters; Decimal would happily read a megabyte of digits


class NotAPrice(ValueError):
    """The text says what was wrong with it, shortened: it comes from outside."""


def hourly_microusd(told: Any, *, per_dollar: int = 1) -> int:
    """Dollars an hour, as a number or a decimal string, in whole micro-dollars, rounded up: never below the bill.

    `per_dollar` is 100 where cents are told. Zero is no price of a machine for rent: refused.
    """
    amount = _decimal(told) * MICRO / per_dollar
    micro = int(amount.to_integral_value(rounding="ROUND_CEILING"))
    if not 0 < micro <= DEAREST_HOURLY:
        raise NotAPrice(f"{_shown(told)} is not a price of a machine for an hour")
    return micro


def _decimal(told: Any) -> Decimal:
    if isinstance(told, bool) or not isinstance(told, int | float | str | Decimal):
        raise NotAPrice(f"{_shown(told)} is not a number")
    text = str(told).strip()
    if len(text) > LONGEST_TEXT:
        raise NotAPrice(f"{_shown(told)} is too long for a price")
    try:
        value = Decimal(text)
    except InvalidOperation:
        raise NotAPrice(f"{_shown(told)} is not a number") from None
    if not value.is_finite():
        raise NotAPrice(f"{_shown(told)} is not a number")
    return value


def _shown(told: object) -> str:
    text = repr(told)
    return text if len(text) <= LONGEST_TEXT else text[:LONGEST_TEXT] + "…"
