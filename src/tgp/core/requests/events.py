"""What a request's status says for the first time, as facts: for logs, metrics and Events."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from tgp.api.request import Attempt
from tgp.core.joining.mesh.status import NO_LEASE
from tgp.core.model.attempts import provider_of
from tgp.core.model.costs import class_of
from tgp.core.model.facts import (
    ConditionChanged,
    ExpiresSoon,
    Fact,
    LimitReached,
    MachineReady,
    MeshJoined,
    NodeInitialized,
    NodeRegistered,
    subject_of,
)
from tgp.core.requests.lifecycle import NO_MACHINE
from tgp.core.requests.moments import cut_by_provider, expires_at
from tgp.core.requests.observation import RequestObservation
from tgp.core.requests.status import RequestStatus
from tgp.core.requests.termination_reasons import PROVIDER_ENDS_IT

# Other facts report changes of these conditions, in better words.
NOT_REPORTED = frozenset(
    {"Launched", "Registered", "Initialized", "Connected", "Ready", "Drained", "Terminating", "Ended", "ExpiresSoon"}
)
ON_ITS_WAY = frozenset(
    {"DeviceMissing", "NodeMissing", "NotJoined", "NoAddress", NO_LEASE}
)  # the machine is still on its way
NO_EVENTS = frozenset(
    {
        "Ordering",
        "BackingOff",
        "Waiting",
        "LaunchOutcomePending",
        "ProviderBusy",
        "OrderQueued",
        "Undecided",
        "NodeClassNotSeen",
    }
)
REPORTED_AS_FAILURE = NO_MACHINE - {"NotOrdered"}  # by another fact, in better words


def new_events(observation: RequestObservation, status: RequestStatus) -> Iterator[Fact]:
    """`observation` is from before the status was written, so it shows what was reported already."""
    subject, attempt = subject_of(observation.record), observation.attempt
    provider = provider_of(attempt)
    after = _since(attempt, observation.now)
    node, of_pool = observation.status.node_name or "", observation.pool is not None
    for update in status.updates:
        before = observation.condition(update.type)
        if before is not None and (before.status, before.reason) == (update.word, update.reason):
            continue
        match (update.type, update.status):
            case ("Registered", True):
                yield NodeRegistered(subject, provider, node, after, of_pool)
            case ("Connected", True):
                yield MeshJoined(subject, update.message, after, of_pool)
            case ("Connected", False) if update.reason not in ON_ITS_WAY:
                yield ConditionChanged(subject, "Connected", update.word, update.reason, update.message, False)
            case ("Initialized", True):
                yield NodeInitialized(subject, provider, node, after, of_pool)
            case ("Ready", True) if observation.status.ready_at is None:
                yield MachineReady(subject, provider, node, after)
            case ("ExpiresSoon", True):
                expires = expires_at(observation)
                assert expires is not None, "what expires soon expires"
                yield ExpiresSoon(subject, expires, PROVIDER_ENDS_IT if cut_by_provider(observation) else "")
            case ("Launched", False | None) if update.reason == "LimitReached":
                yield _limit_reached(observation, update.message)
            case ("Launched", False | None) if update.reason not in NO_EVENTS | REPORTED_AS_FAILURE:
                yield ConditionChanged(subject, "Launched", update.word, update.reason, update.message, False)
            case ("Ended", True) if status.phase == "Failed":
                yield ConditionChanged(subject, "Ended", "True", update.reason, update.message, False)
            case _:
                pass


def _limit_reached(observation: RequestObservation, message: str) -> LimitReached:
    subject, node_class, pool = subject_of(observation.record), class_of(observation.record), observation.pool
    why = message.removeprefix(f"Pool {pool.key}: ") if pool is not None else message
    if pool is not None and why != message:
        return LimitReached(subject, node_class, why, str(pool.key))
    return LimitReached(subject, node_class, message.removeprefix(f"Class {node_class}: "))


def _since(attempt: Attempt | None, now: datetime) -> timedelta:
    began = attempt.reserved_at if attempt is not None else None
    return max(now - began, timedelta(0)) if began is not None else timedelta(0)
