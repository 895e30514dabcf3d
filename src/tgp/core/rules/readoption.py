"""Which machine a request adopts again: its status was wiped or put back, and the machine's token names the request.

A token says by itself for whom a machine was bought. The newest attempt's machine of a request that lives goes on
serving it; machines of older attempts are terminated by the collector.
"""

from collections.abc import Iterable
from datetime import datetime

from tgp.api.request import Attempt, ChosenOffer, GPURequest
from tgp.api.values import usd
from tgp.core.model.attempts import FINALIZER, attempts_of, copied, open_attempt
from tgp.core.model.instance import Instance
from tgp.core.model.offer import BootMode, Offer
from tgp.core.model.token import plain_uid, read_token
from tgp.core.model.typed import Typed
from tgp.core.rules.collector import keepers_first
from tgp.core.rules.lifecycle import LAUNCHED
from tgp.core.rules.purchase import recorded

OWNED_PROVIDER = "webhook"


def may_readopt(record: Typed[GPURequest]) -> bool:
    """Does it live, and is it the request that its tokens name? Also while it is deleted: then its machine goes first.

    Not one that has ended, nor one without our finalizer: nothing would hold it until its machine is gone.
    """
    if record.object is None or FINALIZER not in record.finalizers or copied(record):
        return False
    return not any(each.type == "Ended" and each.status == "True" for each in record.object.status.conditions)


def unrecorded(record: Typed[GPURequest], listed: Iterable[Instance], highest: int) -> Instance | None:
    """The machine of its newest attempt, if its record does not know of that attempt.

    `listed`: whatever providers list under its uid; `highest`: the highest attempt of it that was ever seen. While the
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
    return min(newest, key=keepers_first, default=None)


def reconstructed(
    record: Typed[GPURequest], instance: Instance, provider: str, offers: Iterable[Offer], *, now: datetime
) -> Attempt:
    """The attempt as far as it can be known: from the token, the machine as it is listed, and what is on sale.

    It began when its provider made the machine, so that its life and its cost are counted from there. Its account is
    named by whoever writes it down.
    """
    token = read_token(instance.token)
    assert token is not None, "only what carries a token of this request is adopted again"
    began = min(instance.created_at, now) if instance.created_at is not None else now
    billed = instance.hourly_microusd
    return Attempt(
        number=token.attempt,
        token=str(token),
        offer=_offer(record, instance, provider, offers),
        reserved_at=began.replace(microsecond=0),
        launched_at=began.replace(microsecond=0),
        hourly_price=usd(billed) if billed is not None else None,
        instance_id=instance.id,
        outcome=LAUNCHED,
    )


def _offer(record: Typed[GPURequest], instance: Instance, provider: str, offers: Iterable[Offer]) -> ChosenOffer:
    assert record.object is not None, "an unreadable request gets no turn"
    spec, billed = record.object.spec, instance.hourly_microusd
    same = [each for each in offers if each.provider == provider and each.sku == instance.sku]
    there = [each for each in same if each.place == instance.place] or same
    fitting = [each for each in there if each.spot == instance.spot] or there
    if fitting:
        return recorded(fitting[0], billed if billed is not None else fitting[0].hourly_microusd)
    return ChosenOffer(
        provider=provider,
        instance_type=instance.sku or "unknown",
        place=instance.place or None,
        gpu_type=spec.gpu_type,
        gpu_count=spec.gpu_count,
        boot_mode=BootMode.POWER.value if provider == OWNED_PROVIDER else None,
        spot=instance.spot,
        hourly_price=usd(billed) if billed is not None else None,
    )
