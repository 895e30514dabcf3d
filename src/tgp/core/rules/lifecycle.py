"""From a request to a machine and back: what to do next about one GPURequest, and nothing else.

Three questions, in this order, keep the money: may something exist that we do not know of? Then look, buy nothing.
Is what we know of no longer wanted? Then give it back, and believe it gone only when it is no longer listed.
Only then: what would be bought?
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import takewhile

from tgp.api.request import Attempt, GPURequest
from tgp.api.values import NEVER, span
from tgp.core.model.attempts import attempts_of, open_attempt
from tgp.core.model.instance import InstanceState
from tgp.core.model.node import Node
from tgp.core.model.offer import BootMode
from tgp.core.model.presence import Absent, Claims, Found, Trouble, Unknown
from tgp.core.model.token import MOST_ATTEMPTS
from tgp.core.model.typed import Typed
from tgp.core.rules.buyers import keeper_of
from tgp.core.rules.costs import most_believed, read_amount, reserved_of
from tgp.core.rules.mesh.stand import LEASE_STALE
from tgp.core.rules.purchase import Buy, life_of, most_to_pay, price_cap
from tgp.core.rules.ranking_words import about
from tgp.core.rules.sight import Patience, Sight, Unrecorded
from tgp.core.rules.steps import (
    LOSSES,
    NO_USE,
    Adopt,
    Begin,
    Close,
    Discard,
    Empty,
    End,
    Enrol,
    Finish,
    Mend,
    Order,
    Readopt,
    Release,
    RemoveNode,
    Reserve,
    Rest,
    Return,
    Step,
    Withdraw,
)

LOST_BY_WORD = LOSSES | {End.BROKEN}  # ends that follow from what is said or seen of a machine, and nobody wished
LAUNCHED = "Launched"  # the outcome of an attempt while the machine is ours
FAILURES_MAX = 5  # launches that came to nothing, or to a machine that was no use
LOSSES_MAX = 16  # machines lost in use, where each is replaced
NODE_LOST_AFTER = timedelta(minutes=10)  # a Node that is not ready, or not there, is given up then
MESH_LOST_AFTER = timedelta(hours=1)  # one that is ready, but that its mesh does not know: it may be at work
SILENT_AT_MOST = timedelta(hours=2)  # of Nodes that are silent together; from then on one machine at a time is ended
CONFIRMED_AFTER = timedelta(seconds=30)  # between two lists that both say a machine is stopped, or dearer
SEVERAL = 2  # machines of one account of which such things are said at once: then rather the account is wrong …
DOUBTED_FOR = timedelta(minutes=10)  # … and machines that never joined are ended for it after this long,
BELIEVED_AFTER = timedelta(hours=1)  # those that serve after this long, one at a time
COUNTED_ON_FOR = timedelta(hours=1)  # against limits: a machine that is gone by lists alone
WARNED_AT = 0.8  # of the life
FIRST_PAUSE, LONGEST_PAUSE = timedelta(seconds=5), timedelta(minutes=5)  # between attempts that fail
WITHDRAWN = "Withdrawn"  # the outcome of an attempt that was never ordered
REFUSED_SHARE = 4  # of the time for which orders could not be made up: so much longer one more is waited for …
LONGEST_REFUSED = timedelta(hours=12)  # … at most: a template that is left broken for a year uses few attempts
LOOK_AGAIN = timedelta(seconds=15)
PROGRESS_STEP = timedelta(minutes=1)  # progress is written down this often at most
NO_MACHINE = frozenset({"SoldOut", "Refused", "KeyRefused", "Exhausted", "Busy", "Withdrawn", "Absent"})
COUNTED = frozenset({"Refused", "Absent", "Failed"})  # as failed launches; nobody is to blame for the others
PAUSED_AFTER = COUNTED | {"Busy", "SoldOut", "Withdrawn"}  # the rest close a provider for a while
LET_GO = (
    "it was over, or our finalizer was taken off it, and then its status was wiped: what it bought is not on record, "
    "so it buys nothing again. To rent anew, delete it and write it again"
)


def next_step(sight: Sight) -> Step:
    """Take the request one step towards its spec, or one step towards gone."""
    step, until = _next_step(sight), counted_until(sight)
    if isinstance(step, Rest) and until is not None:
        return replace(step, until=min(step.until or until, until))
    return step


def _next_step(sight: Sight) -> Step:
    deleting, attempt = sight.record.deleting, sight.attempt
    if sight.restored:
        return Release() if deleting else Rest("Restored", "a restored copy: delete it, and write the request anew")
    if not sight.enrolled and not deleting:
        return _first(sight)
    if not sight.enrolled and attempt is None:
        return Rest("Gone", "it is being deleted, and nothing was bought")
    if attempt is None:
        return _without_machine(sight)
    if attempt.outcome != LAUNCHED:
        return _in_doubt(sight, attempt)
    if sight.holds("Terminating"):
        return _give_back(sight, attempt)
    if sight.unmarked and not deleting:
        return Enrol()  # or a backup of it would be a request that buys
    if (reason := _reason_to_end(sight, attempt)) is not None:
        return reason
    return _look_after(sight, attempt)


def _first(sight: Sight) -> Step:
    """Somebody took our finalizer off, or it is new: nothing is ever bought, or forgotten, without it."""
    if sight.holds("Ended") and sight.attempt is None:
        return _kept(sight)
    if sight.let_go:
        return Finish("Finished", "RecordLost", LET_GO)
    return Enrol()


# -- no machine, as far as anybody knows -----------------------------------------------------------------------------


def _without_machine(sight: Sight) -> Step:
    if sight.unrecorded is not None:
        return _readopt(sight, sight.unrecorded)
    if sight.strays:
        return Rest("Strays", f"waits until {sight.strays[0]} is given back: {_count(sight.strays)}", _soon(sight))
    if not sight.settled and sight.waited:
        return Rest("Waiting", "every provider is asked once more before it goes on", _soon(sight))
    if not sight.settled and not sight.blank:
        why = "what was bought for it is not on record: every provider is asked before anything else happens"
        return Rest("Settling", why, _soon(sight))
    if sight.record.deleting:
        return Release()
    if sight.holds("Ended"):
        return Release()  # there is nothing left to guard: whoever deletes it need not wait for us
    if (finish := _no_more(sight)) is not None:
        return finish
    if sight.stopped is not None:
        return Rest(sight.stopped.reason, sight.stopped.message)
    pause = _pause_until(sight)
    if pause is not None and sight.now < pause:
        last = sight.attempts[-1]
        return Rest("BackingOff", f"attempt {last.number} failed: {last.message or last.outcome}", pause)
    if isinstance(sight.choice, Buy):
        return Reserve(sight.choice, _next_number(sight))
    again = sight.choice.look_again
    return Rest(sight.choice.reason, sight.choice.message, sight.now + again if again is not None else None)


def _readopt(sight: Sight, found: Unrecorded) -> Step:
    """Whatever its spec says now: what is not wanted any more is terminated from there, by the ordinary rules."""
    if found.settled:
        return Readopt(found.attempt, found.instance, found.till)
    where = f"machine {found.instance.id} at {_where(found.attempt)}"
    why = f"{where} is not on record: every provider is listed once more before the machine is adopted again"
    return Rest("Settling", why, _soon(sight))


def _no_more(sight: Sight) -> Finish | None:
    """Another attempt would be one too many."""
    failures = [attempt for attempt in sight.attempts if attempt.outcome in COUNTED]
    if len(failures) >= FAILURES_MAX:
        last = failures[-1].message or failures[-1].outcome
        return Finish("Failed", "TooManyFailures", f"{len(failures)} launches failed; the last: {last}")
    if _next_number(sight) > MOST_ATTEMPTS:
        return Finish("Failed", "TooManyAttempts", f"{MOST_ATTEMPTS} attempts came to nothing: write the request anew")
    losses = [attempt for attempt in sight.attempts if attempt.outcome == "Lost"]
    if len(losses) >= LOSSES_MAX:
        return Finish("Failed", "TooManyLosses", f"{len(losses)} machines were lost, one after the other")
    expires = expires_at(sight)
    if losses and expires is not None and sight.now >= expires:
        return Finish("Finished", "Expired", "its life was over before a lost machine could be replaced")
    return None


def _pause_until(sight: Sight) -> datetime | None:
    failed = [attempt for attempt in sight.attempts if attempt.outcome in PAUSED_AFTER]
    if not failed or failed[-1] is not sight.attempts[-1] or failed[-1].ended_at is None:
        return None
    if sight.mended:
        return failed[-1].ended_at + FIRST_PAUSE
    doubled = FIRST_PAUSE * (1 << min(len([each for each in failed if each.outcome != "SoldOut"]), 8))
    refused = min(_refused_for(sight.attempts) / REFUSED_SHARE, LONGEST_REFUSED)
    return failed[-1].ended_at + max(min(doubled, LONGEST_PAUSE), refused)


def _refused_for(attempts: tuple[Attempt, ...]) -> timedelta:
    """How long nothing but withdrawn attempts came of it, as far as they are kept; nothing if the last is another."""
    row = tuple(takewhile(lambda each: each.outcome == WITHDRAWN, reversed(attempts)))
    if not row or row[0].ended_at is None or row[-1].reserved_at is None:
        return timedelta(0)
    return row[0].ended_at - row[-1].reserved_at


def _next_number(sight: Sight) -> int:
    known = max([sight.highest, *(attempt.number for attempt in sight.attempts)])
    if sight.wiped and not known and sight.record.created_at is not None:
        # Perhaps nobody who lives saw its machines: beyond every number that can have been used since its creation.
        known = max(known, min((sight.now - sight.record.created_at) // FIRST_PAUSE, MOST_ATTEMPTS // 2))
    return 1 + known


def _kept(sight: Sight) -> Step:
    ended = sight.holds("Ended")
    assert ended is not None, "only what has ended is kept"
    since = ended.last_transition_time
    if sight.keep_finished is None or since is None or keeper_of(sight.record.labels, sight.record.annotations):
        return Rest(ended.reason, ended.message)  # a tool that keeps it there would write it again, and it would buy
    until = since + sight.keep_finished
    return Discard() if sight.now >= until else Rest(ended.reason, ended.message, until)


# -- reserved, and nobody knows yet what came of it --------------------------------------------------------------------


def _in_doubt(sight: Sight, attempt: Attempt) -> Step:
    """We may have bought something the provider does not list yet. Buying again would pay twice; letting go would
    leave an orphan on the bill. So: neither, until it is found, or absent for longer than any order can be late.
    """
    presence = sight.presence
    if isinstance(presence, Found):
        return Adopt(attempt, presence.instance)
    if sight.may_order:
        return _order_or_not(sight, attempt)
    window = max(sight.settle_window, BELIEVED_AFTER) if sight.distrusted else sight.settle_window
    if isinstance(presence, Absent) and presence.shown(window):
        if attempt.instance_id and not sight.asked_to_end:
            return Return(attempt, attempt.instance_id)  # an error named a machine: end it, whatever lists say
        return Withdraw(attempt, "Absent", attempt.message or "the order's outcome was unknown; no machine came of it")
    return Rest("Settling", _settling_words(sight, attempt), _soon(sight))


def _order_or_not(sight: Sight, attempt: Attempt) -> Step:
    if sight.record.deleting:
        return Withdraw(attempt, "Withdrawn", "deleted before it was ordered")
    if sight.stopped is not None:
        return Withdraw(attempt, "Withdrawn", sight.stopped.message)
    cap, reserved = price_cap(sight.spec), reserved_of(attempt)
    if cap is not None and reserved > cap:
        return Withdraw(attempt, WITHDRAWN, f"spec.maxHourlyPrice is {about(cap)}/h now, below {about(reserved)}/h")
    if sight.order_not_before is not None and sight.now < sight.order_not_before:
        return Rest("ProviderBusy", "the provider asked for a pause before the order", sight.order_not_before)
    return Order(attempt)


def _settling_words(sight: Sight, attempt: Attempt) -> str:
    where = attempt.offer.provider if attempt.offer is not None else "the provider"
    if isinstance(sight.presence, Unknown):
        return f"whether attempt {attempt.number} made a machine at {where} cannot be asked: {sight.presence.why}"
    if sight.distrusted:
        return f"whether attempt {attempt.number} made a machine at {where} is not known: {sight.distrusted}"
    seconds = int(sight.settle_window.total_seconds())
    return f"looks for what attempt {attempt.number} may have made at {where}, for {seconds} s at least"


# -- a machine ---------------------------------------------------------------------------------------------------------


def _reason_to_end(sight: Sight, attempt: Attempt) -> Begin | None:
    if sight.record.deleting:
        return Begin(End.DELETED, "deleted by its owner")
    return (
        _failed_machine(sight, attempt)
        or _dearer_than_agreed(sight, attempt)
        or _expired(sight)
        or (_unused(sight, attempt) if sight.status.ready_at is not None else _late(sight, attempt))
    )


def _failed_machine(sight: Sight, attempt: Attempt) -> Begin | None:
    presence = sight.presence
    lost = End.LOST if sight.status.ready_at is not None else End.BROKEN
    if isinstance(presence, Absent) and presence.shown(sight.listing_lag) and not serving(sight):
        return Begin(lost, f"{_where(attempt)} does not list it any more")
    if not isinstance(presence, Found) or not _state_believed(sight):
        return None
    instance = presence.instance
    if instance.interrupted:
        return Begin(
            lost, f"{_where(attempt)} took the spot machine back" + (f": {instance.said}" * bool(instance.said))
        )
    if instance.state in (InstanceState.BROKEN, InstanceState.STOPPED):
        return Begin(lost, f"{_where(attempt)} says it is {instance.said or instance.state.value}")
    return None


def serving(sight: Sight) -> bool:
    """Its Node is Ready, and its kubelet reports: it runs, whatever its provider says."""
    node = sight.node.node
    return node is not None and node.ready is True and sight.mesh.reason != LEASE_STALE


def _state_believed(sight: Sight) -> bool:
    """That a machine is stopped, broken or taken back. One list is not enough, and a Ready Node contradicts it."""
    said = sight.claims.state
    if said is None or not said.shown(CONFIRMED_AFTER):
        return False
    if serving(sight):
        return said.span >= BELIEVED_AFTER and sight.claims.turn
    if sight.status.ready_at is None and sight.claims.together >= SEVERAL:
        return said.span >= DOUBTED_FOR
    return True


def price_believed(claims: Claims, attempt: Attempt, billed: int) -> bool:
    """That a machine costs what the last list says: no more than was known, or said again, later, and of few."""
    said = claims.price
    if said is None:  # nothing was counted yet: that list may have been read before the machine was on record
        return billed <= most_believed(attempt)
    if claims.together >= SEVERAL:
        return said.span >= BELIEVED_AFTER and claims.turn
    return said.shown(CONFIRMED_AFTER)


def _price_doubted(sight: Sight, attempt: Attempt) -> bool:
    """The last list says more than is believed yet."""
    told = sight.presence.instance.hourly_microusd if isinstance(sight.presence, Found) else None
    return sight.claims.price is not None or (told is not None and not price_believed(sight.claims, attempt, told))


def _dearer_than_agreed(sight: Sight, attempt: Attempt) -> Begin | None:
    presence = sight.presence
    if not isinstance(presence, Found) or presence.instance.hourly_microusd is None or attempt.offer is None:
        return None
    billed = presence.instance.hourly_microusd
    if not price_believed(sight.claims, attempt, billed):
        return None
    reserved = read_amount(attempt.offer.hourly_price)  # None: nobody can read what was agreed, so the cap alone holds
    ceiling = most_to_pay(sight.spec, reserved)
    if billed > (reserved or 0) and sight.overdrawn:
        return Begin(End.TOO_DEAR, f"{_where(attempt)} bills {about(billed)}/h, and {sight.overdrawn}")
    if billed <= ceiling:
        return None
    return Begin(End.TOO_DEAR, f"{_where(attempt)} bills {about(billed)}/h, above {about(ceiling)}/h")


def _expired(sight: Sight) -> Begin | None:
    expires = expires_at(sight)
    if expires is None or sight.now < expires:
        return None
    return Begin(End.EXPIRED, f"its maxLifetime ended at {expires:%Y-%m-%d %H:%M:%S}Z")


def _late(sight: Sight, attempt: Attempt) -> Begin | None:
    """Past its deadline we stop paying for a machine nobody can use."""
    deadline = next_deadline(sight, attempt)
    if deadline is None or sight.now < deadline.at or _unnoticed(sight, deadline.at):
        return None
    return Begin(deadline.end, f"{deadline.words} by {deadline.at:%H:%M:%S}Z")


def _unnoticed(sight: Sight, deadline: datetime) -> bool:
    """It got on while nobody looked, and that is not on paper yet: an operator that was away ends nothing for it."""
    node = sight.node.node
    if node is None:
        return False
    # A mesh that cannot be asked is waited for once more as long; not for as long as it pleases.
    silent = sight.mesh.ok is None and sight.now < deadline + sight.patience.initialize
    complete = sight.node.initialized and node.ready is True and (sight.mesh.ok is True or silent)
    return sight.holds("Registered") is None or complete


def _unused(sight: Sight, _attempt: Attempt) -> Begin | None:
    node = sight.node.node
    if (since := unseen_since(sight)) is not None:
        together = bool(sight.many_unseen) and not (sight.silence_ends and sight.now >= since + SILENT_AT_MOST)
        if sight.now >= since + NODE_LOST_AFTER and not together:
            what = "its Node is gone" if node is None else "its Node is not ready"
            beside = f"; {sight.mesh.message}" if sight.mesh.ok is False else ""
            return Begin(End.NODE_LOST, f"{what} since {since:%H:%M:%S}Z{beside}")
        return None
    if (since := disconnected_since(sight)) is not None and not sight.many_unseen:
        if sight.now >= since + MESH_LOST_AFTER:
            return Begin(End.MESH_LOST, f"{sight.mesh.message}; so since {since:%H:%M:%S}Z")
        return None
    idle, length = idle_since(sight), idle_timeout(sight)
    if idle is None or length is None or sight.node.idle is not True or sight.node.protected:
        return None
    if sight.now < idle + length:
        return None
    return Begin(End.IDLE, f"no pod has used its GPUs since {idle:%H:%M:%S}Z")


@dataclass(frozen=True, slots=True)
class Deadline:
    at: datetime
    end: End
    words: str  # what did not happen


def next_deadline(sight: Sight, attempt: Attempt) -> Deadline | None:
    """Of a start under way: each part has its time, extended while the provider reports progress, to at most twice."""
    if attempt.launched_at is None:
        return None
    patience = sight.patience
    registered = sight.holds("Registered")
    if registered is not None and registered.last_transition_time is not None:
        at = registered.last_transition_time + patience.initialize
        words = sight.node.words or "its GPUs were not allocatable"
        if sight.node.initialized and sight.mesh.ok is not True:
            words = sight.mesh.message
        return Deadline(at, End.NEVER_INITIALIZED, words)
    presence = sight.presence
    starting = isinstance(presence, Found) and presence.instance.state is InstanceState.STARTING
    if starting:
        at = attempt.launched_at + _extended(patience.launch, attempt)
        return Deadline(at, End.NEVER_STARTED, f"{_where(attempt)} did not start it")
    words = "no Node registered" if sight.mesh.ok is not False else f"no Node registered ({sight.mesh.message})"
    return Deadline(joins_by(attempt, patience) or sight.now, End.NEVER_JOINED, words)


def joins_by(attempt: Attempt, patience: Patience) -> datetime | None:
    """Until when its Node may come; None: it was not launched yet."""
    if attempt.launched_at is None:
        return None
    return attempt.launched_at + _extended(patience.launch + patience.join, attempt)


def _extended(length: timedelta, attempt: Attempt) -> timedelta:
    if attempt.progress_at is None or attempt.launched_at is None:
        return length
    return min(2 * length, max(length, attempt.progress_at - attempt.launched_at + length))


def _look_after(sight: Sight, attempt: Attempt) -> Step:
    node = sight.node
    if node.node is not None and node.mend is not None and sight.holds("Registered"):  # on paper first: it has joined
        return Mend(node.node, node.mend)
    return Rest("", "", _next_look(sight, attempt))


def _next_look(sight: Sight, attempt: Attempt) -> datetime | None:
    moments = [expires_at(sight), warned_at(sight)]
    if sight.claims.state is not None or _price_doubted(sight, attempt):
        moments.append(_soon(sight))
    if sight.status.ready_at is None:
        deadline = next_deadline(sight, attempt)
        if deadline is not None:
            moments += [deadline.at, deadline.at + sight.patience.initialize]  # the second: of a mesh that is silent
    else:
        since, idle, length = unseen_since(sight), idle_since(sight), idle_timeout(sight)
        moments.append(since + NODE_LOST_AFTER if since is not None else None)
        if since is not None and sight.many_unseen:
            moments.append(max(since + SILENT_AT_MOST, sight.now + PROGRESS_STEP))  # later it waits for its turn
        since = disconnected_since(sight)
        moments.append(since + MESH_LOST_AFTER if since is not None else None)
        moments.append(idle + length if idle is not None and length is not None else None)
    return min((moment for moment in moments if moment is not None and moment > sight.now), default=None)


# -- the way out -------------------------------------------------------------------------------------------------------


def _give_back(sight: Sight, attempt: Attempt) -> Step:
    """There is one way out of the house. Terminated means no longer listed, not asked to stop."""
    if sight.never_listed and isinstance(sight.presence, Absent) and attempt.instance_id and not sight.asked_to_end:
        return Return(attempt, attempt.instance_id)  # its provider named it: lists may be late, so its end is asked for
    if _gone(sight, attempt):
        left = sight.node.leftover
        if left is not None and sight.node.undress is not None:
            return Mend(left, sight.node.undress)
        if left is not None and not left.deleting and not _spared(sight, left):
            return RemoveNode(left)  # whom another's finalizer holds is gone as far as we can make it
        return _closed(sight, attempt)
    if sight.drain is not None and not sight.drain.done:
        return Empty(sight.drain)
    if isinstance(sight.presence, Unknown) and sight.presence.trouble is not Trouble.UNREACHABLE:
        return Rest(sight.presence.trouble.value, sight.presence.why, _soon(sight))
    if sight.ask_again_at is not None and sight.now < sight.ask_again_at:
        return Rest("Returning", sight.trouble or "the provider was asked for its end", sight.ask_again_at)
    instance_id = sight.presence.instance.id if isinstance(sight.presence, Found) else attempt.instance_id
    if not instance_id or (isinstance(sight.presence, Absent) and not disputed(sight)):
        return Rest("Returning", "not listed any more; looks once again to be sure", _soon(sight))
    return Return(attempt, instance_id)


def _spared(sight: Sight, node: Node) -> bool:
    """A Ready Node is never deleted for a machine that was lost: the drain has cordoned it, and there it stays."""
    ending = sight.holds("Terminating")
    return node.ready is True and ending is not None and ending.reason in LOST_BY_WORD and not sight.end_accepted


def _gone(sight: Sight, attempt: Attempt) -> bool:
    presence = sight.presence
    if isinstance(presence, Absent):
        return presence.shown(sight.listing_lag) and not disputed(sight)
    # A box without a status endpoint cannot be asked; its Node tells.
    mute = _power(attempt) and isinstance(presence, Found) and presence.instance.state is InstanceState.UNKNOWN
    return mute and sight.asked_to_end > 0 and (sight.node.node is None or sight.node.node.ready is not True)


def disputed(sight: Sight) -> bool:
    """Lists do not show the machine, its Node is Ready, and its provider never accepted its end: for an hour the Node
    is believed, and the provider is asked for the end again and again.
    """
    ending = sight.holds("Terminating")
    if not isinstance(sight.presence, Absent) or sight.end_accepted or not serving(sight):
        return False
    return ending is None or sight.now < (ending.last_transition_time or sight.now) + BELIEVED_AFTER


def _vanished(sight: Sight, reason: str) -> bool:
    """Nothing but lists say that the machine is gone: its end was neither accepted nor announced by its provider.

    Where we were to end it anyway, an earlier process may have asked for that: unless this one has seen it listed.
    """
    told = sight.end_accepted or sight.claims.leaving or not isinstance(sight.presence, Absent)
    return not told and (reason in LOST_BY_WORD or sight.seen_listed)


def _closed(sight: Sight, attempt: Attempt) -> Close:
    ending = sight.holds("Terminating")
    assert ending is not None, "what is given back was to be given back"
    reason = ending.reason
    counts_until = sight.now + COUNTED_ON_FOR if _vanished(sight, reason) else None
    if reason in NO_USE:
        return Close(attempt, "Failed", f"{reason}: {ending.message}", None, counts_until)
    if reason in LOSSES:
        finish = Finish("Failed", "Lost", ending.message)
        again = sight.spec.restart_policy == "OnLoss" and not sight.record.deleting
        return Close(attempt, "Lost", ending.message, None if again else finish, counts_until)
    return Close(attempt, "Returned", ending.message, Finish("Finished", reason, ending.message), counts_until)


# -- moments -----------------------------------------------------------------------------------------------------------


def life_began(attempts: Iterable[Attempt]) -> datetime | None:
    """Machines that were lost in use count; those that never were of use do not."""
    began = [
        attempt.launched_at
        for attempt in attempts
        if attempt.launched_at is not None and (attempt.ended_at is None or attempt.outcome == "Lost")
    ]
    return min(began, default=None)


def expires_at(sight: Sight) -> datetime | None:
    """None: never, or not begun."""
    began, life = life_began(sight.attempts), life_of(sight.spec)
    return began + life if began is not None and life is not None else None


def ends_at(record: Typed[GPURequest]) -> datetime | None:
    """When the machine of a request has to go, by its lifetime alone; None: never, or it has none."""
    attempts = attempts_of(record)
    if record.object is None or open_attempt(attempts) is None:
        return None
    began, life = life_began(attempts), life_of(record.object.spec)
    return began + life if began is not None and life is not None else None


def warned_at(sight: Sight) -> datetime | None:
    began, life = life_began(sight.attempts), life_of(sight.spec)
    return began + life * WARNED_AT if began is not None and life is not None else None


def counted_until(sight: Sight) -> datetime | None:
    """Until when a machine of an earlier attempt, gone by lists alone, counts against limits; None: none does."""
    moments = (attempt.counts_until for attempt in sight.attempts)
    return max((each for each in moments if each is not None and each > sight.now), default=None)


def idle_timeout(sight: Sight) -> timedelta | None:
    length = span(sight.spec.idle_timeout, "spec.idleTimeout")
    return None if length is NEVER else length


def idle_since(sight: Sight) -> datetime | None:
    """Since when nobody has used it, as noted, or later where a pod ended that nobody had noticed."""
    noted, worked = sight.status.idle_since, sight.node.worked_until
    return max(noted, worked) if noted is not None and worked is not None else noted


def unseen_since(sight: Sight) -> datetime | None:
    """Since when the cluster has not seen a node that was ready once; None: it sees it."""
    node = sight.node.node
    if node is None:
        registered = sight.condition("Registered")
        noticed = registered is not None and registered.status == "False"
        return (registered.last_transition_time if noticed and registered is not None else None) or sight.now
    if node.ready is True:
        return None
    return node.ready_since or sight.now


def disconnected_since(sight: Sight) -> datetime | None:
    """Since when the mesh has not known a machine that was ready once; None: it knows it, or nobody can tell."""
    if sight.mesh.ok is not False:
        return None
    noted = sight.condition("Connected")
    noticed = noted is not None and noted.status == "False"
    return (noted.last_transition_time if noticed and noted is not None else None) or sight.now


def _power(attempt: Attempt) -> bool:
    return attempt.offer is not None and attempt.offer.boot_mode == BootMode.POWER.value


def _where(attempt: Attempt) -> str:
    return attempt.offer.provider if attempt.offer is not None else "the provider"


def _soon(sight: Sight) -> datetime:
    return sight.now + LOOK_AGAIN


def _count(strays: tuple[str, ...]) -> str:
    return "one machine" if len(strays) == 1 else f"{len(strays)} machines"
