"""Which machines nobody owns. A request owns by token: the one machine of the one attempt that may still have one.

Whatever bears no token of this cluster is none of our business, whoever it belongs to.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from tgp.api.request import GPURequest
from tgp.core.model.attempts import attempts_of, copied, open_attempt
from tgp.core.model.instance import Instance
from tgp.core.model.token import Token, plain_uid, read_token
from tgp.core.model.typed import Typed
from tgp.core.rules.ranking_words import about

FEW = 2  # may always go at once
SHARE = 5  # of the machines in a list, one in so many may go at once
YOUNGEST = datetime.max.replace(tzinfo=UTC)  # whose age is not told


@dataclass(frozen=True, slots=True)
class Owner:
    """What one request may keep."""

    token: str  # of the attempt that may have a machine; empty: none may
    instance_id: str = ""  # the machine that was written down; empty: none was yet
    everything: bool = False  # it cannot be read, so whatever bears its uid is its own


@dataclass(frozen=True, slots=True)
class Orphan:
    instance: Instance
    why: str
    lost: bool = False  # no request has its uid: it may have gone, or somebody's view of the requests is wrong


@dataclass(frozen=True, slots=True)
class Stuck:
    """An orphan that does not end, though its provider was asked to."""

    till: str
    instance: Instance
    why: str


def stuck_words(stuck: Sequence[Stuck]) -> str:
    """The dearest first, and what all of them cost."""
    dearest = max(stuck, key=lambda one: (one.instance.hourly_microusd or 0, one.instance.id))
    machine = dearest.instance
    more = f", and {len(stuck) - 1} more" if len(stuck) > 1 else ""
    known = [one.instance.hourly_microusd for one in stuck if one.instance.hourly_microusd is not None]
    price = f"{about(sum(known))}/h" if len(known) == len(stuck) else f"at least {about(sum(known))}/h"
    return (
        f"no request owns machine {machine.id} at {dearest.till}{more}: costs {price} and does not end; {dearest.why}"
    )


def owners(
    records: Iterable[Typed[GPURequest]],
    unrecorded: Callable[[Typed[GPURequest]], Instance | None] = lambda _record: None,
) -> dict[str, Owner]:
    """By uid as it stands in tokens. A restored copy owns nothing: the tokens in its status are another object's.

    `unrecorded`: the machine that a request adopts again although its record does not know of it.
    """
    return {plain_uid(record.uid_text): _owner(record, unrecorded(record)) for record in records}


def _owner(record: Typed[GPURequest], unrecorded: Instance | None) -> Owner:
    if copied(record):
        return Owner("")
    if unrecorded is not None:
        return Owner(unrecorded.token, unrecorded.id)
    attempt = open_attempt(attempts_of(record))
    return Owner(
        attempt.token if attempt is not None else "",
        (attempt.instance_id or "") if attempt is not None else "",
        everything=record.object is None,
    )


def bears_our_mark(instance: Instance, cluster: str) -> Token | None:
    """None: another cluster's, or nobody's that we know. Never touched."""
    token = read_token(instance.token)
    return token if token is not None and token.cluster == cluster else None


def orphans(instances: Iterable[Instance], owned: Mapping[str, Owner], cluster: str) -> tuple[Orphan, ...]:
    """Of one list, with the reason each is nobody's, in the order in which machines are kept."""
    listed = sorted(instances, key=keepers_first)
    kept = _kept(listed, owned)
    found = []
    for instance in listed:
        token = bears_our_mark(instance, cluster)
        if token is not None and (why := _disowned(instance, token, owned.get(token.uid), kept)):
            found.append(Orphan(instance, why, lost=token.uid not in owned))
    return tuple(found)


def too_many(count: int, of: int) -> bool:
    """Would more go at once than anybody believes? Then rather somebody's view is wrong: stop and ask."""
    return count > max(FEW, of // SHARE)


def keepers_first(instance: Instance) -> tuple[str, datetime, str]:
    """Of two machines under one token the older is kept: it is the one that was recorded, if any was."""
    return instance.token, instance.created_at or YOUNGEST, instance.id


def _kept(listed: list[Instance], owned: Mapping[str, Owner]) -> dict[str, str]:
    """Token → id of the machine its request keeps: the recorded one if it is listed, else the first."""
    recorded = {owner.token: owner.instance_id for owner in owned.values() if owner.instance_id}
    kept: dict[str, str] = {}
    for instance in listed:
        if instance.token not in kept or instance.id == recorded.get(instance.token):
            kept[instance.token] = instance.id
    return kept


def _disowned(instance: Instance, token: Token, owner: Owner | None, kept: Mapping[str, str]) -> str:
    """Why it is nobody's; empty: it is somebody's."""
    if owner is None:
        return "no request has its uid"
    if owner.everything:
        return ""
    if owner.token != str(token):
        return f"attempt {token.attempt} of its request is over"
    if kept[instance.token] != instance.id:
        return f"its request has machine {kept[instance.token]} under the same token"
    return ""
