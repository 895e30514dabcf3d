"""What a request's status says: phase, conditions and message, computed from the observation and the next step.

Users read every text here. Times are given as moments, not as minutes left: an unchanged object is not written.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from tgp.api.request import ATTEMPTS_KEPT, Attempt
from tgp.api.values import rfc3339
from tgp.core.joining.mesh.ignored_settings import MESH_CONFIG_IGNORED, ignored_message
from tgp.core.joining.mesh.selection import backend_of, drift
from tgp.core.model.attempts import LAUNCHED, is_owned, left_by_pool, provider_of, provider_words
from tgp.core.model.conditions import ConditionUpdate, sentence
from tgp.core.model.costs import hourly_of, most_believed, spent_by
from tgp.core.model.facts import offer_words
from tgp.core.model.instance import InstanceState
from tgp.core.model.mesh import NO_MESH, NOT_ASKED, Backend
from tgp.core.model.money import about, cents
from tgp.core.model.presence import Absent, AccountProblem, Found, Unknown
from tgp.core.requests.lifecycle import COUNTED, NO_MACHINE, TERMINATION_REQUESTED, drain_now, without_trouble
from tgp.core.requests.moments import cut_by_provider, expires_at, idle_timeout, next_deadline, unseen_since, warned_at
from tgp.core.requests.moments import idle_since as noted_idle_since
from tgp.core.requests.observation import RECORD_LOST, RequestObservation
from tgp.core.requests.outage import many_unreachable
from tgp.core.requests.provider_reports import (
    BELIEVED_AFTER,
    DOUBTED_FOR,
    SEVERAL,
    in_another_unit,
    listed_price,
)
from tgp.core.requests.steps import Complete, Step, TerminationReason, Wait
from tgp.core.requests.termination_reasons import PROVIDER_ENDS_IT, serving

OWN_FIELDS = frozenset(each.encode_name for each in msgspec.structs.fields(Attempt))  # of an attempt
PROVIDER_INCONSISTENT = "ProviderInconsistent"
PRESUMED_LOST = "PresumedLost"
RESTORED = (
    "GPURequest is a restored copy: the machine in its status belongs to another GPURequest. "
    "The copy buys nothing; delete it and create a new one."
)
LEFT_BY_POOL = (
    "GPURequest was written by a GPUNodePool that is no longer its owner, and no machine was bought for it. "
    "It buys nothing: the pool orders for its pods under another name. Delete this GPURequest."
)
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
        MESH_CONFIG_IGNORED,
    }
)

RECORD_LOST_MESSAGE = (
    "Status of this GPURequest is empty: it was erased, or the operator ended before the first order. Operator lists "
    "every provider before it buys anything, and continues after the highest attempt number seen."
)
_NO_CALLS = "No power calls are sent until this is resolved."
_SEES_POWER = (
    f"{_NO_CALLS} Repair its statusEndpoint, or remove it from the class: then the Node shows whether "
    "the machine is on."
)
_LOOK = "Check the provider's console; delete the request to terminate the machine."


class RequestStatus(msgspec.Struct, frozen=True):
    phase: str
    message: str
    updates: tuple[ConditionUpdate, ...]
    parts: Mapping[str, Any]  # of the status; None: it is not there


def compute_status(
    observation: RequestObservation,
    step: Step,
    *,
    finish: Complete | None = None,
    held: Mapping[str, Any] | None = None,
) -> RequestStatus:
    """`observation` as it is once the step is written; `finish`: the request ends with it.

    `held`: the record's status, if the caller has read it already.
    """
    phase, decided = _phase_and_conditions(observation, step, finish)
    updates = [msgspec.structs.replace(each, message=sentence(each.message)) for each in decided]
    message = next((each.message for each in reversed(updates) if each.message and each.type != "Ready"), "")
    ready = next((each for each in updates if each.type == "Ready"), None)
    if ready is not None and ready.status:
        message = ready.message
    parts = {
        "phase": phase,
        "message": message,
        **_parts(observation, phase, observation.record.status if held is None else held),
    }
    return RequestStatus(phase, message, tuple(updates), parts)


def _phase_and_conditions(
    observation: RequestObservation, step: Step, finish: Complete | None
) -> tuple[str, list[ConditionUpdate]]:
    if observation.restored:
        why = LEFT_BY_POOL if left_by_pool(observation.record) else RESTORED
        return "Pending", [ConditionUpdate("Restored", True, "Restored", why), _not_ready("Restored", why)]
    if finish is not None:
        return finish.phase, [
            *_presumed(observation),
            ConditionUpdate("Ended", True, finish.reason, finish.message),
            _not_ready(finish.reason, finish.message),
        ]
    ended = observation.holds("Ended")
    if ended is not None and observation.attempt is None:
        kept = ConditionUpdate("Ended", True, ended.reason, ended.message)
        return observation.status.phase or "Finished", [
            *_presumed(observation),
            kept,
            _not_ready(ended.reason, ended.message),
        ]
    phase, updates = _in_progress(observation, step)
    return phase, [*_ignored_settings(observation), *_presumed(observation), *updates]


def _in_progress(observation: RequestObservation, step: Step) -> tuple[str, list[ConditionUpdate]]:
    attempt = observation.attempt
    if attempt is None:
        reason, message = _why_waiting(step)
        lost = [ConditionUpdate(RECORD_LOST, True, "StatusWiped", RECORD_LOST_MESSAGE)] if observation.wiped else []
        return "Pending", [*lost, ConditionUpdate("Launched", False, reason, message), _not_ready(reason, message)]
    if attempt.outcome != LAUNCHED:
        return "Provisioning", list(_ordering(observation, step, attempt))
    updates = list(_machine(observation, attempt))
    return _phase(observation, updates), updates


def _presumed(observation: RequestObservation) -> Iterator[ConditionUpdate]:
    """Machines that only lists declare gone: they may still run and cost, so they count against limits for a while."""
    counted = [
        each for each in observation.attempts if each.counts_until is not None and each.counts_until > observation.now
    ]
    if not counted:
        return
    last = counted[-1]
    assert last.counts_until is not None, "only machines that still count are reported"
    cost = about(sum(hourly_of(each) for each in counted))
    what = f"Machine {last.instance_id or last.token} at {provider_of(last)}"
    more = f" and {len(counted) - 1} more" if len(counted) > 1 else ""
    why = (
        f"{what}{more} ({cost}/h): no longer listed, and no termination was requested or announced. "
        f"Counted against the limits of class {observation.status.node_class} until {rfc3339(last.counts_until)}; "
        "terminated if listed again."
    )
    yield ConditionUpdate(PRESUMED_LOST, True, "NotListed", why)


def _ignored_settings(observation: RequestObservation) -> Iterator[ConditionUpdate]:
    """Comes first, because the last condition is repeated as the request's message, and this one is minor."""
    before = observation.holds(MESH_CONFIG_IGNORED)
    ignored = ignored_settings(observation)
    words = ignored if ignored is not None else before.message if before is not None else ""
    if words:
        yield ConditionUpdate(MESH_CONFIG_IGNORED, True, "AnotherMesh", words)


