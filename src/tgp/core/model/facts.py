"""What happened, as values: each becomes one log line, one metric and, where an object is concerned, one Event.

A fact is noted when it *becomes* true, not on every turn it stays true, and carries no secret.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeAlias

from tgp.api.request import ChosenOffer, GPURequest
from tgp.api.resource import GPU_REQUEST, Resource
from tgp.core.model.key import Key
from tgp.core.model.offer import UNKNOWN_REGION, BootMode
from tgp.core.model.typed import Typed


@dataclass(frozen=True, slots=True)
class Subject:
    """The object a fact is about, as an Event needs to name it."""

    resource: Resource
    key: Key
    uid: str

    def __str__(self) -> str:
        return f"{self.resource.kind.lower()}/{self.key}"


def subject_of(request: Typed[GPURequest]) -> Subject:
    return Subject(GPU_REQUEST, request.key, request.uid_text)


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
class HistoryRewound:
    """The API server's etcd was restored: everything is listed again, and every reservation is settled first."""

    why: str


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


@dataclass(frozen=True, slots=True)
class JoinApproved:
    """A machine's kubelet may become its Node. About its request."""

    subject: Subject
    node: str
    signing_request: str


@dataclass(frozen=True, slots=True)
class JoinDenied:
    """Somebody came with a token of our group and asked for what it is not for. About its request, where it has one."""

    subject: Subject
    signing_request: str
    reason: str  # few words
    why: str  # may quote what was asked for, shortened


@dataclass(frozen=True, slots=True)
class JoinApprovedByOthers:
    """A certificate request under a token of ours was approved, and not by us: some rule lets it become any node."""

    subject: Subject
    reason: str


# -- the life of a machine -----------------------------------------------------------------------------------------
# `provider` is its short name, `offer` what `offer_words` says of it, `after` counts from the order.


def offer_words(offer: ChosenOffer | None) -> str:
    """1x RTX4090 in us-west, spot."""
    if offer is None:  # its record does not tell
        return "a machine"
    what = f"{offer.gpu_count or 1}x {offer.gpu_type or offer.instance_type}"
    where = offer.region if offer.region not in (None, "", UNKNOWN_REGION) else offer.place
    if offer.boot_mode == BootMode.POWER.value:
        where = None  # a box of one's own is where it is
    return what + (f" in {where.strip(' ,')}" if where else "") + (", spot" if offer.spot else "")


@dataclass(frozen=True, slots=True)
class MachineOrdered:
    """Written down; the provider is asked next."""

    subject: Subject
    provider: str
    offer: str
    hourly_microusd: int
    token: str
    attempt: int


@dataclass(frozen=True, slots=True)
class MachineLaunched:
    """The provider confirmed it, at once or when it was looked for."""

    subject: Subject
    provider: str
    offer: str
    hourly_microusd: int  # as billed
    instance_id: str
    attempt: int
    after: timedelta


@dataclass(frozen=True, slots=True)
class MachineReadopted:
    """A machine whose record was lost with its request's status is on record again."""

    subject: Subject
    provider: str
    offer: str
    hourly_microusd: int  # as billed; 0: the provider does not say
    instance_id: str
    attempt: int


@dataclass(frozen=True, slots=True)
class LaunchFailed:
    """An attempt without a machine, or one whose outcome has to be looked for."""

    subject: Subject
    provider: str
    offer: str
    outcome: str  # as in the attempt, or Unknown: few words
    why: str


@dataclass(frozen=True, slots=True)
class NodeRegistered:
    subject: Subject
    provider: str
    node: str
    after: timedelta


@dataclass(frozen=True, slots=True)
class MeshJoined:
    """The mesh knows the machine, and its Node is on the mesh's address."""

    subject: Subject
    words: str
    after: timedelta  # since it was ordered


@dataclass(frozen=True, slots=True)
class NodeInitialized:
    """The promised GPUs are allocatable."""

    subject: Subject
    provider: str
    node: str
    after: timedelta


@dataclass(frozen=True, slots=True)
class MachineReady:
    subject: Subject
    provider: str
    node: str
    after: timedelta


@dataclass(frozen=True, slots=True)
class MachineEnding:
    """It is being given back from now on."""

    subject: Subject
    provider: str
    reason: str  # of the condition Terminating: few words
    why: str


@dataclass(frozen=True, slots=True)
class MachineReturned:
    """Shown to be gone, and entered into the spend record."""

    subject: Subject
    node_class: str
    pool: str  # namespace/name; empty: its owner wrote the request
    provider: str
    instance_id: str
    spent_microusd: int
    reason: str


@dataclass(frozen=True, slots=True)
class MachineLost:
    """Gone, stopped or unreachable, and nobody here asked for it."""

    subject: Subject
    provider: str
    instance_id: str
    why: str


@dataclass(frozen=True, slots=True)
class LimitHolds:
    """A hard limit of its class keeps a request from buying."""

    subject: Subject
    node_class: str
    why: str


@dataclass(frozen=True, slots=True)
class ExpiresSoon:
    subject: Subject
    at: datetime


@dataclass(frozen=True, slots=True)
class ProtectionHolds:
    """A drain waits for somebody who asked not to be disturbed."""

    subject: Subject
    who: str


@dataclass(frozen=True, slots=True)
class TerminationFailing:
    """The machine was asked to end, more than once, and costs on."""

    subject: Subject
    provider: str
    instance_id: str
    tries: int
    why: str
    hourly_microusd: int


@dataclass(frozen=True, slots=True)
class OrphanFound:
    """A machine with our mark that no request owns."""

    till: str
    instance_id: str
    token: str
    why: str


@dataclass(frozen=True, slots=True)
class OrphanStays:
    """Such a machine was asked to end, more than once, and costs on. The classes that buy there say so, too."""

    till: str
    instance_id: str
    token: str
    tries: int
    why: str
    hourly_microusd: int  # 0: its provider does not say


@dataclass(frozen=True, slots=True)
class OrphanTerminated:
    """One of many machines that no request owns is terminated: the evidence that it belongs to none is complete."""

    till: str
    instance_id: str
    token: str
    why: str
    left: int  # of them


@dataclass(frozen=True, slots=True)
class OrphanReturned:
    till: str
    instance_id: str
    token: str


@dataclass(frozen=True, slots=True)
class SweepHalted:
    """More machines without a request at once than anybody expects: they stay until the evidence is complete."""

    till: str
    count: int
    of: int


@dataclass(frozen=True, slots=True)
class KeyRotated:
    """A new key lists a machine that was listed under the key before: it belongs to the same account."""

    till: str
    before: str  # the account as it was known, by the old key
    now: str


MachineFact: TypeAlias = (
    MachineOrdered
    | MachineLaunched
    | MachineReadopted
    | LaunchFailed
    | NodeRegistered
    | MeshJoined
    | NodeInitialized
    | MachineReady
    | MachineEnding
    | MachineReturned
    | MachineLost
    | LimitHolds
    | ExpiresSoon
    | ProtectionHolds
    | TerminationFailing
)  # each is about one request: its `subject`

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
    | HistoryRewound
    | ObjectUnreadable
    | KeyAccepted
    | KeyWasRefused
    | KeyRotated
    | ProviderTroubled
    | ProviderRecovered
    | JoinApproved
    | JoinDenied
    | JoinApprovedByOthers
    | MachineFact
    | OrphanFound
    | OrphanStays
    | OrphanTerminated
    | OrphanReturned
    | SweepHalted
)
