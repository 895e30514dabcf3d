"""What a request's status says: phase, conditions and message, told from what was seen and what is done about it.

Everything here is read by people. Moments are told as moments, not as minutes left: a quiet object is not written.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from tgp.api.request import ATTEMPTS_KEPT, Attempt
from tgp.api.values import rfc3339, usd
from tgp.core.model.attempts import provider_of
from tgp.core.model.conditions import Verdict
from tgp.core.model.facts import offer_words
from tgp.core.model.instance import InstanceState
from tgp.core.model.mesh import NO_MESH
from tgp.core.model.presence import Absent, Found, Unknown
from tgp.core.rules.costs import cents, hourly_of, spent_by
from tgp.core.rules.lifecycle import (
    BELIEVED_AFTER,
    COUNTED,
    LAUNCHED,
    NO_MACHINE,
    SEVERAL,
    expires_at,
    idle_timeout,
    next_deadline,
    serving,
    unseen_since,
    warned_at,
)
from tgp.core.rules.lifecycle import idle_since as noted_idle_since
from tgp.core.rules.mesh.inert import MESH_CONFIG_INERT
from tgp.core.rules.ranking_words import about
from tgp.core.rules.sight import RECORD_LOST, Sight
from tgp.core.rules.steps import Finish, Rest, Step

PROVIDER_INCONSISTENT = "ProviderInconsistent"
PRESUMED_LOST = "PresumedLost"
OWNED = frozenset(
    {
        "Launched",
        "Registered",
        "Initialized",
        "Connected",
        "Ready",
        "Drained",
        "Terminating",
        "Ended",
        "Restored",
        RECORD_LOST,
        "ProviderReachable",
        PROVIDER_INCONSISTENT,
        PRESUMED_LOST,
        "ExpiresSoon",
        "Drifted",
        MESH_CONFIG_INERT,
    }
)

RECORD_LOST_WORDS = "its status was lost: what it bought before is not on record, so attempts are numbered on from it"


_LOOK = "Look at the provider's console; delete the request to terminate the machine"


@dataclass(frozen=True, slots=True)
class Story:
    phase: str
    message: str
    verdicts: tuple[Verdict, ...]
    parts: Mapping[str, Any]  # of the status; None: it is not there


def tell(sight: Sight, step: Step, *, finish: Finish | None = None, held: Mapping[str, Any] | None = None) -> Story:
    """`sight` as it is once the step is on paper; `finish`: the request ends with it.

    `held`: the record's status, of whoever has read it already.
    """
    phase, verdicts = _chapter(sight, step, finish)
    message = next((each.message for each in reversed(verdicts) if each.message and each.type != "Ready"), "")
    ready = next((each for each in verdicts if each.type == "Ready"), None)
    if ready is not None and ready.status:
        message = ready.message
    parts = {"phase": phase, "message": message, **_parts(sight, phase, sight.record.status if held is None else held)}
    return Story(phase, message, tuple(verdicts), parts)


def _chapter(sight: Sight, step: Step, finish: Finish | None) -> tuple[str, list[Verdict]]:
    if sight.restored:
        why = "this object is a restored copy: the machine in its status belongs to another; nothing is bought for it"
        return "Pending", [Verdict("Restored", True, "Restored", why), _not_ready("Restored", why)]
    if finish is not None:
        return finish.phase, [
            *_presumed(sight),
            Verdict("Ended", True, finish.reason, finish.message),
            _not_ready(finish.reason, finish.message),
        ]
    ended = sight.holds("Ended")
    if ended is not None and sight.attempt is None:
        kept = Verdict("Ended", True, ended.reason, ended.message)
        return sight.status.phase or "Finished", [*_presumed(sight), kept, _not_ready(ended.reason, ended.message)]
    phase, verdicts = _living(sight, step)
    return phase, [*_inert(sight), *_presumed(sight), *verdicts]


def _living(sight: Sight, step: Step) -> tuple[str, list[Verdict]]:
    attempt = sight.attempt
    if attempt is None:
        reason, message = _why_waiting(step)
        lost = [Verdict(RECORD_LOST, True, "StatusWiped", RECORD_LOST_WORDS)] if sight.wiped else []
        return "Pending", [*lost, Verdict("Launched", False, reason, message), _not_ready(reason, message)]
    if attempt.outcome != LAUNCHED:
        return "Provisioning", list(_ordering(sight, step, attempt))
    verdicts = list(_machine(sight, attempt))
    return _phase(sight, verdicts), verdicts


def _presumed(sight: Sight) -> Iterator[Verdict]:
    """Machines that lists alone declared gone: they may run on and cost, so they count against limits for a while."""
    counted = [each for each in sight.attempts if each.counts_until is not None and each.counts_until > sight.now]
    if not counted:
        return
    last = counted[-1]
    assert last.counts_until is not None, "only those that count on are told of"
    cost = about(sum(hourly_of(each) for each in counted))
    what = f"machine {last.instance_id or last.token} at {provider_of(last)}"
    more = f" and {len(counted) - 1} more" if len(counted) > 1 else ""
    why = (
        f"{what}{more} ({cost}/h) is no longer listed, and its end was neither requested nor announced; "
        f"it counts against the limits of class {sight.status.node_class} until {rfc3339(last.counts_until)} "
        "and is terminated if it is listed again"
    )
    yield Verdict(PRESUMED_LOST, True, "NotListed", why)


def _inert(sight: Sight) -> Iterator[Verdict]:
    """First, because the last one is repeated as the request's message: this one is only by the way."""
    before = sight.holds(MESH_CONFIG_INERT)
    words = sight.inert if sight.inert is not None else before.message if before is not None else ""
    if words:
        yield Verdict(MESH_CONFIG_INERT, True, "AnotherMesh", words)