def ignored_settings(observation: RequestObservation) -> str | None:
    """Its settings for another mesh than its machine joins; empty: it has none; None: unknown."""
    node_class, joined_by = observation.node_class, observation.joined_by
    if node_class is None and not joined_by:
        return None
    by_class = backend_of(node_class, observation.default_backend) if node_class is not None else ""
    return ignored_message(observation.spec.talos_config, joined_by or by_class or Backend.NONE)


def _why_waiting(step: Step) -> tuple[str, str]:
    if isinstance(step, Wait):
        return step.reason or "Waiting", step.message
    return "Waiting", "Operator is looking for an offer."


def _ordering(observation: RequestObservation, step: Step, attempt: Attempt) -> Iterator[ConditionUpdate]:
    if isinstance(step, Wait) and step.reason:
        status = None if step.reason == "LaunchOutcomePending" else False
        yield ConditionUpdate("Launched", status, step.reason, step.message)
    else:
        yield ConditionUpdate(
            "Launched", False, "Ordering", f"Ordering {_offer_words(attempt)} (attempt {attempt.number})."
        )
    yield from _reachable(observation, attempt)
    yield _not_ready("Ordering", "No machine exists yet.")


def _machine(observation: RequestObservation, attempt: Attempt) -> Iterator[ConditionUpdate]:
    launched = f"Machine {attempt.instance_id} was launched: {_offer_words(attempt)}."
    yield ConditionUpdate("Launched", True, LAUNCHED, launched)
    yield from _reachable(observation, attempt)
    yield from _inconsistent(observation, attempt)
    if (warned := warned_at(observation)) is not None and observation.now >= warned:
        expires = expires_at(observation)
        assert expires is not None, "a warning is only due before an end"
        words = f"Machine {attempt.instance_id} will be terminated at {rfc3339(expires)}."
        if cut_by_provider(observation):
            yield ConditionUpdate("ExpiresSoon", True, "ProviderEndsMachine", f"{words} {PROVIDER_ENDS_IT}")
        else:
            yield ConditionUpdate("ExpiresSoon", True, "LifeNearlyOver", f"{words} To keep it, raise spec.maxLifetime.")
    yield from _joining(observation, attempt)
    provider, request = provider_of(attempt), observation.record.value
    if drifted := drift(observation.mesh, observation.node_class, provider, request, observation.default_backend):
        yield ConditionUpdate("Drifted", True, "NetworkingChanged", drifted)
    ending = observation.holds("Terminating")
    if ending is not None:
        yield from _ending(observation, ending.reason, ending.message)
    else:
        yield _ready(observation, attempt)


