"""When something is due in the life of a request's machine. None: never, or not begun."""

from collections.abc import Iterable
from datetime import datetime, timedelta

import msgspec

from tgp.api.request import Attempt, GPURequest
from tgp.api.values import NEVER, span
from tgp.core.model.attempts import (
    attempts_of,
    is_owned,
    machine_name,
    machine_words,
    open_attempt,
    provider_words,
    taken_back_at,
)
from tgp.core.model.instance import InstanceState
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.presence import Found
from tgp.core.requests.drain import began_at
from tgp.core.requests.observation import RequestObservation, StartupTimeouts
from tgp.core.requests.purchase import life_of
from tgp.core.requests.steps import TerminationReason

PROVIDER_END_SPARE = timedelta(minutes=30)  # between our drain and the provider's own end; below purchase.RUN_MARGIN
REPLACED_WITHIN = timedelta(minutes=5)  # half of a late notice is for a replacement, if that is long enough for one
WARNED_AT = 0.8  # of the life


class Deadline(msgspec.Struct, frozen=True):
    at: datetime
    end: TerminationReason
    words: str  # what has not happened, without a full stop
    beside: str = ""  # what else is known, as a sentence of its own; empty: nothing


def next_deadline(observation: RequestObservation, attempt: Attempt) -> Deadline | None:
    """Of a start under way: each part has its time, extended while the provider reports progress, to at most twice."""
    if attempt.launched_at is None:
        return None
    startup_timeouts = observation.startup_timeouts
    registered = observation.holds("Registered")
    if registered is not None and registered.last_transition_time is not None:
        at = registered.last_transition_time + startup_timeouts.initialize
        words = observation.node.words or f"GPUs of {machine_words(attempt)} are not allocatable"
        if observation.node.initialized and observation.mesh.ok is not True:
            words = observation.mesh.message
        return Deadline(at, TerminationReason.NEVER_INITIALIZED, words)
    presence = observation.presence
    starting = isinstance(presence, Found) and presence.instance.state is InstanceState.STARTING
    if starting:
        at = attempt.launched_at + _extended(startup_timeouts.launch, attempt)
        return Deadline(
            at, TerminationReason.NEVER_STARTED, f"{provider_words(attempt)} has not started {machine_name(attempt)}"
        )
    words = f"{machine_words(attempt)} has not registered a Node"
    beside = observation.mesh.message if observation.mesh.ok is False else ""
    at = joins_by(attempt, startup_timeouts) or observation.now
    return Deadline(at, TerminationReason.NEVER_JOINED, words, beside)


def joins_by(attempt: Attempt, startup_timeouts: StartupTimeouts) -> datetime | None:
    """Until when the Node may register; None: the machine was not launched yet."""
    if attempt.launched_at is None:
        return None
    return attempt.launched_at + _extended(startup_timeouts.launch + startup_timeouts.join, attempt)


def _extended(length: timedelta, attempt: Attempt) -> timedelta:
    if attempt.progress_at is None or attempt.launched_at is None or is_owned(attempt):
        return length
    return min(2 * length, max(length, attempt.progress_at - attempt.launched_at + length))


def life_began(attempts: Iterable[Attempt]) -> datetime | None:
    """Machines lost in use count; machines that were never usable do not."""
    began = [
        attempt.launched_at
        for attempt in attempts
        if attempt.launched_at is not None and (attempt.ended_at is None or attempt.outcome == "Lost")
    ]
    return min(began, default=None)


def expires_at(observation: RequestObservation) -> datetime | None:
    """None: never, or not begun."""
    moments = (_life_ends_at(observation), drained_for_provider_at(observation))
    return min((each for each in moments if each is not None), default=None)


def cut_by_provider(observation: RequestObservation) -> bool:
    """The lifetime was extended past what the provider was told when the machine was ordered."""
    own, last = _life_ends_at(observation), drained_for_provider_at(observation)
    return last is not None and (own is None or last < own)


def drained_for_provider_at(observation: RequestObservation) -> datetime | None:
    """When a drain must begin to be over before the provider terminates the machine by itself; None: it does not."""
    attempt = observation.attempt
    if attempt is None:
        return None
    grace = span(observation.spec.termination_grace_period, "spec.terminationGracePeriod")
    ahead = (timedelta(0) if grace is NEVER else grace) + PROVIDER_END_SPARE
    moments = [attempt.provider_ends_at - ahead] if attempt.provider_ends_at is not None else []
    end = taken_back_at(attempt) if observation.kept_by_pool else None
    if end is not None:
        moments.append(max(end - ahead, _noticed_late(attempt, end) or end - ahead))
    return min(moments, default=None)


