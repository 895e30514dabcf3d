"""Turns each fact into its log line, its metric and its Event. Only this file decides which of them a fact has."""

import logging
from collections.abc import Callable
from math import nan
from typing import Any, assert_never

from prometheus_client import Counter

from tgp.adapters.telemetry.event_messages import event_message
from tgp.adapters.telemetry.metrics import Metrics
from tgp.api.resource import GPU_REQUEST
from tgp.core.model.account_access import provider_of
from tgp.core.model.conditions import sentence
from tgp.core.model.facts import (
    AlertRaised,
    AnnotationIgnored,
    AuthorityNotPublished,
    BudgetFact,
    BudgetNoted,
    CertificateIssued,
    CertificateServed,
    CertificateUnusable,
    ConditionChanged,
    DisruptionCounted,
    DisruptionNoted,
    DrainBlocked,
    ExpiresSoon,
    Fact,
    FactSubject,
    HistoryRewound,
    JoinApproved,
    JoinApprovedByOthers,
    JoinDenied,
    KeyAccepted,
    KeyRotated,
    KeyWasRefused,
    KindsInstalled,
    KindsOutdated,
    KindsUpToDate,
    LaunchFailed,
    LeadershipEnded,
    LeadershipReleased,
    LeadershipWon,
    LeaseFailing,
    LeaseReached,
    LimitReached,
    MachineFact,
    MachineLaunched,
    MachineLost,
    MachineOrdered,
    MachineReadopted,
    MachineReady,
    MachineTerminated,
    MachineTerminating,
    MeshJoined,
    MoveEnded,
    NodeInitialized,
    NodeRegistered,
    NominationUnsupported,
    NoPodWaits,
    ObjectUnreadable,
    OperatorStarted,
    OperatorStopped,
    OrphanFound,
    OrphanGone,
    OrphanTerminated,
    OrphanTerminationFailing,
    PlanCutShort,
    PlanFailed,
    PlanMade,
    PodEnforced,
    PodGateLifted,
    PodNominated,
    PodsMoved,
    PoolFact,
    ProviderFailing,
    ProviderRecovered,
    ReconcileFailed,
    ReplacementBilled,
    RequestReplanned,
    RightsMissing,
    SavingsPromised,
    ScaleUpNotTriggered,
    ScaleUpTriggered,
    StartNotChecked,
    SweepHalted,
    TableFailing,
    TerminationFailing,
    WatchFailing,
    WatchRecovered,
)
from tgp.core.model.prices import MICRO
from tgp.ports.events import Events

# Conditions of a request that turn True together with a fact: the fact has a better Event, and one is enough.
TOLD_BY_A_FACT = frozenset({"Launched", "Registered", "Initialized", "Ready", "Terminating", "ExpiresSoon"})
BY_OTHERS = (
    "Certificate request was approved by another approver, although it came with a bootstrap token of tgp: a binding "
    "allows every bootstrap token to join as any node. Find and remove the binding that grants "
    "certificatesigningrequests/nodeclient to the group system:bootstrappers."
)
STEPS = (MachineOrdered, NodeRegistered, NodeInitialized, MeshJoined)
MILLION = 1_000_000
MARKET_OUTCOMES = frozenset({"SoldOut", "Busy", "NotOrdered"})  # ordinary in a market: the next offer is tried
QUICK_PLANS = "Simpler plans are used until it ends and may cost more."


