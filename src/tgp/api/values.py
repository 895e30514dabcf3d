r"""The formats of our string fields: prices, durations, quantities, versions, times.

Each pattern stands here once. The CRDs contain it (as a CEL rule with a message), the parsers below read what it
accepts. A parser's error names the field and says what would be right. All patterns are in the part of RE2 that
Python reads alike: ASCII, no look-around, `$` for the very end.
"""

import json
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from fractions import Fraction
from functools import lru_cache
from typing import Final, TypeAlias

from tgp.api.field_error import FieldError, Invalid, Reason
from tgp.api.pattern import matches

PRICE: Final = r"^[0-9]{1,9}(\.[0-9]{1,6})?$"  # micro-dollars are the smallest coin there is
DURATION: Final = r"^([0-9]{1,6}(\.[0-9]{1,9})?(h|m|s|ms|us|µs|ns))+$"
LONGEST_DURATION: Final = 128  # characters; fields allow 32, an annotation may have 256 KiB
_SUFFIX: Final = r"(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|[eE][+-]?[0-9]{1,2})?$"
QUANTITY: Final = r"^([0-9]+(\.[0-9]*)?|\.[0-9]+)" + _SUFFIX
TALOS_IMAGE: Final = (
    r"^([a-z0-9][a-z0-9._/:-]*:)?v?[0-9]{1,3}\.[0-9]{1,3}\.[0-9]{1,3}(-[0-9A-Za-z.-]+)?(@sha256:[0-9a-f]{64})?$"
)
PERCENT_OR_COUNT: Final = r"^((100|[0-9]{1,2})%|[0-9]{1,4})$"
PERCENT: Final = r"^(100|[0-9]{1,2})%$"

MESSAGE_PRICE: Final = 'must be a price in dollars such as "2.0", with at most six decimals'
MESSAGE_DURATION: Final = "must be a duration such as 30s, 10m or 1h30m"
MESSAGE_QUANTITY: Final = "must be a quantity such as 8, 500m or 64Gi"
MESSAGE_TALOS: Final = "must end in a full version: v1.10.5, or ghcr.io/siderolabs/talos:v1.10.5"

MICRO: Final = 1_000_000
READINGS_KEPT: Final = (
    4096  # prices and durations already read: the same few values are in every object, at every reconcile
)
_UNIT_NANOSECONDS: Final = {
    "h": 3600 * 10**9,
    "m": 60 * 10**9,
    "s": 10**9,
    "ms": 10**6,
    "us": 10**3,
    "µs": 10**3,
    "ns": 1,
}


class Never(Enum):
    """The value for "no limit": not a very long time, but none."""

    NEVER = "Never"


NEVER: Final = Never.NEVER
Span: TypeAlias = timedelta | Never


@lru_cache(maxsize=READINGS_KEPT)
def microusd(text: str, path: str) -> int:
    """Dollars as whole micro-dollars: "2.0" is 2,000,000."""
    if not matches(text, PRICE):
        raise _invalid(path, text, MESSAGE_PRICE)
    whole, _, decimals = text.partition(".")
    return int(whole) * MICRO + int(decimals.ljust(6, "0"))


def usd(amount_microusd: int) -> str:
    """The shortest decimal that `microusd` reads back as the same amount, with at least two decimals."""
    sign = "-" if amount_microusd < 0 else ""
    whole, rest = divmod(abs(amount_microusd), MICRO)
    decimals = f"{rest:06d}".rstrip("0").ljust(2, "0")
    return f"{sign}{whole}.{decimals}"


@lru_cache(maxsize=READINGS_KEPT)
def duration(text: str, path: str) -> timedelta:
    """A Go duration, cut to whole microseconds."""
    if len(text) > LONGEST_DURATION or not matches(text, DURATION):
        raise _invalid(path, text, MESSAGE_DURATION)
    parts = re.findall(r"([0-9.]+)([a-zµ]+)", text)
    nanoseconds = sum(Fraction(number) * _UNIT_NANOSECONDS[unit] for number, unit in parts)
    return timedelta(microseconds=int(nanoseconds // 1000))


def span(text: str, path: str) -> Span:
    """A Go duration, or `Never`."""
    if text == NEVER.value:
        return NEVER
    try:
        return duration(text, path)
    except Invalid as error:
        raise _invalid(path, text, f"{MESSAGE_DURATION}, or Never") from error


def go_duration(length: timedelta) -> str:
    """The usual spelling: 1h30m, 45s, 0s."""
    seconds, microseconds = divmod(length // timedelta(microseconds=1), MICRO)
    hours, rest = divmod(seconds, 3600)
    minutes, seconds = divmod(rest, 60)
    shown = f"{hours}h" if hours else ""
    shown += f"{minutes}m" if minutes else ""
    if microseconds:
        shown += f"{seconds}.{microseconds:06d}".rstrip("0") + "s"
    elif seconds or not shown:
        shown += f"{seconds}s"
    return shown


@dataclass(frozen=True, slots=True, order=True)
class Version:
    """A version as three numbers. A pre-release sorts before its release, and is marked by `pre`."""

    major: int
    minor: int
    patch: int
    final: bool = True
    pre: str = ""

    def __str__(self) -> str:
        return f"v{self.major}.{self.minor}.{self.patch}" + (f"-{self.pre}" if self.pre else "")


def talos_version(text: str, path: str) -> Version:
    """The version in an image reference or bare: `v1.10.5`, `ghcr.io/siderolabs/talos:v1.10.5`."""
    if not matches(text, TALOS_IMAGE):
        raise _invalid(path, text, MESSAGE_TALOS)
    found = re.search(r"(?:^|:)v?([0-9]+)\.([0-9]+)\.([0-9]+)(?:-([0-9A-Za-z.-]+))?$", text.partition("@")[0])
    assert found is not None, text
    major, minor, patch, pre = found.groups(default="")
    return Version(int(major), int(minor), int(patch), final=not pre, pre=pre)


def is_rfc3339(text: str) -> bool:
    """A moment as the API server writes and reads it."""
    if not matches(
        text, r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?([Zz]|[+-][0-9]{2}:[0-9]{2})$"
    ):
        return False
    try:
        datetime.fromisoformat(text.upper())
    except ValueError:
        return False
    return True


@lru_cache(maxsize=READINGS_KEPT)
def rfc3339(moment: datetime) -> str:
    """A moment as metav1.Time writes it: UTC, whole seconds."""
    assert moment.tzinfo is not None, "moments are aware"
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _invalid(path: str, value: str, words: str) -> Invalid:
    return Invalid([FieldError(path, Reason.INVALID, words, json.dumps(value, ensure_ascii=False))])