def _why_waiting(step: Step) -> tuple[str, str]:
    if isinstance(step, Rest):
        return step.reason or "Waiting", step.message
    return "Waiting", "looks for an offer"


def _ordering(sight: Sight, step: Step, attempt: Attempt) -> Iterator[Verdict]:
    if isinstance(step, Rest) and step.reason:
        status = None if step.reason == "Settling" else False
        yield Verdict("Launched", status, step.reason, step.message)
    else:
        yield Verdict("Launched", False, "Ordering", f"orders {_offer_words(attempt)} (attempt {attempt.number})")
    yield from _reachable(sight, attempt)
    yield _not_ready("Ordering", "there is no machine yet")


def _machine(sight: Sight, attempt: Attempt) -> Iterator[Verdict]:
    rented = f"rented {_offer_words(attempt)}; it is {attempt.instance_id} there"
    yield Verdict("Launched", True, LAUNCHED, rented)
    yield from _reachable(sight, attempt)
    yield from _inconsistent(sight, attempt)
    if (warned := warned_at(sight)) is not None and sight.now >= warned:
        expires = expires_at(sight)
        assert expires is not None, "a life with four fifths has an end"
        yield Verdict("ExpiresSoon", True, "LifeNearlyOver", f"it is given back at {rfc3339(expires)}")
    yield from _joining(sight, attempt)
    if sight.drifted:
        yield Verdict("Drifted", True, "NetworkingChanged", sight.drifted)
    ending = sight.holds("Terminating")
    if ending is not None:
        yield from _ending(sight, ending.reason, ending.message)
    else:
        yield _ready(sight, attempt)


def _joining(sight: Sight, attempt: Attempt) -> Iterator[Verdict]:
    node, before = sight.node.node, sight.condition("Registered")
    if node is not None:
        yield Verdict("Registered", True, "Registered", f"Node {node.name} joined")
    elif before is not None and (before.status == "True" or before.reason == "NodeGone"):
        yield Verdict("Registered", False, "NodeGone", f"Node {sight.status.node_name} was deleted")
    else:
        yield Verdict("Registered", False, "NotJoined", _deadline_words(sight, attempt))
    if node is not None:
        reason = "Initialized" if sight.node.initialized else "NotInitialized"
        yield Verdict("Initialized", sight.node.initialized, reason, sight.node.words)
    yield from _connected(sight)


def _connected(sight: Sight) -> Iterator[Verdict]:
    stand, before = sight.mesh, sight.condition("Connected")
    if stand.reason == NO_MESH:
        return
    if stand.ok is None and before is not None and before.status == "True":  # nobody can tell: as it was
        yield Verdict("Connected", True, before.reason, before.message)
    else:
        yield Verdict("Connected", stand.ok, stand.reason, stand.message)


