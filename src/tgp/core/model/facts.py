"""What happened, as values: each becomes one log line, one metric and, where an object is concerned, one Event.

A fact is noted when it *becomes* true, not on every turn it stays true, and carries no secret.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import TypeAlias

from tgp.api.resource import Resource
from tgp.core.model.key import Key


@dataclass(frozen=True, slots=True)
class Subject:
    """The object a fact is about, as an Event needs to name it."""

    resource: Resource
    key: Key
    uid: str

    def __str__(self) -> str:
        return f"{self.resource.kind.lower()}/{self.key}"


@dataclass(frozen=True, slots=True)
class OperatorStarted:
    version: str
    identity: str
    cluster: str  # the cluster id: ten hex digits


@dataclass(frozen=True, slots=True)
class OperatorStopped:
    identity: str
    why: str


@dataclass(frozen=True, slots=True)
class LeadershipWon:
    identity: str
    epoch: str


@dataclass(frozen=True, slots=True)
class LeadershipReleased:
    identity: str


@dataclass(frozen=True, slots=True)
class LeadershipEnded:
    """The Lease was not renewed in time, or another replica took it: this process ends."""

    identity: str
    why: str


@dataclass(frozen=True, slots=True)
class LeaseTroubled:
    """The Lease could not be read or written for longer than it lasts: whoever leads, it will not be this replica."""

    lease: Key
    why: str


@dataclass(frozen=True, slots=True)
class LeaseReached:
    """The trouble with the Lease is over."""

    lease: Key


@dataclass(frozen=True, slots=True)
class ConditionChanged:
    subject: Subject
    type: str
    status: str  # True, False or Unknown
    reason: str
    message: str
    good: bool  # is this the state its owner hopes for?


@dataclass(frozen=True, slots=True)
class TurnFailed:
    """A turn raised. The runtime backs off and asks again; the text is the error's class, not its words."""

    controller: str
    key: Key
    turn: str
    error: str
    again_in: timedelta


@dataclass(frozen=True, slots=True)
class WatchTroubled:
    """A view could not be refreshed: the operator goes on with what it last saw, and says so."""

    kind: str
    why: str


@dataclass(frozen=True, slots=True)
class WatchRecovered:
    kind: str


@dataclass(frozen=True, slots=True)
class ObjectUnreadable:
    """An object of ours that this version cannot decode. It is kept, and whatever it owns stays owned."""

    subject: Subject
    why: str


@dataclass(frozen=True, slots=True)
class KeyAccepted:
    source: str
    account: str


@dataclass(frozen=True, slots=True)
class KeyWasRefused:
    """A provider refuses the key: nothing more is asked of that account until it changes, or a while has passed."""

    source: str
    why: str


@dataclass(frozen=True, slots=True)
class ProviderTroubled:
    """A provider has not told its offers for a while: it counts as unknown, its last offers are served on."""

    source: str
    error: str
    why: str


@dataclass(frozen=True, slots=True)
class ProviderRecovered:
    source: str


Fact: TypeAlias = (
    OperatorStarted
    | OperatorStopped
    | LeadershipWon
    | LeadershipReleased
    | LeadershipEnded
    | LeaseTroubled
    | LeaseReached
    | ConditionChanged
    | TurnFailed
    | WatchTroubled
    | WatchRecovered
    | ObjectUnreadable
    | KeyAccepted
    | KeyWasRefused
    | ProviderTroubled
    | ProviderRecovered
)
