"""Everything that one reconcile of a request may use, collected at one instant."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import msgspec

from tgp.api.common import Condition
from tgp.api.nodeclass import GPUNodeClass
from tgp.api.nodepool import GPUNodePool
from tgp.api.request import Attempt, GPURequest, GPURequestSpec, GPURequestStatus
from tgp.core.classes.default_class import Chosen, Why
from tgp.core.inventory.limits import NOTHING_USED, Usage
from tgp.core.model.attempts import FINALIZER, copied, exchanged, marked, open_attempt
from tgp.core.model.cloud_account import CloudAccount
from tgp.core.model.hold import Hold
from tgp.core.model.instance import Instance
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.mesh import NO_MESH_NEEDED, MeshStatus
from tgp.core.model.node import Node
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.offer import Offer
from tgp.core.model.pod import Pod
from tgp.core.model.presence import NO_CLAIMS, AccountProblem, Claims, Presence
from tgp.core.model.spend import INSTANT
from tgp.core.model.workload import PodDisruptionBudget
from tgp.core.requests.protection import Protection
from tgp.core.requests.purchase import PurchaseInput

IN_DOUBT = frozenset(
    {"LaunchOutcomePending", "UnclaimedInstance"}
)  # reasons of a request whose record is known to be incomplete
RECORD_LOST = "RecordLost"  # the condition of a request whose status was erased, until it has an attempt again


class NodeObservation(msgspec.Struct, frozen=True):
    """What is seen of a machine's Node."""

    node: Node | None = None  # None: there is none of that name that is ours
    registered: Node | None = None  # the same, also where the record does not describe its machine
    pods: tuple[Pod, ...] = ()  # that are scheduled to it
    initialized: bool = False  # the promised GPUs are allocatable, and start-up taints are gone
    words: str = ""  # how far it is, with numbers
    metadata_patch: Mapping[str, Any] | None = None  # to the desired labels and taints; None: nothing to change
    idle: bool | None = None  # no pod uses a GPU there; None: there is no evidence
    worked_until: datetime | None = None  # when the last known pod that used a GPU there ended
    leftover: Node | None = None  # the Node to delete or clean up once the machine is gone
    cleanup_patch: Mapping[str, Any] | None = None  # of a machine you own: restores its Node
    protection: Protection | None = None  # what asks not to be disrupted; None: nothing
    silent_since: datetime | None = None  # of a machine you own: since when its Node is not ready; None: it is, or none


class StartupTimeouts(msgspec.Struct, frozen=True):
    """How long each part of a start may take, before what the provider reports is added."""

    launch: timedelta = timedelta(minutes=10)  # from the order to running
    join: timedelta = timedelta(minutes=15)  # from running to a Node
    initialize: timedelta = timedelta(minutes=10)  # from a Node to all its GPUs


class AccessObservation(msgspec.Struct, frozen=True):
    """How current the lists of an account access are. Moments are of Clock.boottime."""

    listed_at: float | None = None  # when the last complete list was begun; None: none was, or listing fails now
    settles_at: float = 0.0  # a list begun later shows everything that was ordered before
    problem: AccountProblem | None = None  # why its state is unknown; None: it was listed
    distrusted: bool = False  # its lists contradict the Nodes
    never_used: bool = False  # no account of it is recorded, and accounts are recorded before anything is ordered

    def listed_since(self, moment: float) -> bool:
        return self.listed_at is not None and self.listed_at > moment


class MachinesInUse(msgspec.Struct, frozen=True):
    """All machines in use, gathered where one of them cannot be reached: many at once are a fault of the network."""

    served: int = 0
    unreachable: tuple[tuple[KubeObject[GPURequest], Node | None], ...] = ()  # of them; a Node is missing or not ready
    node_lost: bool = False  # one of them is being terminated because its Node is lost
    in_mesh: tuple[bool | None, ...] = ()  # whether the mesh knows each machine; None: it does not answer


class ClassMember(msgspec.Struct, frozen=True):
    """Another machine of the same class."""

    uid: str
    attempt: Attempt
    leaving: bool  # it is being terminated
    presence: Presence
    claims: Claims


class OwningPool(msgspec.Struct, frozen=True):
    """The pool that created a request, by its owner reference."""

    key: ObjectKey
    value: GPUNodePool | None = None  # None: no pool has this name and uid, or it cannot be read
    unreadable: bool = False  # it exists, and a newer version wrote it
    deleting: bool = False


