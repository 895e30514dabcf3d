"""What a request's status tells for the first time, as facts: for logs, metrics and Events."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from tgp.api.request import Attempt
from tgp.core.model.attempts import provider_of
from tgp.core.model.facts import (
    ConditionChanged,
    ExpiresSoon,
    Fact,
    LimitHolds,
    MachineReady,
    MeshJoined,
    NodeInitialized,
    NodeRegistered,
    subject_of,
)
from tgp.core.rules.costs import class_of
from tgp.core.rules.lifecycle import NO_MACHINE, expires_at
from tgp.core.rules.lifecycle_words import Story
from tgp.core.rules.mesh.stand import NO_LEASE
from tgp.core.rules.sight import Sight

# Of these conditions the facts tell in better words than that they turned.
UNTOLD = frozenset(
    {"Launched", "Registered", "Initialized", "Connected", "Ready", "Drained", "Terminating", "Ended", "ExpiresSoon"}
)
ON_ITS_WAY = frozenset({"DeviceMissing", "NodeMissing", "NotJoined", "NoAddress", NO_LEASE})  # whoever only waits
NO_NEWS = frozenset({"Ordering", "BackingOff", "Waiting", "Settling", "ProviderBusy", "Undecided", "NodeClassNotSeen"})
TOLD_AS_FAILURE = NO_MACHINE - {"Withdrawn"}  # by another fact, in better words


def news(sight: Sight, story: Story) -> Iterator[Fact]:
    """The sight before the story was written, so that it shows what was known already."""
    subject, attempt = subject_of(sight.record), sight.attempt
    provider = provider_of(attempt)
    after = _since(attempt, sight.now)
    node = sight.status.node_name or ""
    for verdict in story.verdicts:
        before = sight.condition(verdict.type)
        if before is not None and (before.status, before.reason) == (verdict.word, verdict.reason):
            continue
        match (verdict.type, verdict.status):
            case ("Registered", True):
                yield NodeRegistered(subject, provider, node, after)
            case ("Connected", True):
                yield MeshJoined(subject, verdict.message, after)
            case ("Connected", False) if verdict.reason not in ON_ITS_WAY:
                yield ConditionChanged(subject, "Connected", verdict.word, verdict.reason, verdict.message, False)
            case ("Initialized", True):
                yield NodeInitialized(subject, provider, node, after)
            case ("Ready", True) if sight.status.ready_at is None:
                yield MachineReady(subject, provider, node, after)
            case ("ExpiresSoon", True):
                expires = expires_at(sight)
                assert expires is not None, "what expires soon expires"
                yield ExpiresSoon(subject, expires)
            case ("Launched", False | None) if verdict.reason == "LimitReached":
                yield LimitHolds(subject, class_of(sight.record), verdict.message)
            case ("Launched", False | None) if verdict.reason not in NO_NEWS | TOLD_AS_FAILURE:
                yield ConditionChanged(subject, "Launched", verdict.word, verdict.reason, verdict.message, False)
            case ("Ended", True) if story.phase == "Failed":
                yield ConditionChanged(subject, "Ended", "True", verdict.reason, verdict.message, False)
            case _:
                pass


def _since(attempt: Attempt | None, now: datetime) -> timedelta:
    began = attempt.reserved_at if attempt is not None else None
    return max(now - began, timedelta(0)) if began is not None else timedelta(0)
