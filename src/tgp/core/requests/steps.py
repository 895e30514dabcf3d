"""What can be done next about a request: `lifecycle` chooses one of these steps, and the reconciler executes it."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeAlias

import msgspec

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


class AddFinalizer(msgspec.Struct, frozen=True):
    """Our finalizer and the object's uid, before anything can be bought."""


class Reserve(msgspec.Struct, frozen=True):
    buy: Purchase
    number: int


class Launch(msgspec.Struct, frozen=True):
    attempt: Attempt


class AbandonAttempt(msgspec.Struct, frozen=True):
    """The attempt is over, and there is no machine."""

    attempt: Attempt
    outcome: str
    message: str
    counts_until: datetime | None = None  # only lists say that there is none: until then it counts against limits


class Adopt(msgspec.Struct, frozen=True):
    """The provider lists a machine under our token: it belongs to this attempt."""

    attempt: Attempt
    instance: Instance


class Readopt(msgspec.Struct, frozen=True):
    """The status that named this machine was erased or restored: record the machine again and continue with it."""

    attempt: Attempt  # as far as it could be reconstructed
    instance: Instance
    access: str  # where it is listed


class StartTermination(msgspec.Struct, frozen=True):
    """Record the decision that the machine will be terminated."""

    end: TerminationReason
    message: str


class PatchNode(msgspec.Struct, frozen=True):
    node: Node
    change: Any


class DrainNode(msgspec.Struct, frozen=True):
    """Drain the node."""

    drain: Drain


class Terminate(msgspec.Struct, frozen=True):
    attempt: Attempt
    instance_id: str


class RemoveNode(msgspec.Struct, frozen=True):
    node: Node


class CloseAttempt(msgspec.Struct, frozen=True):
    """The machine is gone: record what it cost, and what follows."""

    attempt: Attempt
    outcome: str
    message: str
    finished: "Complete | None"  # None: another attempt follows
    counts_until: datetime | None = None  # only lists say that it is gone: until then it counts against limits


class Complete(msgspec.Struct, frozen=True):
    """The request has ended; the object stays as a record."""

    phase: str
    reason: str
    message: str


class RemoveFinalizer(msgspec.Struct, frozen=True):
    """Nothing of it is left anywhere: remove our finalizer."""


class DeleteRequest(msgspec.Struct, frozen=True):
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
