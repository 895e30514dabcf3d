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
class Absent:
    """Not in complete lists of the same account, all begun after it could have been seen."""

    lists: int  # how many in a row
    span: timedelta  # from the first of them to the last, on this process's own clock

    def shown(self, window: timedelta) -> bool:
        """At least two lists, that far apart. An empty window asks for two lists all the same."""
        return self.lists >= 2 and self.span >= window


@dataclass(frozen=True, slots=True)
class Unknown:
    """Nobody can tell. Never concluded to be absence."""

    trouble: Trouble
    why: str


Presence: TypeAlias = Found | Absent | Unknown
