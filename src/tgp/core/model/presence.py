"""Whether the machine of an attempt is there, as far as complete lists of the right account tell."""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import TypeAlias

from tgp.core.model.instance import Instance


class Trouble(StrEnum):
    """Why an account cannot be asked: the reason of a condition, so read by people and matched by alerts."""

    NOT_ASKED_YET = "NotAskedYet"  # this process has not finished its first look
    CREDENTIALS_MISSING = "CredentialsMissing"
    CREDENTIALS_REFUSED = "CredentialsRefused"
    ACCOUNT_CHANGED = "AccountChanged"  # the key is another account's now: everything bought before is unknown
    ACCOUNT_UNKNOWN = "AccountUnknown"  # the attempt names none that was ever used: no provider is asked for it
    UNREACHABLE = "ProviderUnreachable"  # silence, 5xx, half a list, HTML …


@dataclass(frozen=True, slots=True)
class Found:
    """Listed under the attempt's token. `others` are further machines under the same token: never ours to keep."""

    instance: Instance
    others: tuple[Instance, ...] = ()


@dataclass(frozen=True, slots=True)
class Repeated:
    """The same statement in several lists in a row."""

    lists: int  # how many in a row
    span: timedelta  # from the first of them to the last, on this process's own clock

    def shown(self, window: timedelta) -> bool:
        """At least two lists, that far apart. An empty window asks for two lists all the same."""
        return self.lists >= 2 and self.span >= window


@dataclass(frozen=True, slots=True)
class Absent(Repeated):
    """Not in complete lists of the same account, all begun after it could have been seen."""


@dataclass(frozen=True, slots=True)
class Claims:
    """What an account says of one machine that would end it: not believed before it is said again, later."""

    state: Repeated | None = None  # that the machine is stopped, broken or taken back; None: not said
    price: Repeated | None = None  # that it costs more than was last believed; None: not said
    together: int = 0  # machines of the account of which such things began to be said within ten minutes
    turn: bool = False  # of the machines of which such things were said for long, this one is believed first
    leaving: bool = False  # the provider said that it is ending it, before it was no longer listed


NO_CLAIMS = Claims()


@dataclass(frozen=True, slots=True)
class Unknown:
    """Nobody can tell. Never concluded to be absence."""

    trouble: Trouble
    why: str


Presence: TypeAlias = Found | Absent | Unknown