def _ready(sight: Sight, attempt: Attempt) -> Verdict:
    node = sight.node.node
    if node is None:
        lost = sight.status.ready_at is not None
        return _not_ready("NodeGone" if lost else "Joining", _deadline_words(sight, attempt))
    if node.ready is not True:
        why = f"Node {node.name} is not ready: {node.ready_reason or 'its kubelet is silent'}"
        return _not_ready("NodeNotReady", f"{why}; {sight.many_unseen}" if sight.many_unseen else why)
    if not sight.node.initialized:
        return _not_ready("NotInitialized", sight.node.words)
    if sight.mesh.ok is False or (sight.mesh.ok is None and sight.status.ready_at is None):
        why = sight.mesh.message
        return _not_ready(sight.mesh.reason, f"{why}; {sight.many_unseen}" if sight.many_unseen else why)
    length = idle_timeout(sight)
    until = "" if length is None else f"; given back after {_length(length)} without a pod that uses a GPU"
    return Verdict("Ready", True, "Ready", f"Node {node.name} is ready at {_price_words(attempt)}{until}")


def _ending(sight: Sight, reason: str, message: str) -> Iterator[Verdict]:
    drain = sight.drain
    if drain is not None:
        word = "Drained" if drain.done else "Draining"
        yield Verdict("Drained", drain.done, word, drain.message)
    yield _not_ready(reason, message)
    trouble = f"; {sight.trouble} (asked {sight.asked_to_end} times)" if sight.trouble else ""
    bare = message.partition("; ")[0] if trouble else message
    yield Verdict("Terminating", True, reason, f"{bare}{trouble}")


def _reachable(sight: Sight, attempt: Attempt) -> Iterator[Verdict]:
    if isinstance(sight.presence, Unknown) and sight.presence.trouble.value != "NotAskedYet":
        cost = about(hourly_of(attempt))
        why = f"{sight.presence.why}; its machine, if there is one, costs {cost}/h all the same"
        yield Verdict("ProviderReachable", False, sight.presence.trouble.value, why)


def _inconsistent(sight: Sight, attempt: Attempt) -> Iterator[Verdict]:
    """What a provider says of a machine, and what is seen of it, cannot both be true."""
    provider, claims, node = provider_of(attempt), sight.claims, sight.node.node
    machine, price = f"machine {attempt.instance_id}", f"{about(hourly_of(attempt))}/h"
    hour = int(BELIEVED_AFTER.total_seconds()) // 60
    unlisted = isinstance(sight.presence, Absent) and sight.presence.shown(sight.listing_lag)
    if unlisted and serving(sight) and not sight.end_accepted and node is not None:
        what = f"{provider} does not list {machine}, but Node {node.name} is Ready: it is taken to run, at {price}"
        yield Verdict(PROVIDER_INCONSISTENT, True, "MachineNotListed", f"{what}. {_LOOK}")
    elif claims.state is not None and serving(sight) and node is not None:
        what = f"{provider} says that {machine} does not run, but Node {node.name} is Ready"
        until = f"it is terminated for that only if {provider} says so for {hour} min"
        yield Verdict(PROVIDER_INCONSISTENT, True, "StateContradicted", f"{what}: {until}. {_LOOK}")
    elif claims.together >= SEVERAL and (claims.state is not None or claims.price is not None):
        what = f"{provider} says of {claims.together} machines at once that they do not run or cost more"
        until = f"none of them is terminated for that unless {provider} says so for {hour} min, then one at a time"
        yield Verdict(PROVIDER_INCONSISTENT, True, "SeveralAtOnce", f"{what}: {until}. {_LOOK}")


def _phase(sight: Sight, verdicts: list[Verdict]) -> str:
    held = {each.type: each.status for each in verdicts}
    if "Terminating" in held:
        return "Terminating"
    if held.get("Ready"):
        return "Ready"
    if held.get("Registered"):
        return "Joining"
    if sight.status.ready_at is not None:
        return "Joining"
    if not isinstance(sight.presence, Found):  # nobody can tell: as it was
        return "Booting" if sight.status.phase == "Booting" else "Provisioning"
    return "Provisioning" if sight.presence.instance.state is InstanceState.STARTING else "Booting"


def _not_ready(reason: str, message: str) -> Verdict:
    return Verdict("Ready", False, reason or "Waiting", message)


def _deadline_words(sight: Sight, attempt: Attempt) -> str:
    if sight.status.ready_at is not None:
        since = unseen_since(sight)
        seen = f"its Node is not seen since {rfc3339(since)}" if since is not None else "its Node is not seen"
        return f"{seen}; {sight.many_unseen}" if sight.many_unseen else seen
    deadline = next_deadline(sight, attempt)
    until = f" until {rfc3339(deadline.at)}" if deadline is not None else ""
    return f"waits for Node {sight.status.node_name}{until}; then the next offer is tried"


