"""What its objects say of a machine of a pool, and of the move that it is in."""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from hashlib import blake2b

import msgspec

from tgp.api.request import GPURequest
from tgp.api.values import is_rfc3339
from tgp.core.disruption.budgets import allowance
from tgp.core.disruption.causes import (
    BUDGETED,
    EMPTY,
    NOT_BUDGETED,
    DisruptionCause,
    Machine,
    holds,
)
from tgp.core.disruption.health import MOST_UNHEALTHY_PERCENT
from tgp.core.disruption.move_steps import PoolMachines
from tgp.core.model.attempts import attempts_of, gpu_resource, open_attempt
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.pod import PENDING, Pod
from tgp.core.model.taints import Taint
from tgp.core.model.workload import PodDisruptionBudget
from tgp.core.pools.capacity import ENDED, living
from tgp.core.pools.demand import read_annotations
from tgp.core.pools.orders import MOVE, REPLACES, anchor_of, slot_number
from tgp.core.requests.drain import DISRUPTED as HARD
from tgp.core.requests.node_state import idle
from tgp.core.requests.protection import protection_of

CONDITION = "Disrupted"
HALTED = "RepairHalted"  # the condition of a pool, and the reason of a machine that stays for it
UNCONSOLIDATABLE = "Unconsolidatable"  # the reason of a machine whose best exchange saves too little
UNPROVEN = "SavingUnproven"  # the reason of a machine whose exchange is worth it, and not for long enough yet
LIMITED = "LimitReached"
STAY = frozenset({UNCONSOLIDATABLE, UNPROVEN, LIMITED})  # reasons of machines that may stay for good
SOFT = Taint(HARD.key, "PreferNoSchedule")
REPLACED_BY = "tgp.io/replaced-by"  # of a candidate: names of its replacements, with commas, once they are created
RETRY = "tgp.io/move-retry"  # of a candidate whose move was given up: when the next may begin, and how many were
RECEIVED = "tgp.io/pods-moved-at"  # of a machine: when the pods of another one were last moved to it
ID_DIGITS = 10
MOST_DIGITS = 6  # of a number of moves


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


def disrupted(machine: Machine) -> bool:
    """Whether it counts against budgets: from the hard taint until it is gone, and while it is not Ready."""
    record, node = machine.record, machine.node
    if record.value is None or not was_ready(record):
        return False
    ending = record.deleting or holds(record, "Terminating") is not None
    return ending or node is None or node.ready is not True or HARD in node.taints


def is_unhealthy(machine: Machine) -> bool:
    """Whether something is wrong with a machine that worked, however long it has been so."""
    return machine.health_problem is not None and was_ready(machine.record) and not machine.keeps_place


def nodes_and_unhealthy(seen: PoolMachines) -> tuple[int, int]:
    """How many nodes the pool has, and how many of them are unhealthy."""
    counted = [each for each in seen.machines if was_ready(each.record) and not each.keeps_place]
    return len(counted), sum(is_unhealthy(each) for each in counted)


def budgets_left(seen: PoolMachines, now: datetime) -> tuple[Mapping[str, int], datetime | None]:
    """By reason, how many more nodes of the pool may be disrupted now; and when that changes by itself."""
    rules, (nodes, _) = seen.value.spec.disruption.budgets, nodes_and_unhealthy(seen)
    counted = sum(disrupted(each) for each in seen.machines)
    found = {each: allowance(rules, each, nodes, counted, now) for each in BUDGETED}
    moments = [each.look_again_at for each in found.values() if each.look_again_at is not None]
    return {reason: each.left for reason, each in found.items()}, min(moments, default=None)


def halt_text(unhealthy: int, nodes: int) -> str:
    return (
        f"{unhealthy} of {nodes} nodes are unhealthy (more than {MOST_UNHEALTHY_PERCENT} %); "
        "unhealthy nodes are not replaced until fewer are."
    )


def move_of(record: KubeObject[GPURequest]) -> str:
    """The move that takes it away; empty: none does. A replacement has the mark of its move, too."""
    return "" if REPLACES in record.annotations else record.annotations.get(MOVE, "")


def keeps_place(record: KubeObject[GPURequest], moves: Collection[str]) -> bool:
    """Whether it is a replacement, and what it replaces is still there. `moves`: all that are under way."""
    return REPLACES in record.annotations and record.annotations.get(MOVE) in moves


