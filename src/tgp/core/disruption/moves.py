"""What is done next about the machines of one pool that may be disrupted.

A move takes its candidates away, and brings replacements where their pods have no room elsewhere. Candidates of one
exchange are one move: they wait for the same replacements, are kept free of pods together, and leave one by one.
Everything about a move is in the objects: the annotation `tgp.io/move` and the condition `Disrupted` of a candidate,
the taint of its Node, the annotations of its replacements. So a new process goes on where the last one ended, or takes
the move back.

written down → soft taint → replacements Ready → planned again → hard taint → request deleted, which drains it.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import TypeAlias

import msgspec

from tgp.api.nodepool import GPUNodePool
from tgp.api.request import GPURequest
from tgp.api.values import NEVER, go_duration, is_rfc3339, rfc3339, span
from tgp.core.disruption.budgets import Allowance, allowance
from tgp.core.disruption.causes import (
    BUDGETED,
    EMPTY,
    EXPIRED,
    FORCED,
    ILL,
    MOVES_ON,
    NOT_BUDGETED,
    SURPLUS,
    UNDERUTILIZED,
    DisruptionCause,
    Machine,
    Standing,
    cause_of,
    holds,
)
from tgp.core.disruption.drift import STAMP, to_stamp
from tgp.core.disruption.illness import MOST_ILL_PERCENT, repair_halted
from tgp.core.model.attempts import attempts_of, open_attempt
from tgp.core.model.conditions import ConditionUpdate, condition_in
from tgp.core.model.costs import hourly_of
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.node import Node
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.pod import PENDING, Pod
from tgp.core.model.taints import Taint
from tgp.core.model.workload import PodDisruptionBudget
from tgp.core.pools.capacity import ENDED, on_its_way
from tgp.core.pools.demand import read_annotations
from tgp.core.pools.orders import MOVE, REPLACES, anchor_of, slot_number
from tgp.core.pools.planner.world import Order
from tgp.core.requests.drain import DISRUPTED as HARD
from tgp.core.requests.protection import protection_of

CONDITION = "Disrupted"
HALTED = "RepairHalted"  # the condition of a pool, and the reason of a machine that stays for it
SOFT = Taint(HARD.key, "PreferNoSchedule")
REPLACED_BY = "tgp.io/replaced-by"  # of a candidate: names of its replacements, with commas, once they are created
RETRY = "tgp.io/move-retry"  # of a candidate whose move was given up: when the next may begin, and how many were
RETRIES = (timedelta(minutes=10), timedelta(minutes=20), timedelta(minutes=40), timedelta(hours=1))
MOVE_AT_MOST = timedelta(hours=2)  # from its beginning to the hard taint; a start has its own, shorter limits
LOOK_AGAIN = timedelta(seconds=10)  # while a move is under way
UNCONSOLIDATABLE = "Unconsolidatable"  # the reason of a machine whose best exchange saves too little
UNPROVEN = "SavingUnproven"  # the reason of a machine whose exchange is worth it, and not for long enough yet
BLOCKED_FOR = timedelta(minutes=1)  # until what blocks a move is looked at again: much of it changes without an event
MOST_PLANNED = 8  # candidates of a pool that may begin in one look
ID_DIGITS = 10
MOST_DIGITS = 6  # of a number of moves


@dataclass(frozen=True, slots=True)
class Refit:
    """Where the pods of a candidate would go, by a plan made for this look. All empty: into room that is there now."""

    orders: tuple[Order, ...] = ()  # machines that would have to be bought
    coming: tuple[str, ...] = ()  # machines on their way that have room for some of them
    rooms: tuple[str, ...] = ()  # Nodes that have room for some of them
    unserved: str = ""  # why some pod would have no place, in text for users
    limited: bool = False  # … and the reason is a limit
    too_little: str = ""  # of an exchange: why it is not worth it any more, in text for users


@dataclass(frozen=True, slots=True)
class DisruptionObservation:
    pool: KubeObject[GPUNodePool]
    now: datetime
    machines: tuple[Machine, ...] = ()
    replacements: Mapping[str, tuple[Machine, ...]] = field(default_factory=dict)  # by move
    budgets: tuple[PodDisruptionBudget, ...] = ()
    stopped: str = ""  # why the pool buys nothing now; empty: it may
    refits: Mapping[ObjectKey, Refit] = field(default_factory=dict)  # by candidate, of those that `to_plan` names
    standing: Mapping[ObjectKey, Standing] = field(default_factory=dict)  # where they may be exchanged


@dataclass(frozen=True, slots=True)
class WriteDown:
    """Begin: the record of the move comes before anything else."""

    machine: Machine
    move: str


@dataclass(frozen=True, slots=True)
class WriteStamp:
    """Of a machine without a drift hash, or with one of another version."""

    machine: Machine


@dataclass(frozen=True, slots=True)
class Say:
    """Write the condition of a candidate, or of a machine whose move cannot begin."""

    machine: Machine
    update: ConditionUpdate


@dataclass(frozen=True, slots=True)
class Unsay:
    """Nothing is to be said of it any more."""

    machine: Machine


@dataclass(frozen=True, slots=True)
class SetTaint:
    """`effect` of our taint on the candidate's Node; empty: the taint is removed."""

    machine: Machine
    node: Node
    effect: str


