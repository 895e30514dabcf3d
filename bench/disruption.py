"""Consolidation of a thousand nodes, beside one node at a time: how soon, how much is saved, how many pods move.

One node at a time: each is deleted if its pods fit elsewhere, or exchanged for the cheapest one machine that holds
them, if that is worth it by the same count, those that gain most first; again and again until nothing changes, without
a time limit.
"""

import argparse
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from statistics import median

import msgspec

from bench.karpenter.cases import gpu_market
from bench.karpenter.ours import NOW, a_world
from tgp.api.nodepool import GPUNodePool
from tgp.api.request import GPURequest
from tgp.core.disruption.causes import Machine, Standing
from tgp.core.disruption.exchange import ExchangeInput, Savings, exchanges, min_savings, savings_of
from tgp.core.disruption.machine_state import as_waiting
from tgp.core.disruption.restart_cost import restart_cost
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.labels import selector
from tgp.core.model.node import Node
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.offer import Offer
from tgp.core.model.offer_labels import label_value, offer_labels
from tgp.core.model.placement import PodTerm
from tgp.core.model.pod import RUNNING, OwnerRef, Pod
from tgp.core.model.price_book import PriceBook
from tgp.core.model.record import uid_text
from tgp.core.model.taints import Taint
from tgp.core.pools.capacity import node_capacity, with_pods
from tgp.core.pools.planner.plan import plan
from tgp.core.pools.planner.solve import Effort
from tgp.core.pools.planner.world import Capacity, Order, PlanInput

NODES, PODS, OFFERS, CLASSES = 1_000, 2_000, 2_000, 100
ASKED = 4.0  # pods that nodes are bought for, for each that is left
STAYS = 0.69  # of pods: the others have ended
BATCHES = 8  # in which pods come, each at other prices
WANDER = 0.15
EPHEMERAL = Taint("tgp.io/ephemeral", "NoSchedule")
TOGETHER = (PodTerm("kubernetes.io/hostname", selector({"together": "yes"})),)
QUICK = Effort(rounds=0)  # one machine needs no more
OWNERS = (
    (OwnerRef("Job", "train", "uid-train", "batch/v1", controller=True),),
    (OwnerRef("ReplicaSet", "serve", "uid-serve", "apps/v1", controller=True),),
)