def is_going(record: KubeObject[GPURequest]) -> bool:
    """Whether a move takes it away, or would if nothing held it back, as its objects say."""
    conditions = record.value.status.conditions if record.value is not None else ()
    held = next((each for each in conditions if each.type == CONDITION), None)
    return bool(move_of(record)) or (held is not None and held.reason not in STAY)


def parted_moves(
    moves: Collection[str], namespace: str, others: Iterable[KubeObject[GPURequest]]
) -> dict[str, tuple[KubeObject[GPURequest], ...]]:
    """Of these moves, those that have candidates among other machines there. No other namespace has a say in it."""
    parted: dict[str, tuple[KubeObject[GPURequest], ...]] = {}
    for each in sorted(others, key=lambda record: record.key):
        if each.key.namespace == namespace and living(each) and (move := move_of(each)) in moves:
            parted[move] = (*parted.get(move, ()), each)
    return parted


def new_move(record: KubeObject[GPURequest]) -> str:
    """The same for as long as the same is seen: candidates whose records are written in two looks are one move."""
    digest = blake2b(f"{record.uid_text}\0{record.resource_version}".encode(), digest_size=ID_DIGITS // 2)
    return digest.hexdigest()


def needs_place(machine: Machine, cause: DisruptionCause) -> bool:
    """Whether something has to be there before the machine may go: room for its pods, or the machine of its slot."""
    if cause.reason == EMPTY or cause.reason in NOT_BUDGETED:
        return False
    return slot_number(anchor_of(machine.record)) is not None or bool(pods_to_move(machine.pods))


def unevictable(pods: Iterable[Pod], budgets: Iterable[PodDisruptionBudget]) -> str:
    """Why one of these pods cannot be evicted now, in text for users; empty: nothing is known that keeps one.

    The API server answers 500 to each eviction of a pod with several budgets, whatever they allow.
    """
    every = tuple(budgets)
    for pod in sorted(pods, key=lambda each: each.key):
        selecting = sorted((each for each in every if each.selects(pod)), key=lambda each: each.key)
        if len(selecting) > 1:
            names = ", ".join(str(each.key) for each in selecting)
            return f"Pod {pod.key} has {len(selecting)} PodDisruptionBudgets ({names}): it can only be evicted with one"
        if selecting and selecting[0].blocks(pod):
            return f"PodDisruptionBudget {selecting[0].key} allows no eviction now"
    return ""


def spares(machines: Iterable[Machine], now: datetime) -> frozenset[ObjectKey]:
    """Machines of one slot that may go, where a move was given up after pods had come to the replacement.

    One stays: a machine that is used, or protected, or else Ready, the newest of them. No other is ended while it is
    used.
    """
    slots: dict[str, list[tuple[tuple[object, ...], bool, ObjectKey]]] = {}
    for each in machines:
        record, anchor = each.record, anchor_of(each.record)
        attempt = open_attempt(attempts_of(record))
        if attempt is None or slot_number(anchor) is None or each.keeps_place or leaves(each):
            continue
        needed = not idle(each.pods, gpu_resource(attempt))
        needed = needed or protection_of(record, each.node, each.pods, now) is not None
        since = record.created_at.timestamp() if record.created_at is not None else 0.0
        slots.setdefault(anchor, []).append(((needed, is_ready(each), since, record.key), needed, record.key))
    doubled = (sorted(found)[:-1] for found in slots.values())
    return frozenset(key for found in doubled for _, needed, key in found if not needed)


def leaves(machine: Machine) -> bool:
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
    return datetime.fromisoformat(at.upper()), int(count)


def received_at(record: KubeObject[GPURequest]) -> datetime | None:
    """When pods of a machine that left were last to come; None: never, or it cannot be read."""
    at = record.annotations.get(RECEIVED, "")
    return datetime.fromisoformat(at.upper()) if is_rfc3339(at) else None


def has_ended(record: KubeObject[GPURequest]) -> bool:
    return record.value is not None and record.value.status.phase in ENDED


def was_ready(record: KubeObject[GPURequest]) -> bool:
    return record.value is not None and record.value.status.ready_at is not None


def is_ready(machine: Machine) -> bool:
    return was_ready(machine.record) and machine.node is not None and machine.node.ready is True
