"""From a request to a machine and back: what to do next about one GPURequest, and nothing else.

Three questions, asked in this order, protect the money. May a machine exist that we do not know of? Then look, and buy
nothing. Is a known machine no longer wanted? Then terminate it, and count it as gone only when it is no longer listed.
Only then: what would be bought?
"""

from dataclasses import replace
from datetime import datetime, timedelta
from itertools import takewhile

from tgp.api.request import Attempt
from tgp.api.values import rfc3339
from tgp.core.inventory.limits import COUNTED_ON_FOR
from tgp.core.model.attempts import LAUNCHED, is_owned, machine_words, provider_words
from tgp.core.model.backoff import doubled
from tgp.core.model.conditions import followed, sentence
from tgp.core.model.costs import reserved_of
from tgp.core.model.gitops import gitops_tool_of
from tgp.core.model.instance import InstanceState
from tgp.core.model.money import about
from tgp.core.model.node import Node
from tgp.core.model.presence import Absent, AccountProblem, Found, Unknown
from tgp.core.model.token import MOST_ATTEMPTS
from tgp.core.requests.drain import Drain, drain
from tgp.core.requests.moments import (
    counted_until,
    disconnected_since,
    drain_began,
    drain_grace,
    expires_at,
    idle_since,
    idle_timeout,
    next_deadline,
    unseen_since,
    warned_at,
)
from tgp.core.requests.observation import RequestObservation
from tgp.core.requests.outage import UNREACHABLE_AT_MOST, many_unreachable
from tgp.core.requests.provider_reports import BELIEVED_AFTER, PROGRESS_STEP
from tgp.core.requests.purchase import Purchase, decide_purchase, price_cap
from tgp.core.requests.purchase_stops import order_stop, purchase_stop
from tgp.core.requests.readoption import Unrecorded, machine_to_readopt
from tgp.core.requests.settled import settled
from tgp.core.requests.steps import (
    LOST,
    UNUSABLE,
    AbandonAttempt,
    AddFinalizer,
    Adopt,
    CloseAttempt,
    Complete,
    DeleteRequest,
    DrainNode,
    Launch,
    PatchNode,
    Readopt,
    RemoveFinalizer,
    RemoveNode,
    Reserve,
    Step,
    Terminate,
    TerminationReason,
    Wait,
)
from tgp.core.requests.termination_reasons import (
    MESH_LOST_AFTER,
    NODE_LOST_AFTER,
    price_doubted,
    reason_to_terminate,
    serving,
)

# Reasons that follow from what is reported or seen of a machine; no user asked for them.
LOST_BY_REPORT = LOST | {TerminationReason.BROKEN}
FAILURES_MAX = 5  # launches without a machine, or with an unusable one
NOTHING_RUNS = (InstanceState.STOPPED, InstanceState.BROKEN)
LOSSES_MAX = 16  # machines lost in use, where each is replaced
OFF_SHOWN_AFTER = timedelta(minutes=1)  # a Node that is not ready for so long shows that its machine is off
FIRST_PAUSE, LONGEST_PAUSE = timedelta(seconds=5), timedelta(minutes=5)  # between attempts that fail
FIRST_ASK, LONGEST_ASK = timedelta(seconds=20), timedelta(minutes=5)  # between two termination requests
TERMINATION_REQUESTED = " Termination was requested "  # what follows in a condition is trouble
NOT_ORDERED = "NotOrdered"  # the outcome of an attempt that was never ordered
REFUSED_SHARE = 4  # the time since orders could not be prepared, divided by this, is the next pause …
LONGEST_REFUSED = timedelta(hours=12)  # … at most: a template that is left broken for a year uses few attempts
LOOK_AGAIN = timedelta(seconds=15)
POOL_LOOKS_EVERY = timedelta(minutes=2)  # at a waiting request of a pool, besides what wakes it
NO_MACHINE = frozenset(
    {"SoldOut", "Refused", "KeyRefused", "QuotaOrBalanceExhausted", "Busy", "NotOrdered", "NotCreated"}
)
COUNTED = frozenset({"Refused", "NotCreated", "Failed"})  # as failed launches; the others are not the launch's fault
PAUSED_AFTER = COUNTED | {"Busy", "SoldOut", "NotOrdered"}  # the other outcomes put a provider into cooldown
LET_GO = (
    "GPURequest had ended (or its finalizer was removed), and its status was erased. It buys no machine again; delete "
    "and recreate it."
)


