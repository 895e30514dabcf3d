"""What is done next about the machines of pools that may be disrupted.

A move takes its candidates away, and brings replacements where their pods have no room elsewhere. Candidates of one
exchange are one move: they wait for the same replacements, are kept free of pods together, and leave one by one.
Everything about a move is in the objects: the annotation `tgp.io/move` and the condition `Disrupted` of a candidate,
the taint of its Node, the annotations of its replacements. So a new process goes on where the last one ended, or takes
the move back.

written down → soft taint → replacements Ready → planned again → hard taint → request deleted, which drains it.
Pods without GPUs are evicted from an empty machine before the deletion: until then it can stay for a pod that waits.
That is short for a rented machine, and nearly the whole drain of a machine you own, which takes long to be on again.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from tgp.api.request import GPURequest
from tgp.api.values import go_duration, rfc3339
from tgp.core.disruption.budgets import Allowance, allowance
from tgp.core.disruption.causes import (
    EMPTY,
    EXPIRED,
    FORCED,
    ILL,
    NOT_BUDGETED,
    SURPLUS,
    UNDERUTILIZED,
    DisruptionCause,
    FoundExchange,
    Machine,
    NoCause,
    cause_of,
    drain_grace,
    holds,
)
from tgp.core.disruption.drift import STAMP, to_stamp
from tgp.core.disruption.health import MISSING_SINCE, repair_halted
from tgp.core.disruption.machine_state import (
    CONDITION,
    HALTED,
    LIMITED,
    SOFT,
    UNCONSOLIDATABLE,
    UNPROVEN,
    bare_pod,
    disrupted,
    halt_text,
    has_ended,
    is_ready,
    kept_free,
    leaves,
    move_of,
    needs_place,
    new_move,
    nodes_and_unhealthy,
    pods_to_move,
    read_retry,
    replaced_by,
    unevictable,
    was_ready,
)
from tgp.core.disruption.move_steps import (
    Delete,
    DisruptionObservation,
    EvictFirst,
    NoteDrain,
    NoteMissing,
    NoteReplacements,
    OrderReplacements,
    PoolMachines,
    Refit,
    Say,
    SetTaint,
    Step,
    TakeBack,
    Unsay,
    WriteDown,
    WriteStamp,
)
from tgp.core.model.attempts import attempts_of, is_owned, open_attempt
from tgp.core.model.conditions import ConditionUpdate, condition_in
from tgp.core.model.costs import hourly_of
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.money import total
from tgp.core.model.node import Node
from tgp.core.model.object_key import ObjectKey
from tgp.core.pools.capacity import on_its_way
from tgp.core.requests.drain import DISRUPTED as HARD
from tgp.core.requests.drain import LAST_CALL_AT_MOST, began_at, drain
from tgp.core.requests.node_metadata import pool_key
from tgp.core.requests.protection import protection_of
from tgp.core.requests.termination_reasons import MOVES_ON

RETRIES = (timedelta(minutes=10), timedelta(minutes=20), timedelta(minutes=40), timedelta(hours=1))
TRIED_WITHIN = timedelta(minutes=10)  # of the next try: what failed in the last is left out until then
EVICTED_FIRST_FOR = timedelta(minutes=10)  # then the request is deleted, and its own drain goes on; a rented one costs
MOVE_AT_MOST = timedelta(hours=2)  # from its beginning to the hard taint; a start has its own, shorter limits
LOOK_AGAIN = timedelta(seconds=10)  # while a move is under way, and waits for more than machines on their way
BLOCKED_FOR = timedelta(minutes=1)  # until what blocks a move is looked at again: much of it changes without an event
MOST_PLANNED = 8  # moves of a pool that may begin in one look


def next_moves(seen: DisruptionObservation) -> tuple[Step, ...]:
    """At most one step for each machine. Equal observations give equal steps."""
    return _Look(seen).steps()


def to_plan(seen: DisruptionObservation) -> tuple[ObjectKey, ...]:
    """Candidates whose pods need a place: those of moves under way first, then those that would begin."""
    return tuple(_Look(seen).to_plan())


def nodes_that_go(seen: DisruptionObservation) -> frozenset[str]:
    """Names of Nodes that have a cause to go: pods that move are not moved there."""
    going = (machine for machine, cause in _causes(seen) if isinstance(cause, DisruptionCause))
    return frozenset(each.node.name for each in going if each.node is not None) | seen.going


def failed_since(record: KubeObject[GPURequest]) -> tuple[datetime, datetime] | None:
    """From when on offers failed for its last move, and until when no replacement is to be bought of them.

    None: no move of it was given up. An offer that failed once cools down for less time than a move pauses.
    """
    next_try, count = read_retry(record)
    if next_try is None:
        return None
    return next_try - _pause(count - 1) - MOVE_AT_MOST, next_try + TRIED_WITHIN


def _pause(given_up: int) -> timedelta:
    """Before the next try, after so many moves that were given up before this one."""
    return RETRIES[min(max(given_up, 0), len(RETRIES) - 1)]


def look_again_at(seen: DisruptionObservation) -> datetime | None:
    return _Look(seen).look_again_at()


def _causes(seen: DisruptionObservation) -> Iterator[tuple[Machine, DisruptionCause | NoCause]]:
    """Of each machine, by the rules of its own pool."""
    for each in seen.pools:
        yield from ((machine, cause_of(machine, each.value, seen.now)) for machine in each.machines)


@dataclass(frozen=True, slots=True)
class _Block:
    reason: str
    message: str
    until: datetime | None = None


_PARTED = _Block(
    "MoveGivenUp", "Underutilized: Another machine of the move is now in a pool of another class, or in no pool."
)


class _Counts:
    """How the machines of one pool count. Budgets are counted down as steps are decided."""

    def __init__(self, seen: PoolMachines) -> None:
        self.key = seen.pool.key
        self.rules = seen.value.spec.disruption.budgets
        self.min_savings = seen.value.spec.disruption.min_savings
        self.nodes, self.unhealthy = nodes_and_unhealthy(seen)
        self.disrupted = sum(disrupted(each) for each in seen.machines)
        moving = [each for each in seen.machines if move_of(each.record) and not disrupted(each)]
        self.begun = sum(was_ready(each.record) for each in moving)
        self.plans = MOST_PLANNED  # that are left for moves that would begin


class _Look:
    """One look at pools whose machines may leave together."""

    def __init__(self, seen: DisruptionObservation) -> None:
        self._seen = seen
        self._now = seen.now
        self._causes = {machine.record.key: cause for machine, cause in _causes(seen)}
        self._pools = [_Counts(each) for each in seen.pools]
        self._counts: dict[ObjectKey, _Counts] = {}  # by machine: of its pool
        for pool, counts in zip(seen.pools, self._pools, strict=True):
            self._counts |= dict.fromkeys((machine.record.key for machine in pool.machines), counts)
        self._moments: list[datetime | None] = []
        self._by_key = {each.record.key: each for each in seen.machines}
        self._moving: dict[str, list[Machine]] = {}  # by move: its candidates, in the order of their names
        for each in sorted(seen.machines, key=lambda machine: machine.record.key):
            if move := move_of(each.record):
                self._moving.setdefault(move, []).append(each)
        self._blocks: dict[tuple[ObjectKey, ...], _Block | None] = {}  # by candidates of a move that would begin
        self._overs: dict[str, _Block | None] = {}  # by move
        self._deleting: set[str] = set()  # moves of which a candidate leaves
        self._patient = 0  # candidates that wait only for machines on their way, which tell when they are Ready

    def steps(self) -> tuple[Step, ...]:
        """Without what is said already."""
        found = (*self._taken_back_elsewhere(), *(self._step(machine) for machine in self._ordered()))
        return tuple(step for step in found if step is not None and not _repeats(step))

    def to_plan(self) -> Iterator[ObjectKey]:
        planned = set[ObjectKey]()
        for machine in self._ordered():
            cause = self._causes[machine.record.key]
            if not isinstance(cause, DisruptionCause) or not needs_place(machine, cause):
                continue
            if move_of(machine.record):
                yield machine.record.key
                continue
            counts = self._counts[machine.record.key]
            if counts.plans and machine.record.key not in planned and self._blocked_together(machine, cause) is None:
                counts.plans -= 1
                together = [each for each in self._together(machine, cause) if not move_of(each.record)]
                for each in together:
                    self._counts[each.record.key].begun += 1
                planned |= {each.record.key for each in together}
                yield from (each.record.key for each in together)

    def look_again_at(self) -> datetime | None:
        self._moments += [each.until for each in self._causes.values() if not isinstance(each, DisruptionCause)]
        for step in self.steps():
            self._moments.append(self._now + LOOK_AGAIN if not isinstance(step, Say) else None)
        begun = sum(each.begun for each in self._pools)
        if begun > self._patient:
            self._moments.append(self._now + LOOK_AGAIN)
        elif begun or any(isinstance(each, DisruptionCause) for each in self._causes.values()):
            self._moments.append(self._now + BLOCKED_FOR)
        return min((each for each in self._moments if each is not None and each > self._now), default=None)

    def _ordered(self) -> list[Machine]:
        """Moves under way first, the oldest first; then the machines that cost nothing to move, the dearest first.

        Machines you own without a price cost by their size: the largest goes first.
        """
        return sorted(self._seen.machines, key=self._rank)

    def _rank(self, machine: Machine) -> tuple[object, ...]:
        cause = self._causes[machine.record.key]
        works = isinstance(cause, DisruptionCause) and needs_place(machine, cause)
        began = holds(machine.record, CONDITION)
        since = began.last_transition_time if began is not None else None
        rank = machine.exchange.rank if machine.exchange is not None else 0
        attempt = open_attempt(attempts_of(machine.record))
        dearest = -hourly_of(attempt) if attempt is not None else 0
        return (not move_of(machine.record), rfc3339(since or self._now), works, rank, dearest, machine.record.key)

    def _step(self, machine: Machine) -> Step | None:
        record = machine.record
        if record.value is None or leaves(machine):
            return None  # its lifecycle drains and terminates it
        if to_stamp(record.annotations.get(STAMP, ""), machine.stamp):
            return WriteStamp(machine)
        noted = rfc3339(machine.missing_since) if machine.missing_since is not None else None
        if record.annotations.get(MISSING_SINCE) != noted:
            return NoteMissing(machine, machine.missing_since)
        cause = self._causes[record.key]
        if move_of(record):
            return self._go_on(machine, cause if isinstance(cause, DisruptionCause) else None)
        if machine.node is not None and any(taint.key == HARD.key for taint in machine.node.taints):
            return SetTaint(machine, machine.node, "")  # of a move that is over
        if not isinstance(cause, DisruptionCause):
            if machine.limited:
                return Say(machine, ConditionUpdate(CONDITION, False, LIMITED, f"{machine.limited}."))
            if machine.unproven:
                return Say(machine, ConditionUpdate(CONDITION, False, UNPROVEN, f"{machine.unproven}."))
            if machine.too_little:
                return Say(machine, ConditionUpdate(CONDITION, False, UNCONSOLIDATABLE, f"{machine.too_little}."))
            return Unsay(machine) if condition_in(record.status, CONDITION) is not None else None
        return self._begin(machine, cause)

    # -- before it begins ----------------------------------------------------------------------------------------------

    def _begin(self, machine: Machine, cause: DisruptionCause) -> Step | None:
        together = self._together(machine, cause)
        if not together:
            return None  # the machines that would leave with it have changed: the next search finds others
        block = self._blocked_together(machine, cause)
        if block is None and needs_place(machine, cause):
            refit = self._seen.refits.get(machine.record.key)
            if refit is None:
                return None  # it was not its turn
            block = self._unforeseen(machine, refit) or self._no_place(refit, cause)
        if block is not None:
            self._moments.append(block.until)
            return Say(machine, ConditionUpdate(CONDITION, False, block.reason, block.message))
        self._counts[machine.record.key].begun += 1
        begun = {move for each in together if (move := move_of(each.record))}
        return WriteDown(machine, min(begun) if begun else new_move(together[0].record))

    def _together(self, machine: Machine, cause: DisruptionCause) -> tuple[Machine, ...]:
        """Candidates that would leave with it, itself included; empty: one of them does not leave any more."""
        if cause.reason != UNDERUTILIZED or machine.exchange is None:
            return (machine,)
        found = [self._by_key.get(key) for key in machine.exchange.candidates]
        members = tuple(each for each in found if each is not None and not leaves(each))
        causes = [self._causes[each.record.key] for each in members]
        whole = len(members) == len(found) and all(isinstance(each, DisruptionCause) for each in causes)
        return members if whole and machine in members else ()

    def _blocked_together(self, machine: Machine, cause: DisruptionCause) -> "_Block | None":
        """What forbids that all of them begin. A budget holds back the first of them: the others leave after it."""
        together = self._together(machine, cause)
        keys = tuple(each.record.key for each in together)
        if keys not in self._blocks:
            blocks = (self._blocked(each, cause) for each in together if not move_of(each.record))
            self._blocks[keys] = next((each for each in blocks if each is not None), None)
        return self._blocks[keys]

    def _blocked(self, machine: Machine, cause: DisruptionCause) -> _Block | None:
        """What forbids that a move begins, without a plan."""
        if cause.reason in NOT_BUDGETED:
            return self._protected(machine, cause)
        until, _ = read_retry(machine.record)
        if until is not None and self._now < until:
            held = condition_in(machine.record.status, CONDITION)
            kept = held if held is not None and held.status is False else None
            given_up = _Block("MoveGivenUp", f"{cause.reason}: {cause.message}. Last move was cancelled.", until)
            return _Block(kept.reason, kept.message, until) if kept is not None else given_up
        block = self._halted(machine, cause) or self._protected(machine, cause) or self._unevictable(machine, cause)
        if block is not None or cause.reason in FORCED:
            return block
        counts = self._counts[machine.record.key]
        allowed = self._allowance(machine, cause, counts.disrupted + counts.begun)
        return None if allowed else self._over_budget(machine, cause, allowed)

    def _halted(self, machine: Machine, cause: DisruptionCause) -> _Block | None:
        counts = self._counts[machine.record.key]
        if cause.reason != ILL or not repair_halted(counts.unhealthy, counts.nodes):
            return None
        return _Block(HALTED, f"{cause.reason}: {cause.message}. {halt_text(counts.unhealthy, counts.nodes)}")

    def _protected(self, machine: Machine, cause: DisruptionCause) -> _Block | None:
        """Where its drain ends some time, it waits for pods: they hold nothing back before it.

        What is said of the Node or the request of an expired machine is waited for as long, before the move begins.
        """
        ends = self._drain_waits(machine, cause)
        if cause.reason == SURPLUS or (ends and (cause.waits_until is None or self._now >= cause.waits_until)):
            return None
        bare = bare_pod(machine.pods) if cause.reason == UNDERUTILIZED else ""
        if bare:
            return _Block("Protected", f"{cause.reason}: {cause.message}. {bare}.")
        protection = protection_of(machine.record, machine.node, () if ends else machine.pods, self._now)
        if protection is None:
            return None
        until = min((each for each in (protection.until, cause.waits_until) if each is not None), default=None)
        return _Block("Protected", f"{cause.reason}: {cause.message}. {protection.text}.", until)

    def _drain_waits(self, machine: Machine, cause: DisruptionCause) -> bool:
        """Whether its drain waits for pods that cannot be evicted now, and ends: the move need not wait for them."""
        return (cause.reason == EXPIRED or cause.reason in FORCED) and drain_grace(machine.record) is not None

    def _unevictable(self, machine: Machine, cause: DisruptionCause) -> _Block | None:
        why = unevictable(pods_to_move(machine.pods), self._seen.budgets)
        if not why or cause.reason in NOT_BUDGETED or self._drain_waits(machine, cause):
            return None
        return _Block("PodDisruptionBudget", f"{cause.reason}: {cause.message}. {why}.")

    def _no_place(self, refit: Refit, cause: DisruptionCause) -> _Block | None:
        begun = f"{cause.reason}: {cause.message}"
        if refit.too_little and cause.reason == UNDERUTILIZED:
            return _Block(UNCONSOLIDATABLE, f"{begun}. The move is not worth it any more: {refit.too_little}.")
        if refit.unserved:
            reason = LIMITED if refit.limited else "NoReplacement"
            why = refit.unserved.rstrip(".")
            if cause.reason == UNDERUTILIZED:  # which names what was to take its place
                return _Block(reason, f"{begun}. That is not possible now: {why}.")
            return _Block(reason, f"{begun}. No machine can take its place: {why}.")
        return None

    def _unforeseen(self, machine: Machine, refit: Refit) -> _Block | None:
        """Of an exchange for room that was there: what would be bought instead waits for its saving to hold, too."""
        exchange = machine.exchange
        if exchange is None or exchange.buys or not refit.orders:
            return None
        if not refit.too_little:
            return _Block(UNPROVEN, _not_now(machine, exchange, refit, ". The next search looks for another exchange."))
        share = self._counts[machine.record.key].min_savings.removesuffix("%")
        return _Block(UNCONSOLIDATABLE, _not_now(machine, exchange, refit, f", and saves less than {share} %."))

    def _allowance(self, machine: Machine, cause: DisruptionCause, counted: int) -> Allowance:
        counts = self._counts[machine.record.key]
        answer = allowance(counts.rules, cause.reason, counts.nodes, counted, self._now)
        self._moments.append(answer.look_again_at)
        return answer

    def _over_budget(self, machine: Machine, cause: DisruptionCause, allowed: Allowance) -> _Block:
        """Where machines of several pools leave together, each of them says whose budget it is."""
        exchange = machine.exchange.candidates if machine.exchange is not None else ()
        keys = [each.record.key for each in self._moving.get(move_of(machine.record), ())] or exchange
        pools = {self._counts[key].key for key in keys if key in self._counts}
        whose = f"GPUNodePool {self._counts[machine.record.key].key}: " if len(pools) > 1 else ""
        when = "" if allowed.until is None else f" until {allowed.until:%Y-%m-%d %H:%M:%S}Z"
        why = f"{whose}{allowed.rule} allows no more disruption now{when}."
        return _Block("BudgetExhausted", f"{cause.reason}: {cause.message}. {why}", allowed.until)

    # -- under way -----------------------------------------------------------------------------------------------------

    def _go_on(self, machine: Machine, cause: DisruptionCause | None) -> Step | None:
        move = move_of(machine.record)
        together = [each for each in self._moving[move] if not leaves(each)]
        causes = [self._causes[each.record.key] for each in together]
        if cause is None or not all(isinstance(each, DisruptionCause) for each in causes):
            needed = machine.awaited and kept_free(machine)
            why = "a waiting pod needs it" if needed else "the reason for its termination is gone"
            return TakeBack(machine, why, self._unused(machine))
        if (over := self._over_together(move, together)) is not None:
            return self._given_up(machine, over)
        place = needs_place(machine, cause)
        node = machine.node
        if holds(machine.record, CONDITION) is None:
            return Say(machine, _under_way(machine, cause, "under way"))
        if place and node is not None and SOFT not in node.taints and HARD not in node.taints:
            return SetTaint(machine, node, SOFT.effect)
        if place and (step := self._placed(machine, cause)) is not None:
            return step
        if node is not None and HARD not in node.taints and was_ready(machine.record):
            return self._taint(machine, node, cause) if self._prepared(machine, together) else None
        return self._leave(machine, cause)

    def _over_together(self, move: str, together: Iterable[Machine]) -> "_Block | None":
        """What one of them is given up for, all are."""
        if move not in self._overs:
            found = ((each, self._causes[each.record.key]) for each in together)
            blocks = (self._over(each, cause) for each, cause in found if isinstance(cause, DisruptionCause))
            parted = _PARTED if move in self._seen.parted else None
            self._overs[move] = parted or next((each for each in blocks if each is not None), None)
        return self._overs[move]

    def _taken_back_elsewhere(self) -> Iterator[Step]:
        """Candidates of a parted move, before those that are here: whichever pool is looked at first, all say why."""
        for move, elsewhere in sorted(self._seen.parted.items()):
            for machine in elsewhere if move in self._moving else ():
                if not leaves(machine):
                    yield self._given_up(machine, _PARTED)

    def _prepared(self, machine: Machine, together: Iterable[Machine]) -> bool:
        """Whether the others are as far as it is: pods that are evicted from one must not be bound to the next."""
        names = replaced_by(machine.record)
        for each in together:
            cause = self._causes[each.record.key]
            if each is machine or not (isinstance(cause, DisruptionCause) and needs_place(each, cause)):
                continue
            tainted = each.node is None or SOFT in each.node.taints or HARD in each.node.taints
            if not tainted or holds(each.record, CONDITION) is None or replaced_by(each.record) != names:
                return False
        return True

    def _leave(self, machine: Machine, cause: DisruptionCause) -> Step:
        """One by one: the next once the pods of the last have left."""
        move = move_of(machine.record)
        leaving = [each for each in self._moving[move] if leaves(each) and pods_to_move(each.pods)]
        if leaving or move in self._deleting:
            return Say(machine, _under_way(machine, cause, "waiting for the other machines of the move to be drained"))
        if cause.reason == EMPTY and (step := self._emptied(machine, cause)) is not None:
            return step
        self._deleting.add(move)
        return Delete(machine, cause, self._rooms(machine))

    def _emptied(self, machine: Machine, cause: DisruptionCause) -> Step | None:
        """Without pods that use no GPU, as its own drain would do it; None: nothing more is waited for."""
        node, began = machine.node, began_at(machine.record.annotations)
        if node is None or node.ready is not True:
            return None
        others = tuple(pod for pod in machine.pods if not pod.of_daemon_set)
        left = drain(node, others, self._now, began or self._now, None)
        if not left.waiting:
            return None
        if began is None or began > self._now:  # an annotation that a user wrote keeps no machine for ever
            return NoteDrain(machine)
        length = _evicted_first_for(machine)
        if length is not None and self._now >= began + length:
            return None
        self._moments.append(self._now + LOOK_AGAIN)
        if asked := tuple(pod for pod in left.evict if not unevictable((pod,), self._seen.budgets)):
            return EvictFirst(machine, asked)
        return Say(machine, _under_way(machine, cause, f"waiting for pods without GPUs to leave Node {node.name}"))

    def _over(self, machine: Machine, cause: DisruptionCause) -> _Block | None:
        """Why a move under way is given up."""
        if cause.reason in NOT_BUDGETED:
            return self._protected(machine, cause)
        if (block := self._halted(machine, cause) or self._protected(machine, cause)) is not None:
            return block
        begun, move = f"{cause.reason}: {cause.message}", move_of(machine.record)
        held = holds(machine.record, CONDITION)
        since = held.last_transition_time if held is not None else None
        if since is not None and self._now >= since + MOVE_AT_MOST and not kept_free(machine):
            return _Block("MoveTimedOut", f"{begun}. The move took longer than {go_duration(MOVE_AT_MOST)}.")
        allowed = self._allowance(machine, cause, 0)
        if not allowed and cause.reason not in FORCED:  # not used up, but closed
            return self._over_budget(machine, cause, allowed)
        if not needs_place(machine, cause):
            return None
        if (gone := self._gone(machine)) is not None:
            return _Block("ReplacementFailed", f"{begun}. Replacement {gone.rstrip('.')}.")
        if (stopped := self._stopped(move)) is not None:
            return _Block("ReplacementFailed", f"{begun}. {stopped.rstrip('.')}.")
        refit = self._seen.refits.get(machine.record.key)
        if refit is None:
            return None
        ordered = self._seen.replacements.get(move, ())
        if refit.orders and ordered:
            return _Block("NoLongerFits", f"{begun}. {_unfit(refit, ordered)}.")
        if ordered or kept_free(machine):  # what is bought is paid: to go on saves more than to go back
            return self._no_place(replace(refit, too_little=""), cause)
        return self._unforeseen(machine, refit) or self._no_place(refit, cause)

    def _stopped(self, move: str) -> str | None:
        """Why a replacement that is not Ready yet may not be bought any more: by what stops the pool that buys it."""
        for each in self._seen.replacements.get(move, ()):
            pool = pool_key(each.record)
            why = self._seen.stopped.get(pool, "") if pool is not None else ""
            if why and not is_ready(each):
                return f"GPUNodePool {pool} buys nothing now: {why}"
        return None

    def _gone(self, machine: Machine) -> str | None:
        """What became of a replacement that does not come; None: all are there, or none was ordered."""
        there = {each.record.key.name: each for each in self._seen.replacements.get(move_of(machine.record), ())}
        for name in replaced_by(machine.record):
            if name not in there:
                why = self._seen.replanned.get(ObjectKey(machine.record.key.namespace, name), "")
                return f"{name} could not be bought: {why}" if why else f"{name} is gone"
        for name, each in sorted(there.items()):
            ending = holds(each.record, "Terminating") or holds(each.record, "Ended")
            if each.record.deleting or has_ended(each.record) or ending is not None:
                return f"{name} will not be ready: {ending.message}" if ending is not None else f"{name} is gone"
        return None

    def _placed(self, machine: Machine, cause: DisruptionCause) -> Step | None:
        """What its pods wait for; None: they have room."""
        move, refit = move_of(machine.record), self._seen.refits.get(machine.record.key)
        there = self._seen.replacements.get(move, ())
        names = tuple(sorted(each.record.key.name for each in there))
        if names and names != replaced_by(machine.record):
            return NoteReplacements(machine, names)
        if refit is None:
            return Say(machine, _under_way(machine, cause, "waiting for the next plan"))
        if refit.orders and not there:
            first = next(each for each in self._moving[move] if not leaves(each))
            if machine is not first:
                return Say(
                    machine, _under_way(machine, cause, f"waiting for the replacements of {first.record.key.name}")
                )
            return OrderReplacements(machine, move, refit.orders, self._replaced(move, cause))
        late = [str(each.record.key) for each in there if on_its_way(each.record) or not is_ready(each)]
        if waited := sorted({*late, *refit.coming}):
            self._patient += 1
            return Say(machine, _under_way(machine, cause, f"waiting for {', '.join(waited)} to be ready"))
        return None

    def _replaced(self, move: str, cause: DisruptionCause) -> int | None:
        attempts = [open_attempt(attempts_of(each.record)) for each in self._moving[move]]
        hourly = sum(hourly_of(each) for each in attempts if each is not None)
        return hourly if cause.reason == UNDERUTILIZED else None

    def _taint(self, machine: Machine, node: Node, cause: DisruptionCause) -> Step:
        """The last look before pods are kept off, and evicted next."""
        counts = self._counts[machine.record.key]
        if cause.reason not in NOT_BUDGETED:
            if (block := self._unevictable(machine, cause)) is not None:
                why = block.message.rpartition(". ")[2].removesuffix(".")
                return Say(machine, _under_way(machine, cause, f"waiting: {why}"))
            allowed = self._allowance(machine, cause, counts.disrupted)
            if not allowed and cause.reason not in FORCED:
                return Say(machine, _under_way(machine, cause, f"waiting for {allowed.rule}"))
        counts.disrupted += 1
        counts.begun -= 1
        return SetTaint(machine, node, HARD.effect, self._rooms(machine))

    def _rooms(self, machine: Machine) -> tuple[str, ...]:
        refit = self._seen.refits.get(machine.record.key)
        return refit.rooms if refit is not None else ()

    def _given_up(self, machine: Machine, block: _Block) -> TakeBack:
        _, count = read_retry(machine.record)
        until = self._now + _pause(count)
        message = f"{block.message} Next attempt at {until:%Y-%m-%d %H:%M:%S}Z."
        update = ConditionUpdate(CONDITION, False, block.reason, message)
        return TakeBack(machine, block.message, self._unused(machine), update, f"{rfc3339(until)} {count + 1}")

    def _unused(self, machine: Machine) -> tuple[Machine, ...]:
        """Not while a candidate is drained: its pods have room there. One that is not seen yet cannot be deleted."""
        move = move_of(machine.record)
        if any(leaves(each) for each in (*self._moving[move], *self._seen.parted.get(move, ()))):
            return ()
        there = self._seen.replacements.get(move, ())
        seen = (each for each in there if each.record.uid)
        living = (each for each in seen if not each.record.deleting and not has_ended(each.record))
        return tuple(each for each in living if not pods_to_move(each.pods))


def _evicted_first_for(machine: Machine) -> timedelta | None:
    """How long the machine may still stay for a pod that needs it; None: until its last pod is gone."""
    attempt, grace = open_attempt(attempts_of(machine.record)), drain_grace(machine.record)
    left = grace - min(LAST_CALL_AT_MOST, grace / 2) if grace is not None else None  # the drain goes on with the rest
    if attempt is not None and is_owned(attempt):
        return left
    return min(EVICTED_FIRST_FOR, left) if left is not None else EVICTED_FIRST_FOR


def _not_now(machine: Machine, exchange: FoundExchange, refit: Refit, why: str) -> str:
    alone = len(exchange.candidates) == 1
    pods = "pod" if alone and len(pods_to_move(machine.pods)) == 1 else "pods"
    whose, saving = "Its" if alone else "Their", total(exchange.saving_microusd)
    saved = f"{whose} {pods} would fit on other nodes, which saves {saving}/h"
    new = "a new machine" if len(refit.orders) == 1 else "new machines"
    return f"{UNDERUTILIZED}: {saved}; not now: it would need {new}{why}"


def _unfit(refit: Refit, replacements: Iterable[Machine]) -> str:
    """A plan cannot tell whether pods came or grew, room was taken, or the machine is smaller than its offer said."""
    names = ", ".join(sorted(each.record.key.name for each in replacements))
    pods = [f"Pod {pod.key}" for order in refit.orders for pod in order.pods]
    more = f" and {len(pods) - 1} more have" if len(pods) > 1 else " has"
    return f"{pods[0] if pods else 'A pod'}{more} no room on {names} or on any other machine"


def _repeats(step: Step) -> bool:
    """What is said already. Sums move with every price: they are no news."""
    held = condition_in(step.machine.record.status, CONDITION) if isinstance(step, Say) else None
    if not isinstance(step, Say) or held is None:
        return False
    same = (held.status, held.reason) == (step.update.status, step.update.reason)
    sum_only = step.update.reason in (UNCONSOLIDATABLE, UNPROVEN) or bool(step.machine.limited)
    return held == step.update or (same and sum_only)


def _under_way(machine: Machine, cause: DisruptionCause, what: str) -> ConditionUpdate:
    move = f"{MOVES_ON}{move_of(machine.record)} is {what}."
    return ConditionUpdate(CONDITION, True, cause.reason, f"{cause.message}{move}")
