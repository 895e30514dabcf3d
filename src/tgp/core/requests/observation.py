"""Everything that one reconcile of a request may use, collected at one instant."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import msgspec

from tgp.api.common import Condition
from tgp.api.request import Attempt, GPURequest, GPURequestSpec, GPURequestStatus
from tgp.core.model.attempts import FINALIZER, UID_ANNOTATION, copied, exchanged, open_attempt
from tgp.core.model.instance import Instance
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.mesh import NO_MESH_NEEDED, MeshStatus
from tgp.core.model.node import Node
from tgp.core.model.presence import NO_CLAIMS, Claims, Presence
from tgp.core.model.spend import INSTANT
from tgp.core.requests.drain import Drain
from tgp.core.requests.purchase import NoPurchase, PurchaseInput

IN_DOUBT = frozenset(
    {"LaunchOutcomePending", "UnclaimedInstance"}
)  # reasons of a request whose record is known to be incomplete
RECORD_LOST = "RecordLost"  # the condition of a request whose status was erased, until it has an attempt again


class NodeObservation(msgspec.Struct, frozen=True):
    """What is seen of a machine's Node."""

    node: Node | None = None  # None: there is none of that name that is ours
    initialized: bool = False  # the promised GPUs are allocatable, and start-up taints are gone
    words: str = ""  # how far it is, with numbers
    mend: Mapping[str, Any] | None = None  # the patch to the desired metadata; None: nothing to change
    idle: bool | None = None  # no pod uses a GPU there; None: there is no evidence
    worked_until: datetime | None = None  # when the last known pod that used a GPU there ended
    leftover: Node | None = None  # the Node to delete or clean up once the machine is gone
    undress: Mapping[str, Any] | None = None  # of a machine you own: the patch that cleans its Node up
    protected: str = ""  # what asks not to be disrupted; empty: nothing


class StartupTimeouts(msgspec.Struct, frozen=True):
    """How long each part of a start may take, before what the provider reports is added."""

    launch: timedelta = timedelta(minutes=10)  # from the order to running
    join: timedelta = timedelta(minutes=15)  # from running to a Node
    initialize: timedelta = timedelta(minutes=10)  # from a Node to all its GPUs


class Unrecorded(msgspec.Struct, frozen=True):
    """The machine of the newest attempt, which the status does not record."""

    attempt: Attempt  # as far as it could be reconstructed
    instance: Instance
    access: str  # where it is listed
    settled: bool  # every provider that answers was listed since any later order would have shown


class RequestObservation(msgspec.Struct, frozen=True):
    """A struct: several are made per reconcile, and thirty fields take a frozen dataclass ten times as long."""

    record: KubeObject[GPURequest]
    attempts: tuple[Attempt, ...]
    now: datetime
    presence: Presence | None = None  # of the open attempt's machine; None: there is no open attempt
    settle_window: timedelta = timedelta(0)  # absent for so long: it was never made
    distrusted: str = ""  # why lists of its account prove nothing before long; empty: they are believed
    listing_lag: timedelta = timedelta(0)  # absent for so long: it is gone
    never_listed: bool = False  # its provider named an id, and no list has shown it yet
    billing_step: timedelta = INSTANT  # every started step is billed in full
    may_order: bool = False  # reserved by this process, in this term, and not sent
    order_not_before: datetime | None = None  # the provider asked for a pause
    blank: bool = False  # this process added the finalizer and never ordered for it: no machine can exist
    wiped: bool = False  # its status was found empty although it has our finalizer: what it had is not recorded
    settled: bool = True  # no provider can hold anything that is not in the attempts
    strays: tuple[str, ...] = ()  # machines under this request's uid that belong to no attempt
    unrecorded: Unrecorded | None = None  # to be adopted again; one of the strays
    purchase: PurchaseInput | None = None  # what a choice among offers needs; None: nothing may be bought
    stopped: NoPurchase | None = None  # why nothing may be ordered, whatever was reserved
    node: NodeObservation = NodeObservation()
    mesh: MeshStatus = NO_MESH_NEEDED
    drifted: str = ""  # how its class has changed since the launch; empty: it has not
    inert: str | None = None  # its settings for another mesh; empty: none; None: unknown
    startup_timeouts: StartupTimeouts = StartupTimeouts()
    drain: Drain | None = None  # None: there is nothing to drain
    claims: Claims = NO_CLAIMS  # provider reports that would cause a termination
    asked_to_end: int = 0  # how often this process requested the termination
    seen_listed: bool = False  # a list has shown the machine to this process
    end_accepted: bool = False  # the provider listed the machine and accepted its termination
    ask_again_at: datetime | None = None
    trouble: str = ""  # the last error of a termination request
    keep_finished: timedelta | None = None  # None: without limit
    overdrawn: str = ""  # which limit of the class its billed price exceeds; empty: none
    many_unseen: str = ""  # why many unreachable Nodes count as a network outage; empty: they are few
    silence_ends: bool = False  # of the machines silent together for too long, this one is terminated first
    highest: int = 0  # the highest attempt of this request that was seen anywhere
    mended: bool = False  # its last order could not be prepared, and its spec or class has changed since
    decided: Condition | None = None  # written with this reconcile
    parts: Mapping[str, Any] = msgspec.field(default_factory=dict)  # of the status, written with this reconcile

    @property
    def spec(self) -> GPURequestSpec:
        assert self.record.object is not None, "an unreadable request is not reconciled"
        return self.record.object.spec

    @property
    def status(self) -> GPURequestStatus:
        assert self.record.object is not None, "an unreadable request is not reconciled"
        return self.record.object.status

    @property
    def attempt(self) -> Attempt | None:
        """The one that may have a machine."""
        return open_attempt(self.attempts)

    def with_attempt(self, changed: Attempt) -> "RequestObservation":
        return msgspec.structs.replace(self, attempts=exchanged(self.attempts, changed))

    @property
    def enrolled(self) -> bool:
        return FINALIZER in self.record.finalizers

    @property
    def restored(self) -> bool:
        return copied(self.record)

    @property
    def unmarked(self) -> bool:
        """The annotation that identifies a copy without a status was edited or removed."""
        return self.record.annotations.get(UID_ANNOTATION) != self.record.uid_text

    @property
    def let_go(self) -> bool:
        """It had our finalizer once, and nothing is recorded: it ended, and its status was erased since."""
        bare = not self.attempts and not self.status.conditions
        return bare and not self.enrolled and not self.unmarked and not self.restored

    @property
    def waited(self) -> bool:
        """By its own record it has only ever waited for an offer.

        An erased status does not prove that, nor does what was written since, for the next leader either.
        """
        launched = self.condition("Launched")
        if self.attempts or self.status.phase != "Pending" or launched is None or self.holds(RECORD_LOST):
            return False
        return launched.status == "False" and launched.reason not in IN_DOUBT

    def condition(self, name: str) -> Condition | None:
        for each in self.status.conditions:  # called ten times per reconcile
            if each.type == name:
                return each
        return None

    def holds(self, name: str) -> Condition | None:
        """The condition, if it is True, or becomes True with this reconcile."""
        if self.decided is not None and self.decided.type == name:
            return self.decided
        found = self.condition(name)
        return found if found is not None and found.status == "True" else None
