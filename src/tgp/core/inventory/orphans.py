"""Which machines no request owns. A request owns by token: the one machine of the one attempt that may still have one.

A machine without a token of this cluster is never touched.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec

from tgp.api.request import GPURequest
from tgp.core.model.attempts import attempts_of, copied, open_attempt
from tgp.core.model.instance import Instance
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.money import about
from tgp.core.model.token import MachineToken, plain_uid, read_token

FEW = 2  # orphans may always be terminated at once
SHARE = 5  # one in so many of the listed machines may be terminated at once
YOUNGEST = datetime.max.replace(tzinfo=UTC)  # for machines of unknown age


class RequestOwner(msgspec.Struct, frozen=True):
    """What one request may keep."""

    token: str  # of the attempt that may have a machine; empty: none may
    instance_id: str = ""  # the recorded machine; empty: none yet
    everything: bool = False  # it cannot be read, so every machine with its uid is its own


@dataclass(frozen=True, slots=True)
class Orphan:
    instance: Instance
    why: str
    lost: bool = False  # no request has its uid: it was removed, or the view of the requests is wrong


class Stuck(msgspec.Struct, frozen=True):
    """An orphan that is still listed although its termination was requested."""

    access: str
    instance: Instance
    why: str


def stuck_words(stuck: Sequence[Stuck]) -> str:
    """The most expensive one, and what all of them cost."""
    costliest = max(stuck, key=lambda one: (one.instance.hourly_microusd or 0, one.instance.id))
    machine = costliest.instance
    more = f", and {len(stuck) - 1} more" if len(stuck) > 1 else ""
    known = [one.instance.hourly_microusd for one in stuck if one.instance.hourly_microusd is not None]
    price = f"{about(sum(known))}/h" if len(known) == len(stuck) else f"at least {about(sum(known))}/h"
    return (
        f"Machine {machine.id} at {costliest.access}{more}: owned by no request and still billed at {price}; "
        f"{costliest.why}"
    )


def owners(
    records: Iterable[KubeObject[GPURequest]],
    unrecorded: Callable[[KubeObject[GPURequest]], Instance | None] = lambda _record: None,
) -> dict[str, RequestOwner]:
    """By uid as in tokens. A restored copy owns nothing: the tokens in its status are another object's.

    `unrecorded`: the machine that a request adopts again although its status does not record it.
    """
    return {plain_uid(record.uid_text): _owner(record, unrecorded(record)) for record in records}


def _owner(record: KubeObject[GPURequest], unrecorded: Instance | None) -> RequestOwner:
    if copied(record):
        return RequestOwner("")
    if unrecorded is not None:
        return RequestOwner(unrecorded.token, unrecorded.id)
    attempt = open_attempt(attempts_of(record))
    return RequestOwner(
        attempt.token if attempt is not None else "",
        (attempt.instance_id or "") if attempt is not None else "",
        everything=record.value is None,
    )


def bears_our_mark(instance: Instance, cluster: str) -> MachineToken | None:
    """None: another cluster's machine, or an unknown owner's. Never touched."""
    token = read_token(instance.token)
    return token if token is not None and token.cluster == cluster else None


def orphans(instances: Iterable[Instance], owned: Mapping[str, RequestOwner], cluster: str) -> tuple[Orphan, ...]:
    """Of one list, with the reason why no request owns it, in the order in which machines are kept."""
    listed = sorted(instances, key=newest_kept_first)
    kept = _kept(listed, owned)
    found = []
    for instance in listed:
        token = bears_our_mark(instance, cluster)
        if token is not None and (why := _disowned(instance, token, owned.get(token.uid), kept)):
            found.append(Orphan(instance, why, lost=token.uid not in owned))
    return tuple(found)


def too_many(count: int, of: int) -> bool:
    """Are there implausibly many? Then the view of the requests is more likely wrong: stop and check."""
    return count > max(FEW, of // SHARE)


def newest_kept_first(instance: Instance) -> tuple[str, datetime, str]:
    """Of two machines under one token the older is kept: it is the one that was recorded, if any was."""
    return instance.token, instance.created_at or YOUNGEST, instance.id


def _kept(listed: list[Instance], owned: Mapping[str, RequestOwner]) -> dict[str, str]:
    """Token → id of the machine its request keeps: the recorded one if it is listed, else the first."""
    recorded = {owner.token: owner.instance_id for owner in owned.values() if owner.instance_id}
    kept: dict[str, str] = {}
    for instance in listed:
        if instance.token not in kept or instance.id == recorded.get(instance.token):
            kept[instance.token] = instance.id
    return kept


def _disowned(instance: Instance, token: MachineToken, owner: RequestOwner | None, kept: Mapping[str, str]) -> str:
    """Why no request owns it; empty: one does."""
    if owner is None:
        return "no request has the uid in its token"
    if owner.everything:
        return ""
    if owner.token != str(token):
        return f"attempt {token.attempt} of the request has ended"
    if kept[instance.token] != instance.id:
        return f"the request has machine {kept[instance.token]} under the same token"
    return ""
