"""Which machines to exchange for others, or to let go, so that the same pods cost less: any number for any number.

The pods of machines that may be emptied are planned again beside the machines that stay. What changes is split into
exchanges that have no machine in common, so that each can be carried out, or given up, by itself. An exchange is worth
it only if it saves more than the restarts of its pods cost, over a horizon of some hours, by a margin.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

from tgp.api.nodepool import GPUNodePool
from tgp.api.values import go_duration
from tgp.core.disruption.candidates import why_left
from tgp.core.disruption.causes import Standing, expected_microusd
from tgp.core.disruption.components import Component, dealt
from tgp.core.disruption.ending import EndingMachine, MovingPod, kept_microusd, with_refused
from tgp.core.disruption.machine_state import pods_to_move
from tgp.core.disruption.preferences import Place, PodMove, Preferences, looks
from tgp.core.disruption.relaxation import Occupied, classes_of, relax
from tgp.core.disruption.restart_cost import Restarts
from tgp.core.disruption.spot import moved_pods
from tgp.core.model.money import about
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.offer_labels import label_value, offer_labels
from tgp.core.model.pod import Pod
from tgp.core.model.record import uid_text
from tgp.core.model.workload import PodDisruptionBudget
from tgp.core.pools.limits import after_orders, limit_amount
from tgp.core.pools.planner.plan import plan
from tgp.core.pools.planner.solve import THOROUGH, Effort
from tgp.core.pools.planner.world import Order, Plan, PlanInput, PlannedPool
from tgp.core.requests.node_metadata import pool_name, template_labels

HORIZON = timedelta(hours=4)  # what a restart costs is earned back within it
USUAL_BOOT = timedelta(minutes=10)  # of a machine whose type was never seen to boot
ROUNDED_FROM = (0.99, 0.5, 0.1)  # the share of a machine from which on it is emptied
MOST_REPAIRS = 3  # plans that are made again without the machines whose pods found no place
FEW = 40  # machines that may be emptied: with so many, it is tried to empty one more or one less
MOST_PASSES = 4  # over all of them
MANY = THOROUGH.small  # pods that move: with more, the search for whole numbers costs more than it saves
SEARCHING = Effort(exact_rounds=1, good=1.0)
HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class ExchangeInput:
    world: PlanInput  # its capacity: rooms as waiting pods and other moves leave them; its pods are not looked at
    machines: tuple[Standing, ...] = ()
    budgets: tuple[PodDisruptionBudget, ...] = ()
    ending: Mapping[str, EndingMachine] = field(default_factory=dict)  # by Node, of any pool


@dataclass(frozen=True, slots=True)
class Savings:
    """Micro-dollars. Prices are per hour, with what the loss of spot machines is expected to cost."""

    before: int  # what the machines that leave cost
    after: int  # what the machines that are bought cost
    once: int  # for restarts, for time that new machines take to boot, and of billing steps that are paid already

    @property
    def net(self) -> int:
        """An hour, over the horizon."""
        return self.before - self.after - round(self.once * (HOUR / HORIZON))

    def enough(self, share: float) -> bool:
        return self.net > 0 and self.net >= share * self.before

    @property
    def text(self) -> str:
        what = "saves" if self.net >= 0 else "loses"
        return (
            f"{what} {about(abs(self.net))}/h ({about(self.before)}/h to {about(self.after)}/h; "
            f"{about(self.once)} one-off restart and boot cost spread over {go_duration(HORIZON)})"
        )


@dataclass(frozen=True, slots=True)
class MachineExchange:
    candidates: tuple[ObjectKey, ...]  # requests of machines that leave
    orders: tuple[Order, ...]  # machines that are bought, each with the highest price at which it is still worth it
    placed: Mapping[str, str]  # pod uid → the Node that stays; pods that are not named go to `orders`
    savings: Savings
    restart_microusd: int
    pods: tuple[Pod, ...]  # that move
    message: str


@dataclass(frozen=True, slots=True)
class Consolidation:
    exchanges: tuple[MachineExchange, ...] = ()  # the best saving per restart first
    left: Mapping[ObjectKey, str] = field(default_factory=dict)  # machines that are no candidates, and why
    too_little: Mapping[ObjectKey, str] = field(default_factory=dict)  # those whose best exchange saves too little
    limited: Mapping[ObjectKey, str] = field(default_factory=dict)  # those that a limit keeps, where it keeps all
    bound: float = 0.0  # micro-dollars an hour: what a linear program saves, which need not be possible
    proven: bool = False  # no plan saves more than `bound`


def exchanges(seen: ExchangeInput, exact_rounds: int = 0) -> Consolidation:
    """Equal worlds have equal exchanges. `exact_rounds`: more than 0 to prove the bound."""
    left = {each.key: why for each in seen.machines if (why := why_left(each, seen.budgets, seen.world.now))}
    found = _Consolidating(seen, left).run(exact_rounds)
    if found.exchanges or not seen.world.limits:
        return found
    return replace(found, limited=_limited(seen, left))


def _limited(seen: ExchangeInput, left: Mapping[ObjectKey, str]) -> dict[ObjectKey, str]:
    """Machines that would be exchanged if old and new ones had room within limits together, and what that lacks."""
    world, pools = seen.world, {each.key: each.pool for each in seen.world.pools}
    free = replace(seen, world=replace(world, limits=()))
    told: dict[ObjectKey, str] = {}
    for each in _Consolidating(free, dict(left)).run(0).exchanges:
        if missing := missing_room(each.orders, world):
            fits = (after_orders(world.limits, (order,), pools) for order in each.orders)
            parts = any(all(room.left >= 0 for room in rooms) for rooms in fits)
            alone = ", and no part that fits saves enough by itself" if parts else ""
            told |= dict.fromkeys(each.candidates, f"{missing}{alone}. {each.message}")
    return told


def missing_room(orders: Sequence[Order], world: PlanInput) -> str:
    """Which limit has no room for these beside what they replace, how much it lacks, and for how long; empty: none."""
    rooms = after_orders(world.limits, orders, {each.key: each.pool for each in world.pools})
    over = next((room for room in rooms if room.left < 0), None)
    if over is None:
        return ""
    boot = go_duration(max(_boot(order, world) for order in orders))
    more = limit_amount(over.resource, -over.left)
    return (
        f"{over.name}, which is too low: {more} more is needed for about {boot}, while old and new machines both count"
    )


@dataclass(frozen=True, slots=True)
class _Tried:
    emptied: frozenset[str]  # Nodes
    net: int  # micro-dollars an hour
    found: tuple[MachineExchange, ...]
    left: Mapping[ObjectKey, str]  # machines whose exchange would save too little, and the sum


class _Consolidating:
    def __init__(self, seen: ExchangeInput, left: dict[ObjectKey, str]) -> None:
        staying = tuple(each for each in seen.world.capacity if not each.drains)  # no pod is moved to what leaves
        self._world = replace(seen.world, pods=(), capacity=staying)
        self._left = left
        self._too_little: dict[ObjectKey, str] = {}
        self._rooms = {each.name: each for each in staying}
        self._pools = {each.key: each for each in seen.world.pools}
        self._standing: dict[str, Standing] = {}  # candidates, by Node
        self._pods: dict[str, tuple[Pod, ...]] = {}  # as they will wait
        self._restarts = Restarts(seen.machines, seen.world.now, seen.world.gang_members)
        self._labels = {each.name: each.labels for each in seen.world.capacity}
        self._preferences = Preferences(staying, seen.world.namespaces)
        self._ending = seen.ending
        self._tries: dict[frozenset[str], _Tried] = {}  # by the machines that were to be emptied
        for each in sorted(seen.machines, key=lambda standing: standing.key):
            node = each.machine.node
            if each.key not in left and node is not None and node.name in self._rooms:
                self._add(node.name, each)
        costs = {name: each.expected_microusd for name, each in self._standing.items()}
        moving = (MovingPod(pod, costs[name]) for name, pods in self._pods.items() for pod in pods)
        self._world = replace(self._world, capacity=with_refused(staying, self._ending, moving))

    def _add(self, name: str, standing: Standing) -> None:
        savings = self._alone(standing)
        if savings.net <= 0:
            self._too_little[standing.key] = f"Removing the machine and restarting its pods {savings.text}"
            return
        self._standing[name] = standing
        self._pods[name] = moved_pods(standing)

    def _alone(self, standing: Standing) -> Savings:
        """If its pods went for nothing into room that is there; of a gang, those that are on it."""
        pods = pods_to_move(standing.machine.pods)
        restarts = sum(self._restarts.of_pod[uid_text(pod.uid)] for pod in pods)
        return savings_of([standing], (), restarts, self._world)

    def run(self, exact_rounds: int) -> Consolidation:
        names = list(self._standing)
        if not names:
            return Consolidation((), self._left, self._too_little)
        occupied = [Occupied(name, self._pods[name], float(self._alone(self._standing[name]).net)) for name in names]
        boots = USUAL_BOOT / HORIZON
        relaxed = relax(self._world, occupied, boots, exact_rounds)
        for share in ROUNDED_FROM:
            self._try(frozenset(name for name, y in zip(names, relaxed.emptied.tolist(), strict=True) if y >= share))
        if len(names) <= FEW:
            self._search(names)
        best = self._best()
        found = sorted(
            best.found, key=lambda each: (-each.savings.net / max(each.restart_microusd, 1), each.candidates)
        )
        too_little = {**best.left, **self._too_little}
        return Consolidation(tuple(found), self._left, too_little, bound=relaxed.saving, proven=relaxed.proven)

    def _best(self) -> "_Tried":
        return max(self._tries.values(), key=lambda each: each.net)  # the first of equals

    def _search(self, names: Sequence[str]) -> None:
        """In a small pool: one machine more or less, for as long as that saves more."""
        for _ in range(MOST_PASSES):
            before = self._best()
            for name in names:
                self._try(self._best().emptied ^ {name})
            if self._best() is before:
                break

    def _try(self, chosen: frozenset[str]) -> None:
        if chosen not in self._tries:
            self._tries[chosen] = self._tried(chosen)

    def _tried(self, chosen: frozenset[str]) -> "_Tried":
        emptied, made = self._planned(chosen)
        found: list[MachineExchange] = []
        left: dict[ObjectKey, str] = {}
        saved = 0
        for component in self._components(emptied, made):
            exchange = self._exchange(component)
            if not exchange.pods:
                saved += exchange.savings.net  # an empty machine, which goes for that reason
                continue
            share = max(self._share(name) for name in component.candidates)
            if exchange.savings.enough(share):
                found.append(self._capped(exchange, share))
            else:
                told = f"{exchange.message}; spec.disruption.minSavings is {share:.0%}"
                left |= dict.fromkeys(exchange.candidates, told)
        return _Tried(emptied, saved + sum(each.savings.net for each in found), tuple(found), left)

    def _planned(self, chosen: frozenset[str]) -> tuple[frozenset[str], Plan]:
        """Machines whose pods find no place stay."""
        for _ in range(MOST_REPAIRS + 1):
            pods = tuple(pod for name in sorted(chosen) for pod in self._pods[name])
            if not pods:
                return chosen, Plan()
            rooms = tuple(each for each in self._world.capacity if each.name not in chosen)
            made = plan(replace(self._world, pods=pods, capacity=rooms), THOROUGH if len(pods) <= MANY else SEARCHING)
            if not made.unserved:
                return chosen, made
            unserved = {uid_text(each.pod.uid) for each in made.unserved}
            chosen = frozenset(
                name for name in chosen if not any(uid_text(pod.uid) in unserved for pod in self._pods[name])
            )
        return frozenset(), Plan()

    def _components(self, emptied: frozenset[str], made: Plan) -> Iterator[Component]:
        supply = {name: self._pods[name] for name in sorted(emptied)}
        pods = [pod for name in supply for pod in supply[name]]
        classes = {uid_text(pod.uid): n for n, each in enumerate(classes_of(pods, self._world)) for pod in each.pods}
        return dealt(supply, made, classes)

    def _exchange(self, component: Component) -> MachineExchange:
        names, orders = component.candidates, component.orders
        pods = tuple(pod for name in names for pod in self._pods[name])
        broken = self._broken(component)
        restarts = self._restarts.together(pods) + broken
        savings = savings_of([self._standing[name] for name in names], orders, restarts, self._world)
        savings = replace(savings, after=savings.after + self._kept(component, pods))
        keys = tuple(sorted(self._standing[name].key for name in names))
        text = exchanged_text([self._standing[name] for name in names], orders)
        message = f"{text} moves {_counted(len(pods), 'pod')} and {savings.text}"
        return MachineExchange(keys, orders, component.placed, savings, restarts, pods, message)

    def _kept(self, component: Component, pods: Iterable[Pod]) -> int:
        """What machines cost an hour that pods would move to, and that would go otherwise."""
        coming: dict[str, list[Pod]] = {}
        for pod in pods:
            if (name := component.placed.get(uid_text(pod.uid))) is not None:
                coming.setdefault(name, []).append(pod)
        return kept_microusd((self._rooms[name] for name in coming), self._ending, coming)

    def _share(self, name: str) -> float:
        return min_savings(self._standing[name].pool)

    def _capped(self, exchange: MachineExchange, share: float) -> MachineExchange:
        return replace(exchange, orders=capped(exchange.orders, exchange.savings, share, self._world))

    def _broken(self, component: Component) -> int:
        """Preferences that hold now and would not then: each counts as another restart of its pod."""
        if not any(looks(pod) for name in component.candidates for pod in self._pods[name]):
            return 0
        leaving = ((Place(name, self._labels[name]), pod) for name in component.candidates for pod in self._pods[name])
        moves = pod_moves(leaving, component.placed, self._labels, component.orders, self._pools)
        return sum(self._restarts.of_pod[uid_text(pod.uid)] for pod in self._preferences.broken(moves))


def pod_moves(
    leaving: Iterable[tuple[Place, Pod]],
    placed: Mapping[str, str],
    labels: Mapping[str, Mapping[str, str]],
    orders: Iterable[Order],
    pools: Mapping[ObjectKey, PlannedPool],
) -> list[PodMove]:
    """`placed`: pod uid → room; `labels`: by room. The other pods go to what is bought."""
    bought = {
        uid_text(pod.uid): Place(f"order {number}", _bought_labels(order, pools))
        for number, order in enumerate(orders)
        for pod in order.pods
    }
    there = {uid: Place(name, labels[name]) for uid, name in placed.items() if name in labels}
    after = {**bought, **there}
    return [PodMove(pod, before, after[uid]) for before, pod in leaving if (uid := uid_text(pod.uid)) in after]


def _bought_labels(order: Order, pools: Mapping[ObjectKey, PlannedPool]) -> Mapping[str, str]:
    own = {key: label_value(value) for key, value in offer_labels(order.offer).items() if value}
    return {**template_labels(pools[order.pool].pool.spec.template), **own}


def checked(
    standing: Sequence[Standing], orders: tuple[Order, ...], world: PlanInput, restarts: int, kept: int = 0
) -> tuple[tuple[Order, ...], str]:
    """Orders that machines are exchanged for, as planned now, with their highest prices; and why it is not worth it.

    `restarts`: what they cost, and the preferences that are broken; `kept`: an hour, of machines that would go without
    these pods. Micro-dollars.
    """
    savings = savings_of(standing, orders, restarts, world)
    savings = replace(savings, after=savings.after + kept)
    share = max((min_savings(each.pool) for each in standing), default=0.0)
    if savings.enough(share):
        return capped(orders, savings, share, world), ""
    return orders, f"{exchanged_text(standing, orders)} {savings.text}"


def savings_of(standing: Iterable[Standing], orders: Iterable[Order], restarts: int, world: PlanInput) -> Savings:
    before, after, once = 0, 0, restarts
    for each in standing:
        before += each.expected_microusd
        once += each.paid_microusd
    for order in orders:
        after += expected_microusd(order.hourly_microusd, order.spot_loss)
        once += round(order.hourly_microusd * (_boot(order, world) / HOUR))
    return Savings(before, after, once)


def capped(orders: Sequence[Order], savings: Savings, share: float, world: PlanInput) -> tuple[Order, ...]:
    """Each with the highest price at which all together are still worth it, if all rise alike.

    A price that is already set is what its pods pay at most.
    """
    spare = savings.net - share * savings.before
    paid = savings.after + sum(order.hourly_microusd * (_boot(order, world) / HORIZON) for order in orders)
    factor = 1 + max(spare, 0.0) / paid if paid else 1.0
    most = (int(order.hourly_microusd * factor) for order in orders)
    return tuple(
        replace(order, most_microusd=price if order.most_microusd is None else min(price, order.most_microusd))
        for order, price in zip(orders, most, strict=True)
    )


def min_savings(pool: GPUNodePool) -> float:
    return int(pool.spec.disruption.min_savings.removesuffix("%")) / 100


def exchanged_text(leaving: Sequence[Standing], orders: Sequence[Order]) -> str:
    bought: dict[str, int] = {}
    for order in orders:
        name = f"{order.offer.provider} {order.offer.instance_type}"
        bought[name] = bought.get(name, 0) + 1
    named = ", ".join(f"{many} {name}" for name, many in sorted(bought.items()))
    pools = sorted({pool for each in leaving if (pool := pool_name(each.machine.record))})
    of = f" of pools {', '.join(pools)}" if len(pools) > 1 else ""
    return f"Replacing {_counted(len(leaving), 'machine')}{of} with {named or 'free capacity of other machines'}"


def _counted(many: int, what: str) -> str:
    return f"{many} {what}" if many == 1 else f"{many} {what}s"


def _boot(order: Order, world: PlanInput) -> timedelta:
    shape = world.shapes.get(order.offer.key)
    return timedelta(seconds=shape.boot_seconds) if shape is not None and shape.boot_seconds else USUAL_BOOT