def _joining(observation: RequestObservation, attempt: Attempt) -> Iterator[ConditionUpdate]:
    node, before = observation.node.node, observation.condition("Registered")
    if node is not None:
        yield ConditionUpdate("Registered", True, "Registered", f"Node {node.name} has joined.")
    elif before is not None and (before.status == "True" or before.reason == "NodeGone"):
        yield ConditionUpdate("Registered", False, "NodeGone", f"Node {observation.status.node_name} was deleted.")
    else:
        yield ConditionUpdate("Registered", False, "NotJoined", _deadline_words(observation, attempt))
    if node is not None:
        reason = "Initialized" if observation.node.initialized else "NotInitialized"
        yield ConditionUpdate("Initialized", observation.node.initialized, reason, f"{observation.node.words}.")
    yield from _connected(observation)


def _connected(observation: RequestObservation) -> Iterator[ConditionUpdate]:
    mesh, before = observation.mesh, observation.condition("Connected")
    if mesh.reason == NO_MESH or (mesh.reason == NOT_ASKED and before is None):
        return
    unknown = mesh.reason == NOT_ASKED or (mesh.ok is None and before is not None and before.status == "True")
    if unknown and before is not None:  # keep the last state
        yield ConditionUpdate(
            "Connected", {"True": True, "False": False}.get(before.status), before.reason, before.message
        )
    else:
        yield ConditionUpdate("Connected", mesh.ok, mesh.reason, f"{mesh.message}.")


def _ready(observation: RequestObservation, attempt: Attempt) -> ConditionUpdate:
    node = observation.node.node
    if node is None:
        lost = observation.status.ready_at is not None
        return _not_ready("NodeGone" if lost else "Joining", _deadline_words(observation, attempt))
    if node.ready is not True:
        why = f"Node {node.name} is not ready: {node.ready_reason or 'its kubelet does not report'}"
        return _not_ready("NodeNotReady", _with_outage(observation, why))
    if not observation.node.initialized:
        return _not_ready("NotInitialized", f"{observation.node.words}.")
    if observation.mesh.ok is False or (observation.mesh.ok is None and observation.status.ready_at is None):
        return _not_ready(observation.mesh.reason, _with_outage(observation, observation.mesh.message))
    length = idle_timeout(observation)
    until = (
        "" if length is None else f" The machine is terminated after {_length(length)} without a pod that uses a GPU."
    )
    return ConditionUpdate("Ready", True, "Ready", f"Node {node.name} is ready at {_price_words(attempt)}.{until}")


def _ending(observation: RequestObservation, reason: str, message: str) -> Iterator[ConditionUpdate]:
    drain = drain_now(observation)
    if drain is not None:
        drained = "Drained" if drain.done else "Draining"
        yield ConditionUpdate("Drained", drain.done, drained, drain.message)
    yield _not_ready(reason, message)
    count = observation.termination_requests
    asked = "once" if count == 1 else f"{count} times"
    trouble = f"{TERMINATION_REQUESTED}{asked}; last error: {observation.trouble}" if observation.trouble else ""
    yield ConditionUpdate("Terminating", True, reason, f"{without_trouble(message)}{trouble}")


def _reachable(observation: RequestObservation, attempt: Attempt) -> Iterator[ConditionUpdate]:
    presence = observation.presence
    if not isinstance(presence, Unknown) or presence.trouble is AccountProblem.NOT_ASKED_YET:
        return
    launched = attempt.launched_at
    unlisted_yet = launched is not None and observation.now < launched + observation.listing_lag
    if unlisted_yet and presence.trouble is AccountProblem.UNREACHABLE:
        return  # lists may be that late after an order, and of many orders at once only some are asked for by id
    billed = f"If a machine exists, it is still billed at {about(hourly_of(attempt))}/h."
    unseen = is_owned(attempt) and presence.trouble is AccountProblem.UNREACHABLE
    why = f"{presence.why.rstrip('.')}. {_SEES_POWER if unseen else billed}"
    yield ConditionUpdate("ProviderReachable", False, presence.trouble.value, why)


