"""What happened, as values: each becomes one log line, one metric and, where an object is concerned, one Event.

A fact is noted when it *becomes* true, not on every reconcile while it stays true, and carries no secret.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TypeAlias

from msgspec import Struct

from tgp.api.request import ChosenOffer, GPURequest
from tgp.api.resource import GPU_REQUEST, Resource
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.offer import UNKNOWN_REGION, BootMode


class FactSubject(Struct, frozen=True):
    """The object a fact is about, as an Event needs to name it."""

    resource: Resource
    key: ObjectKey
    uid: str

    def __str__(self) -> str:
        return f"{self.resource.kind.lower()}/{self.key}"


def subject_of(request: KubeObject[GPURequest]) -> FactSubject:
    return FactSubject(GPU_REQUEST, request.key, request.uid_text)


class OperatorStarted(Struct, frozen=True):
    version: str
    identity: str
    cluster: str  # the cluster id: ten hex digits


class KindsInstalled(Struct, frozen=True):
    """Kinds that were missing at the start."""

    names: str  # of their definitions, with commas


class StartNotChecked(Struct, frozen=True):
    """Whether kinds and rights are there is not known: the API server did not answer."""

    why: str


class RightsMissing(Struct, frozen=True):
    """At the start; without them the operator runs, and some of its work fails."""

    user: str
    rights: str
    commands: str  # that grant them


class OperatorStopped(Struct, frozen=True):
    identity: str
    why: str


class LeadershipWon(Struct, frozen=True):
    identity: str
    epoch: str


class LeadershipReleased(Struct, frozen=True):
    identity: str


class LeadershipEnded(Struct, frozen=True):
    """The Lease was not renewed in time, or another replica took it: this process exits."""

    identity: str
    why: str


class LeaseFailing(Struct, frozen=True):
    """The Lease could not be read or written for longer than it lasts: this replica cannot become the leader."""

    lease: ObjectKey
    why: str


class LeaseReached(Struct, frozen=True):
    """The Lease can be read and written again."""

    lease: ObjectKey


class KindsOutdated(Struct, frozen=True):
    """The CRDs in the cluster lack fields that this operator needs: it buys nothing."""

    why: str


class KindsUpToDate(Struct, frozen=True):
    """They have them now."""


class CertificateIssued(Struct, frozen=True):
    """The HTTPS side has a new certificate."""

    stored_in: str  # namespace and name of the Secret
    made: str  # leaf, authority or everything
    why: str


class CertificateServed(Struct, frozen=True):
    """This replica answers with another certificate than before."""

    stored_in: str  # namespace and name of the Secret
    not_after: datetime


class CertificateUnusable(Struct, frozen=True):
    """The HTTPS side has no valid certificate: metrics and the HTTP API cannot be read. All other work goes on."""

    stored_in: str  # namespace and name of the Secret
    why: str


class AuthorityNotPublished(Struct, frozen=True):
    """Scrapers that read the authority from the ConfigMap may refuse the certificate."""

    config_map: str
    why: str


class ConditionChanged(Struct, frozen=True):
    subject: FactSubject
    type: str
    status: str  # True, False or Unknown
    reason: str
    message: str
    good: bool  # is this the healthy state?


class ReconcileFailed(Struct, frozen=True):
    """A reconcile raised. The runtime backs off and retries; the text is the error's class, not its message."""

    controller: str
    key: ObjectKey
    reconcile: str
    error: str
    again_in: timedelta


class WatchFailing(Struct, frozen=True):
    """A store could not be refreshed: the operator continues with the last known objects, and reports it."""

    kind: str
    why: str


class WatchRecovered(Struct, frozen=True):
    kind: str


class HistoryRewound(Struct, frozen=True):
    """The API server's etcd was restored: everything is listed again, and every reservation is resolved first."""

    why: str


class ObjectUnreadable(Struct, frozen=True):
    """An object of our kinds that this version cannot decode. It is kept, and its machines stay owned."""

    subject: FactSubject
    why: str


class KeyAccepted(Struct, frozen=True):
    source: str
    account: str


class KeyWasRefused(Struct, frozen=True):
    """A provider refuses the key: the account gets no calls until the key changes, or a while has passed."""

    source: str
    why: str


