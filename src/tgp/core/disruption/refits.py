"""Where the pods of candidates would go: planned by the planner's own count, on what is true now."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

import msgspec

from tgp.core.disruption.candidates import NEVER_BUYS
from tgp.core.disruption.causes import UNDERUTILIZED, DisruptionCause, Machine, cause_of
from tgp.core.disruption.ending import MovingPod, kept_microusd, with_refused
from tgp.core.disruption.exchange import checked, missing_room, pod_moves
from tgp.core.disruption.machine_state import as_waiting, move_of, pods_to_move
from tgp.core.disruption.move_steps import DisruptionObservation, Refit
from tgp.core.disruption.moves import failed_since, nodes_that_go
from tgp.core.disruption.preferences import Place, Preferences, looks
from tgp.core.disruption.restart_cost import Restarts
from tgp.core.disruption.spot import moved_pods
from tgp.core.model.cooldowns import Cooldowns
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.pod import Pod
from tgp.core.model.record import uid_text
from tgp.core.pools.capacity import with_pods
from tgp.core.pools.limits import after_orders
from tgp.core.pools.orders import anchor_of, slot_number
from tgp.core.pools.planner.classes import gang_name
from tgp.core.pools.planner.plan import plan
from tgp.core.pools.planner.world import Capacity, Order, Plan, PlanInput, PlannedPool
from tgp.core.pools.replicas import world_of_slots

LIMIT_REASON = "LimitReached"
NOT_BUYING = Refit(unserved=f"the pool buys nothing: {NEVER_BUYS}")


@dataclass(frozen=True, slots=True)
class Refitted:
    refits: Mapping[ObjectKey, Refit]
    world: PlanInput  # with the room, stock and limits that all these candidates leave


def refits(
    seen: DisruptionObservation,
    keys: Iterable[ObjectKey],
    world: PlanInput,
    placed: Mapping[str, str],  # of the last plan for pods that wait: pod uid → name of the capacity
    leaving: Iterable[Pod],  # of other machines, which are evicted or will be next, and new ones: they need room, too
) -> Refitted:
    """One move after another, each with the room, stock and limits that those before it leave.

    Candidates of one move share an answer. What was bought for a move is open to others once its own pods are planned:
    if they took it, both would be given up, that one for want of room and they with the machine that it gives back.
    """
    going = nodes_that_go(seen)
    rooms = {each.name: each for each in world.capacity if each.name not in going and not each.drains}
    others = tuple(as_waiting(pod) for pod in leaving)
    world = replace(world, gang_members=_gang_members(seen, world, others))
    _take(rooms, world.pods, placed)
    _take(rooms, others, _plan(world, others, (), rooms).placed)
    answers = dict[ObjectKey, Refit]()
    groups = _grouped(seen, keys)
    later = {each.move: _names_of(seen.replacements.get(each.move, ())) for each in groups if each.move}
    for together in groups:
        later.pop(together.move, None)
        closed = frozenset[str]().union(*later.values())
        open_rooms = {name: room for name, room in rooms.items() if name not in closed}
        pods = tuple(pod for each in together.machines for pod in _waiting(seen, together, each))
        open_to = _without_failed(together, world)
        found = _planned(seen, together, pods, open_to, open_rooms)
        refit = NOT_BUYING
        if found is not None:
            refit = _checked(seen, together, found, world, open_rooms)
        if refit.limited:
            free = _planned(seen, together, pods, replace(open_to, limits=()), open_rooms)
            missing = missing_room(free.orders, world) if free is not None else ""
            refit = replace(refit, unserved=missing or refit.unserved)
        answers |= dict.fromkeys((each.record.key for each in together.machines), refit)
        if not (refit.unserved or refit.too_little):
            world = _after(world, refit.orders)
        _take(rooms, pods, found.placed if found is not None else {})
    return Refitted(answers, replace(world, capacity=tuple(rooms.values())))


def _gang_members(
    seen: DisruptionObservation, world: PlanInput, leaving: Iterable[Pod]
) -> Mapping[str, frozenset[str]]:
    """By gang, wherever its pods are: the machines of all of them may go, one after another."""
    there = (pod for place in world.capacity for pod in place.pods)
    going = (pod for machine in seen.machines for pod in pods_to_move(machine.pods))
    found = {gang: set(uids) for gang, uids in world.gang_members.items()}
    for pod in (*world.pods, *there, *going, *leaving):
        if gang := gang_name(pod):
            found.setdefault(gang, set()).add(uid_text(pod.uid))
    return {gang: frozenset(uids) for gang, uids in found.items()}


@dataclass(slots=True)
class _Together:
    """Candidates of one move, or of one exchange that would begin."""

    move: str = ""  # empty: it would begin
    machines: list[Machine] = field(default_factory=list)
    pools: set[ObjectKey] = field(default_factory=set)  # theirs
    exchange: bool = False  # they leave for cheaper machines


def _grouped(seen: DisruptionObservation, keys: Iterable[ObjectKey]) -> list[_Together]:
    machines = {machine.record.key: (machine, each) for each in seen.pools for machine in each.machines}
    groups: dict[object, _Together] = {}
    for key in keys:
        machine, pool = machines[key]
        exchange = machine.exchange.candidates if machine.exchange is not None else (key,)
        move = move_of(machine.record)
        group = groups.setdefault(move or exchange, _Together(move))
        cause = cause_of(machine, pool.value, seen.now)
        group.machines.append(machine)
        group.pools.add(pool.pool.key)
        group.exchange |= isinstance(cause, DisruptionCause) and cause.reason == UNDERUTILIZED
    return list(groups.values())


def _names_of(replacements: Collection[Machine]) -> frozenset[str]:
    """Of their rooms: a machine on its way has that of its request."""
    coming = (str(each.record.key) for each in replacements)
    return frozenset((*coming, *(each.node.name for each in replacements if each.node is not None)))


def _waiting(seen: DisruptionObservation, together: _Together, machine: Machine) -> tuple[Pod, ...]:
    standing = seen.standing.get(machine.record.key) if together.exchange else None
    if standing is not None:
        return moved_pods(standing)
    return tuple(as_waiting(pod) for pod in pods_to_move(machine.pods))


def _planned(
    seen: DisruptionObservation,
    together: _Together,
    pods: tuple[Pod, ...],
    world: PlanInput,
    rooms: Mapping[str, Capacity],
) -> Plan | None:
    """A machine is replaced by one of its pool; exchanged, by one of any pool beside it. None: its pool never buys."""
    own = tuple(each for each in world.pools if each.key in together.pools)
    if len(own) < len(together.pools):
        return None
    if slot := _slot_to_fill(together.machines[0], seen):
        return plan(world_of_slots(world, own[0], (slot,)))
    namespaces = {each.key.namespace for each in own}
    if not together.exchange:
        return _plan(world, pods, own, rooms)
    costs = {key: each.expected_microusd for key, each in seen.standing.items()}
    moving = [
        MovingPod(pod, costs.get(each.record.key, 0)) for each in together.machines for pod in pods_to_move(each.pods)
    ]
    beside = tuple(each for each in world.pools if each.key.namespace in namespaces)
    open_to = {each.name: each for each in with_refused(rooms.values(), seen.ending, moving)}
    return _plan(world, pods, beside, open_to)


def _kept(seen: DisruptionObservation, pods: Iterable[Pod], found: Plan, rooms: Mapping[str, Capacity]) -> int:
    """What machines cost an hour that these pods go to, and that would go otherwise."""
    coming: dict[str, list[Pod]] = {}
    for pod in pods:
        if (name := found.placed.get(uid_text(pod.uid), "")) in rooms:
            coming.setdefault(name, []).append(pod)
    return kept_microusd((rooms[name] for name in coming), seen.ending, coming)


def _checked(
    seen: DisruptionObservation,
    together: _Together,
    found: Plan,
    world: PlanInput,
    rooms: Mapping[str, Capacity],
) -> Refit:
    """Of an exchange: whether it is worth it now, and the highest prices of what is bought for it."""
    refit = _refit(found, rooms)
    if refit.unserved or not together.exchange:
        return refit
    standing = [each for one in together.machines if (each := seen.standing.get(one.record.key)) is not None]
    costs = Restarts(seen.standing.values(), world.now, world.gang_members)
    leaving = [(each, pod) for each in standing for pod in moved_pods(each)]
    pods = [pod for _, pod in leaving]
    broken = _broken([(each.machine, pod) for each, pod in leaving], found, world, rooms)
    restarts = costs.together(pods) + sum(costs.of_pod[uid_text(pod.uid)] for pod in broken)
    orders, why = checked(standing, refit.orders, world, restarts, _kept(seen, pods, found, rooms))
    return replace(refit, orders=orders, too_little=why)


def _broken(
    leaving: Iterable[tuple[Machine, Pod]], found: Plan, world: PlanInput, rooms: Mapping[str, Capacity]
) -> list[Pod]:
    """A pod for each preference of it that holds now, and would not then."""
    moving = [(Place(each.node.name, each.node.labels), pod) for each, pod in leaving if each.node is not None]
    if not any(looks(pod) for _, pod in moving):
        return []
    own = {place.name for place, _ in moving}
    there = [*rooms.values(), *(each for each in world.capacity if each.name in own)]
    labels = {name: each.labels for name, each in rooms.items()}
    moves = pod_moves(moving, found.placed, labels, found.orders, {each.key: each for each in world.pools})
    return Preferences(there, world.namespaces).broken(moves)


def _slot_to_fill(machine: Machine, seen: DisruptionObservation) -> str:
    """A replica is replaced by a machine of its own; empty: it is no replica, or that machine is ordered."""
    slot = anchor_of(machine.record)
    ordered = seen.replacements.get(move_of(machine.record))
    return f"{slot}.next" if slot_number(slot) is not None and not ordered else ""


def _plan(
    world: PlanInput, pods: tuple[Pod, ...], pools: tuple[PlannedPool, ...], rooms: Mapping[str, Capacity]
) -> Plan:
    return plan(replace(world, pods=pods, pools=pools, capacity=tuple(rooms.values()))) if pods else Plan()


def _without_failed(together: _Together, world: PlanInput) -> PlanInput:
    """Offers that failed in the last move of these machines cool down until the next one has been tried."""
    spans = [span for each in together.machines if (span := failed_since(each.record)) is not None]
    held = {
        key: msgspec.structs.replace(each, until=max(each.until, until))
        for since, until in spans
        for key, each in world.cooldowns.offers.items()
        if since <= each.failed_at and world.now < until
    }
    return replace(world, cooldowns=world.cooldowns.with_later(Cooldowns(held))) if held else world


def _after(world: PlanInput, orders: Iterable[Order]) -> PlanInput:
    """With what these orders leave of stock and limits."""
    made = tuple(orders)
    if not made:
        return world
    taken = Counter(world.taken) + Counter(order.offer.key for order in made)
    pools = {each.key: each.pool for each in world.pools}
    return replace(world, limits=after_orders(world.limits, made, pools), taken=taken)


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
