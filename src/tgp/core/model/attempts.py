"""The attempts of a request, read from its status as it stands: also from one that a newer version wrote."""

from collections.abc import Iterator
from typing import Any

import msgspec

from tgp.api.request import Attempt, GPURequest
from tgp.core.model.conditions import shortened
from tgp.core.model.token import plain_uid, read_token
from tgp.core.model.typed import Typed

FINALIZER = "tgp.io/machine"
UID_ANNOTATION = "tgp.io/uid"  # written with the finalizer: a copy restored under another uid does not match it
MESSAGE_KEPT = 512  # characters of what a provider said


def attempts_of(record: Typed[GPURequest]) -> tuple[Attempt, ...]:
    """In the order of their numbers. Of an object we cannot read, at least the tokens: it still owns its machines."""
    if record.object is not None:
        return in_order(record.object.status.attempts)
    return in_order(tuple(_salvaged(record.status.get("attempts"))))


def in_order(attempts: tuple[Attempt, ...]) -> tuple[Attempt, ...]:
    """Most requests have one attempt, and are asked for it dozens of times in a turn."""
    return attempts if len(attempts) < 2 else tuple(sorted(attempts, key=lambda attempt: attempt.number))


def open_attempt(attempts: tuple[Attempt, ...]) -> Attempt | None:
    """The one that may have a machine: the newest, unless it is over."""
    newest = attempts[0] if len(attempts) == 1 else max(attempts, key=lambda attempt: attempt.number, default=None)
    return newest if newest is not None and newest.ended_at is None else None


def exchanged(attempts: tuple[Attempt, ...], changed: Attempt) -> tuple[Attempt, ...]:
    """All of them, one as it is from now on."""
    return tuple(changed if each.number == changed.number else each for each in attempts)


def provider_of(attempt: Attempt | None) -> str:
    """Its short name; empty: there is no attempt, or its record does not tell."""
    return attempt.offer.provider if attempt is not None and attempt.offer is not None else ""


def in_short(said: str) -> str:
    """What somebody said, as far as an attempt keeps it."""
    return shortened(said, MESSAGE_KEPT)


def copied(record: Typed[GPURequest]) -> bool:
    """A restored copy: what stands in its status belongs to another object's machines.

    Its tokens tell. Where it has none the annotation does, which anybody may edit who may edit the object: that must
    neither make its machine nobody's, nor room in a limit.
    """
    attempts, own = attempts_of(record), plain_uid(record.uid_text)
    if attempts and all(own in attempt.token for attempt in attempts):
        return False  # nearly everybody, and asked for dozens of times in a turn
    tokens = (read_token(attempt.token) for attempt in attempts)
    bought_for = {token.uid for token in tokens if token is not None}
    if bought_for:
        return bought_for != {own}
    noted = record.annotations.get(UID_ANNOTATION)
    return noted is not None and noted != record.uid_text


def _salvaged(written: Any) -> Iterator[Attempt]:
    for row in written if isinstance(written, list) else ():
        try:
            yield msgspec.convert(row, Attempt)
        except msgspec.ValidationError:
            token = read_token(str(row.get("token"))) if isinstance(row, dict) else None
            if token is not None:
                yield Attempt(number=token.attempt, token=str(token))