class ProviderFailing(Struct, frozen=True):
    """A provider's offers could not be read for a while: they count as unknown, the last ones are still served."""

    source: str
    error: str
    why: str


class ProviderRecovered(Struct, frozen=True):
    source: str


class JoinApproved(Struct, frozen=True):
    """A machine's kubelet may become its Node. About its request."""

    subject: FactSubject
    node: str
    signing_request: str


class JoinDenied(Struct, frozen=True):
    """A client used a token of our group for something the token is not for. About its request, where it has one."""

    subject: FactSubject
    signing_request: str
    reason: str  # few values
    why: str  # may quote what was asked for, shortened


class JoinApprovedByOthers(Struct, frozen=True):
    """A certificate request under a token of ours was approved, but not by the operator: some RBAC rule lets it become
    any node.
    """

    subject: FactSubject
    reason: str


# -- the life of a machine -----------------------------------------------------------------------------------------
# `provider` is its short name, `offer` what `offer_words` says of it, `after` counts from the order.


def offer_words(offer: ChosenOffer | None) -> str:
    """1x RTX4090 in us-west, spot."""
    if offer is None:  # its record does not say
        return "a machine"
    what = f"{offer.gpu_count or 1}x {offer.gpu_type or offer.instance_type}"
    where = offer.region if offer.region not in (None, "", UNKNOWN_REGION) else offer.place
    if offer.boot_mode == BootMode.POWER.value:
        where = None  # an owned machine has no region
    return what + (f" in {where.strip(' ,')}" if where else "") + (", spot" if offer.spot else "")


class MachineOrdered(Struct, frozen=True):
    """The attempt is recorded; the provider is called next."""

    subject: FactSubject
    provider: str
    offer: str
    hourly_microusd: int
    token: str
    attempt: int
    of_pool: bool = False  # a thousand machines at once: no Event for this step


class MachineLaunched(Struct, frozen=True):
    """The provider confirmed the machine, at once or in a later list."""

    subject: FactSubject
    provider: str
    offer: str
    hourly_microusd: int  # as billed
    instance_id: str
    attempt: int
    after: timedelta


class MachineReadopted(Struct, frozen=True):
    """A machine whose record was lost with its request's status is recorded again."""

    subject: FactSubject
    provider: str
    offer: str
    hourly_microusd: int  # as billed; 0: the provider does not say
    instance_id: str
    attempt: int


class LaunchFailed(Struct, frozen=True):
    """An attempt without a machine, or one whose outcome is not known yet."""

    subject: FactSubject
    provider: str
    offer: str
    outcome: str  # as in the attempt, or Unknown: few values
    why: str


class NodeRegistered(Struct, frozen=True):
    subject: FactSubject
    provider: str
    node: str
    after: timedelta
    of_pool: bool = False  # a thousand machines at once: no Event for this step


class MeshJoined(Struct, frozen=True):
    """The mesh lists the machine, and its Node uses the mesh's address."""

    subject: FactSubject
    words: str
    after: timedelta  # since it was ordered
    of_pool: bool = False  # a thousand machines at once: no Event for this step


class NodeInitialized(Struct, frozen=True):
    """The promised GPUs are allocatable."""

    subject: FactSubject
    provider: str
    node: str
    after: timedelta
    of_pool: bool = False  # a thousand machines at once: no Event for this step


class MachineReady(Struct, frozen=True):
    subject: FactSubject
    provider: str
    node: str
    after: timedelta


class MachineTerminating(Struct, frozen=True):
    """Termination has started."""

    subject: FactSubject
    provider: str
    reason: str  # of the condition Terminating: few values
    why: str


class MachineTerminated(Struct, frozen=True):
    """No longer listed, and entered into the spend record."""

    subject: FactSubject
    node_class: str
    pool: str  # namespace/name; empty: a user created the request
    provider: str
    instance_id: str
    spent_microusd: int
    reason: str


class MachineLost(Struct, frozen=True):
    """Gone, stopped or unreachable without a request of the operator."""

    subject: FactSubject
    provider: str
    instance_id: str
    why: str


