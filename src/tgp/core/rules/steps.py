"""What can be done next about a request: the words in which `lifecycle` decides, and by which whoever acts obeys."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeAlias

from tgp.api.request import Attempt
from tgp.core.model.instance import Instance
from tgp.core.model.node import Node
from tgp.core.rules.drain import Drain
from tgp.core.rules.purchase import Buy


class End(StrEnum):
    """Why a machine is given back: the reason of the condition `Terminating`."""

    DELETED = "Deleted"
    EXPIRED = "Expired"
    IDLE = "Idle"
    NEVER_STARTED = "NeverStarted"
    NEVER_JOINED = "NeverJoined"
    NEVER_INITIALIZED = "NeverInitialized"
    BROKEN = "Broken"  # it failed before it was ever ready
    TOO_DEAR = "TooDear"
    LOST = "Lost"  # taken back, outbid, or its host is gone
    NODE_LOST = "NodeLost"  # the cluster does not see it any more
    MESH_LOST = "MeshLost"  # the mesh does not know it any more


NO_USE = frozenset({End.NEVER_STARTED, End.NEVER_JOINED, End.NEVER_INITIALIZED, End.BROKEN, End.TOO_DEAR})
LOSSES = frozenset({End.LOST, End.NODE_LOST, End.MESH_LOST})


@dataclass(frozen=True, slots=True)
class Rest:
    """Nothing to do but to tell how it stands."""

    reason: str
    message: str
    until: datetime | None = None  # look again then; None: when something changes


@dataclass(frozen=True, slots=True)
class Enrol:
    """Our finalizer and the object's uid, before anything can be bought."""


@dataclass(frozen=True, slots=True)
class Reserve:
    buy: Buy
    number: int


@dataclass(frozen=True, slots=True)
class Order:
    attempt: Attempt


@dataclass(frozen=True, slots=True)
class Withdraw:
    """The attempt is over, and there is no machine."""

    attempt: Attempt
    outcome: str
    message: str


@dataclass(frozen=True, slots=True)
class Adopt:
    """The provider lists it under our token: it is ours."""

    attempt: Attempt
    instance: Instance


@dataclass(frozen=True, slots=True)
class Readopt:
    """The status that named this machine was wiped or put back: write it down again, and go on with it."""

    attempt: Attempt  # as far as it could be reconstructed
    instance: Instance
    till: str  # where it is listed


@dataclass(frozen=True, slots=True)
class Begin:
    """Decide, on paper, that the machine is given back."""

    end: End
    message: str


@dataclass(frozen=True, slots=True)
class Mend:
    node: Node
    change: Any


@dataclass(frozen=True, slots=True)
class Empty:
    """Drain the node."""

    drain: Drain


@dataclass(frozen=True, slots=True)
class Return:
    attempt: Attempt
    instance_id: str


@dataclass(frozen=True, slots=True)
class RemoveNode:
    node: Node


@dataclass(frozen=True, slots=True)
class Close:
    """The machine is gone: enter what it cost, and say what follows."""

    attempt: Attempt
    outcome: str
    message: str
    finished: "Finish | None"  # None: another attempt follows
    counts_until: datetime | None = None  # lists alone say that it is gone: until then it counts against limits


@dataclass(frozen=True, slots=True)
class Finish:
    """The request is over, and stays to tell its story."""

    phase: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Release:
    """Nothing of it is left anywhere: take our finalizer off."""


@dataclass(frozen=True, slots=True)
class Discard:
    """It was kept long enough."""


Step: TypeAlias = (
    Rest
    | Enrol
    | Reserve
    | Order
    | Withdraw
    | Adopt
    | Readopt
    | Begin
    | Mend
    | Empty
    | Return
    | RemoveNode
    | Close
    | Finish
    | Release
    | Discard
)