def _noticed_late(attempt: Attempt, end: datetime) -> datetime | None:
    """When a drain begins for which the notice came too late otherwise; None: it was known from the order on."""
    told = attempt.announced_at if attempt.announced_end is not None else None
    if told is None:
        return None
    half = (end - told) / 2
    return told + half if half >= REPLACED_WITHIN else told


def drain_began(observation: RequestObservation, terminating_since: datetime) -> datetime:
    """Before the termination, where the pool evicted pods first: a pod had as long as its machine says, not twice.

    The condition is the operator's: an annotation that a user wrote makes no drain shorter.
    """
    disrupted, began = observation.holds("Disrupted"), began_at(observation.record.annotations)
    since = disrupted.last_transition_time if disrupted is not None and disrupted.reason == "Empty" else None
    if began is None or since is None or not since <= began <= terminating_since:
        return terminating_since
    return began


def drain_grace(observation: RequestObservation, began: datetime) -> timedelta | None:
    """How long a drain that began then waits for pods, at most until the machine is taken back; None: for ever."""
    grace = span(observation.spec.termination_grace_period, "spec.terminationGracePeriod")
    if grace is NEVER:
        return None
    end = taken_back_at(observation.attempt) if observation.kept_by_pool else None
    return grace if end is None else min(grace, max(end - began, timedelta(0)))


def _life_ends_at(observation: RequestObservation) -> datetime | None:
    began, life = life_began(observation.attempts), _life(observation)
    return began + life if began is not None and life is not None else None


def _life(observation: RequestObservation) -> timedelta | None:
    """How long its machine may live; None: without limit, or its pool decides."""
    return None if observation.kept_by_pool else life_of(observation.spec)


def ends_at(record: KubeObject[GPURequest]) -> datetime | None:
    """When the machine of a request expires, by its lifetime alone; None: never, or there is none."""
    attempts = attempts_of(record)
    if record.value is None or open_attempt(attempts) is None:
        return None
    began, life = life_began(attempts), life_of(record.value.spec)
    return began + life if began is not None and life is not None else None


def warned_at(observation: RequestObservation) -> datetime | None:
    if cut_by_provider(observation) and not observation.kept_by_pool:  # a pool replaces it before
        return observation.attempt.launched_at if observation.attempt is not None else None  # at once
    began, life = life_began(observation.attempts), _life(observation)
    return began + life * WARNED_AT if began is not None and life is not None else None


def counted_until(observation: RequestObservation) -> datetime | None:
    """Until when an earlier attempt's machine that only lists declare gone counts against limits; None: none does."""
    moments = (attempt.counts_until for attempt in observation.attempts)
    return max((each for each in moments if each is not None and each > observation.now), default=None)


def idle_timeout(observation: RequestObservation) -> timedelta | None:
    """None: idle for any time, or its pool decides."""
    if observation.kept_by_pool:
        return None
    length = span(observation.spec.idle_timeout, "spec.idleTimeout")
    return None if length is NEVER else length


def idle_since(observation: RequestObservation) -> datetime | None:
    """Since when no pod has used it, as recorded, or later if a pod ended in between."""
    noted, worked = observation.status.idle_since, observation.node.worked_until
    return max(noted, worked) if noted is not None and worked is not None else noted


def unseen_since(observation: RequestObservation) -> datetime | None:
    """Since when a Node that was ready once is missing or not ready; None: it is ready."""
    node = observation.node.node
    if node is None:
        registered = observation.condition("Registered")
        noticed = registered is not None and registered.status == "False"
        return (registered.last_transition_time if noticed and registered is not None else None) or observation.now
    if node.ready is True:
        return None
    return node.ready_since or observation.now


def disconnected_since(observation: RequestObservation) -> datetime | None:
    """Since when the mesh has not known a machine that was ready once; None: it knows it, or cannot be asked."""
    if observation.mesh.ok is not False:
        return None
    noted = observation.condition("Connected")
    noticed = noted is not None and noted.status == "False"
    return (noted.last_transition_time if noticed and noted is not None else None) or observation.now