class LimitReached(Struct, frozen=True):
    """A hard limit of its class or its pool keeps a request from buying."""

    subject: FactSubject
    node_class: str
    why: str
    pool: str = ""  # namespace/name, where it is the pool's limit; empty: it is the class's


class ExpiresSoon(Struct, frozen=True):
    subject: FactSubject
    at: datetime
    why_fixed: str = ""  # empty: a longer lifetime moves it


class DrainBlocked(Struct, frozen=True):
    """A drain waits for a pod that is protected from disruption."""

    subject: FactSubject
    who: str


class TerminationFailing(Struct, frozen=True):
    """The machine was terminated more than once, and is still billed."""

    subject: FactSubject
    provider: str
    instance_id: str
    tries: int
    why: str
    hourly_microusd: int


class OrphanFound(Struct, frozen=True):
    """A machine with our token that no request owns."""

    access: str
    instance_id: str
    token: str
    why: str


class OrphanTerminationFailing(Struct, frozen=True):
    """Such a machine was terminated more than once, and is still billed. The classes that buy there report it, too."""

    access: str
    instance_id: str
    token: str
    tries: int
    why: str
    hourly_microusd: int  # 0: unknown


class OrphanTerminated(Struct, frozen=True):
    """One of many machines that no request owns is terminated: the evidence that it belongs to none is complete."""

    access: str
    instance_id: str
    token: str
    why: str
    left: int  # of them


class OrphanGone(Struct, frozen=True):
    access: str
    instance_id: str
    token: str


class SweepHalted(Struct, frozen=True):
    """More machines without a request than expected: they stay until the evidence is complete."""

    access: str
    count: int
    of: int


class KeyRotated(Struct, frozen=True):
    """A new key lists a machine that was listed under the key before: it belongs to the same account."""

    access: str
    before: str  # the account as it was known, by the old key
    now: str


# -- pools -------------------------------------------------------------------------------------------------------------


class PlanMade(Struct, frozen=True):
    outcome: str  # Ordered, Unserved, Placed: there is room for every pod already; Observed: nothing is ordered
    pods: int
    orders: int
    unserved: Mapping[str, int]  # by reason: few values
    took: timedelta
    gap_ppm: int  # how far the cost is above a proven bound, in millionths of it; -1: not proven
    columns: int


class PlanCutShort(Struct, frozen=True):
    """A plan did not end in time. Until it does, plans are quick ones, which may cost more. About each pool."""

    subject: FactSubject
    pods: int
    within: timedelta


class NoPodWaits(Struct, frozen=True):
    """No plan is needed any more: no pod is without a machine."""


class ScaleUpTriggered(Struct, frozen=True):
    """A machine is ordered for a pod. About the pod."""

    subject: FactSubject
    message: str


class ScaleUpNotTriggered(Struct, frozen=True):
    """No machine is ordered for a pod that waits for one. About the pod."""

    subject: FactSubject
    message: str


class AnnotationIgnored(Struct, frozen=True):
    """An annotation of a pod cannot be read, and counts as absent."""

    subject: FactSubject
    message: str


class DisruptionNoted(Struct, frozen=True):
    """A step of a move, or what keeps one from going on. About the request, and once more about its Node."""

    subject: FactSubject
    step: str  # the reason of the Event: DisruptionLaunching, …
    message: str


class MoveEnded(Struct, frozen=True):
    """A machine leaves its pool, or its move was taken back."""

    subject: FactSubject
    reason: str  # Empty, Drifted, …
    outcome: str  # Terminating, or why it was taken back


class PodsMoved(Struct, frozen=True):
    """Pods that have to run somewhere else, since their machine leaves its pool."""

    subject: FactSubject
    reason: str  # Empty, Drifted, …
    pods: int


class DisruptionCounted(Struct, frozen=True):
    """How the nodes of a pool count for its disruption. Noted when that changes."""

    pool: ObjectKey
    disrupted: int = 0  # nodes that count against its budgets now
    unhealthy: int = 0  # nodes with which something is wrong
    halted: bool = False  # so many are unhealthy that none is replaced for that
    left: Mapping[str, int] = {}  # by reason: how many more nodes its budgets allow to be disrupted