def _inconsistent(observation: RequestObservation, attempt: Attempt) -> Iterator[ConditionUpdate]:
    """The provider's report of a machine contradicts what the cluster sees."""
    provider, claims, node = f"Provider {provider_of(attempt)}", observation.claims, observation.node.node
    machine, price = f"machine {attempt.instance_id}", f"{about(hourly_of(attempt))}/h"
    hour = int(BELIEVED_AFTER.total_seconds()) // 60
    unlisted = isinstance(observation.presence, Absent) and observation.presence.shown(observation.listing_lag)
    accepted = observation.termination_accepted and not observation.distrusted
    disputes = unlisted and serving(observation) and not accepted
    if disputes and is_owned(attempt) and node is not None:
        what = f"The status of {machine} says off, but Node {node.name} is Ready"
        then = "Correct its statusEndpoint, or power the machine off by hand"
        yield ConditionUpdate(PROVIDER_INCONSISTENT, True, "StatusContradicted", f"{what}. {_NO_CALLS} {then}.")
    elif disputes and node is not None:
        what = f"{provider} does not list {machine}, but Node {node.name} is Ready"
        assumed = f"The machine is assumed to run at {price}"
        yield ConditionUpdate(PROVIDER_INCONSISTENT, True, "MachineNotListed", f"{what}. {assumed}. {_LOOK}")
    elif claims.state is not None and serving(observation) and node is not None:
        what = f"{provider} reports that {machine} does not run, but Node {node.name} is Ready"
        until = f"The machine is terminated only if the provider keeps reporting this for {hour} min"
        yield ConditionUpdate(PROVIDER_INCONSISTENT, True, "StateContradicted", f"{what}. {until}. {_LOOK}")
    elif claims.together >= SEVERAL and (claims.state is not None or claims.price is not None):
        what = f"{provider} reports {claims.together} machines at once as not running or more expensive"
        until = f"They are terminated only if the provider keeps reporting this for {hour} min, and then one at a time"
        yield ConditionUpdate(PROVIDER_INCONSISTENT, True, "SeveralAtOnce", f"{what}. {until}. {_LOOK}")
    elif claims.price is not None and in_another_unit(attempt, listed := listed_price(observation)):
        agreed = most_believed(attempt)
        what = f"{provider} lists {machine} at {about(listed)}/h, {listed // agreed} times the agreed {about(agreed)}/h"
        minutes = int(DOUBTED_FOR.total_seconds()) // 60
        until = f"The machine is terminated only if the provider keeps listing that price for {minutes} min"
        yield ConditionUpdate(PROVIDER_INCONSISTENT, True, "PriceImplausible", f"{what}. {until}. {_LOOK}")


def _phase(observation: RequestObservation, updates: list[ConditionUpdate]) -> str:
    held = {each.type: each.status for each in updates}
    if "Terminating" in held:
        return "Terminating"
    if held.get("Ready"):
        return "Ready"
    if held.get("Registered"):
        return "Joining"
    if observation.status.ready_at is not None:
        return "Joining"
    if not isinstance(observation.presence, Found):  # unknown: keep the last state
        return "Booting" if observation.status.phase == "Booting" else "Provisioning"
    return "Provisioning" if observation.presence.instance.state is InstanceState.STARTING else "Booting"


def _not_ready(reason: str, message: str) -> ConditionUpdate:
    return ConditionUpdate("Ready", False, reason or "Waiting", message)


def _deadline_words(observation: RequestObservation, attempt: Attempt) -> str:
    if observation.status.ready_at is not None:
        since = unseen_since(observation)
        name = observation.status.node_name
        seen = (
            f"Node {name} has not been seen since {rfc3339(since)}" if since is not None else f"Node {name} is missing"
        )
        return _with_outage(observation, seen)
    deadline = next_deadline(observation, attempt)
    awaited = f"Node {observation.status.node_name}"
    if deadline is not None and deadline.end is TerminationReason.NEVER_STARTED:  # earlier than what a Node may take
        awaited = f"{provider_words(attempt)} to start the machine"
    until = f" until {rfc3339(deadline.at)}" if deadline is not None else ""
    return f"Waiting for {awaited}{until}; after that the next offer is tried."