@dataclass(frozen=True, slots=True)
class OrderReplacements:
    machine: Machine
    move: str
    orders: tuple[Order, ...]
    replaced_microusd: int | None = None  # an hour: what they are cheaper than together; None: that is not why


@dataclass(frozen=True, slots=True)
class NoteReplacements:
    """So that a replacement that vanishes is missed."""

    machine: Machine
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Delete:
    """The last step: if the reason still holds when pods were listed once more, the request is deleted."""

    machine: Machine
    cause: DisruptionCause


@dataclass(frozen=True, slots=True)
class TakeBack:
    """Replacements that no pod uses are deleted, taint and condition go, and last the record of the move."""

    machine: Machine
    why: str
    unused: tuple[Machine, ...] = ()
    update: ConditionUpdate | None = None  # what stays to be read; None: nothing, the cause is gone
    retry: str = ""  # value of the annotation; empty: the next move may begin at once


Step: TypeAlias = (
    WriteStamp | WriteDown | Say | Unsay | SetTaint | OrderReplacements | NoteReplacements | Delete | TakeBack
)


def next_moves(seen: DisruptionObservation) -> tuple[Step, ...]:
    """At most one step for each machine. Equal observations give equal steps."""
    return _Look(seen).steps()


def to_plan(seen: DisruptionObservation) -> tuple[ObjectKey, ...]:
    """Candidates whose pods need a place: those of moves under way first, then those that would begin."""
    return tuple(_Look(seen).to_plan())


def nodes_that_go(seen: DisruptionObservation) -> frozenset[str]:
    """Names of Nodes that have a cause to go: pods that move are not moved there."""
    assert seen.pool.value is not None, "a pool that cannot be read decides nothing"
    pool, now = seen.pool.value, seen.now
    going = (each for each in seen.machines if isinstance(cause_of(each, pool, now), DisruptionCause))
    return frozenset(each.node.name for each in going if each.node is not None)


def look_again_at(seen: DisruptionObservation) -> datetime | None:
    return _Look(seen).look_again_at()


def pods_to_move(pods: Iterable[Pod]) -> tuple[Pod, ...]:
    """Those that have to be somewhere else afterwards."""
    leaving = (pod for pod in pods if not (pod.finished or pod.deleting or pod.mirror or pod.of_daemon_set))
    return tuple(sorted(leaving, key=lambda pod: pod.key))


def bare_pod(pods: Iterable[Pod]) -> str:
    """The first that no controller would create again, in text for users: no saving is worth its end. Empty: none."""
    bare = next((pod for pod in pods_to_move(pods) if pod.controller is None), None)
    return f"Pod {bare.key} has no controller that would create it again" if bare is not None else ""


def as_waiting(pod: Pod) -> Pod:
    """As its successor will be."""
    annotations = read_annotations(pod)[0]
    return msgspec.structs.replace(pod, node="", nominated_node="", phase=PENDING, annotations=annotations)