class SavingsPromised(Struct, frozen=True):
    """Machines of a pool are exchanged for cheaper ones: the move begins."""

    pool: ObjectKey
    microusd: int  # an hour, the restarts already subtracted


class ReplacementBilled(Struct, frozen=True):
    """A machine that was bought because it is cheaper is gone, and its cost is recorded."""

    pool: ObjectKey
    paid_microusd: int
    replaced_microusd: int  # what the machines that it replaced would have cost


class RequestReplanned(Struct, frozen=True):
    """A pool's request could not buy the offer that was planned: it is deleted, and its pods are planned for again."""

    subject: FactSubject
    why: str


class TableFailing(Struct, frozen=True):
    """What plans remember in a ConfigMap cannot be read or written, or not all of it. Noted once."""

    table: ObjectKey
    why: str


class PodNominated(Struct, frozen=True):
    """The scheduler was told to keep room for a pod on the Node that was bought for it. About the pod."""

    subject: FactSubject
    node: str


class NominationUnsupported(Struct, frozen=True):
    """Kubernetes is too old for nominations. About a pool that would need one."""

    subject: FactSubject
    version: str  # of the API server


class AlertRaised(Struct, frozen=True):
    """A budget's use reached one of its alerts: noted once per rise."""

    subject: FactSubject
    alert: str
    message: str


class BudgetNoted(Struct, frozen=True):
    """Something about a budget that its owner should know once."""

    subject: FactSubject
    reason: str
    message: str
    warning: bool = False


class PodEnforced(Struct, frozen=True):
    """Something of a budget that is used up was acted on, or should have been. About the pod or the Job."""

    subject: FactSubject
    budget: ObjectKey
    action: str  # Evict, Pause
    outcome: str  # Evicted, EvictionBlocked, Paused, PauseBlocked, PauseUnavailable, Resumed
    message: str
    warning: bool = True

    @property
    def done(self) -> bool:
        """Whether something was stopped, or goes on."""
        return self.outcome in ("Evicted", "Paused", "Resumed")


class PodGateLifted(Struct, frozen=True):
    """A pod that waited behind the gate of budgets may be scheduled. About the pod."""

    subject: FactSubject
    budgets: str  # those it belongs to; empty: no budget holds pods of its kind any more


PoolFact: TypeAlias = (
    PlanMade
    | PlanCutShort
    | NoPodWaits
    | ScaleUpTriggered
    | ScaleUpNotTriggered
    | AnnotationIgnored
    | DisruptionNoted
    | MoveEnded
    | PodsMoved
    | DisruptionCounted
    | SavingsPromised
    | ReplacementBilled
    | RequestReplanned
    | PodNominated
    | NominationUnsupported
)

BudgetFact: TypeAlias = AlertRaised | BudgetNoted | PodEnforced | PodGateLifted

MachineFact: TypeAlias = (
    MachineOrdered
    | MachineLaunched
    | MachineReadopted
    | LaunchFailed
    | NodeRegistered
    | MeshJoined
    | NodeInitialized
    | MachineReady
    | MachineTerminating
    | MachineTerminated
    | MachineLost
    | LimitReached
    | ExpiresSoon
    | DrainBlocked
    | TerminationFailing
)  # each is about one request: its `subject`

Fact: TypeAlias = (
    OperatorStarted
    | KindsInstalled
    | OperatorStopped
    | RightsMissing
    | StartNotChecked
    | LeadershipWon
    | LeadershipReleased
    | LeadershipEnded
    | LeaseFailing
    | LeaseReached
    | KindsOutdated
    | KindsUpToDate
    | CertificateIssued
    | CertificateServed
    | CertificateUnusable
    | AuthorityNotPublished
    | ConditionChanged
    | ReconcileFailed
    | WatchFailing
    | WatchRecovered
    | HistoryRewound
    | ObjectUnreadable
    | KeyAccepted
    | KeyWasRefused
    | KeyRotated
    | ProviderFailing
    | ProviderRecovered
    | JoinApproved
    | JoinDenied
    | JoinApprovedByOthers
    | MachineFact
    | BudgetFact
    | OrphanFound
    | OrphanTerminationFailing
    | OrphanTerminated
    | OrphanGone
    | SweepHalted
    | PoolFact
    | TableFailing
)