def _with_outage(observation: RequestObservation, why: str) -> str:
    many = many_unreachable(observation)
    return f"{why}. {many}" if many else f"{why}."


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


def _parts(observation: RequestObservation, phase: str, held: Mapping[str, Any]) -> dict[str, Any]:
    attempt, status = observation.attempt, observation.status
    newest = observation.attempts[-1] if observation.attempts else None
    launched = [each.launched_at for each in observation.attempts if each.launched_at is not None]
    parts: dict[str, Any] = {
        "attempts": _written(observation, held.get("attempts")) or None,
        "offer": msgspec.to_builtins(newest.offer) if newest is not None and newest.offer is not None else None,
        "selectedProvider": newest.offer.provider if newest is not None and newest.offer is not None else None,
        "provisionedAt": rfc3339(min(launched)) if launched else None,
        **observation.parts,
    }
    has_machine = attempt is not None and attempt.outcome == LAUNCHED
    parts["instanceId"] = attempt.instance_id if has_machine and attempt is not None else None
    price = hourly_of(attempt) if attempt is not None else None
    parts["hourlyPrice"] = cents(price, up=True) if price is not None else None  # people read it; attempts are exact
    if isinstance(observation.presence, Found) and has_machine:
        parts["publicIp"] = observation.presence.instance.public_ip or None
        parts["privateIp"] = observation.presence.instance.private_ip or None
    elif attempt is None:
        parts.update(publicIp=None, privateIp=None, idleSince=None, terminationScheduledAt=None)
        parts.update(meshHostname=None, meshAddress=None)
    if has_machine:
        parts.update(_moments(observation, phase))
        if observation.mesh.address:
            parts.update(meshHostname=observation.mesh.hostname, meshAddress=observation.mesh.address)
    elif attempt is None and phase == "Pending":
        parts.update(readyAt=None, nodeName=None)
    if status.node_name is None and "nodeName" not in parts:
        parts["nodeName"] = None
    return parts


def _moments(observation: RequestObservation, phase: str) -> dict[str, Any]:
    status = observation.status
    ready_at, idle_since = status.ready_at, noted_idle_since(observation)
    if phase == "Ready":
        ready_at = ready_at or observation.now
        if observation.node.idle is False or observation.node.protection:
            idle_since = None
        elif observation.node.idle is True:
            idle_since = idle_since or observation.now
    expires, length = expires_at(observation), idle_timeout(observation)
    idles = idle_since + length if idle_since is not None and length is not None else None
    scheduled = min((each for each in (expires, idles) if each is not None), default=None)
    return {
        "readyAt": rfc3339(ready_at) if ready_at is not None else None,
        "idleSince": rfc3339(idle_since) if idle_since is not None else None,
        "terminationScheduledAt": rfc3339(scheduled) if scheduled is not None else None,
    }


def _written(observation: RequestObservation, held: Any) -> list[dict[str, Any]]:
    """Attempts as written to the status: fields that a newer version added stay."""
    rows = {row.get("number"): row for row in held if isinstance(row, dict)} if isinstance(held, list) else {}
    more = {number: {name: row[name] for name in row if name not in OWN_FIELDS} for number, row in rows.items()}
    return [{**more.get(each.number, {}), **msgspec.to_builtins(each)} for each in kept(observation.attempts)]


def kept(attempts: tuple[Attempt, ...]) -> tuple[Attempt, ...]:
    """The newest ones. First to go are attempts without a machine that do not count; last those that cost money."""
    spare = len(attempts) - ATTEMPTS_KEPT
    forgotten: set[int] = set()
    for rank in range(3):
        for attempt in attempts[:-1]:
            if spare > len(forgotten) and _keep_rank(attempt) <= rank:
                forgotten.add(attempt.number)
    return tuple(attempt for attempt in attempts if attempt.number not in forgotten)


def _keep_rank(attempt: Attempt) -> int:
    return 2 if attempt.outcome not in NO_MACHINE else int(attempt.outcome in COUNTED)


def spent_parts(observation: RequestObservation) -> dict[str, str]:
    """Added to a write that happens anyway, with its time, because a running machine keeps costing."""
    status = msgspec.structs.replace(observation.status, attempts=observation.attempts)
    return {"spent": cents(spent_by(status, observation.now)), "spentAsOf": rfc3339(observation.now)}