def disturbed(machine: Machine) -> bool:
    """Whether it counts against budgets: from the hard taint until it is gone, and while it is not Ready."""
    record, node = machine.record, machine.node
    if record.value is None or not _was_ready(record):
        return False
    ending = record.deleting or holds(record, "Terminating") is not None
    return ending or node is None or node.ready is not True or HARD in node.taints


def is_ill(machine: Machine) -> bool:
    """Whether something is wrong with a machine that worked, however long it has been so."""
    return machine.illness is not None and _was_ready(machine.record) and not machine.keeps_place


def nodes_and_ill(seen: DisruptionObservation) -> tuple[int, int]:
    """How many nodes the pool has, and how many of them are ill."""
    counted = [each for each in seen.machines if _was_ready(each.record) and not each.keeps_place]
    return len(counted), sum(is_ill(each) for each in counted)


def budgets_left(seen: DisruptionObservation) -> tuple[Mapping[str, int], datetime | None]:
    """By reason, how many more nodes may be disrupted now; and when that changes by itself."""
    assert seen.pool.value is not None, "a pool that cannot be read decides nothing"
    rules, (nodes, _) = seen.pool.value.spec.disruption.budgets, nodes_and_ill(seen)
    counted = sum(disturbed(each) for each in seen.machines)
    found = {each: allowance(rules, each, nodes, counted, seen.now) for each in BUDGETED}
    moments = [each.look_again_at for each in found.values() if each.look_again_at is not None]
    return {reason: each.left for reason, each in found.items()}, min(moments, default=None)


def halt_text(ill: int, nodes: int) -> str:
    return f"{ill} of {nodes} nodes are ill at once, more than {MOST_ILL_PERCENT} %: none is replaced for that"


def move_of(record: KubeObject[GPURequest]) -> str:
    """The move that takes it away; empty: none does. A replacement has the mark of its move, too."""
    return "" if REPLACES in record.annotations else record.annotations.get(MOVE, "")