def next_step(observation: RequestObservation) -> Step:
    """Take the request one step towards its spec, or one step towards gone."""
    step, until = _next_step(observation), counted_until(observation)
    if isinstance(step, Wait) and until is not None:
        return replace(step, until=min(step.until or until, until))
    return step


def _next_step(observation: RequestObservation) -> Step:
    deleting, attempt = observation.record.deleting, observation.attempt
    if observation.restored:
        return (
            RemoveFinalizer()
            if deleting
            else Wait("Restored", "GPURequest is a restored copy; delete it and create a new one.")
        )
    if not observation.enrolled and not deleting:
        return _first(observation)
    if not observation.enrolled and attempt is None:
        return Wait("Gone", "GPURequest is being deleted; no machine was bought.")
    if attempt is None:
        return _without_machine(observation)
    if attempt.outcome != LAUNCHED:
        return _in_doubt(observation, attempt)
    if observation.holds("Terminating"):
        return _terminate(observation, attempt)
    if observation.unmarked and not deleting:
        return AddFinalizer()  # or a backup of it would be a request that buys
    if (reason := reason_to_terminate(observation, attempt)) is not None:
        return reason
    return _maintain(observation, attempt)


def _first(observation: RequestObservation) -> Step:
    """The request is new, or our finalizer was removed: without it nothing is ever bought or forgotten."""
    if observation.holds("Ended") and observation.attempt is None:
        return _kept(observation)
    if observation.let_go:
        return Complete("Finished", "RecordLost", LET_GO)
    return AddFinalizer()


# -- no known machine ------------------------------------------------------------------------------------------------


def _without_machine(observation: RequestObservation) -> Step:
    if (found := machine_to_readopt(observation)) is not None:
        return _readopt(observation, found)
    if unclaimed := observation.unclaimed:
        return Wait(
            "UnclaimedInstance",
            f"Machine {unclaimed[0]} of an earlier attempt is terminated first ({_count(unclaimed)} in all); then the "
            "next offer is tried.",
            _soon(observation),
        )
    if not settled(observation):
        if observation.waited:
            why = "Operator lists the machines of all providers once more before it buys."
            return Wait("Waiting", why, _soon(observation))
        why = "Operator looks for machines of this request at all providers before it buys."
        return Wait("LaunchOutcomePending", why, _soon(observation))
    if observation.record.deleting:
        return RemoveFinalizer()
    if observation.holds("Ended"):
        return RemoveFinalizer()  # nothing is left to guard: its deletion need not wait for us
    if (finish := _no_more(observation)) is not None:
        return finish
    if (stop := purchase_stop(observation)) is not None:
        return Wait(stop.reason, stop.message, _pool_looks(observation))
    pause = _pause_until(observation)
    if pause is not None and observation.now < pause:
        last = observation.attempts[-1]
        failed = f"Attempt {last.number} failed: {sentence(last.message or last.outcome or '')}"
        return Wait("BackingOff", followed(failed, f"The next offer is tried at {rfc3339(pause)}."), pause)
    return _buy(observation)


def _buy(observation: RequestObservation) -> Step:
    """The offers are ranked here and nowhere else: only where nothing is left but to buy."""
    if observation.purchase is None:
        return Wait("Undecided", "Operator has not ranked the offers yet.", _pool_looks(observation))
    choice = decide_purchase(observation.purchase)
    if isinstance(choice, Purchase):
        return Reserve(choice, _next_number(observation))
    return Wait(choice.reason, choice.message, _pool_looks(observation))