def _offer_words(attempt: Attempt) -> str:
    if attempt.offer is None:
        return "a machine"
    return f"{offer_words(attempt.offer)} from {attempt.offer.provider} at {_price_words(attempt)}"


def _price_words(attempt: Attempt) -> str:
    return f"{about(hourly_of(attempt))}/h"


def _length(length: Any) -> str:
    minutes = int(length.total_seconds()) // 60
    return f"{minutes} min" if minutes else f"{int(length.total_seconds())} s"


# -- the rest of the status --------------------------------------------------------------------------------------------


def _parts(sight: Sight, phase: str, held: Mapping[str, Any]) -> dict[str, Any]:
    attempt, status = sight.attempt, sight.status
    newest = sight.attempts[-1] if sight.attempts else None
    launched = [each.launched_at for each in sight.attempts if each.launched_at is not None]
    parts: dict[str, Any] = {
        "attempts": _written(sight, held.get("attempts")) or None,
        "offer": msgspec.to_builtins(newest.offer) if newest is not None and newest.offer is not None else None,
        "selectedProvider": newest.offer.provider if newest is not None and newest.offer is not None else None,
        "provisionedAt": rfc3339(min(launched)) if launched else None,
        **sight.parts,
    }
    living = attempt is not None and attempt.outcome == LAUNCHED
    parts["instanceId"] = attempt.instance_id if living and attempt is not None else None
    price = hourly_of(attempt) if attempt is not None else None
    parts["hourlyPrice"] = usd(price) if price is not None else None
    if isinstance(sight.presence, Found) and living:
        parts["publicIp"] = sight.presence.instance.public_ip or None
        parts["privateIp"] = sight.presence.instance.private_ip or None
    elif attempt is None:
        parts.update(publicIp=None, privateIp=None, idleSince=None, terminationScheduledAt=None)
        parts.update(meshHostname=None, meshAddress=None)
    if living:
        parts.update(_moments(sight, phase))
        if sight.mesh.address:
            parts.update(meshHostname=sight.mesh.hostname, meshAddress=sight.mesh.address)
    elif attempt is None and phase == "Pending":
        parts.update(readyAt=None, nodeName=None)
    if status.node_name is None and "nodeName" not in parts:
        parts["nodeName"] = None
    return parts


def _moments(sight: Sight, phase: str) -> dict[str, Any]:
    status = sight.status
    ready_at, idle_since = status.ready_at, noted_idle_since(sight)
    if phase == "Ready":
        ready_at = ready_at or sight.now
        if sight.node.idle is False or sight.node.protected:
            idle_since = None
        elif sight.node.idle is True:
            idle_since = idle_since or sight.now
    expires, length = expires_at(sight), idle_timeout(sight)
    idles = idle_since + length if idle_since is not None and length is not None else None
    scheduled = min((each for each in (expires, idles) if each is not None), default=None)
    return {
        "readyAt": rfc3339(ready_at) if ready_at is not None else None,
        "idleSince": rfc3339(idle_since) if idle_since is not None else None,
        "terminationScheduledAt": rfc3339(scheduled) if scheduled is not None else None,
    }


def _written(sight: Sight, held: Any) -> list[dict[str, Any]]:
    """Attempts as they go into the status: what a newer version wrote beside our fields stays."""
    rows = {row.get("number"): row for row in held if isinstance(row, dict)} if isinstance(held, list) else {}
    return [{**rows.get(each.number, {}), **msgspec.to_builtins(each)} for each in kept(sight.attempts)]


def kept(attempts: tuple[Attempt, ...]) -> tuple[Attempt, ...]:
    """The last ones. Forgotten first is what never had a machine and counts for nothing; last what cost something."""
    spare = len(attempts) - ATTEMPTS_KEPT
    forgotten: set[int] = set()
    for dearness in range(3):
        for attempt in attempts[:-1]:
            if spare > len(forgotten) and _dearness(attempt) <= dearness:
                forgotten.add(attempt.number)
    return tuple(attempt for attempt in attempts if attempt.number not in forgotten)


def _dearness(attempt: Attempt) -> int:
    return 2 if attempt.outcome not in NO_MACHINE else int(attempt.outcome in COUNTED)


def spent_parts(sight: Sight) -> dict[str, str]:
    """Written beside whatever is written anyway; with it the moment, as a running machine costs on."""
    status = msgspec.structs.replace(sight.status, attempts=sight.attempts)
    return {"spent": cents(spent_by(status, sight.now)), "spentAsOf": rfc3339(sight.now)}