def new_move(record: KubeObject[GPURequest]) -> str:
    """The same for as long as the same is seen: candidates whose records are written in two looks are one move."""
    digest = blake2b(f"{record.uid_text}\0{record.resource_version}".encode(), digest_size=ID_DIGITS // 2)
    return digest.hexdigest()


def needs_place(machine: Machine, cause: DisruptionCause) -> bool:
    """Whether something has to be there before the machine may go: room for its pods, or the machine of its slot."""
    if cause.reason == EMPTY or cause.reason in NOT_BUDGETED:
        return False
    return slot_number(anchor_of(machine.record)) is not None or bool(pods_to_move(machine.pods))


def blocking_budgets(pods: Iterable[Pod], budgets: Iterable[PodDisruptionBudget]) -> list[str]:
    """PodDisruptionBudgets that allow no eviction of one of the pods now."""
    closed = [each for each in budgets if each.disruptions_allowed <= 0]
    return sorted(
        {
            str(budget.key)
            for budget in closed
            for pod in pods
            if budget.key.namespace == pod.key.namespace and budget.selector.selects(pod.labels)
        }
    )


@dataclass(frozen=True, slots=True)
class _Block:
    reason: str
    message: str
    until: datetime | None = None


class _Look:
    """One look at a pool. Budgets are counted down as steps are decided."""

    def __init__(self, seen: DisruptionObservation) -> None:
        assert seen.pool.value is not None, "a pool that cannot be read decides nothing"
        self._seen = seen
        self._pool: GPUNodePool = seen.pool.value
        self._now = seen.now
        self._causes = {each.record.key: cause_of(each, self._pool, seen.now) for each in seen.machines}
        self._nodes, self._ill = nodes_and_ill(seen)
        self._disturbed = sum(disturbed(each) for each in seen.machines)
        moving = [each for each in seen.machines if move_of(each.record) and not disturbed(each)]
        self._begun = sum(_was_ready(each.record) for each in moving)
        self._moments: list[datetime | None] = []
        self._by_key = {each.record.key: each for each in seen.machines}
        self._moving: dict[str, list[Machine]] = {}  # by move: its candidates, in the order of their names
        for each in sorted(seen.machines, key=lambda machine: machine.record.key):
            if move := move_of(each.record):
                self._moving.setdefault(move, []).append(each)
        self._blocks: dict[tuple[ObjectKey, ...], _Block | None] = {}  # by candidates of a move that would begin
        self._overs: dict[str, _Block | None] = {}  # by move
        self._deleting: set[str] = set()  # moves of which a candidate leaves

    def steps(self) -> tuple[Step, ...]:
        """Without what is said already."""
        found = (self._step(machine) for machine in self._ordered())
        return tuple(step for step in found if step is not None and not _repeats(step))

    def to_plan(self) -> Iterator[ObjectKey]:
        left, planned = MOST_PLANNED, set[ObjectKey]()
        for machine in self._ordered():
            cause = self._causes[machine.record.key]
            if not isinstance(cause, DisruptionCause) or not needs_place(machine, cause):
                continue
            if move_of(machine.record):
                yield machine.record.key
            elif left and machine.record.key not in planned and self._blocked_together(machine, cause) is None:
                left -= 1
                together = [each for each in self._together(machine, cause) if not move_of(each.record)]
                self._begun += len(together)
                planned |= {each.record.key for each in together}
                yield from (each.record.key for each in together)

    def look_again_at(self) -> datetime | None:
        self._moments += [each.until for each in self._causes.values() if not isinstance(each, DisruptionCause)]
        for step in self.steps():
            self._moments.append(self._now + LOOK_AGAIN if not isinstance(step, Say) else None)
        if self._begun:
            self._moments.append(self._now + LOOK_AGAIN)
        elif any(isinstance(each, DisruptionCause) for each in self._causes.values()):
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
        if record.value is None or _leaves(machine):
            return None  # its lifecycle drains and terminates it
        if to_stamp(record.annotations.get(STAMP, ""), machine.stamp):
            return WriteStamp(machine)
        cause = self._causes[record.key]
        if move_of(record):
            return self._go_on(machine, cause if isinstance(cause, DisruptionCause) else None)
        if machine.node is not None and any(taint.key == HARD.key for taint in machine.node.taints):
            return SetTaint(machine, machine.node, "")  # of a move that is over
        if not isinstance(cause, DisruptionCause):
            if machine.limited:
                return Say(machine, ConditionUpdate(CONDITION, False, "LimitReached", machine.limited))
            if machine.unproven:
                return Say(machine, ConditionUpdate(CONDITION, False, UNPROVEN, machine.unproven))
            if machine.too_little:
                return Say(machine, ConditionUpdate(CONDITION, False, UNCONSOLIDATABLE, machine.too_little))
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
            block = self._no_place(refit, cause)
        if block is not None:
            self._moments.append(block.until)
            return Say(machine, ConditionUpdate(CONDITION, False, block.reason, block.message))
        self._begun += 1
        begun = {move for each in together if (move := move_of(each.record))}
        return WriteDown(machine, min(begun) if begun else new_move(together[0].record))

    def _together(self, machine: Machine, cause: DisruptionCause) -> tuple[Machine, ...]:
        """Candidates that would leave with it, itself included; empty: one of them does not leave any more."""
        if cause.reason != UNDERUTILIZED or machine.exchange is None:
            return (machine,)
        found = [self._by_key.get(key) for key in machine.exchange.candidates]
        members = tuple(each for each in found if each is not None and not _leaves(each))
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
            given_up = _Block("MoveGivenUp", f"{cause.reason}: {cause.message}. The last move was given up", until)
            return _Block(kept.reason, kept.message, until) if kept is not None else given_up
        block = self._halted(cause) or self._protected(machine, cause) or self._unevictable(machine, cause)
        if block is not None or cause.reason in FORCED:
            return block
        allowed = self._allowance(cause, self._disturbed + self._begun)
        return None if allowed else _over_budget(allowed, cause)

    def _halted(self, cause: DisruptionCause) -> _Block | None:
        if cause.reason != ILL or not repair_halted(self._ill, self._nodes):
            return None
        return _Block(HALTED, f"{cause.reason}: {cause.message}. {halt_text(self._ill, self._nodes)}")

    def _protected(self, machine: Machine, cause: DisruptionCause) -> _Block | None:
        """An expired machine goes all the same, if its drain ends some time: until then its pods are waited for."""
        ends = cause.reason == EXPIRED or cause.reason in FORCED
        if cause.reason == SURPLUS or (ends and _drain_ends(machine.record)):
            return None
        bare = bare_pod(machine.pods) if cause.reason == UNDERUTILIZED else ""
        if bare:
            return _Block("Protected", f"{cause.reason}: {cause.message}. {bare}")
        protection = protection_of(machine.record, machine.node, machine.pods, self._now)
        if protection is None:
            return None
        return _Block("Protected", f"{cause.reason}: {cause.message}. {protection.text}", protection.until)

    def _unevictable(self, machine: Machine, cause: DisruptionCause) -> _Block | None:
        blocking = blocking_budgets(pods_to_move(machine.pods), self._seen.budgets)
        if not blocking or cause.reason in NOT_BUDGETED or (cause.reason in FORCED and _drain_ends(machine.record)):
            return None
        why = f"PodDisruptionBudget {blocking[0]} allows no eviction now"
        return _Block("PodDisruptionBudget", f"{cause.reason}: {cause.message}. {why}")

    def _no_place(self, refit: Refit, cause: DisruptionCause) -> _Block | None:
        begun = f"{cause.reason}: {cause.message}"
        if refit.too_little and cause.reason == UNDERUTILIZED:
            return _Block(UNCONSOLIDATABLE, f"{begun}. It is not worth it any more: {refit.too_little}")
        if refit.unserved:
            reason = "LimitReached" if refit.limited else "NoReplacement"
            return _Block(reason, f"{begun}. No machine can take its place: {refit.unserved}")
        if refit.orders and self._seen.stopped:
            return _Block("NoReplacement", f"{begun}. The pool buys nothing: {self._seen.stopped}")
        return None

    def _allowance(self, cause: DisruptionCause, counted: int) -> Allowance:
        answer = allowance(self._pool.spec.disruption.budgets, cause.reason, self._nodes, counted, self._now)
        self._moments.append(answer.look_again_at)
        return answer

    # -- under way -----------------------------------------------------------------------------------------------------

    def _go_on(self, machine: Machine, cause: DisruptionCause | None) -> Step | None:
        move = move_of(machine.record)
        together = [each for each in self._moving[move] if not _leaves(each)]
        causes = [self._causes[each.record.key] for each in together]
        if cause is None or not all(isinstance(each, DisruptionCause) for each in causes):
            return TakeBack(machine, "its cause is gone", self._unused(machine))
        if (why := self._over_together(move, together)) is not None:
            return self._given_up(machine, why)
        place = needs_place(machine, cause)
        node = machine.node
        if holds(machine.record, CONDITION) is None:
            return Say(machine, _under_way(machine, cause, "it begins"))
        if place and node is not None and SOFT not in node.taints and HARD not in node.taints:
            return SetTaint(machine, node, SOFT.effect)
        if place and (step := self._placed(machine, cause)) is not None:
            return step
        if node is not None and HARD not in node.taints and _was_ready(machine.record):
            return self._taint(machine, node, cause) if self._prepared(machine, together) else None
        return self._leave(machine, cause)

    def _over_together(self, move: str, together: Iterable[Machine]) -> "_Block | None":
        """What one of them is given up for, all are."""
        if move not in self._overs:
            found = ((each, self._causes[each.record.key]) for each in together)
            blocks = (self._over(each, cause) for each, cause in found if isinstance(cause, DisruptionCause))
            self._overs[move] = next((each for each in blocks if each is not None), None)
        return self._overs[move]

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
        leaving = [each for each in self._moving[move] if _leaves(each) and pods_to_move(each.pods)]
        if leaving or move in self._deleting:
            return Say(machine, _under_way(machine, cause, "waits until the other machines of the move are drained"))
        self._deleting.add(move)
        return Delete(machine, cause)

    def _over(self, machine: Machine, cause: DisruptionCause) -> _Block | None:
        """Why a move under way is given up."""
        if cause.reason in NOT_BUDGETED:
            return self._protected(machine, cause)
        if (block := self._halted(cause) or self._protected(machine, cause)) is not None:
            return block
        begun, move = f"{cause.reason}: {cause.message}", move_of(machine.record)
        held = holds(machine.record, CONDITION)
        since = held.last_transition_time if held is not None else None
        if since is not None and self._now >= since + MOVE_AT_MOST and not kept_free(machine):
            return _Block("MoveTimedOut", f"{begun}. The move took longer than {go_duration(MOVE_AT_MOST)}")
        allowed = self._allowance(cause, 0)
        if not allowed and cause.reason not in FORCED:  # not used up, but closed
            return _over_budget(allowed, cause)
        if not needs_place(machine, cause):
            return None
        if (gone := self._gone(machine)) is not None:
            return _Block("ReplacementFailed", f"{begun}. Replacement {gone}")
        if self._seen.stopped and any(not _is_ready(each) for each in self._seen.replacements.get(move, ())):
            return _Block("ReplacementFailed", f"{begun}. The pool buys nothing now: {self._seen.stopped}")
        refit = self._seen.refits.get(machine.record.key)
        if refit is not None and refit.orders and self._seen.replacements.get(move):
            return _Block("PodsChanged", f"{begun}. Its pods have changed, and no longer fit the replacement")
        if refit is not None and (kept_free(machine) or self._seen.replacements.get(move)):
            refit = replace(refit, too_little="")  # what is bought is paid: to go on saves more than to go back
        return self._no_place(refit, cause) if refit is not None else None

    def _gone(self, machine: Machine) -> str | None:
        """What became of a replacement that does not come; None: all are there, or none was ordered."""
        there = {each.record.key.name: each for each in self._seen.replacements.get(move_of(machine.record), ())}
        for name in replaced_by(machine.record):
            if name not in there:
                return f"{name} is gone"
        for name, each in sorted(there.items()):
            ending = holds(each.record, "Terminating") or holds(each.record, "Ended")
            if each.record.deleting or _ended(each.record) or ending is not None:
                return f"{name} does not come: {ending.message}" if ending is not None else f"{name} is gone"
        return None

    def _placed(self, machine: Machine, cause: DisruptionCause) -> Step | None:
        """What its pods wait for; None: they have room."""
        move, refit = move_of(machine.record), self._seen.refits.get(machine.record.key)
        there = self._seen.replacements.get(move, ())
        names = tuple(sorted(each.record.key.name for each in there))
        if names and names != replaced_by(machine.record):
            return NoteReplacements(machine, names)
        if refit is None:
            return Say(machine, _under_way(machine, cause, "waits for its turn to be planned"))
        if refit.orders and not there:
            first = next(each for each in self._moving[move] if not _leaves(each))
            if machine is not first:
                return Say(machine, _under_way(machine, cause, f"waits for replacements of {first.record.key.name}"))
            return OrderReplacements(machine, move, refit.orders, self._replaced(move, cause))
        late = [str(each.record.key) for each in there if on_its_way(each.record) or not _is_ready(each)]
        if waited := sorted({*late, *refit.coming}):
            return Say(machine, _under_way(machine, cause, f"waits for {', '.join(waited)} to be ready"))
        return None

    def _replaced(self, move: str, cause: DisruptionCause) -> int | None:
        attempts = [open_attempt(attempts_of(each.record)) for each in self._moving[move]]
        hourly = sum(hourly_of(each) for each in attempts if each is not None)
        return hourly if cause.reason == UNDERUTILIZED else None

    def _taint(self, machine: Machine, node: Node, cause: DisruptionCause) -> Step:
        """The last look before pods are kept off, and evicted next."""
        if cause.reason not in NOT_BUDGETED:
            if (block := self._unevictable(machine, cause)) is not None:
                return Say(machine, _under_way(machine, cause, block.message.rpartition(". ")[2]))
            allowed = self._allowance(cause, self._disturbed)
            if not allowed and cause.reason not in FORCED:
                return Say(machine, _under_way(machine, cause, f"waits for {allowed.rule}"))
        self._disturbed += 1
        self._begun -= 1
        return SetTaint(machine, node, HARD.effect)

    def _given_up(self, machine: Machine, block: _Block) -> TakeBack:
        _, count = read_retry(machine.record)
        until = self._now + RETRIES[min(count, len(RETRIES) - 1)]
        message = f"{block.message}. The next try is at {until:%Y-%m-%d %H:%M:%S}Z"
        update = ConditionUpdate(CONDITION, False, block.reason, message)
        return TakeBack(machine, block.message, self._unused(machine), update, f"{rfc3339(until)} {count + 1}")

    def _unused(self, machine: Machine) -> tuple[Machine, ...]:
        """Not while a candidate is drained: its pods have room there."""
        if any(_leaves(each) for each in self._moving[move_of(machine.record)]):
            return ()
        there = self._seen.replacements.get(move_of(machine.record), ())
        living = (each for each in there if not each.record.deleting and not _ended(each.record))
        return tuple(each for each in living if not pods_to_move(each.pods))


def _repeats(step: Step) -> bool:
    """What is said already. Sums move with every price: they are no news."""
    held = condition_in(step.machine.record.status, CONDITION) if isinstance(step, Say) else None
    if not isinstance(step, Say) or held is None:
        return False
    same = (held.status, held.reason) == (step.update.status, step.update.reason)
    sum_only = step.update.reason in (UNCONSOLIDATABLE, UNPROVEN) or bool(step.machine.limited)
    return held == step.update or (same and sum_only)


def _leaves(machine: Machine) -> bool:
    """Whether its lifecycle drains and terminates it."""
    return machine.record.deleting or holds(machine.record, "Terminating") is not None


def replaced_by(record: KubeObject[GPURequest]) -> tuple[str, ...]:
    return tuple(name for name in record.annotations.get(REPLACED_BY, "").split(",") if name)


def kept_free(machine: Machine) -> bool:
    """Whether its pods leave next: new ones are kept off."""
    return machine.node is not None and HARD in machine.node.taints


def read_retry(record: KubeObject[GPURequest]) -> tuple[datetime | None, int]:
    """When the next move may begin, and how many were given up. What cannot be read is no hindrance."""
    at, _, count = record.annotations.get(RETRY, "").partition(" ")
    if not is_rfc3339(at) or not (count.isascii() and count.isdigit() and len(count) <= MOST_DIGITS):
        return None, 0
    return datetime.fromisoformat(at), int(count)


def _drain_ends(record: KubeObject[GPURequest]) -> bool:
    grace = record.value.spec.termination_grace_period if record.value is not None else NEVER.value
    return span(grace, "spec.terminationGracePeriod") is not NEVER


def _under_way(machine: Machine, cause: DisruptionCause, what: str) -> ConditionUpdate:
    return ConditionUpdate(CONDITION, True, cause.reason, f"{cause.message}{MOVES_ON}{move_of(machine.record)}: {what}")


def _over_budget(allowed: Allowance, cause: DisruptionCause) -> _Block:
    when = "" if allowed.until is None else f" until {allowed.until:%Y-%m-%d %H:%M:%S}Z"
    why = f"{allowed.rule} allows no more disruption now{when}"
    return _Block("BudgetExhausted", f"{cause.reason}: {cause.message}. {why}", allowed.until)


def _ended(record: KubeObject[GPURequest]) -> bool:
    return record.value is not None and record.value.status.phase in ENDED


def _was_ready(record: KubeObject[GPURequest]) -> bool:
    return record.value is not None and record.value.status.ready_at is not None


def _is_ready(machine: Machine) -> bool:
    return _was_ready(machine.record) and machine.node is not None and machine.node.ready is True