def main(options: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench disruption", description=__doc__)
    parser.add_argument("--seeds", type=int, default=5, help="worlds that are measured (default: 5)")
    parser.add_argument("--nodes", type=int, default=NODES)
    asked = parser.parse_args(options)
    print(f"{'seed':<6}{'nodes':>7}{'pods':>7}{'$/h':>9}{'seconds':>9}{'saved':>9}{'bound':>8}{'moves':>7}", end="")
    print(f"{'one by one':>12}{'moves':>7}")
    rows = [_measure(seed, asked.nodes / NODES) for seed in range(asked.seeds)]
    print(
        f"disruption seconds={max(row.seconds for row in rows):.2f} bound={min(row.bound for row in rows):.3f}"
        f" saving={min(row.saving for row in rows):.3f} moves={max(row.moves for row in rows):.2f}"
        f" moves_median={median(row.moves for row in rows):.2f}"
    )
    return 0


@dataclass(frozen=True)
class Measured:
    seconds: float
    bound: float
    saving: float
    moves: float


def _measure(seed: int, scale: float) -> Measured:
    seen = a_pool_in_use(seed, scale)
    began = time.process_time()
    found = exchanges(seen)
    seconds = time.process_time() - began
    proven = exchanges(seen, exact_rounds=30)
    net = sum(each.savings.net for each in found.exchanges)
    moved = sum(len(each.pods) for each in found.exchanges)
    other_net, other_moved = OneByOne(seen).run()
    cost = sum(each.hourly_microusd for each in seen.machines) / 1e6
    pods = sum(len(each.machine.pods) for each in seen.machines)
    print(
        f"{seed:<6}{len(seen.machines):>7}{pods:>7}{cost:>9.0f}{seconds:>9.2f}{net / 1e6:>9.2f}"
        f"{net / proven.bound:>7.3f}{'' if proven.proven else '?':<1}{moved:>7}"
        f"{other_net / 1e6:>12.2f}{other_moved:>7}",
        flush=True,
    )
    return Measured(seconds, net / proven.bound, net / other_net, moved / other_moved)


# -- a pool in use -----------------------------------------------------------------------------------------------------


def a_pool_in_use(seed: int, scale: float = 1.0) -> ExchangeInput:
    """Pods came in batches and were given machines at the prices of that hour; then many of the pods ended."""
    luck = random.Random(f"disruption {seed}")
    case = gpu_market(int(PODS * ASKED * scale), CLASSES, seed, OFFERS)
    world = a_world(case)
    pods = [_aged(pod, luck) for pod in world.pods]
    luck.shuffle(pods)
    policy = {"consolidationPolicy": "WhenEmptyOrUnderutilized"}
    pool = world.pools[0]
    either = {"key": "tgp.io/capacity-type", "operator": "In", "values": ["on-demand", "spot"]}  # pods may go to both
    template = {"spec": {"requirements": [either]}}
    spec = {**msgspec.to_builtins(pool.pool.spec), "disruption": policy, "template": template}
    read = msgspec.convert({**msgspec.to_builtins(pool.pool), "spec": spec}, GPUNodePool)
    world = replace(world, pools=(replace(pool, pool=read),), pods=())
    offers = [msgspec.structs.replace(offer, left=luck.randint(1, 12)) for offer in world.book.offers]
    orders: list[Order] = []
    for number in range(BATCHES):
        book = _book(world.book, _wandered(offers, luck))
        orders += plan(replace(world, book=book, pods=tuple(pods[number::BATCHES]))).orders
    luck.shuffle(orders)
    orders.sort(key=lambda order: len(order.pods) < 2)  # most have two pods or more
    machines: list[Standing] = []
    rooms: list[Capacity] = []
    running = 0
    for number, order in enumerate(orders):
        pods_left = [pod for pod in order.pods if luck.random() < STAYS]
        if pods_left and len(machines) < NODES * scale and running < PODS * scale:
            standing, room = _standing(number, order, pods_left, world, read)
            machines.append(standing)
            rooms.append(room)
            running += len(pods_left)
    world = replace(world, book=_book(world.book, _wandered(offers, luck)), capacity=tuple(rooms))
    return ExchangeInput(world, tuple(machines))


def _wandered(offers: Sequence[Offer], luck: random.Random) -> list[Offer]:
    return [
        msgspec.structs.replace(each, hourly_microusd=round(each.hourly_microusd * luck.lognormvariate(0, WANDER)))
        for each in offers
    ]


def _book(book: PriceBook, offers: Sequence[Offer]) -> PriceBook:
    @dataclass(frozen=True)
    class Listing:
        offers: tuple[Offer, ...]
        dropped: dict[str, int]

    return PriceBook().with_listing(book.sources[0].source, Listing(tuple(offers), {}), NOW)


def _aged(pod: Pod, luck: random.Random) -> Pod:
    """Started within the last hours, a third of them pods of Jobs."""
    owners = OWNERS[0] if luck.random() < 1 / 3 else OWNERS[1]
    began = NOW - timedelta(hours=luck.uniform(0.5, 8.0))
    return msgspec.structs.replace(
        pod, owners=owners, created_at=began, accepted_at=began, started_at=began, unplaced_reason=""
    )


def _standing(
    number: int, order: Order, pods: Sequence[Pod], world: PlanInput, pool: GPUNodePool
) -> tuple[Standing, Capacity]:
    name = f"node-{number}"
    room = world.shapes[order.offer.key].allocatable
    labels = {key: label_value(value) for key, value in offer_labels(order.offer).items() if value}
    labels["kubernetes.io/hostname"] = name
    node = Node(key=ObjectKey("", name), ready=True, allocatable=room, labels=labels, taints=(EPHEMERAL,))
    bound = tuple(msgspec.structs.replace(pod, node=name, phase=RUNNING) for pod in pods)
    value = msgspec.convert(
        {"spec": {}, "status": {"phase": "Ready", "readyAt": "2026-11-15T00:00:00Z", "nodeName": name}}, GPURequest
    )
    began = NOW - timedelta(hours=9)
    record = KubeObject(key=ObjectKey("default", name), uid=f"uid-{name}", created_at=began, value=value)
    standing = Standing(Machine(record, node, bound), pool, order.hourly_microusd, order.spot_loss)
    return standing, node_capacity(node, bound, NOW)[0]


# -- one node at a time ------------------------------------------------------------------------------------------------


class OneByOne:
    """What is counted is the same as in an exchange; a pod that moves twice restarts twice."""

    def __init__(self, seen: ExchangeInput) -> None:
        self._world = seen.world
        self._rooms = {each.name: each for each in seen.world.capacity}
        self._standing = {each.machine.node.name: each for each in seen.machines if each.machine.node is not None}
        self._pods = {name: list(each.machine.pods) for name, each in self._standing.items()}
        self._known: dict[tuple[str, ...], list[Order]] = {}  # by pods: prices stand still
        self._net = self._moved = self._bought = 0

    def run(self) -> tuple[int, int]:
        changed = True
        while changed:
            changed = False
            for name in sorted(self._standing, key=lambda each: (-self._gain(each), each)):
                changed |= self._try(name)
        return self._net, self._moved

    def _gain(self, name: str) -> int:
        """Of emptying it: those that gain most are tried first."""
        return savings_of([self._standing[name]], (), self._cost(name), self._world).net

    def _cost(self, name: str) -> int:
        each, node = self._standing[name], self._standing[name].machine.node
        assert node is not None
        return sum(restart_cost(pod, node.allocatable, each.expected_microusd, NOW) for pod in self._pods[name])

    def _try(self, name: str) -> bool:
        """Into room that is there, or onto one machine."""
        standing, pods = self._standing[name], tuple(as_waiting(pod) for pod in self._pods[name])
        if not pods:
            return False
        rooms = tuple(self._rooms_for(pods, name))
        if self._may_fit(pods, rooms):
            found = plan(replace(self._world, pods=pods, pools=(), capacity=rooms))
            if not found.unserved and self._taken(name, found.placed, ()):
                return True
        ceiling = standing.expected_microusd
        for order in self._one_machine(pods):
            if order.hourly_microusd > ceiling:
                return False
            if self._taken(name, {}, (order,)):
                return True
        return False

    def _one_machine(self, pods: tuple[Pod, ...]) -> list[Order]:
        """The cheapest that holds them all; empty: none does."""
        key = tuple(sorted(uid_text(pod.uid) for pod in pods))
        if key not in self._known:
            together = tuple(_bound_together(pod) for pod in pods)
            found = plan(replace(self._world, pods=together, capacity=()), QUICK)
            self._known[key] = [] if found.unserved else [replace(order, pods=pods) for order in found.orders]
        return self._known[key]

    def _taken(self, name: str, placed: Mapping[str, str], orders: tuple[Order, ...]) -> bool:
        standing = self._standing[name]
        savings = savings_of([standing], orders, self._cost(name), self._world)
        if not savings.enough(min_savings(standing.pool)):
            return False
        self._take(name, savings, placed, orders)
        return True

    def _rooms_for(self, pods: Sequence[Pod], name: str) -> Iterator[Capacity]:
        """Rooms that one of the pods fits into by its size: a plan can use no other."""
        for other, room in self._rooms.items():
            if other != name and any(pod.requests.fits_in(room.free) for pod in pods):
                yield room

    def _may_fit(self, pods: Sequence[Pod], rooms: Sequence[Capacity]) -> bool:
        return all(any(pod.requests.fits_in(room.free) for room in rooms) for pod in pods)

    def _take(self, name: str, savings: Savings, placed: Mapping[str, str], orders: Sequence[Order]) -> None:
        standing = self._standing.pop(name)
        pods = self._pods.pop(name)
        del self._rooms[name]
        self._net += savings.net
        self._moved += len(pods)
        for pod in pods:
            if (there := placed.get(uid_text(pod.uid))) is not None:
                moved = msgspec.structs.replace(pod, node=there, started_at=NOW, accepted_at=NOW)
                self._rooms[there] = with_pods(self._rooms[there], (moved,))
                self._pods[there].append(moved)
        for order in orders:
            self._bought += 1
            moved_all = [msgspec.structs.replace(pod, started_at=NOW, accepted_at=NOW) for pod in pods]
            bought, room = _standing(10**6 + self._bought, order, moved_all, self._world, standing.pool)
            self._standing[room.name], self._rooms[room.name] = bought, room
            self._pods[room.name] = list(bought.machine.pods)


def _bound_together(pod: Pod) -> Pod:
    affinity = msgspec.structs.replace(pod.affinity, near=TOGETHER)
    return msgspec.structs.replace(pod, labels={**pod.labels, "together": "yes"}, affinity=affinity)
