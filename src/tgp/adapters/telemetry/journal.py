"""One fact, three echoes: its log line, its metric, its Event. Only this file decides which."""

import logging
from dataclasses import fields
from typing import Any, assert_never

from tgp.adapters.telemetry.metrics import Metrics
from tgp.core.model.facts import (
    ConditionChanged,
    Fact,
    KeyAccepted,
    KeyWasRefused,
    LeadershipEnded,
    LeadershipReleased,
    LeadershipWon,
    LeaseReached,
    LeaseTroubled,
    ObjectUnreadable,
    OperatorStarted,
    OperatorStopped,
    ProviderRecovered,
    ProviderTroubled,
    TurnFailed,
    WatchRecovered,
    WatchTroubled,
)
from tgp.ports.events import Events


class LiveJournal:
    def __init__(self, events: Events, metrics: Metrics) -> None:
        self._log = logging.getLogger("tgp.journal")
        self._events = events
        self._metrics = metrics

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
                if fact.status != "Unknown":  # not knowing yet is no news to the owner
                    self._events.emit(fact.subject, warning=not fact.good, reason=fact.reason, message=fact.message)
            case TurnFailed():
                self._metrics.failed_turns.labels(fact.controller, fact.error).inc()
            case WatchTroubled():
                self._metrics.watch_trouble.labels(fact.kind).inc()
            case KeyWasRefused():
                self._metrics.keys_refused.labels(_provider(fact.source)).inc()
            case ProviderTroubled():
                self._metrics.provider_trouble.labels(_provider(fact.source), fact.error).inc()
            case WatchRecovered() | LeaseReached() | KeyAccepted() | ProviderRecovered():
                pass  # the log line is its only echo
            case ObjectUnreadable():
                self._metrics.unreadable.labels(fact.subject.resource.kind).inc()
                self._events.emit(fact.subject, warning=True, reason="Unreadable", message=fact.why)
            case _:
                assert_never(fact)


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
        ):
            return logging.WARNING
        case ConditionChanged():
            return logging.INFO if fact.good else logging.WARNING
        case _:
            return logging.INFO


def _provider(source: str) -> str:
    """Sources are as many as users make them; providers are few."""
    return source.partition("/")[0].partition("#")[0]


def _plain(fact: Fact) -> dict[str, Any]:
    """The fact's fields as a log line may carry them; `message` and `name` belong to the logging module."""
    values = {row.name: getattr(fact, row.name) for row in fields(fact)}
    return {
        "text" if name == "message" else name: value if isinstance(value, bool | int) else str(value)
        for name, value in values.items()
    }
