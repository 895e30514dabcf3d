"""A provider may bill more than was reserved, but not beyond the class's limit."""

from datetime import UTC, datetime

from tgp.api.request import Attempt
from tgp.core.inventory.limits import reservation_of, shortage
from tgp.core.model.costs import hourly_of, reserved_of
from tgp.core.model.presence import Found
from tgp.core.model.token import plain_uid
from tgp.core.requests.observation import ClassMember, RequestObservation
from tgp.core.requests.provider_reports import bills_more, price_believed


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
    return shortage(observation.node_class.spec.limits, others, reservation_of(uid, attempt))


def _costs_more(member: ClassMember) -> bool:
    """Whether it is believed to cost more than was reserved for it."""
    billed = member.presence.instance.hourly_microusd if isinstance(member.presence, Found) else None
    believed = billed is not None and price_believed(member.claims, member.attempt, billed)
    counted = billed if billed is not None and believed else hourly_of(member.attempt)
    return bills_more(counted, reserved_of(member.attempt))


def _age(attempt: Attempt) -> tuple[datetime, str]:
    """Of two the greater is newer."""
    return attempt.reserved_at or datetime.min.replace(tzinfo=UTC), attempt.token
