"""The attempts of a request, read from its stored status: also from one that a newer version wrote."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import msgspec

from tgp.api.request import Attempt, GPURequest
from tgp.core.model.conditions import begun, shortened
from tgp.core.model.gpus import resource_name
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.offer import BootMode
from tgp.core.model.token import plain_uid, read_token

FINALIZER = "tgp.io/machine"
# Written with the finalizer: the uid, which a copy restored under another one does not match. A pool writes both with
# the request, before there is a uid: its own uid and the name, which one object at a time can have.
UID_ANNOTATION = "tgp.io/uid"
TAKES_OVER = "tgp.io/takes-over"  # annotation of a pool's request for a machine you own that was found on
IMAGE_PREPARING = "ImagePreparing"  # how the message of an attempt begins that waits for the provider's image
LAUNCHED = "Launched"  # the outcome of an attempt while the machine is ours
MESSAGE_KEPT = 512  # characters of a provider's message


def attempts_of(record: KubeObject[GPURequest]) -> tuple[Attempt, ...]:
    """In the order of their numbers. Of an object we cannot read, at least the tokens: it still owns its machines."""
    if record.value is not None:
        return in_order(record.value.status.attempts)
    return in_order(tuple(_salvaged(record.status.get("attempts"))))


def in_order(attempts: tuple[Attempt, ...]) -> tuple[Attempt, ...]:
    """Most requests have one attempt, and it is read dozens of times in a reconcile."""
    return attempts if len(attempts) < 2 else tuple(sorted(attempts, key=lambda attempt: attempt.number))


def boot_of(record: KubeObject[GPURequest]) -> tuple[datetime, int] | None:
    """When its machine was Ready, and how many seconds after the order; None: it is not, or it was on before."""
    attempt = open_attempt(attempts_of(record))
    ready = record.value.status.ready_at if record.value is not None else None
    ordered = attempt.reserved_at or attempt.launched_at if attempt is not None else None
    if ready is None or ordered is None or ready <= ordered or TAKES_OVER in record.annotations:
        return None
    return ready, int((ready - ordered).total_seconds())


def open_attempt(attempts: tuple[Attempt, ...]) -> Attempt | None:
    """The one that may have a machine: the newest, unless it has ended."""
    newest = attempts[0] if len(attempts) == 1 else max(attempts, key=lambda attempt: attempt.number, default=None)
    return newest if newest is not None and newest.ended_at is None else None


def exchanged(attempts: tuple[Attempt, ...], changed: Attempt) -> tuple[Attempt, ...]:
    """All of them, one replaced."""
    return tuple(changed if each.number == changed.number else each for each in attempts)


def provider_of(attempt: Attempt | None) -> str:
    """Its short name; empty: there is no attempt, or its record does not say."""
    return attempt.offer.provider if attempt is not None and attempt.offer is not None else ""


def provider_words(attempt: Attempt) -> str:
    """As sentences name it."""
    name = provider_of(attempt)
    return f"provider {name}" if name else "the provider"


def machine_words(attempt: Attempt) -> str:
    """As sentences name its machine."""
    return f"{machine_name(attempt)} at {provider_of(attempt) or 'the provider'}"


def machine_name(attempt: Attempt) -> str:
    """As sentences name it that name its provider, too."""
    return f"machine {attempt.instance_id}" if attempt.instance_id else f"the machine of attempt {attempt.number}"


def end_words(attempt: Attempt, end: datetime, now: datetime) -> str:
    """That its provider takes the machine back, without a full stop."""
    ends = "ends" if now < end else "ended"
    return f"{begun(provider_words(attempt))} {ends} {machine_name(attempt)} at {end:%Y-%m-%d %H:%M:%S}Z"


def taken_back_at(attempt: Attempt | None) -> datetime | None:
    """When its provider takes the machine back, as announced, else as its offer said; None: not that is known."""
    if attempt is None:
        return None
    return attempt.announced_end or (attempt.offer.until if attempt.offer is not None else None)


def is_owned(attempt: Attempt | None) -> bool:
    """The machine belongs to the user, and is only switched on and off."""
    return attempt is not None and attempt.offer is not None and attempt.offer.boot_mode == BootMode.POWER.value


def gpu_resource(attempt: Attempt | None) -> str:
    """What pods request of its machine's GPUs; NVIDIA's where the record does not say."""
    return resource_name((attempt.offer.gpu_type or "") if attempt is not None and attempt.offer is not None else "")


def in_short(said: str) -> str:
    """A message, cut to what an attempt keeps."""
    return shortened(said, MESSAGE_KEPT)


def copied(record: KubeObject[GPURequest]) -> bool:
    """A restored copy: its status describes another object's machines.

    Its tokens show it. Without tokens the annotation does, which every user who may edit the object may edit: that
    must neither orphan its machine nor make room in a limit.
    """
    attempts, own = attempts_of(record), plain_uid(record.uid_text)
    if attempts and all(own in attempt.token for attempt in attempts):
        return False  # nearly every request, and read dozens of times in a reconcile
    tokens = (read_token(attempt.token) for attempt in attempts)
    bought_for = {token.uid for token in tokens if token is not None}
    if bought_for:
        return bought_for != {own}
    return UID_ANNOTATION in record.annotations and not marked(record)


def marked(record: KubeObject[GPURequest]) -> bool:
    """Whether the annotation is there and its own."""
    noted = record.annotations.get(UID_ANNOTATION)
    return noted == record.uid_text or noted in {
        pool_mark(owner.uid, record.key.name) for owner in record.owners if owner.controller
    }


def left_by_pool(record: KubeObject[GPURequest]) -> bool:
    """Whether a pool wrote it, bought nothing for it, and is its owner no longer. It counts as a copy.

    Its pods wait still: the pool orders for them under another name, and this one would buy a second machine.
    """
    return (
        copied(record)
        and not attempts_of(record)
        and record.annotations[UID_ANNOTATION].endswith(f"/{record.key.name}")
    )


def pool_mark(pool_uid: str, name: str) -> str:
    """What a pool writes instead of the uid of a request that it creates."""
    return f"{pool_uid}/{name}"


def _salvaged(written: Any) -> Iterator[Attempt]:
    for row in written if isinstance(written, list) else ():
        try:
            yield msgspec.convert(row, Attempt)
        except msgspec.ValidationError:
            token = read_token(str(row.get("token"))) if isinstance(row, dict) else None
            if token is not None:
                yield Attempt(number=token.attempt, token=str(token))
