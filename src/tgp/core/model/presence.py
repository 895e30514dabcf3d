"""Whether the machine of an attempt exists, as far as complete lists of the right account show."""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import TypeAlias

import msgspec

from tgp.core.model.instance import Instance


class AccountProblem(StrEnum):
    """Why an account cannot be read: the reason of a condition, so read by users and matched by alerts."""

    NOT_ASKED_YET = "NotAskedYet"  # this process has not finished its first list
    CREDENTIALS_MISSING = "CredentialsMissing"
    CREDENTIALS_REFUSED = "CredentialsRefused"
    ACCOUNT_CHANGED = "AccountChanged"  # the key belongs to another account now: everything bought before is unknown
    ACCOUNT_UNKNOWN = "AccountUnknown"  # the attempt names none that was ever used: no provider is called for it
    UNREACHABLE = "ProviderUnreachable"  # silence, 5xx, half a list, HTML …


class Found(msgspec.Struct, frozen=True):
    """Listed under the attempt's token. `others` are further machines under the same token: never kept."""

    instance: Instance
    others: tuple[Instance, ...] = ()


@dataclass(frozen=True, slots=True)
class Repeated:
    """The same statement in several lists in a row."""

    lists: int  # how many in a row
    span: timedelta  # from the first of them to the last, on this process's own clock

    def shown(self, window: timedelta) -> bool:
        """At least two lists, that far apart. An empty window needs two lists all the same."""
        return self.lists >= 2 and self.span >= window


@dataclass(frozen=True, slots=True)
class Absent(Repeated):
    """Not in complete lists of the same account, all begun after it could have been seen."""


class Claims(msgspec.Struct, frozen=True):
    """What an account reports of one machine that would end its request: not believed before it is repeated later.

    The announcement of an end may be a short notice: it is believed in the second list, whenever that comes.
    """

    state: Repeated | None = None  # that the machine is stopped, broken or interrupted; None: not reported
    price: Repeated | None = None  # that it costs more than the last believed price; None: not reported
    together: int = 0  # machines of the account for which such reports began within ten minutes
    turn: bool = False  # of the machines with long-standing reports, this one is believed first
    end: Repeated | None = None  # that it is taken back at another time than is recorded; None: not reported
    leaving: bool = False  # the provider reported the termination before the machine was no longer listed


NO_CLAIMS = Claims()


class Unknown(msgspec.Struct, frozen=True):
    """It cannot be decided. Never taken for absence."""

    trouble: AccountProblem
    why: str


Presence: TypeAlias = Found | Absent | Unknown
