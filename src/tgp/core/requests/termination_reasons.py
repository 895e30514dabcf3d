"""Why a machine that a request has should be terminated.

What a provider or a Node reports is believed only after a second look; a Ready Node contradicts it.
"""

from datetime import UTC, datetime, timedelta

import msgspec

from tgp.api.request import Attempt
from tgp.api.values import go_duration
from tgp.core.inventory.limits import USD, reservation_of, shortage
from tgp.core.joining.mesh.status import LEASE_STALE
from tgp.core.model.attempts import end_words, is_owned, machine_words, provider_words, taken_back_at
from tgp.core.model.conditions import sentence
from tgp.core.model.costs import hourly_of, read_amount, reserved_of
from tgp.core.model.instance import InstanceState
from tgp.core.model.money import about, distance
from tgp.core.model.presence import Absent, Found
from tgp.core.model.token import plain_uid
from tgp.core.requests.moments import (
    cut_by_provider,
    disconnected_since,
    expires_at,
    idle_since,
    idle_timeout,
    next_deadline,
    unseen_since,
)
from tgp.core.requests.observation import ClassMember, RequestObservation
from tgp.core.requests.outage import UNREACHABLE_AT_MOST, first_to_go, many_unreachable
from tgp.core.requests.provider_reports import (
    BELIEVED_AFTER,
    CONFIRMED_AFTER,
    DOUBTED_FOR,
    SEVERAL,
    bills_more,
    price_believed,
)
from tgp.core.requests.purchase import most_to_pay
from tgp.core.requests.steps import StartTermination, TerminationReason

NODE_LOST_AFTER = timedelta(minutes=10)  # after this long a Node that is NotReady or missing is lost
MESH_LOST_AFTER = timedelta(hours=1)  # a ready Node that the mesh does not know: it may be at work
MOVES_ON = ". Move "  # in a condition `Disrupted`: what follows the cause of a move under way
PROVIDER_ENDS_IT = (
    "The provider ends the machine at the time that was set at launch and cannot be changed; "
    "spec.maxLifetime was extended beyond that time."
)


def reason_to_terminate(observation: RequestObservation, attempt: Attempt) -> StartTermination | None:
    reason = _reason(observation, attempt)
    return msgspec.structs.replace(reason, message=sentence(reason.message)) if reason is not None else None


def _reason(observation: RequestObservation, attempt: Attempt) -> StartTermination | None:
    if observation.record.deleting:
        return StartTermination(TerminationReason.DELETED, _why_deleted(observation))
    return (
        _failed_machine(observation, attempt)
        or _price_exceeded(observation, attempt)
        or _expired(observation, attempt)
        or (_unused(observation, attempt) if observation.status.ready_at is not None else _late(observation, attempt))
    )


def _why_deleted(observation: RequestObservation) -> str:
    """A pool writes the reason first."""
    disrupted = observation.holds("Disrupted")
    if disrupted is None:
        return "GPURequest was deleted."
    return f"GPURequest was deleted ({disrupted.reason}): {cause_in(disrupted.message)}"


def cause_in(message: str) -> str:
    """Of a condition `Disrupted`, without what it says of the move."""
    return message.partition(MOVES_ON)[0]


def _failed_machine(observation: RequestObservation, attempt: Attempt) -> StartTermination | None:
    presence = observation.presence
    lost = TerminationReason.LOST if observation.status.ready_at is not None else TerminationReason.BROKEN
    if _starting(observation, attempt):
        return None
    machine = f"machine {attempt.instance_id}"
    if isinstance(presence, Absent) and presence.shown(observation.listing_lag) and not serving(observation):
        return StartTermination(lost, f"{provider_words(attempt)} no longer lists {machine}")
    if not isinstance(presence, Found) or not _state_believed(observation):
        return None
    instance = presence.instance
    if instance.interrupted:
        said = f": {instance.said}" if instance.said else ""
        return StartTermination(lost, f"{provider_words(attempt)} interrupted the spot {machine}{said}")
    if instance.state in (InstanceState.BROKEN, InstanceState.STOPPED):
        return StartTermination(
            lost, f"{provider_words(attempt)} reports {machine} as {instance.said or instance.state.value}"
        )
    return None


def _starting(observation: RequestObservation, attempt: Attempt) -> bool:
    """A machine you own may be said to be off until its system is up: some status endpoints are only a ping."""
    if not is_owned(attempt) or observation.status.ready_at is not None or attempt.launched_at is None:
        return False
    return observation.now < attempt.launched_at + observation.startup_timeouts.launch


def serving(observation: RequestObservation) -> bool:
    """The Node is Ready and its kubelet reports: the machine runs, whatever its provider says."""
    node = observation.node.node
    return node is not None and node.ready is True and observation.mesh.reason != LEASE_STALE


def _state_believed(observation: RequestObservation) -> bool:
    """Whether the machine is stopped, broken or interrupted. One list is no proof, and a Ready Node contradicts it."""
    report = observation.claims.state
    if report is None or not report.shown(CONFIRMED_AFTER):
        return False
    if serving(observation):
        return report.span >= BELIEVED_AFTER and observation.claims.turn
    if observation.status.ready_at is None and observation.claims.together >= SEVERAL:
        return report.span >= DOUBTED_FOR
    return True


def price_doubted(observation: RequestObservation, attempt: Attempt) -> bool:
    """The last list has a higher price than is believed yet."""
    billed = observation.presence.instance.hourly_microusd if isinstance(observation.presence, Found) else None
    return observation.claims.price is not None or (
        billed is not None and not price_believed(observation.claims, attempt, billed)
    )