class LiveJournal:
    """`titled` gives a provider's name as people write it."""

    def __init__(self, events: Events, metrics: Metrics, titled: Callable[[str], str] = str) -> None:
        self._log = logging.getLogger("tgp.journal")
        self._events = events
        self._metrics = metrics
        self._titled = titled

    def note(self, fact: Fact) -> None:
        self._log.log(_level(fact), type(fact).__name__, extra=_plain(fact))
        match fact:
            case OperatorStarted():
                self._metrics.build.labels(fact.version).set(1)
            case LeadershipWon():
                self._metrics.leader.set(1)
            case LeadershipReleased() | LeadershipEnded() | OperatorStopped():
                self._metrics.leader.set(0)
            case LeaseFailing():
                self._metrics.lease_errors.inc()
            case ConditionChanged():
                kind = fact.subject.resource.kind
                self._metrics.conditions.labels(kind, fact.type, fact.status, fact.reason).inc()
                if fact.status != "Unknown" and not _told_by_a_fact(fact):  # no Event for "not known yet"
                    self._emit(fact.subject, fact.reason, fact.message, warning=not fact.good)
            case ReconcileFailed():
                self._metrics.exceptions.labels(fact.controller, fact.error).inc()
            case WatchFailing():
                self._metrics.watch_errors.labels(fact.kind).inc()
            case HistoryRewound():
                self._metrics.history_rewound.inc()
            case KeyWasRefused():
                self._metrics.keys_refused.labels(provider_of(fact.source)).inc()
            case ProviderFailing():
                self._metrics.provider_errors.labels(provider_of(fact.source), fact.error).inc()
            case (
                KindsInstalled()
                | RightsMissing()
                | StartNotChecked()
                | CertificateIssued()
                | CertificateServed()
                | CertificateUnusable()
                | AuthorityNotPublished()
                | KindsOutdated()
                | KindsUpToDate()
                | WatchRecovered()
                | LeaseReached()
                | KeyAccepted()
                | KeyRotated()
                | ProviderRecovered()
                | TableFailing()
            ):
                pass  # only logged
            case ObjectUnreadable():
                self._metrics.unreadable.labels(fact.subject.resource.kind).inc()
                self._emit(fact.subject, "Unreadable", fact.why, warning=True)
            case JoinApproved() | JoinDenied() | JoinApprovedByOthers():
                self._of_joins(fact)
            case OrphanFound() | OrphanTerminationFailing() | OrphanTerminated() | OrphanGone() | SweepHalted():
                self._orphans(fact).labels(provider_of(fact.access)).inc()
            case AlertRaised() | BudgetNoted() | PodEnforced() | PodGateLifted():
                self._of_budgets(fact)
            case (
                PlanMade()
                | PlanCutShort()
                | PlanFailed()
                | NoPodWaits()
                | ScaleUpTriggered()
                | ScaleUpNotTriggered()
                | AnnotationIgnored()
                | DisruptionNoted()
                | MoveEnded()
                | PodsMoved()
                | DisruptionCounted()
                | SavingsPromised()
                | ReplacementBilled()
                | RequestReplanned()
                | PodNominated()
                | NominationUnsupported()
            ):
                self._of_pools(fact)
            case _:
                self._count(fact)
                if isinstance(fact, STEPS) and fact.of_pool:
                    return  # MachineLaunched and MachineReady tell enough; conditions show the rest
                said = event_message(fact, self._titled)
                self._emit(fact.subject, said.reason, said.message, warning=said.warning)

    def _emit(self, subject: FactSubject, reason: str, message: str, *, warning: bool = False) -> None:
        """Every Event is a sentence, also where it ends with words of a provider or of another object."""
        self._events.emit(subject, warning=warning, reason=reason, message=sentence(message))

    def _of_joins(self, fact: JoinApproved | JoinDenied | JoinApprovedByOthers) -> None:
        match fact:
            case JoinApproved():
                self._metrics.joins.labels("Approved").inc()
                message = f"Node {fact.node} may join: certificate request {fact.signing_request} was approved"
                self._emit(fact.subject, "JoinApproved", message)
            case JoinDenied():
                self._metrics.joins.labels(fact.reason).inc()
                message = f"Certificate request {fact.signing_request} was denied ({fact.reason}): {fact.why}"
                self._emit(fact.subject, "JoinDenied", message, warning=True)
            case JoinApprovedByOthers():
                self._metrics.joins.labels("ApprovedByOthers").inc()
                self._emit(fact.subject, "ApprovedByOthers", BY_OTHERS, warning=True)
            case _:
                assert_never(fact)

    def _of_budgets(self, fact: BudgetFact) -> None:
        match fact:
            case AlertRaised():
                self._metrics.budget_alerts.labels(*fact.subject.key, fact.alert).inc()
                self._emit(fact.subject, "BudgetAlert", fact.message, warning=True)
            case BudgetNoted():
                self._emit(fact.subject, fact.reason, fact.message, warning=fact.warning)
            case PodEnforced():
                if fact.done:
                    self._metrics.enforcement_actions.labels(*fact.budget, fact.action, fact.outcome).inc()
                self._emit(fact.subject, fact.outcome, fact.message, warning=fact.warning)
            case PodGateLifted():
                why = f"{fact.budgets} has GPU-hours left" if fact.budgets else "no budget blocks the pod"
                message = f"Scheduling gate removed: {why}"
                self._emit(fact.subject, "GateLifted", message)
            case _:
                assert_never(fact)

    def _of_plan(self, fact: PlanMade) -> None:
        metrics = self._metrics
        metrics.plans.labels(fact.outcome).inc()
        metrics.plan_seconds.observe(max(0.0, fact.took.total_seconds()))
        if fact.outcome == "Observed":
            return  # it orders nothing, and the plan before it tells which pods are not served
        metrics.plan_columns.set(fact.columns)
        metrics.planned_machines.inc(fact.orders)
        metrics.plan_gap.set(fact.gap_ppm / MILLION if fact.gap_ppm >= 0 else nan)
        metrics.unserved.clear()
        for reason, count in fact.unserved.items():
            metrics.unserved.labels(reason).set(count)

    def _disruption(self, fact: DisruptionCounted) -> None:
        labels = (fact.pool.namespace, fact.pool.name)
        self._metrics.disrupted_nodes.labels(*labels).set(fact.disrupted)
        self._metrics.unhealthy_nodes.labels(*labels).set(fact.unhealthy)
        self._metrics.repair_halted.labels(*labels).set(fact.halted)
        for reason, count in fact.left.items():
            self._metrics.budget_left.labels(*labels, reason).set(count)

    def _of_pools(self, fact: PoolFact) -> None:
        match fact:
            case PlanMade():
                self._of_plan(fact)
            case PlanCutShort():
                self._metrics.plans_cut_short.labels(*fact.subject.key).inc()
                seconds = f"{fact.within.total_seconds():.0f}s"
                message = f"Planning {fact.pods} pods took longer than {seconds}. {QUICK_PLANS}"
                self._emit(fact.subject, "PlanCutShort", message, warning=True)
            case PlanFailed():
                self._metrics.plans_failed.labels(fact.namespace).inc()
            case NoPodWaits():
                self._metrics.unserved.clear()
            case ScaleUpTriggered():
                self._emit(fact.subject, "TriggeredScaleUp", fact.message)
            case ScaleUpNotTriggered():
                self._emit(fact.subject, "NotTriggerScaleUp", fact.message)
            case AnnotationIgnored():
                self._emit(fact.subject, "AnnotationIgnored", fact.message, warning=True)
            case DisruptionNoted():
                self._emit(fact.subject, fact.step, fact.message)
            case MoveEnded():
                self._metrics.moves.labels(fact.reason, fact.outcome).inc()
            case PodsMoved():
                self._metrics.moved_pods.labels(fact.reason).inc(fact.pods)
            case DisruptionCounted():
                self._disruption(fact)
            case SavingsPromised():
                self._metrics.savings_promised.labels(fact.pool.namespace, fact.pool.name).inc(fact.microusd / MILLION)
            case ReplacementBilled():
                labels = (fact.pool.namespace, fact.pool.name)
                self._metrics.exchanged.labels(*labels, "paid").inc(fact.paid_microusd / MILLION)
                self._metrics.exchanged.labels(*labels, "replaced").inc(fact.replaced_microusd / MILLION)
            case RequestReplanned():
                self._metrics.replanned.inc()
                message = f"GPURequest was deleted: {fact.why.rstrip('.')}. A new plan is made for its pods."
                self._emit(fact.subject, "RequestReplanned", message)
            case PodNominated():
                self._metrics.nominations.inc()
                message = (
                    f"Node {fact.node} was bought for this pod; its capacity is reserved until the pod is scheduled"
                )
                self._emit(fact.subject, "Nominated", message)
            case NominationUnsupported():
                message = (
                    f"Pods may run on other machines than planned: Kubernetes is {fact.version}, "
                    "and nominations need 1.35 or newer"
                )
                self._emit(fact.subject, "NominationUnsupported", message)
            case _:
                assert_never(fact)

    def _orphans(
        self, fact: OrphanFound | OrphanTerminationFailing | OrphanTerminated | OrphanGone | SweepHalted
    ) -> Counter:
        """The counter of the fact. Classes that use the account report it in conditions, and so in Events."""
        match fact:
            case OrphanFound():
                return self._metrics.orphans_found
            case OrphanTerminationFailing():
                return self._metrics.termination_errors
            case OrphanTerminated():
                return self._metrics.orphans_terminated
            case OrphanGone():
                return self._metrics.orphans_gone
            case SweepHalted():
                return self._metrics.sweeps_halted

    def _count(self, fact: MachineFact) -> None:
        metrics = self._metrics
        match fact:
            case MachineOrdered():
                metrics.orders.labels(fact.provider).inc()
            case MachineLaunched():
                metrics.launches.labels(fact.provider, "Launched").inc()
                self._reached(fact, "launched")
            case MachineReadopted():
                metrics.readopted.labels(fact.provider).inc()
            case LaunchFailed():
                metrics.launches.labels(fact.provider, fact.outcome).inc()
            case NodeRegistered():
                self._reached(fact, "registered")
            case NodeInitialized():
                self._reached(fact, "initialized")
            case MachineReady():
                self._reached(fact, "ready")
            case MachineTerminating():
                metrics.terminations.labels(fact.provider, fact.reason).inc()
            case MachineTerminated():
                metrics.terminated.labels(fact.provider, fact.reason).inc()
                cost = metrics.terminated_dollars.labels(fact.node_class, fact.pool, fact.provider)
                cost.inc(fact.spent_microusd / MICRO)
            case MachineLost():
                metrics.lost.labels(fact.provider).inc()
            case LimitReached():
                metrics.limit_reached.labels(fact.node_class).inc()
            case DrainBlocked():
                metrics.drains_blocked.inc()
            case TerminationFailing():
                metrics.termination_errors.labels(fact.provider).inc()
            case ExpiresSoon() | MeshJoined():
                pass  # the condition of the same kind is counted
            case _:
                assert_never(fact)

    def _reached(self, fact: MachineLaunched | NodeRegistered | NodeInitialized | MachineReady, phase: str) -> None:
        seconds = max(0.0, fact.after.total_seconds())  # a wall clock may have been set back since the order
        self._metrics.phases.labels(fact.provider, phase).observe(seconds)


