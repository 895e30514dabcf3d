"""The list of cases: what one is, and how a module adds one.

A case is a small coroutine over an `Api`; its name is its function's name, read as a sentence. It proves two things:
the facts it asserts hold on whatever server it runs against, and every answer it got was the same on both.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from tests.contracts.apiserver.api import Api

Script: TypeAlias = Callable[[Api], Awaitable[None]]


class Area(StrEnum):
    WATCH = "watch and list"
    PATCH = "conflicts and patches"
    APPLY = "apply"
    EVICTION = "eviction"
    DELETION = "deletion and finalizers"
    LEASE = "leases"
    SCHEMA = "CRDs and schema"
    BINDING = "binding"
    CERTIFICATE = "certificate signing"
    ACCESS = "tokens and access"
    EVENT = "events"
    SECRET = "secrets"  # the area's name, not a password
    DISCOVERY = "discovery"
    BUILT_IN = "built-in kinds"
    TABLE = "tables"
    OURS = "our kinds"
    WALK = "random walks"


MINIMA = {
    Area.WATCH: 20,
    Area.PATCH: 20,
    Area.APPLY: 10,
    Area.EVICTION: 10,
    Area.DELETION: 10,
    Area.LEASE: 10,
    Area.SCHEMA: 10,
    Area.BINDING: 4,
    Area.CERTIFICATE: 5,
    Area.ACCESS: 8,
    Area.EVENT: 4,
    Area.SECRET: 4,
    Area.DISCOVERY: 5,
    Area.BUILT_IN: 10,
    Area.TABLE: 4,
    Area.OURS: 10,
    Area.WALK: 30,
}
MINIMUM = 160  # of all areas together


@dataclass(frozen=True, slots=True)
class Case:
    area: Area
    name: str
    script: Script
    alone: bool  # it changes what other cases would see, so it runs after them, alone

    @property
    def namespace(self) -> str:
        """Its own, the same on both servers, so that names need no translation when answers are compared."""
        words = self.name.replace("'", "").split()
        return "-".join(["case", *words]).lower()[:63].strip("-")


CASES: list[Case] = []


def case(area: Area, *, alone: bool = False) -> Callable[[Script], Script]:
    """Add the decorated coroutine to the suite."""

    def add(script: Script) -> Script:
        name = script.__name__.replace("_", " ")
        one = Case(area, name, script, alone)
        taken = {other.namespace for other in CASES}
        assert one.namespace not in taken, f"two cases would share the namespace of: {name}"
        CASES.append(one)
        return script

    return add