def _pool_looks(observation: RequestObservation) -> datetime | None:
    """The waiting requests of pools are many and short-lived, so not every change in the market wakes all of them."""
    return observation.now + POOL_LOOKS_EVERY if observation.pool is not None else None


def _readopt(observation: RequestObservation, found: Unrecorded) -> Step:
    """Whatever its spec says now: a machine that is no longer wanted is terminated later, by the ordinary rules."""
    if found.settled:
        return Readopt(found.attempt, found.instance, found.access)
    where = f"Machine {found.instance.id} at {provider_words(found.attempt)}"
    why = f"{where} is not in the status. Operator lists all providers once more before it adopts the machine again."
    return Wait("LaunchOutcomePending", why, _soon(observation))


def _no_more(observation: RequestObservation) -> Complete | None:
    """Another attempt would be one too many."""
    failures = [attempt for attempt in observation.attempts if attempt.outcome in COUNTED]
    if len(failures) >= FAILURES_MAX:
        last = failures[-1].message or failures[-1].outcome
        return Complete(
            "Failed",
            "TooManyFailures",
            f"{len(failures)} launches failed; delete and recreate the request to try again. Last error: {last}",
        )
    paid = [attempt for attempt in observation.attempts if attempt.outcome == "Failed"]
    if observation.kept_by_pool and paid:  # the pool plans again: another offer may serve its pods better
        return Complete("Failed", "MachineUnusable", paid[-1].message or "Machine was never usable.")
    if _next_number(observation) > MOST_ATTEMPTS:
        return Complete(
            "Failed",
            "TooManyAttempts",
            f"GPURequest got no machine in {MOST_ATTEMPTS} attempts; delete and recreate it.",
        )
    losses = [attempt for attempt in observation.attempts if attempt.outcome == "Lost"]
    if len(losses) >= LOSSES_MAX:
        return Complete(
            "Failed", "TooManyLosses", f"GPURequest lost {len(losses)} machines in a row; delete and recreate it."
        )
    expires = expires_at(observation)
    if losses and expires is not None and observation.now >= expires:
        return Complete("Finished", "Expired", "Lifetime (spec.maxLifetime) ended before a lost machine was replaced.")
    return None


def _pause_until(observation: RequestObservation) -> datetime | None:
    failed = [attempt for attempt in observation.attempts if attempt.outcome in PAUSED_AFTER]
    if not failed or failed[-1] is not observation.attempts[-1] or failed[-1].ended_at is None:
        return None
    if observation.inputs_changed:
        return failed[-1].ended_at + FIRST_PAUSE
    failures = len([each for each in failed if each.outcome != "SoldOut"])
    pause = doubled(FIRST_PAUSE, failures + 1, LONGEST_PAUSE)
    refused = min(_refused_for(observation.attempts) / REFUSED_SHARE, LONGEST_REFUSED)
    return failed[-1].ended_at + max(pause, refused)


def _refused_for(attempts: tuple[Attempt, ...]) -> timedelta:
    """How long attempts have been abandoned before the order, in a row, as far as recorded; 0: the last was not."""
    row = tuple(takewhile(lambda each: each.outcome == NOT_ORDERED, reversed(attempts)))
    if not row or row[0].ended_at is None or row[-1].reserved_at is None:
        return timedelta(0)
    return row[0].ended_at - row[-1].reserved_at