def _price_exceeded(observation: RequestObservation, attempt: Attempt) -> StartTermination | None:
    presence = observation.presence
    if not isinstance(presence, Found) or presence.instance.hourly_microusd is None or attempt.offer is None:
        return None
    billed = presence.instance.hourly_microusd
    if not price_believed(observation.claims, attempt, billed):
        return None
    reserved = read_amount(attempt.offer.hourly_price)  # None: the agreed price is unreadable, so only the cap holds
    ceiling = most_to_pay(observation.spec, reserved)
    bills = f"{provider_words(attempt)} bills {about(billed)}/h for machine {attempt.instance_id}"
    if bills_more(billed, reserved or 0) and (limit := overdraft(observation, attempt)):
        return StartTermination(
            TerminationReason.PRICE_EXCEEDED, f"{bills}. Class {observation.status.node_class}: {limit}"
        )
    if not bills_more(billed, ceiling):
        return None
    return StartTermination(
        TerminationReason.PRICE_EXCEEDED,
        f"{bills}, {distance(billed - ceiling)} above the maximum of {about(ceiling)}/h.",
    )


def _expired(observation: RequestObservation, attempt: Attempt) -> StartTermination | None:
    expires = expires_at(observation)
    if expires is None or observation.now < expires:
        return None
    if cut_by_provider(observation):
        end = taken_back_at(observation.attempt) if observation.kept_by_pool else None
        why = end_words(attempt, end, observation.now) if end else PROVIDER_ENDS_IT
        return StartTermination(TerminationReason.EXPIRED, why)
    what = f"Lifetime (spec.maxLifetime) of {machine_words(attempt)}"
    return StartTermination(TerminationReason.EXPIRED, f"{what} ended at {expires:%Y-%m-%d %H:%M:%S}Z.")


def _late(observation: RequestObservation, attempt: Attempt) -> StartTermination | None:
    """Past its deadline we stop paying for a machine that no pod can use."""
    deadline = next_deadline(observation, attempt)
    if deadline is None or observation.now < deadline.at or _unnoticed(observation, deadline.at):
        return None
    late = f"{deadline.words}; the deadline was {deadline.at:%H:%M:%S}Z. {deadline.beside}"
    return StartTermination(deadline.end, late.rstrip())


def _unnoticed(observation: RequestObservation, deadline: datetime) -> bool:
    """The start made progress that the status does not show yet: an operator that was away must not terminate it."""
    node = observation.node.node
    if node is None:
        return False
    # A mesh that does not answer gets the same time once more, and no longer.
    silent = observation.mesh.ok is None and observation.now < deadline + observation.startup_timeouts.initialize
    complete = observation.node.initialized and node.ready is True and (observation.mesh.ok is True or silent)
    return observation.holds("Registered") is None or complete


def _unused(observation: RequestObservation, attempt: Attempt) -> StartTermination | None:
    node = observation.node.node
    if (since := unseen_since(observation)) is not None:
        turn = observation.now >= since + UNREACHABLE_AT_MOST and first_to_go(observation)
        together = bool(many_unreachable(observation)) and not turn
        if observation.now >= since + NODE_LOST_AFTER and not together:
            what = "has been missing" if node is None else "has not been ready"
            beside = f". {observation.mesh.message}" if observation.mesh.ok is False else ""
            return StartTermination(
                TerminationReason.NODE_LOST,
                f"Node {observation.status.node_name} {what} since {since:%H:%M:%S}Z{beside}",
            )
        return None
    if (since := disconnected_since(observation)) is not None and not many_unreachable(observation):
        if observation.now >= since + MESH_LOST_AFTER:
            return StartTermination(
                TerminationReason.MESH_LOST, f"{observation.mesh.message} (since {since:%H:%M:%S}Z)."
            )
        return None
    idle, length = idle_since(observation), idle_timeout(observation)
    if idle is None or length is None or observation.node.idle is not True or observation.node.protection:
        return None
    if observation.now < idle + length:
        return None
    used = f"No pod has used the GPUs of {machine_words(attempt)} since {idle:%H:%M:%S}Z"
    return StartTermination(TerminationReason.IDLE, f"{used} (spec.idleTimeout is {go_duration(length)}).")


def overdraft(observation: RequestObservation, attempt: Attempt) -> str:
    """Which limit of its class the billed price exceeds; empty: none.

    Of machines that overdraw a limit only the newest is terminated. Those that are being terminated make room: whether
    more must follow is decided when they are gone.
    """
    if observation.node_class is None:
        return ""
    staying = (each for each in observation.same_class if not each.leaving)
    if any(_age(each.attempt) > _age(attempt) and _costs_more(each) for each in staying):
        return ""
    others = observation.held
    for each in observation.same_class:
        if each.leaving:
            others = others.minus(reservation_of(each.uid, each.attempt))
    uid = plain_uid(observation.record.uid_text)
    # A price uses up money. Of other limits a machine that is there takes what it took when it was bought.
    return shortage(observation.node_class.spec.limits, others, reservation_of(uid, attempt), only=USD)


def _costs_more(member: ClassMember) -> bool:
    """Whether it is believed to cost more than was reserved for it."""
    billed = member.presence.instance.hourly_microusd if isinstance(member.presence, Found) else None
    believed = billed is not None and price_believed(member.claims, member.attempt, billed)
    counted = billed if billed is not None and believed else hourly_of(member.attempt)
    return bills_more(counted, reserved_of(member.attempt))


def _age(attempt: Attempt) -> tuple[datetime, str]:
    """Of two the greater is newer."""
    return attempt.reserved_at or datetime.min.replace(tzinfo=UTC), attempt.token
