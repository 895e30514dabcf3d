"""What is done next about the machines of one pool that may be disrupted.

A move takes its candidates away, and brings replacements where their pods have no room elsewhere. Everything about it
is in the objects: the annotation `tgp.io/move` and the condition `Disrupted` of a candidate, the taint of its Node, the
annotations of its replacements. So a new process goes on where the last one ended, or takes the move back.

written down → soft taint → replacements Ready → planned again → hard taint → request deleted, which drains it.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import TypeAlias

from tgp.api.nodepool import GPUNodePool
from tgp.api.request import GPURequest
from tgp.api.values import NEVER, go_duration, is_rfc3339, rfc3339, span
from tgp.core.disruption.budgets import Allowance, allowance
from tgp.core.disruption.causes import (
    EMPTY,
    EXPIRED,
    NOT_BUDGETED,
    SURPLUS,
    DisruptionCause,
    Machine,
    cause_of,
    holds,
)
from tgp.core.disruption.drift import STAMP, to_stamp
from tgp.core.model.attempts import attempts_of, open_attempt
from tgp.core.model.conditions import ConditionUpdate, condition_in
from tgp.core.model.costs import hourly_of
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.node import Node
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.pod import Pod
from tgp.core.model.taints import Taint
from tgp.core.model.workload import PodDisruptionBudget
from tgp.core.pools.capacity import ENDED, on_its_way
from tgp.core.pools.orders import MOVE, REPLACES, anchor_of, slot_number
from tgp.core.pools.planner.world import Order
from tgp.core.requests.drain import DISRUPTED as HARD
from tgp.core.requests.protection import protection_of

CONDITION = "Disrupted"
SOFT = Taint(HARD.key, "PreferNoSchedule")
REPLACED_BY = "tgp.io/replaced-by"  # of a candidate: names of its replacements, with commas, once they are created
RETRY = "tgp.io/move-retry"  # of a candidate whose move was given up: when the next may begin, and how many were
RETRIES = (timedelta(minutes=10), timedelta(minutes=20), timedelta(minutes=40), timedelta(hours=1))
MOVE_AT_MOST = timedelta(hours=2)  # from its beginning to the hard taint; a start has its own, shorter limits
LOOK_AGAIN = timedelta(seconds=10)  # while a move is under way
BLOCKED_FOR = timedelta(minutes=1)  # until what blocks a move is looked at again: much of it changes without an event
MOST_PLANNED = 8  # candidates of a pool that may begin in one look
ID_DIGITS = 10
MOST_DIGITS = 6  # of a number of moves


@dataclass(frozen=True, slots=True)
class Refit:
    """Where the pods of a candidate would go, by a plan made for this look. All empty: into room that is there now."""

    orders: tuple[Order, ...] = ()  # machines that would have to be bought
    coming: tuple[str, ...] = ()  # machines on their way that have room for some of them
    unserved: str = ""  # why some pod would have no place, in text for users
    limited: bool = False  # … and the reason is a limit


@dataclass(frozen=True, slots=True)
class DisruptionObservation:
    pool: KubeObject[GPUNodePool]
    now: datetime
    machines: tuple[Machine, ...] = ()
    replacements: Mapping[str, tuple[Machine, ...]] = field(default_factory=dict)  # by move
    budgets: tuple[PodDisruptionBudget, ...] = ()
    stopped: str = ""  # why the pool buys nothing now; empty: it may
    refits: Mapping[ObjectKey, Refit] = field(default_factory=dict)  # by candidate, of those that `to_plan` names


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


def disturbed(machine: Machine) -> bool:
    """Whether it counts against budgets: from the hard taint until it is gone, and while it is not Ready."""
    record, node = machine.record, machine.node
    if record.value is None or not _was_ready(record):
        return False
    ending = record.deleting or holds(record, "Terminating") is not None
    return ending or node is None or node.ready is not True or HARD in node.taints


def move_of(record: KubeObject[GPURequest]) -> str:
    """The move that takes it away; empty: none does. A replacement has the mark of its move, too."""
    return "" if REPLACES in record.annotations else record.annotations.get(MOVE, "")


def new_move(record: KubeObject[GPURequest], now: datetime) -> str:
    digest = blake2b(f"{record.uid_text}\0{rfc3339(now)}".encode(), digest_size=ID_DIGITS // 2)
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
        self._nodes = sum(_was_ready(each.record) for each in seen.machines)
        self._disturbed = sum(disturbed(each) for each in seen.machines)
        moving = [each for each in seen.machines if move_of(each.record) and not disturbed(each)]
        self._begun = sum(_was_ready(each.record) for each in moving)
        self._moments: list[datetime | None] = []

    def steps(self) -> tuple[Step, ...]:
        """Without what is said already."""
        found = (self._step(machine) for machine in self._ordered())
        return tuple(step for step in found if step is not None and not _repeats(step))

    def to_plan(self) -> Iterator[ObjectKey]:
        left = MOST_PLANNED
        for machine in self._ordered():
            cause = self._causes[machine.record.key]
            if not isinstance(cause, DisruptionCause) or not needs_place(machine, cause):
                continue
            if move_of(machine.record):
                yield machine.record.key
            elif left and self._blocked(machine, cause) is None:
                left -= 1
                self._begun += 1
                yield machine.record.key

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
        attempt = open_attempt(attempts_of(machine.record))
        dearest = -hourly_of(attempt) if attempt is not None else 0
        return (not move_of(machine.record), rfc3339(since or self._now), works, dearest, machine.record.key)

    def _step(self, machine: Machine) -> Step | None:
        record = machine.record
        if record.deleting or record.value is None or holds(record, "Terminating") is not None:
            return None  # its lifecycle drains and terminates it
        if to_stamp(record.annotations.get(STAMP, ""), machine.stamp):
            return WriteStamp(machine)
        cause = self._causes[record.key]
        if move_of(record):
            return self._go_on(machine, cause if isinstance(cause, DisruptionCause) else None)
        if machine.node is not None and any(taint.key == HARD.key for taint in machine.node.taints):
            return SetTaint(machine, machine.node, "")  # of a move that is over
        if not isinstance(cause, DisruptionCause):
            return Unsay(machine) if condition_in(record.status, CONDITION) is not None else None
        return self._begin(machine, cause)

    # -- before it begins ----------------------------------------------------------------------------------------------

    def _begin(self, machine: Machine, cause: DisruptionCause) -> Step | None:
        block = self._blocked(machine, cause)
        if block is None and needs_place(machine, cause):
            refit = self._seen.refits.get(machine.record.key)
            if refit is None:
                return None  # it was not its turn
            block = self._no_place(refit, cause)
        if block is not None:
            self._moments.append(block.until)
            return Say(machine, ConditionUpdate(CONDITION, False, block.reason, block.message))
        self._begun += 1
        return WriteDown(machine, new_move(machine.record, self._now))

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
        if (block := self._protected(machine, cause) or self._unevictable(machine, cause)) is not None:
            return block
        allowed = self._allowance(cause, self._disturbed + self._begun)
        return None if allowed else _over_budget(allowed, cause)

    def _protected(self, machine: Machine, cause: DisruptionCause) -> _Block | None:
        """An expired machine goes all the same, if its drain ends some time: until then its pods are waited for."""
        if cause.reason == SURPLUS or (cause.reason == EXPIRED and _drain_ends(machine.record)):
            return None
        protection = protection_of(machine.record, machine.node, machine.pods, self._now)
        if protection is None:
            return None
        return _Block("Protected", f"{cause.reason}: {cause.message}. {protection.text}", protection.until)

    def _unevictable(self, machine: Machine, cause: DisruptionCause) -> _Block | None:
        blocking = blocking_budgets(pods_to_move(machine.pods), self._seen.budgets)
        if not blocking or cause.reason in NOT_BUDGETED:
            return None
        why = f"PodDisruptionBudget {blocking[0]} allows no eviction now"
        return _Block("PodDisruptionBudget", f"{cause.reason}: {cause.message}. {why}")

    def _no_place(self, refit: Refit, cause: DisruptionCause) -> _Block | None:
        begun = f"{cause.reason}: {cause.message}"
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
        if cause is None:
            return TakeBack(machine, "its cause is gone", self._unused(machine))
        if (why := self._over(machine, cause)) is not None:
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
            return self._taint(machine, node, cause)
        return Delete(machine, cause)

    def _over(self, machine: Machine, cause: DisruptionCause) -> _Block | None:
        """Why a move under way is given up."""
        if cause.reason in NOT_BUDGETED:
            return self._protected(machine, cause)
        if (block := self._protected(machine, cause)) is not None:
            return block
        begun, move = f"{cause.reason}: {cause.message}", move_of(machine.record)
        held = holds(machine.record, CONDITION)
        since = held.last_transition_time if held is not None else None
        if since is not None and self._now >= since + MOVE_AT_MOST:
            return _Block("MoveTimedOut", f"{begun}. The move took longer than {go_duration(MOVE_AT_MOST)}")
        allowed = self._allowance(cause, 0)
        if not allowed:  # not used up, but closed
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
            return OrderReplacements(machine, move, refit.orders)
        late = [str(each.record.key) for each in there if on_its_way(each.record) or not _is_ready(each)]
        if waited := sorted({*late, *refit.coming}):
            return Say(machine, _under_way(machine, cause, f"waits for {', '.join(waited)} to be ready"))
        return None

    def _taint(self, machine: Machine, node: Node, cause: DisruptionCause) -> Step:
        """The last look before pods are kept off, and evicted next."""
        if cause.reason not in NOT_BUDGETED:
            if (block := self._unevictable(machine, cause)) is not None:
                return Say(machine, _under_way(machine, cause, block.message.rpartition(". ")[2]))
            allowed = self._allowance(cause, self._disturbed)
            if not allowed:
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
        there = self._seen.replacements.get(move_of(machine.record), ())
        living = (each for each in there if not each.record.deleting and not _ended(each.record))
        return tuple(each for each in living if not pods_to_move(each.pods))


def _repeats(step: Step) -> bool:
    return isinstance(step, Say) and condition_in(step.machine.record.status, CONDITION) == step.update


def replaced_by(record: KubeObject[GPURequest]) -> tuple[str, ...]:
    return tuple(name for name in record.annotations.get(REPLACED_BY, "").split(",") if name)


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
    return ConditionUpdate(CONDITION, True, cause.reason, f"{cause.message}. Move {move_of(machine.record)}: {what}")


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
