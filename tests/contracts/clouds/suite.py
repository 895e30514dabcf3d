"""The list of promises: what one is, and how a module adds one.

A promise is a small coroutine over a `Stage`; its name is a sentence that begins with its area. It holds for every
adapter, or the adapter's `Provider` says why it cannot apply.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from tests.contracts.clouds.provider import Provider
from tests.contracts.clouds.stage import Stage

Script: TypeAlias = Callable[[Stage], Awaitable[None]]
Unfit: TypeAlias = Callable[[Provider], str]  # why a promise cannot apply; empty: it does

LEAST_EXECUTED = 40  # promises per adapter


class Area(StrEnum):
    FACTS = "facts"
    OFFERS = "offers"
    LAUNCH = "launch"
    FIND = "find"
    STATUS = "status"
    TERMINATE = "terminate"
    OWNED = "owned"
    PAGES = "pages"
    CHECK = "check"
    SECRETS = "secrets"


@dataclass(frozen=True, slots=True)
class Promise:
    name: str
    script: Script
    unfit: Unfit

    @property
    def area(self) -> Area:
        return Area(self.name.partition(":")[0])

    def excuse(self, provider: Provider) -> str:
        """Why it cannot apply to this provider; empty: it does."""
        return self.unfit(provider) or provider.exempt.get(self.name, "")


PROMISES: dict[str, Promise] = {}


def _fits_all(_provider: Provider) -> str:
    return ""


def promise(name: str, *, unfit: Unfit = _fits_all) -> Callable[[Script], Script]:
    """Add the decorated coroutine to the suite."""

    def add(script: Script) -> Script:
        one = Promise(name, script, unfit)
        assert one.area in Area
        assert name not in PROMISES, f"promised twice: {name}"
        PROMISES[name] = one
        return script

    return add
