"""One fact, three echoes: its log line, its metric, its Event. Only this file decides which."""

import logging
from collections.abc import Callable
from dataclasses import fields
from typing import Any, assert_never

from prometheus_client import Counter

from tgp.adapters.telemetry.metrics import Metrics
from tgp.adapters.telemetry.sentences import sentence
from tgp.api.resource import GPU_REQUEST
from tgp.core.model.facts import (
    ConditionChanged,
    ExpiresSoon,
    Fact,
    HistoryRewound,
    JoinApproved,
    JoinApprovedByOthers,
    JoinDenied,
    KeyAccepted,
    KeyRotated,
    KeyWasRefused,
    LaunchFailed,
    LeadershipEnded,
    LeadershipReleased,
    LeadershipWon,
    LeaseReached,
    LeaseTroubled,
    LimitHolds,
    MachineEnding,
    MachineFact,
    MachineLaunched,
    MachineLost,
    MachineOrdered,
    MachineReadopted,
    MachineReady,
    MachineReturned,
    MeshJoined,
    NodeInitialized,
    NodeRegistered,
    ObjectUnreadable,
    OperatorStarted,
    OperatorStopped,
    OrphanFound,
    OrphanReturned,
    OrphanStays,
    OrphanTerminated,
    ProtectionHolds,
    ProviderRecovered,
    ProviderTroubled,
    SweepHalted,
    TerminationFailing,
    TurnFailed,
    WatchRecovered,
    WatchTroubled,
)
from tgp.core.model.prices import MICRO
from tgp.core.model.till import provider_of
from tgp.ports.events import Events

# Conditions of a request that turn True together with a fact: the fact's Event says it better, and once is enough.
TOLD_BY_A_FACT = frozenset({"Launched", "Registered", "Initialized", "Ready", "Terminating", "ExpiresSoon"})
BY_OTHERS = (
    "approved by somebody else, though it came with a token of tgp: a binding lets every bootstrap token become any "
    "node. Look for what grants certificatesigningrequests/nodeclient to the group system:bootstrappers"
)
MARKET_OUTCOMES = frozenset({"SoldOut", "Busy", "Withdrawn"})  # nobody's fault, and the next offer follows


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
            case LeaseTroubled():
                self._metrics.lease_trouble.inc()
            case ConditionChanged():
                kind = fact.subject.resource.kind
                self._metrics.conditions.labels(kind, fact.type, fact.status, fact.reason).inc()
                if fact.status != "Unknown" and not _told_by_a_fact(fact):  # not knowing yet is no news to the owner
                    self._events.emit(fact.subject, warning=not fact.good, reason=fact.reason, message=fact.message)
            case TurnFailed():
                self._metrics.failed_turns.labels(fact.controller, fact.error).inc()
            case WatchTroubled():
                self._metrics.watch_trouble.labels(fact.kind).inc()
            case HistoryRewound():
                self._metrics.history_rewound.inc()
            case KeyWasRefused():
                self._metrics.keys_refused.labels(provider_of(fact.source)).inc()
            case ProviderTroubled():
                self._metrics.provider_trouble.labels(provider_of(fact.source), fact.error).inc()
            case WatchRecovered() | LeaseReached() | KeyAccepted() | KeyRotated() | ProviderRecovered():
                pass  # the log line is its only echo
            case ObjectUnreadable():
                self._metrics.unreadable.labels(fact.subject.resource.kind).inc()
                self._events.emit(fact.subject, warning=True, reason="Unreadable", message=fact.why)
            case JoinApproved():
                self._metrics.joins.labels("Approved").inc()
                message = f"Node {fact.node} may join: approved its certificate request {fact.signing_request}"
                self._events.emit(fact.subject, warning=False, reason="JoinApproved", message=message)
            case JoinDenied():
                self._metrics.joins.labels(fact.reason).inc()
                message = f"denied certificate request {fact.signing_request} ({fact.reason}): {fact.why}"
                self._events.emit(fact.subject, warning=True, reason="JoinDenied", message=message)
            case JoinApprovedByOthers():
                self._metrics.joins.labels("ApprovedByOthers").inc()
                self._events.emit(fact.subject, warning=True, reason="ApprovedByOthers", message=BY_OTHERS)
            case OrphanFound() | OrphanStays() | OrphanTerminated() | OrphanReturned() | SweepHalted():
                self._orphans(fact).labels(provider_of(fact.till)).inc()
            case _:
                self._count(fact)
                said = sentence(fact, self._titled)
                self._events.emit(fact.subject, warning=said.warning, reason=said.reason, message=said.message)

    def _orphans(self, fact: OrphanFound | OrphanStays | OrphanTerminated | OrphanReturned | SweepHalted) -> Counter:
        """What counts it. The classes that buy there tell of it in conditions, and so in Events."""
        match fact:
            case OrphanFound():
                return self._metrics.orphans_found
            case OrphanStays():
                return self._metrics.termination_troubles
            case OrphanTerminated():
                return self._metrics.orphans_terminated
            case OrphanReturned():
                return self._metrics.orphans_returned
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
            case MachineEnding():
                metrics.endings.labels(fact.provider, fact.reason).inc()
            case MachineReturned():
                metrics.returned.labels(fact.provider, fact.reason).inc()
                cost = metrics.returned_dollars.labels(fact.node_class, fact.pool, fact.provider)
                cost.inc(fact.spent_microusd / MICRO)
            case MachineLost():
                metrics.lost.labels(fact.provider).inc()
            case LimitHolds():
                metrics.limit_holds.labels(fact.node_class).inc()
            case ProtectionHolds():
                metrics.protection_holds.inc()
            case TerminationFailing():
                metrics.termination_troubles.labels(fact.provider).inc()
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
        case TurnFailed():
            return logging.ERROR
        case (
            WatchTroubled()
            | ObjectUnreadable()
            | LeadershipEnded()
            | LeaseTroubled()
            | KeyWasRefused()
            | ProviderTroubled()
            | MachineLost()
            | JoinDenied()
            | JoinApprovedByOthers()
            | OrphanFound()
            | OrphanStays()
            | OrphanTerminated()
            | HistoryRewound()
            | MachineReadopted()
            | SweepHalted()
            | TerminationFailing()
        ):
            return logging.WARNING
        case LaunchFailed():
            return logging.INFO if fact.outcome in MARKET_OUTCOMES else logging.WARNING
        case ConditionChanged():
            return logging.INFO if fact.good else logging.WARNING
        case _:
            return logging.INFO


def _plain(fact: Fact) -> dict[str, Any]:
    """The fact's fields as a log line may carry them; `message` and `name` belong to the logging module."""
    values = {row.name: getattr(fact, row.name) for row in fields(fact)}
    return {
        "text" if name == "message" else name: value if isinstance(value, bool | int) else str(value)
        for name, value in values.items()
    }
