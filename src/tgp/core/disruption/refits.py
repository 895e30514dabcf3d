"""Where the pods of candidates would go: planned by the planner's own count, on what is true now."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from tgp.core.disruption.causes import UNDERUTILIZED, DisruptionCause, Machine, cause_of
from tgp.core.disruption.exchange import checked
from tgp.core.disruption.machine_state import as_waiting, move_of, pods_to_move
from tgp.core.disruption.move_steps import DisruptionObservation, Refit
from tgp.core.disruption.moves import nodes_that_go
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.pod import Pod
from tgp.core.model.record import uid_text
from tgp.core.pools.capacity import with_pods
from tgp.core.pools.orders import anchor_of, slot_number
from tgp.core.pools.planner.plan import plan
from tgp.core.pools.planner.world import Capacity, Plan, PlanInput, PlannedPool
from tgp.core.pools.replicas import world_of_slots

LIMIT_REASON = "LimitReached"


@dataclass(frozen=True, slots=True)
class Refitted:
    refits: Mapping[ObjectKey, Refit]
    rooms: tuple[Capacity, ...]  # that the pods of all these candidates leave


def refits(
    seen: DisruptionObservation,
    keys: Iterable[ObjectKey],
    world: PlanInput,
    placed: Mapping[str, str],  # of the last plan for pods that wait: pod uid → name of the capacity
    leaving: Iterable[Pod],  # of other machines, which are evicted or will be next, and new ones: they need room, too
) -> Refitted:
    """One move after another, each in the room that those before it leave. Candidates of one move share an answer."""
    pool = next((each for each in world.pools if each.key == seen.pool.key), None)
    if pool is None:
        none = Refit(unserved="the pool buys nothing: it only observes, or its class is missing")
        return Refitted(dict.fromkeys(keys, none), ())
    going = nodes_that_go(seen)
    rooms = {each.name: each for each in world.capacity if each.name not in going and not each.drains}
    _take(rooms, world.pods, placed)
    others = tuple(as_waiting(pod) for pod in leaving)
    _take(rooms, others, _plan(world, others, (), rooms).placed)
    answers = dict[ObjectKey, Refit]()
    for together in _grouped(seen, keys):
        pods = tuple(as_waiting(pod) for each in together for pod in pods_to_move(each.pods))
        slot = _slot_to_fill(together[0], seen)
        found = (
            plan(world_of_slots(world, pool, (slot,)))
            if slot
            else _plan(world, pods, _buying(seen, together, world, pool), rooms)
        )
        answers |= dict.fromkeys(
            (each.record.key for each in together), _checked(seen, together, _refit(found, rooms), world)
        )
        _take(rooms, pods, found.placed)
    return Refitted(answers, tuple(rooms.values()))


def _grouped(seen: DisruptionObservation, keys: Iterable[ObjectKey]) -> list[list[Machine]]:
    """Candidates of one move, or of one exchange that would begin, together."""
    machines = {each.record.key: each for each in seen.machines}
    groups: dict[object, list[Machine]] = {}
    for key in keys:
        machine = machines[key]
        exchange = machine.exchange.candidates if machine.exchange is not None else (key,)
        groups.setdefault(move_of(machine.record) or exchange, []).append(machine)
    return list(groups.values())


def _buying(
    seen: DisruptionObservation, together: Iterable[Machine], world: PlanInput, pool: PlannedPool
) -> tuple[PlannedPool, ...]:
    """A machine is replaced by one of its pool; exchanged, by one of any pool beside it."""
    if not _is_exchange(seen, together):
        return (pool,)
    return tuple(each for each in world.pools if each.key.namespace == pool.key.namespace)


def _is_exchange(seen: DisruptionObservation, together: Iterable[Machine]) -> bool:
    assert seen.pool.value is not None, "a pool that cannot be read decides nothing"
    causes = (cause_of(each, seen.pool.value, seen.now) for each in together)
    return any(isinstance(each, DisruptionCause) and each.reason == UNDERUTILIZED for each in causes)


def _checked(seen: DisruptionObservation, together: Iterable[Machine], refit: Refit, world: PlanInput) -> Refit:
    """Of an exchange: whether it is worth it now, and the highest prices of what is bought for it."""
    if refit.unserved or not _is_exchange(seen, together):
        return refit
    standing = [each for one in together if (each := seen.standing.get(one.record.key)) is not None]
    orders, why = checked(standing, refit.orders, world)
    return replace(refit, orders=orders, too_little=why)


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
    there = sorted({name for name in found.placed.values() if name in rooms and rooms[name].coming is None})
    return Refit(found.orders, tuple(coming), tuple(there), unserved, limited)