class RequestObservation(msgspec.Struct, frozen=True):
    """A struct: several are made per reconcile, and forty fields take a frozen dataclass ten times as long."""

    record: KubeObject[GPURequest]
    attempts: tuple[Attempt, ...]  # with what providers report since they were written
    now: datetime
    keep_finished: timedelta | None = None  # None: without limit
    pool: OwningPool | None = None  # that created it; None: a user did

    # What this process remembers.
    since: float = 0.0  # Clock.boottime: orders for it may be late, counted from then
    blank: bool = False  # this process wrote the finalizer and never ordered for it: no machine can exist
    wiped: bool = False  # its status was found empty although it has our finalizer: what it had is not recorded
    progress: str | None = None  # of the start, as the provider last reported it; None: not read yet
    may_order: bool = False  # reserved by this process, in this term, and not sent
    order_not_before: datetime | None = None  # the provider asked for a pause, or other orders are sent first
    order_queued: bool = False  # other orders are sent first
    inputs_changed: bool = False  # its last order could not be prepared, and its spec or class has changed since

    # What lists show.
    listed: tuple[tuple[str, Instance], ...] = ()  # (account access, machine) of every machine under its uid
    highest: int = 0  # the highest attempt of this request that was seen anywhere
    accesses: Mapping[str, AccessObservation] = msgspec.field(default_factory=dict)  # where a machine of it may be
    shown_by_node: bool = False  # a Node is Ready that carries its uid
    offers: tuple[Offer, ...] = ()  # on sale, where a machine may have to be recorded again

    # What a purchase needs.
    chosen: Chosen | Why | None = None  # the class that would buy, or why none would; None: not looked for
    observing: bool = False  # this process never buys
    hold: Hold | None = None  # all purchases are paused
    held: Usage = NOTHING_USED  # what other machines use of the class's limits
    held_of_pool: Usage = NOTHING_USED  # what other machines of its pool use of the pool's limits
    purchase: PurchaseInput | None = None  # what a choice among offers needs; None: nothing may be bought

    # The machine of the open attempt.
    account: CloudAccount | None = None  # where it is or would be; None: unknown
    presence: Presence | None = None  # None: there is no open attempt
    claims: Claims = NO_CLAIMS  # provider reports that would cause a termination
    distrusted: str = ""  # why lists of its account prove nothing before long; empty: they are believed
    settle_window: timedelta = timedelta(0)  # absent for so long: it was never made
    listing_lag: timedelta = timedelta(0)  # absent for so long: it is gone
    seen_listed: bool = False  # a list has shown the machine to this process
    never_listed: bool = False  # its provider named an id, and no list has shown it yet
    billing_step: timedelta = INSTANT  # every started step is billed in full
    same_class: tuple[ClassMember, ...] = ()  # gathered where it costs more than was reserved

    # Its Node.
    node_class: GPUNodeClass | None = None  # of its machine, else the one that would buy; None: unknown
    default_backend: str = ""  # the operator's own mesh
    node: NodeObservation = NodeObservation()
    mesh: MeshStatus = NO_MESH_NEEDED
    joined_by: str = ""  # the mesh that its machine joined, whichever its class has now; empty: none is known
    startup_timeouts: StartupTimeouts = StartupTimeouts()
    in_use: MachinesInUse = MachinesInUse()
    budgets: tuple[PodDisruptionBudget, ...] = ()  # gathered while it is terminated

    # Its termination.
    termination_requests: int = 0  # how often this process requested the termination
    termination_accepted: bool = False  # the provider listed the machine and accepted its termination
    ask_again_at: datetime | None = None
    trouble: str = ""  # the last error of a termination request

    # What is written with this reconcile.
    decided: Condition | None = None
    parts: Mapping[str, Any] = msgspec.field(default_factory=dict)  # of the status

    @property
    def spec(self) -> GPURequestSpec:
        assert self.record.value is not None, "an unreadable request is not reconciled"
        return self.record.value.spec

    @property
    def status(self) -> GPURequestStatus:
        assert self.record.value is not None, "an unreadable request is not reconciled"
        return self.record.value.status

    @property
    def kept_by_pool(self) -> bool:
        """Its pool exists and decides when the machine is no longer needed, and how old it may become."""
        return self.pool is not None and self.pool.value is not None

    @property
    def attempt(self) -> Attempt | None:
        """The one that may have a machine."""
        return open_attempt(self.attempts)

    def with_attempt(self, changed: Attempt) -> "RequestObservation":
        return msgspec.structs.replace(self, attempts=exchanged(self.attempts, changed))

    @property
    def unclaimed(self) -> tuple[str, ...]:
        """Machines under this request's uid that do not belong to its open attempt."""
        own = self.attempt.token if self.attempt is not None else ""
        return tuple(sorted(f"{machine.id} at {access}" for access, machine in self.listed if machine.token != own))

    @property
    def erased(self) -> bool:
        """Its status is empty, although something may have been bought."""
        return self.enrolled and not self.attempts and not self.blank and not self.waited

    @property
    def enrolled(self) -> bool:
        return FINALIZER in self.record.finalizers

    @property
    def restored(self) -> bool:
        return copied(self.record)

    @property
    def unmarked(self) -> bool:
        """The annotation that identifies a copy without a status was edited or removed."""
        return not marked(self.record)

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
