"""Where the pods of candidates would go: planned by the planner's own count, on what is true now."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from tgp.core.disruption.causes import Machine
from tgp.core.disruption.moves import DisruptionObservation, Refit, as_waiting, move_of, nodes_that_go, pods_to_move
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.pod import Pod
from tgp.core.model.record import uid_text
from tgp.core.pools.capacity import with_pods
from tgp.core.pools.orders import anchor_of, slot_number
from tgp.core.pools.planner.plan import plan
from tgp.core.pools.planner.world import Capacity, Plan, PlanInput, PlannedPool
from tgp.core.pools.replicas import world_of_slots

LIMIT_REASON = "LimitReached"


def refits(
    seen: DisruptionObservation,
    keys: Iterable[ObjectKey],
    world: PlanInput,
    placed: Mapping[str, str],  # of the last plan for pods that wait: pod uid → name of the capacity
    leaving: Iterable[Pod],  # of other machines: they are evicted, or will be next, and need room, too
) -> dict[ObjectKey, Refit]:
    """One after another, each in the room that those before it leave."""
    pool = next((each for each in world.pools if each.key == seen.pool.key), None)
    if pool is None:
        return {key: Refit(unserved="the pool buys nothing: it only observes, or its class is missing") for key in keys}
    machines = {each.record.key: each for each in seen.machines}
    going = nodes_that_go(seen)
    rooms = {each.name: each for each in world.capacity if each.name not in going}
    _take(rooms, world.pods, placed)
    others = tuple(as_waiting(pod) for pod in leaving)
    _take(rooms, others, _plan(world, others, (), rooms).placed)
    answers = {}
    for key in keys:
        pods = tuple(as_waiting(pod) for pod in pods_to_move(machines[key].pods))
        slot = _slot_to_fill(machines[key], seen)
        found = plan(world_of_slots(world, pool, (slot,))) if slot else _plan(world, pods, (pool,), rooms)
        answers[key] = _refit(found, rooms)
        _take(rooms, pods, found.placed)
    return answers


def _slot_to_fill(machine: Machine, seen: DisruptionObservation) -> str:
    """A replica is replaced by a machine of its own; empty: it is no replica, or that machine is ordered."""
    slot = anchor_of(machine.record)
    ordered = seen.replacements.get(move_of(machine.record))
    return f"{slot}.next" if slot_number(slot) is not None and not ordered else ""


def _plan(
    world: PlanInput, pods: tuple[Pod, ...], pools: tuple[PlannedPool, ...], rooms: Mapping[str, Capacity]
) -> Plan:
    return plan(replace(world, pods=pods, pools=pools, capacity=tuple(rooms.values()))) if pods else Plan()


def _take(rooms: dict[str, Capacity], pods: Iterable[Pod], placed: Mapping[str, str]) -> None:
    for pod in pods:
        name = placed.get(uid_text(pod.uid), "")
        if name in rooms:
            rooms[name] = with_pods(rooms[name], (pod,))


def _refit(found: Plan, rooms: Mapping[str, Capacity]) -> Refit:
    coming = sorted({name for name in found.placed.values() if name in rooms and rooms[name].coming is not None})
    unserved = found.unserved[0].message if found.unserved else ""
    limited = any(reason.reason == LIMIT_REASON for each in found.unserved for reason in each.reasons)
    return Refit(found.orders, tuple(coming), unserved, limited)
