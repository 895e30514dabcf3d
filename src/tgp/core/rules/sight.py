"""All that one turn about a request may look at, gathered at one instant."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

import msgspec

from tgp.api.common import Condition
from tgp.api.request import Attempt, GPURequest, GPURequestSpec, GPURequestStatus
from tgp.core.model.attempts import FINALIZER, UID_ANNOTATION, copied, exchanged, open_attempt
from tgp.core.model.instance import Instance
from tgp.core.model.mesh import CONNECTED_WITHOUT, MeshStand
from tgp.core.model.node import Node
from tgp.core.model.presence import NO_CLAIMS, Claims, Presence
from tgp.core.model.spend import INSTANT
from tgp.core.model.typed import Typed
from tgp.core.rules.drain import Drain
from tgp.core.rules.purchase import Choice, Stay

IN_DOUBT = frozenset({"Settling", "Strays"})  # reasons of one whose record is known to be incomplete
RECORD_LOST = "RecordLost"  # the condition of one whose status was wiped, until it has an attempt again
NOT_LOOKED_FOR = Stay("Undecided", "nothing was looked for")


class NodeSight(msgspec.Struct, frozen=True):
    """What is seen of the Node a machine became, or shall become."""

    node: Node | None = None  # None: there is none of that name that is ours
    initialized: bool = False  # the promised GPUs are allocatable, and start-up taints are gone
    words: str = ""  # how far it is, with numbers
    mend: Mapping[str, Any] | None = None  # the patch that makes it look as it shall; None: it does
    idle: bool | None = None  # no pod uses a GPU there; None: there is no evidence
    worked_until: datetime | None = None  # the last end of a pod that used a GPU there and is still on record
    leftover: Node | None = None  # what is to be removed, or set free, once the machine is gone
    undress: Mapping[str, Any] | None = None  # of a machine you own: the patch that sets its Node free
    protected: str = ""  # who asks not to be disrupted; empty: nobody


class Patience(msgspec.Struct, frozen=True):
    """How long each part of a start may take, before what the provider reports is added."""

    launch: timedelta = timedelta(minutes=10)  # from the order to running
    join: timedelta = timedelta(minutes=15)  # from running to a Node
    initialize: timedelta = timedelta(minutes=10)  # from a Node to all its GPUs


class Unrecorded(msgspec.Struct, frozen=True):
    """The machine of its newest attempt, of which its record does not know."""

    attempt: Attempt  # as far as it could be reconstructed
    instance: Instance
    till: str  # where it is listed
    settled: bool  # every provider that answers was listed since any later order would have shown


class Sight(msgspec.Struct, frozen=True):
    """A struct: several are made in each turn, and thirty fields take a frozen dataclass ten times as long."""

    record: Typed[GPURequest]
    attempts: tuple[Attempt, ...]
    now: datetime
    presence: Presence | None = None  # of the open attempt's machine; None: there is no open attempt
    settle_window: timedelta = timedelta(0)  # absent for so long: it was never made
    distrusted: str = ""  # why lists of its account prove nothing before long; empty: they are believed
    listing_lag: timedelta = timedelta(0)  # absent for so long: it is gone
    never_listed: bool = False  # its provider told an id, and no list has shown it yet
    billing_step: timedelta = INSTANT  # every begun one is billed whole
    may_order: bool = False  # reserved by this process, in this term, and not sent
    order_not_before: datetime | None = None  # the provider asked for a pause
    blank: bool = False  # enrolled by this process and never ordered for: nothing can exist anywhere
    wiped: bool = False  # its status was found empty although it was enrolled: what it had is not on record
    settled: bool = True  # no provider can hold anything that is not in the attempts
    strays: tuple[str, ...] = ()  # machines under this request's uid that no attempt explains
    unrecorded: Unrecorded | None = None  # to be adopted again; one of the strays
    choice: Choice = NOT_LOOKED_FOR
    stopped: Stay | None = None  # why nothing may be ordered, whatever was reserved
    node: NodeSight = NodeSight()
    mesh: MeshStand = CONNECTED_WITHOUT
    drifted: str = ""  # how its class has changed since it was made; empty: it has not
    inert: str | None = None  # what it says about another mesh than its own; empty: nothing; None: nobody can tell
    patience: Patience = Patience()
    drain: Drain | None = None  # None: there is nothing to drain
    claims: Claims = NO_CLAIMS  # what the provider says of the machine that would end it
    asked_to_end: int = 0  # how often this process asked the provider for the end
    seen_listed: bool = False  # a list has shown the machine to this process
    end_accepted: bool = False  # the provider listed the machine and accepted its termination
    ask_again_at: datetime | None = None
    trouble: str = ""  # what the provider said the last time it was asked for the end
    keep_finished: timedelta | None = None  # None: for ever
    overdrawn: str = ""  # which limit of the class its billed price exceeds; empty: none
    many_unseen: str = ""  # so many Nodes are unseen at once that it is the network's fault; empty: they are few
    silence_ends: bool = False  # of the machines silent together for too long, this one is terminated first
    highest: int = 0  # the highest attempt of this request that was seen anywhere
    mended: bool = False  # its last order could not be made up, and its spec or its class has changed since
    decided: Condition | None = None  # goes on paper with this turn
    parts: Mapping[str, Any] = msgspec.field(default_factory=dict)  # of the status, that go on paper with this turn

    @property
    def spec(self) -> GPURequestSpec:
        assert self.record.object is not None, "an unreadable request gets no turn"
        return self.record.object.spec

    @property
    def status(self) -> GPURequestStatus:
        assert self.record.object is not None, "an unreadable request gets no turn"
        return self.record.object.status

    @property
    def attempt(self) -> Attempt | None:
        """The one that may have a machine."""
        return open_attempt(self.attempts)

    def with_attempt(self, changed: Attempt) -> "Sight":
        return msgspec.structs.replace(self, attempts=exchanged(self.attempts, changed))

    @property
    def enrolled(self) -> bool:
        return FINALIZER in self.record.finalizers

    @property
    def restored(self) -> bool:
        return copied(self.record)

    @property
    def unmarked(self) -> bool:
        """Its annotation, by which a copy without a status is known, was edited or taken away."""
        return self.record.annotations.get(UID_ANNOTATION) != self.record.uid_text

    @property
    def let_go(self) -> bool:
        """It was enrolled once, is not any more, and nothing is on record: it ended, and its status was wiped since."""
        bare = not self.attempts and not self.status.conditions
        return bare and not self.enrolled and not self.unmarked and not self.restored

    @property
    def waited(self) -> bool:
        """By its own record it has only ever waited for something to buy.

        A status that was wiped does not say so, nor does what was written there since: also to whoever leads next.
        """
        launched = self.condition("Launched")
        if self.attempts or self.status.phase != "Pending" or launched is None or self.holds(RECORD_LOST):
            return False
        return launched.status == "False" and launched.reason not in IN_DOUBT

    def condition(self, name: str) -> Condition | None:
        for each in self.status.conditions:  # asked ten times in a turn
            if each.type == name:
                return each
        return None

    def holds(self, name: str) -> Condition | None:
        """The condition, if it is True, or becomes so with this turn."""
        if self.decided is not None and self.decided.type == name:
            return self.decided
        found = self.condition(name)
        return found if found is not None and found.status == "True" else None
