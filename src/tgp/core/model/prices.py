"""Parses providers' prices into micro-dollars, the only form used elsewhere.

A price is parsed or refused, never guessed: text, NaN, a negative number or an implausibly high one is `NotAPrice`,
and the adapter drops the offer or the answer. Decimal arithmetic
throughout: a float's 0.1 must not become $0.10000000000000001.
"""

from decimal import Decimal, InvalidOperation
from typing import Any

MICRO = 1_000_000
# $1,000 an hour: ten times the most expensive machine on the market; anything above is an error
HIGHEST_HOURLY = 1_000 * MICRO
LONGEST_TEXT = 32  # characters; Decimal would happily read a megabyte of digits


class NotAPrice(ValueError):
    """The message says what was wrong, shortened: the value comes from outside."""


def hourly_microusd(value: Any, *, per_dollar: int = 1) -> int:
    """Dollars an hour, as a number or a decimal string, in whole micro-dollars, rounded up: never below the bill.

    `per_dollar` is 100 where the price is in cents. Zero is refused.
    """
    amount = _decimal(value) * MICRO / per_dollar
    micro = int(amount.to_integral_value(rounding="ROUND_CEILING"))
    if not 0 < micro <= HIGHEST_HOURLY:
        raise NotAPrice(f"{_shown(value)} is not a price of a machine for an hour")
    return micro


def _decimal(value: Any) -> Decimal:
    if isinstance(value, bool) or not isinstance(value, int | float | str | Decimal):
        raise NotAPrice(f"{_shown(value)} is not a number")
    text = str(value).strip()
    if len(text) > LONGEST_TEXT:
        raise NotAPrice(f"{_shown(value)} is too long for a price")
    try:
        amount = Decimal(text)
    except InvalidOperation:
        raise NotAPrice(f"{_shown(value)} is not a number") from None
    if not amount.is_finite():
        raise NotAPrice(f"{_shown(value)} is not a number")
    return amount


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= LONGEST_TEXT else text[:LONGEST_TEXT] + "…"
