"""What a provider reports of a machine: when it is believed, and how it changes the record of the attempt."""

from datetime import datetime, timedelta
from typing import Any

from msgspec.structs import replace

from tgp.api.request import Attempt
from tgp.api.values import usd
from tgp.core.model.attempts import LAUNCHED, exchanged, taken_back_at
from tgp.core.model.costs import most_believed
from tgp.core.model.instance import Instance
from tgp.core.model.presence import Claims, Found
from tgp.core.requests.chosen_offer import sized
from tgp.core.requests.observation import RequestObservation

CONFIRMED_AFTER = timedelta(seconds=30)  # between two lists that both report a machine as stopped or more expensive
SEVERAL = 2  # machines of one account reported so at once: then the account is more likely wrong …
DOUBTED_FOR = timedelta(minutes=10)  # … and machines that never joined are terminated for it after this long,
OTHER_UNIT = 10  # times the agreed price: more is likely cents for dollars, and is believed after DOUBTED_FOR
PRICE_ROUNDING = 100  # micro-dollars an hour: a provider may round a machine's price otherwise than an offer's
BELIEVED_AFTER = timedelta(hours=1)  # those that serve after this long, one at a time
PROGRESS_STEP = timedelta(minutes=1)  # progress is written to the status at most this often


def price_believed(claims: Claims, attempt: Attempt, billed: int) -> bool:
    """Whether to believe the listed price: it is no higher than known, or was repeated later, and for few machines.

    A price many times the agreed one is more often a mistake of the provider than a bill: it takes longer.
    """
    report = claims.price
    if report is None:  # nothing was counted yet: that list may have been read before the machine was recorded
        return billed <= most_believed(attempt)
    if claims.together >= SEVERAL:
        return report.span >= BELIEVED_AFTER and claims.turn
    return report.shown(DOUBTED_FOR if in_another_unit(attempt, billed) else CONFIRMED_AFTER)


def bills_more(billed: int, most: int) -> bool:
    """Whether a bill is above what may be paid, by more than rounding explains.

    A machine is ordered at no higher price. Once it runs it is paid for, and another one would be billed alike.
    """
    return billed > most + PRICE_ROUNDING


def listed_price(observation: RequestObservation) -> int:
    """As the provider lists it, believed or not; 0: it lists no price."""
    return (observation.presence.instance.hourly_microusd or 0) if isinstance(observation.presence, Found) else 0


def in_another_unit(attempt: Attempt, billed: int) -> bool:
    """Whether the price is so many times the agreed one that cents for dollars explain it best."""
    agreed = most_believed(attempt)
    return agreed > 0 and billed >= OTHER_UNIT * agreed


def end_announced(attempt: Attempt, instance: Instance) -> datetime | None:
    """When the machine is taken back, by its provider's list; None: at no other time than is recorded."""
    end, set_by_us = instance.ends_at, attempt.provider_ends_at
    known = end == taken_back_at(attempt) or (set_by_us is not None and end is not None and end >= set_by_us)
    return None if known else end


def with_reports(observation: RequestObservation, attempt: Attempt) -> RequestObservation:
    """What the provider says of a running machine goes into its attempt, and is written with the next status."""
    if not isinstance(observation.presence, Found) or attempt.outcome != LAUNCHED:
        return observation
    instance = observation.presence.instance
    changes = _changes(observation, attempt, instance)
    progress: str | None = f"{instance.state}/{instance.progress}"
    started = observation.status.ready_at is not None  # from then on nothing counts as progress of a start
    due = attempt.progress_at is None or observation.now - attempt.progress_at >= PROGRESS_STEP
    if not started and due and observation.progress not in (None, progress):
        changes["progress_at"] = observation.now
        progress = observation.progress  # until the time is written: that may fail
    attempts = exchanged(observation.attempts, replace(attempt, **changes)) if changes else observation.attempts
    return replace(observation, attempts=attempts, progress=progress)


def _changes(observation: RequestObservation, attempt: Attempt, instance: Instance) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    billed = instance.hourly_microusd
    if (
        billed is not None
        and usd(billed) != attempt.hourly_price
        and price_believed(observation.claims, attempt, billed)
    ):
        changes["hourly_price"] = usd(billed)
    if attempt.offer is not None and (offer := sized(attempt.offer, instance)) != attempt.offer:
        changes["offer"] = offer
    if instance.id != attempt.instance_id:
        changes["instance_id"] = instance.id
    return changes | _end_changes(observation, attempt, instance) if observation.kept_by_pool else changes


def _end_changes(observation: RequestObservation, attempt: Attempt, instance: Instance) -> dict[str, Any]:
    """An end that is announced is believed in a second list, and only if it is to come; one that is withdrawn, at once.

    What the machine runs for meanwhile is not interrupted by a single list.
    """
    end, report = end_announced(attempt, instance), observation.claims.end
    if end is None:
        withdrawn = attempt.announced_end is not None and instance.ends_at != attempt.announced_end
        return {"announced_end": None, "announced_at": None} if withdrawn else {}
    believed = report is not None and report.shown(timedelta(0)) and end > observation.now
    return {"announced_end": end, "announced_at": observation.now} if believed else {}
