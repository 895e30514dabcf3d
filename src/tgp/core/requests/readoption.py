"""Which machine a request adopts again: its status was erased or restored, and the machine's token names the request.

A token names the request a machine was bought for. A live request keeps the machine of its newest attempt; the orphan
collector terminates machines of older attempts.
"""

from collections.abc import Iterable
from datetime import datetime

import msgspec

from tgp.api.common import OWNED_PROVIDER
from tgp.api.request import Attempt, ChosenOffer, GPURequest, GPURequestSpec
from tgp.api.values import usd
from tgp.core.inventory.orphans import newest_kept_first
from tgp.core.model.account_access import provider_of
from tgp.core.model.attempts import FINALIZER, LAUNCHED, attempts_of, copied, open_attempt
from tgp.core.model.costs import read_amount
from tgp.core.model.instance import Instance
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.offer import BootMode, Offer
from tgp.core.model.token import plain_uid, read_token
from tgp.core.requests.chosen_offer import recorded
from tgp.core.requests.observation import RequestObservation
from tgp.core.requests.provider_reports import OTHER_UNIT
from tgp.core.requests.purchase import price_cap
from tgp.core.requests.settled import listed_everywhere


def may_readopt(record: KubeObject[GPURequest]) -> bool:
    """Is it live, and is it the request that its tokens name? Also while it is being deleted: its machine goes first.

    Not one that has ended, nor one without our finalizer: nothing would keep it until its machine is gone.
    """
    if record.value is None or FINALIZER not in record.finalizers or copied(record):
        return False
    return not any(each.type == "Ended" and each.status == "True" for each in record.value.status.conditions)


class Unrecorded(msgspec.Struct, frozen=True):
    """The machine of the newest attempt, which the status does not record."""

    attempt: Attempt  # as far as it could be reconstructed
    instance: Instance
    access: str  # where it is listed
    settled: bool  # every provider that answers was listed since any later order would have shown


def machine_to_readopt(observation: RequestObservation) -> Unrecorded | None:
    """Rare: the status was erased or restored, and its machine still runs."""
    record = observation.record
    found = unrecorded(record, (one for _, one in observation.listed), observation.highest)
    if found is None:
        return None
    where = next(access for access, one in observation.listed if one is found)
    attempt = reconstructed(record, found, provider_of(where), observation.offers, now=observation.now)
    return Unrecorded(attempt, found, where, settled=listed_everywhere(observation, where))


def unrecorded(record: KubeObject[GPURequest], listed: Iterable[Instance], highest: int) -> Instance | None:
    """The machine of its newest attempt, if the status does not record that attempt.

    `listed`: all machines that providers list under its uid; `highest`: the highest attempt ever seen. While the
    machine of an open attempt is listed, that one is its machine, and no other.
    """
    attempts = attempts_of(record)
    if highest <= max((attempt.number for attempt in attempts), default=0) or not may_readopt(record):
        return None
    machines = [(token, one) for one in listed if (token := read_token(one.token)) is not None]
    current = open_attempt(attempts)
    if current is not None and any(str(token) == current.token for token, _ in machines):
        return None
    uid = plain_uid(record.uid_text)
    newest = [one for token, one in machines if token.uid == uid and token.attempt == highest]
    return min(newest, key=newest_kept_first, default=None)


def reconstructed(
    record: KubeObject[GPURequest], instance: Instance, provider: str, offers: Iterable[Offer], *, now: datetime
) -> Attempt:
    """The attempt as far as it can be known: from the token, the machine as it is listed, and what is on sale.

    It began when its provider created the machine, so that lifetime and cost count from there. The caller fills in
    the account.
    """
    token = read_token(instance.token)
    assert token is not None, "only a machine with a token of this request is adopted again"
    began = min(instance.created_at, now) if instance.created_at is not None else now
    offer = _offer(record, instance, provider, offers)
    billed, agreed = instance.hourly_microusd, read_amount(offer.hourly_price)
    believed = billed is not None and agreed is not None and billed <= agreed  # a higher one in a later list, too
    return Attempt(
        number=token.attempt,
        token=str(token),
        offer=offer,
        reserved_at=began.replace(microsecond=0),
        launched_at=began.replace(microsecond=0),
        hourly_price=usd(billed) if billed is not None and believed else None,
        instance_id=instance.id,
        outcome=LAUNCHED,
    )


def _offer(record: KubeObject[GPURequest], instance: Instance, provider: str, offers: Iterable[Offer]) -> ChosenOffer:
    assert record.value is not None, "an unreadable request is not reconciled"
    spec = record.value.spec
    same = [each for each in offers if each.provider == provider and each.sku == instance.sku]
    there = [each for each in same if each.place == instance.place] or same
    fitting = [each for each in there if each.spot == instance.spot] or there
    agreed = _agreed(record.value.spec, instance.hourly_microusd, fitting[0].hourly_microusd if fitting else None)
    if fitting and agreed is not None:
        return recorded(msgspec.structs.replace(fitting[0], hourly_microusd=agreed))
    return ChosenOffer(
        provider=provider,
        instance_type=instance.sku or "unknown",
        place=instance.place or None,
        gpu_type=spec.gpu_type,
        gpu_count=spec.gpu_count,
        boot_mode=BootMode.POWER.value if provider == OWNED_PROVIDER else None,
        spot=instance.spot,
        hourly_price=usd(agreed) if agreed is not None else None,
    )


def _agreed(spec: GPURequestSpec, billed: int | None, on_sale: int | None) -> int | None:
    """The price that was ordered, as far as it can be known: the billed one, as the market may have moved since.

    It was never above the request's maximum, and what is many times the price on sale is a list's mistake.
    """
    wrong = billed is None or (on_sale is not None and billed >= OTHER_UNIT * on_sale)
    price, cap = on_sale if wrong else billed, price_cap(spec)
    return price if price is None or cap is None else min(price, cap)
