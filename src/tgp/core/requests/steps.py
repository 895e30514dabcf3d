"""What can be done next about a request: `lifecycle` chooses one of these steps, and the reconciler executes it."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeAlias

from tgp.api.request import Attempt
from tgp.core.model.instance import Instance
from tgp.core.model.node import Node
from tgp.core.requests.drain import Drain
from tgp.core.requests.purchase import Purchase


class TerminationReason(StrEnum):
    """Why a machine is terminated: the reason of the condition `Terminating`."""

    DELETED = "Deleted"
    EXPIRED = "Expired"
    IDLE = "Idle"
    NEVER_STARTED = "NeverStarted"
    NEVER_JOINED = "NeverJoined"
    NEVER_INITIALIZED = "NeverInitialized"
    BROKEN = "Broken"  # it failed before it was ever ready
    PRICE_EXCEEDED = "PriceExceeded"
    LOST = "Lost"  # interrupted, outbid, or its host is gone
    NODE_LOST = "NodeLost"  # the cluster does not see it any more
    MESH_LOST = "MeshLost"  # the mesh does not know it any more


UNUSABLE = frozenset(
    {
        TerminationReason.NEVER_STARTED,
        TerminationReason.NEVER_JOINED,
        TerminationReason.NEVER_INITIALIZED,
        TerminationReason.BROKEN,
        TerminationReason.PRICE_EXCEEDED,
    }
)
LOST = frozenset({TerminationReason.LOST, TerminationReason.NODE_LOST, TerminationReason.MESH_LOST})


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to do but to report the state."""

    reason: str
    message: str
    until: datetime | None = None  # look again then; None: when something changes


@dataclass(frozen=True, slots=True)
class AddFinalizer:
    """Our finalizer and the object's uid, before anything can be bought."""


@dataclass(frozen=True, slots=True)
class Reserve:
    buy: Purchase
    number: int


@dataclass(frozen=True, slots=True)
class Launch:
    attempt: Attempt


@dataclass(frozen=True, slots=True)
class AbandonAttempt:
    """The attempt is over, and there is no machine."""

    attempt: Attempt
    outcome: str
    message: str


@dataclass(frozen=True, slots=True)
class Adopt:
    """The provider lists a machine under our token: it belongs to this attempt."""

    attempt: Attempt
    instance: Instance


@dataclass(frozen=True, slots=True)
class Readopt:
    """The status that named this machine was erased or restored: record the machine again and continue with it."""

    attempt: Attempt  # as far as it could be reconstructed
    instance: Instance
    access: str  # where it is listed


@dataclass(frozen=True, slots=True)
class StartTermination:
    """Record the decision that the machine will be terminated."""

    end: TerminationReason
    message: str


@dataclass(frozen=True, slots=True)
class PatchNode:
    node: Node
    change: Any


@dataclass(frozen=True, slots=True)
class DrainNode:
    """Drain the node."""

    drain: Drain


@dataclass(frozen=True, slots=True)
class Terminate:
    attempt: Attempt
    instance_id: str


@dataclass(frozen=True, slots=True)
class RemoveNode:
    node: Node


@dataclass(frozen=True, slots=True)
class CloseAttempt:
    """The machine is gone: record what it cost, and what follows."""

    attempt: Attempt
    outcome: str
    message: str
    finished: "Complete | None"  # None: another attempt follows
    counts_until: datetime | None = None  # only lists say that it is gone: until then it counts against limits


@dataclass(frozen=True, slots=True)
class Complete:
    """The request has ended; the object stays as a record."""

    phase: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class RemoveFinalizer:
    """Nothing of it is left anywhere: remove our finalizer."""


@dataclass(frozen=True, slots=True)
class DeleteRequest:
    """It was kept long enough."""


Step: TypeAlias = (
    Wait
    | AddFinalizer
    | Reserve
    | Launch
    | AbandonAttempt
    | Adopt
    | Readopt
    | StartTermination
    | PatchNode
    | DrainNode
    | Terminate
    | RemoveNode
    | CloseAttempt
    | Complete
    | RemoveFinalizer
    | DeleteRequest
)