def _next_number(observation: RequestObservation) -> int:
    known = max([observation.highest, *(attempt.number for attempt in observation.attempts)])
    if observation.wiped and not known and observation.record.created_at is not None:
        # No running process may have seen its machines: start beyond every number used since its creation.
        known = max(known, min((observation.now - observation.record.created_at) // FIRST_PAUSE, MOST_ATTEMPTS // 2))
    return 1 + known


def _kept(observation: RequestObservation) -> Step:
    ended = observation.holds("Ended")
    assert ended is not None, "only what has ended is kept"
    since = ended.last_transition_time
    if (
        observation.keep_finished is None
        or since is None
        or gitops_tool_of(observation.record.labels, observation.record.annotations)
    ):
        return Wait(ended.reason, ended.message)  # the GitOps tool would create it again, and it would buy
    until = since + observation.keep_finished
    return DeleteRequest() if observation.now >= until else Wait(ended.reason, ended.message, until)


# -- reserved, outcome not known yet -----------------------------------------------------------------------------------


def _in_doubt(observation: RequestObservation, attempt: Attempt) -> Step:
    """We may have bought a machine that the provider does not list yet. Buying again would pay twice; forgetting it
    would leave an orphan on the bill. So: neither, until it is found, or absent for longer than any order can be late.
    """
    presence = observation.presence
    if isinstance(presence, Found) and not (observation.may_order and _mute(observation, attempt)):
        return Adopt(attempt, presence.instance)
    if observation.may_order:
        return _order_or_not(observation, attempt)
    window = max(observation.settle_window, BELIEVED_AFTER) if observation.distrusted else observation.settle_window
    if isinstance(presence, Absent) and presence.shown(window) and not _joined(observation, attempt):
        if attempt.instance_id and not observation.termination_requests:
            # An error named a machine: terminate it, whatever lists show.
            return Terminate(attempt, attempt.instance_id)
        known = attempt.instance_id or observation.node.registered is not None  # its provider may deny it
        counts = observation.now + COUNTED_ON_FOR if known and not observation.termination_accepted else None
        why = attempt.message or f"Order at {provider_words(attempt)} had an unknown outcome; no machine was created."
        return AbandonAttempt(attempt, "NotCreated", why, counts)
    return Wait("LaunchOutcomePending", _pending_message(observation, attempt), _soon(observation))


def _joined(observation: RequestObservation, attempt: Attempt) -> bool:
    """Lists omit the machine, and its Node is there: for an hour the Node is believed."""
    ordered = attempt.reserved_at or observation.now
    return observation.node.registered is not None and observation.now < ordered + BELIEVED_AFTER


def _order_or_not(observation: RequestObservation, attempt: Attempt) -> Step:
    if observation.record.deleting:
        return AbandonAttempt(attempt, "NotOrdered", "GPURequest was deleted before the order was sent.")
    if (stop := order_stop(observation, attempt)) is not None:
        return AbandonAttempt(attempt, "NotOrdered", stop.message)
    cap, reserved = price_cap(observation.spec), reserved_of(attempt)
    if cap is not None and reserved > cap:
        return AbandonAttempt(
            attempt, NOT_ORDERED, f"spec.maxHourlyPrice is now {about(cap)}/h, below the reserved {about(reserved)}/h."
        )
    if observation.order_not_before is not None and observation.now < observation.order_not_before:
        if observation.order_queued:
            words = f"Order at {provider_words(attempt)} waits: other orders of its account are sent first."
            return Wait("OrderQueued", words, observation.order_not_before)
        return Wait(
            "ProviderBusy",
            f"Order at {provider_words(attempt)} waits: the provider asked for a pause.",
            observation.order_not_before,
        )
    return Launch(attempt)


def _pending_message(observation: RequestObservation, attempt: Attempt) -> str:
    where = attempt.offer.provider if attempt.offer is not None else "the provider"
    if isinstance(observation.presence, Unknown):
        why = observation.presence.why
        return f"Operator cannot check whether attempt {attempt.number} created a machine at {where}: {why}"
    if observation.distrusted:
        why = observation.distrusted
        return f"Operator cannot check whether attempt {attempt.number} created a machine at {where}: {why}"
    if (node := observation.node.registered) is not None:
        return f"Node {node.name} of attempt {attempt.number} has joined, but {where} does not list its machine."
    seconds = int(observation.settle_window.total_seconds())
    return f"Operator checks for at least {seconds} s whether attempt {attempt.number} created a machine at {where}."


# -- a machine ---------------------------------------------------------------------------------------------------------


def _maintain(observation: RequestObservation, attempt: Attempt) -> Step:
    node = observation.node
    registered = observation.holds("Registered")  # the status says first that the Node has joined
    if node.node is not None and node.metadata_patch is not None and registered:
        return PatchNode(node.node, node.metadata_patch)
    return Wait("", "", _next_look(observation, attempt))


def _next_look(observation: RequestObservation, attempt: Attempt) -> datetime | None:
    moments = [expires_at(observation), warned_at(observation)]
    if observation.claims.state is not None or price_doubted(observation, attempt):
        moments.append(_soon(observation))
    if observation.status.ready_at is None:
        deadline = next_deadline(observation, attempt)
        if deadline is not None:
            moments += [
                deadline.at,
                deadline.at + observation.startup_timeouts.initialize,
            ]  # the second: for a mesh that does not answer
    else:
        since, idle, length = unseen_since(observation), idle_since(observation), idle_timeout(observation)
        moments.append(since + NODE_LOST_AFTER if since is not None else None)
        if since is not None and many_unreachable(observation):
            moments.append(
                max(since + UNREACHABLE_AT_MOST, observation.now + PROGRESS_STEP)
            )  # then one machine at a time
        since = disconnected_since(observation)
        moments.append(since + MESH_LOST_AFTER if since is not None else None)
        moments.append(idle + length if idle is not None and length is not None else None)
        moments.append(observation.node.protection.until if observation.node.protection is not None else None)
    return min((moment for moment in moments if moment is not None and moment > observation.now), default=None)


# -- termination -------------------------------------------------------------------------------------------------------


def _terminate(observation: RequestObservation, attempt: Attempt) -> Step:
    """The only path that removes a machine. Terminated means no longer listed, not merely asked to stop."""
    if (
        observation.never_listed
        and isinstance(observation.presence, Absent)
        and attempt.instance_id
        and not observation.termination_requests
        and not (is_owned(attempt) and disputed(observation))
    ):
        return Terminate(attempt, attempt.instance_id)  # its provider named it, and lists may be late
    if _gone(observation, attempt):
        left = observation.node.leftover
        if left is not None and observation.node.cleanup_patch is not None:
            return PatchNode(left, observation.node.cleanup_patch)
        if left is not None and not left.deleting and not _spared(observation, left):
            return RemoveNode(left)  # a Node that another finalizer holds is as gone as we can make it
        return _closed(observation, attempt)
    draining = drain_now(observation)
    if draining is not None and not draining.done:
        return DrainNode(draining)
    if isinstance(observation.presence, Unknown) and not _ended_unseen(observation.presence, attempt):
        return Wait(observation.presence.trouble.value, observation.presence.why, _soon(observation))
    if is_owned(attempt) and disputed(observation):
        return Wait(
            "Returning", f"Status of {machine_words(attempt)} says off, but its Node is Ready.", _soon(observation)
        )
    if observation.ask_again_at is not None and observation.now < observation.ask_again_at:
        return Wait(
            "Returning",
            observation.trouble or f"Termination of {machine_words(attempt)} was requested.",
            observation.ask_again_at,
        )
    instance_id = observation.presence.instance.id if isinstance(observation.presence, Found) else attempt.instance_id
    if not instance_id or (isinstance(observation.presence, Absent) and not disputed(observation)):
        return Wait(
            "Returning",
            f"{machine_words(attempt)} is no longer listed; the operator lists once more to confirm.",
            _soon(observation),
        )
    return Terminate(attempt, instance_id)


def _ended_unseen(presence: Unknown, attempt: Attempt) -> bool:
    """Whether its termination is requested although it cannot be seen: a rented machine costs meanwhile.

    A machine you own is not switched on missing data.
    """
    return presence.trouble is AccountProblem.UNREACHABLE and not is_owned(attempt)


def drain_now(observation: RequestObservation) -> Drain | None:
    """What is left to drain; None: the termination is not recorded yet, or nothing runs there."""
    ending = observation.condition("Terminating")
    if ending is None or ending.status != "True" or ending.last_transition_time is None:
        return None
    if ending.reason in UNUSABLE and observation.status.ready_at is None:  # PriceExceeded may be a machine in use
        return None
    if isinstance(observation.presence, Found) and observation.presence.instance.state in NOTHING_RUNS:
        return None
    began = drain_began(observation, ending.last_transition_time)
    return drain(
        observation.node.registered,
        observation.node.pods,
        observation.now,
        began,
        drain_grace(observation, began),
        budgets=observation.budgets,
    )


def _spared(observation: RequestObservation, node: Node) -> bool:
    """A Ready Node is never deleted for a machine that was lost: the drain has cordoned it, and it stays."""
    ending = observation.holds("Terminating")
    return (
        node.ready is True
        and ending is not None
        and ending.reason in LOST_BY_REPORT
        and not observation.termination_accepted
    )


def _gone(observation: RequestObservation, attempt: Attempt) -> bool:
    presence = observation.presence
    if isinstance(presence, Absent):
        return presence.shown(observation.listing_lag) and not disputed(observation)
    if not (_mute(observation, attempt) and observation.termination_requests) or observation.node.node is not None:
        return False
    since = observation.node.silent_since
    return since is None or observation.now >= since + OFF_SHOWN_AFTER


def _mute(observation: RequestObservation, attempt: Attempt) -> bool:
    """A machine without a status endpoint cannot be asked, so it proves no order; its Node shows its state."""
    presence = observation.presence
    return is_owned(attempt) and isinstance(presence, Found) and presence.instance.state is InstanceState.UNKNOWN


def disputed(observation: RequestObservation) -> bool:
    """Lists omit the machine, its Node is Ready, and its provider never accepted the termination.

    For an hour the Node is believed, and the termination is requested again and again. A machine you own is not
    switched for as long as its status and its Node contradict each other.
    """
    ending, attempt = observation.holds("Terminating"), observation.attempt
    if not isinstance(observation.presence, Absent) or observation.termination_accepted or not serving(observation):
        return False
    if ending is None or (attempt is not None and is_owned(attempt)):
        return True
    return observation.now < (ending.last_transition_time or observation.now) + BELIEVED_AFTER


def _vanished(observation: RequestObservation, reason: str) -> bool:
    """Only lists say that the machine is gone: its provider neither accepted nor announced its termination.

    Where it was to be terminated anyway, an earlier process may have asked for it, unless this one has seen it listed.
    """
    announced = (
        observation.termination_accepted or observation.claims.leaving or not isinstance(observation.presence, Absent)
    )
    return not announced and (reason in LOST_BY_REPORT or observation.seen_listed)


def _closed(observation: RequestObservation, attempt: Attempt) -> CloseAttempt:
    ending = observation.holds("Terminating")
    assert ending is not None, "only a machine with the condition Terminating is closed"
    reason, why = ending.reason, without_trouble(ending.message)
    counts_until = observation.now + COUNTED_ON_FOR if _vanished(observation, reason) else None
    if reason in UNUSABLE:
        return CloseAttempt(attempt, "Failed", f"{reason}: {why}", None, counts_until)
    if reason in LOST:
        finish = Complete("Failed", "Lost", why)
        again = observation.spec.restart_policy == "OnLoss" and not observation.record.deleting
        return CloseAttempt(attempt, "Lost", why, None if again else finish, counts_until)
    return CloseAttempt(attempt, "Terminated", why, Complete("Finished", reason, why), counts_until)


def without_trouble(message: str) -> str:
    """Why a machine is terminated, without what went wrong with that."""
    return message.partition(TERMINATION_REQUESTED)[0]


def _soon(observation: RequestObservation) -> datetime:
    return observation.now + LOOK_AGAIN


def _count(machines: tuple[str, ...]) -> str:
    return "one machine" if len(machines) == 1 else f"{len(machines)} machines"