def _told_by_a_fact(fact: ConditionChanged) -> bool:
    return fact.subject.resource == GPU_REQUEST and fact.status == "True" and fact.type in TOLD_BY_A_FACT


def _level(fact: Fact) -> int:
    match fact:
        case ReconcileFailed():
            return logging.ERROR
        case (
            WatchFailing()
            | ObjectUnreadable()
            | LeadershipEnded()
            | LeaseFailing()
            | KindsOutdated()
            | RightsMissing()
            | CertificateUnusable()
            | AuthorityNotPublished()
            | KeyWasRefused()
            | ProviderFailing()
            | MachineLost()
            | JoinDenied()
            | JoinApprovedByOthers()
            | OrphanFound()
            | OrphanTerminationFailing()
            | OrphanTerminated()
            | HistoryRewound()
            | MachineReadopted()
            | TableFailing()
            | SweepHalted()
            | TerminationFailing()
            | PlanCutShort()
        ):
            return logging.WARNING
        case LaunchFailed():
            return logging.INFO if fact.outcome in MARKET_OUTCOMES else logging.WARNING
        case ConditionChanged():
            return logging.INFO if fact.good else logging.WARNING
        case PlanFailed():
            return logging.WARNING if fact.new else logging.DEBUG
        case NoPodWaits():
            return logging.DEBUG
        case PlanMade():
            return (
                logging.INFO if fact.orders and fact.outcome != "Observed" else logging.DEBUG
            )  # pods that nothing serves are planned for again and again
        case _:
            return logging.INFO


def _plain(fact: Fact) -> dict[str, Any]:
    """The fact's fields as a log line may carry them; `message` and `name` belong to the logging module."""
    values = {name: getattr(fact, name) for name in fact.__struct_fields__}
    return {
        "text" if name == "message" else name: value if isinstance(value, bool | int) else str(value)
        for name, value in values.items()
    }
