"""Worlds small enough to be solved whole, and that solution: one row per pod and machine, by HiGHS itself."""

import itertools
import random
from dataclasses import dataclass, replace
from typing import Any

import highspy
import msgspec

from tests.core.pools.planner.odd_worlds import LOGGER
from tests.core.pools.planner.plan_checker import free_on, machine_of, wrong_machine
from tests.core.pools.planner.worlds import (
    GIB,
    GPU,
    HOSTNAME,
    PLUGIN,
    ZONE,
    a_market,
    a_node,
    a_pod,
    a_pool,
    a_world,
    apart,
    on_sale,
)
from tgp.core.model.labels import LabelRequirement, selector
from tgp.core.model.offer import Offer
from tgp.core.model.placement import ANYWHERE, NodeTerm, PodTerm, PreferredNodes, PreferredPods, SpreadConstraint
from tgp.core.model.pod import Pod
from tgp.core.model.resources import Resources
from tgp.core.model.taints import Taint
from tgp.core.pools.planner.classes import GANG, GANG_SIZE
from tgp.core.pools.planner.sources import MOST_WEIGHT
from tgp.core.pools.planner.world import LimitRoom, PlanInput

UNSERVED = 1e9  # micro-dollars: more than all machines of such a world cost
MARGIN = 1.05  # of a price: what counts against a limit of money until the machine is billed


def a_small_world(seed: int) -> PlanInput:
    """Every rule in it is one that the planner keeps exactly."""
    luck = random.Random(f"small {seed}")
    pools = [a_pool("p"), a_pool("q", maxHourlyPrice=luck.choice(("1.0", "2.5")))][: luck.randint(1, 2)]
    keys = frozenset(each.key for each in pools)
    limits = [LimitRoom("of the class", "nodes", luck.randint(0, 3), keys)] if luck.random() < 0.2 else []
    if luck.random() < 0.3:
        resource, left = luck.choice((("usd", 3_000_000), ("nodes", 1), (GPU, 4)))
        limits.append(LimitRoom("of the pool", resource, left, frozenset({pools[0].key})))
    capacity = (a_node("box", luck.randint(1, 2), pods=(_pod(luck, 99),)),) if luck.random() < 0.3 else ()
    return a_world(
        [_pod(luck, number) for number in range(luck.randint(1, 7))],
        a_market(*(an_offer(luck, number) for number in range(luck.randint(1, 4)))),
        *pools,
        capacity=capacity,
        limits=tuple(limits),
        daemon_sets=(PLUGIN, LOGGER) if luck.random() < 0.4 else (PLUGIN,),
    )


def an_offer(luck: random.Random, number: int) -> Offer:
    gpus = luck.choice((1, 2, 4))
    return on_sale(
        f"t{number}",
        round(gpus * luck.uniform(0.3, 1.2), 2),
        gpu_count=gpus,
        gpu=luck.choice(("RTX4090", "A100-80GB-SXM")),
        vcpus=gpus * luck.choice((4, 8)),
        memory_gib=gpus * luck.choice((16, 64)),
        left=luck.randint(1, 3),
    )


def _pod(luck: random.Random, number: int) -> Pod:
    app = luck.choice("xyz")
    return a_pod(
        f"p{number}",
        luck.choice((1, 1, 2)),
        cpu=luck.choice((500, 2000, 3500)),
        memory=luck.choice((1, 8, 30)) * GIB,
        labels={"app": app},
        affinity=apart(HOSTNAME, app=luck.choice((app, "x"))) if luck.random() < 0.3 else ANYWHERE,
        node_selector={"tgp.io/gpu-type": "RTX4090"} if luck.random() < 0.15 else {},
    )


def with_preferences(world: PlanInput, seed: int) -> PlanInput:
    """The same world, with offers for sale in more places and pods that prefer some of them."""
    luck = random.Random(f"preferences {seed}")
    liking = []
    for pod in world.pods:
        term = NodeTerm((LabelRequirement(luck.choice((ZONE, "tgp.io/gpu-count")), "In", ("simulated-a", "2")),))
        nodes = (PreferredNodes(luck.randint(1, 100), term),) if luck.random() < 0.7 else ()
        near = (PreferredPods(luck.choice((-9, 9)), PodTerm(ZONE, selector({"app": "x"}))),)
        affinity = msgspec.structs.replace(
            pod.affinity, preferred_nodes=nodes, preferred_pods=near if luck.random() < 0.3 else ()
        )
        soft = (SpreadConstraint(ZONE, selector({"app": "x"}), hard=False),) if luck.random() < 0.5 else ()
        liking.append(msgspec.structs.replace(pod, affinity=affinity, spreads=soft))
    offers = [
        msgspec.structs.replace(offer, place=place, sku=f"{offer.sku}-{place}", left=left)
        for offer in world.book.offers
        for place, left in (("west-1", offer.left), ("a", 0 if luck.random() < 0.3 else 1), ("b", 1))
    ]
    return replace(world, pods=tuple(liking), book=a_market(*offers))


def with_stages(world: PlanInput, seed: int) -> PlanInput:
    """The same world where pools have weights, pods are gangs, or not all can be served: by chance, also none of it."""
    luck = random.Random(f"stages {seed}")
    pools, pods, book = world.pools, world.pods, world.book
    if luck.random() < 0.6:
        heavy = a_pool("h", weight=10, maxHourlyPrice=luck.choice(("0.6", "1.2", "2.5")))
        pools = (heavy, *pools)
    if luck.random() < 0.4:
        named = {GANG: "g", GANG_SIZE: str(min(len(pods), luck.randint(2, 4)))}
        size = int(named[GANG_SIZE])
        pods = (*(msgspec.structs.replace(pod, annotations=named) for pod in pods[:size]), *pods[size:])
    if luck.random() < 0.5:
        book = a_market(*(msgspec.structs.replace(each, left=luck.randint(0, 1)) for each in book.offers))
    elif luck.random() < 0.5:  # of one kind, as most pods are: what a pool passes on is then no choice
        pods = tuple(msgspec.structs.replace(pods[0], key=pod.key, uid=pod.uid) for pod in pods)
    return replace(world, pools=pools, pods=pods, book=book)


def relaxed(world: PlanInput) -> dict[str, PlanInput]:
    """The world with one constraint less, by what that is."""
    more = a_market(*(msgspec.structs.replace(each, left=(each.left or 0) + 2) for each in world.book.offers))
    freed = tuple(msgspec.structs.replace(pod, affinity=ANYWHERE, node_selector={}) for pod in world.pods)
    unlimited = tuple(replace(each, pool=a_pool().pool) for each in world.pools)
    extra = on_sale("extra", 1.3, gpu_count=2, vcpus=16, memory_gib=128, left=2)
    return {
        "one offer more": replace(world, book=a_market(*world.book.offers, extra)),
        "more of each offer": replace(world, book=more),
        "no rules of pods": replace(world, pods=freed),
        "no limits": replace(world, limits=()),
        "no ceilings": replace(world, pools=unlimited),
        "no other DaemonSets": replace(world, daemon_sets=(PLUGIN,)),
    }


@dataclass(frozen=True)
class Best:
    unserved: int
    cost: int  # micro-dollars an hour


@dataclass(frozen=True)
class _Machine:
    free: Resources
    labels: dict[str, str]
    taints: tuple[Taint, ...]
    running: tuple[Pod, ...] = ()
    price: int = 0
    uses: tuple[float, ...] = ()  # by limit
    weight: int = MOST_WEIGHT  # of its pool; of what is there already, the most


def best_possible(world: PlanInput) -> Best:
    """The fewest pods unserved, and the least that this costs; pools with more weight serve what they can first."""
    if not world.pods:
        return Best(0, 0)
    solver: Any = highspy.Highs()  # type: ignore[no-untyped-call]
    solver.setOptionValue("output_flag", False)
    whole = highspy.HighsVarType.kInteger
    machines, shelves = _machines(world)
    bought = [solver.addVariable(lb=0, ub=1, type=whole) for _ in machines]
    unserved = [solver.addVariable(lb=0, ub=1, type=whole) for _ in world.pods]
    placed: dict[tuple[int, int], Any] = {}
    for number, pod in enumerate(world.pods):
        for place, machine in enumerate(machines):
            if not wrong_machine([pod], machine.free, machine.labels, machine.taints, machine.running):
                placed[number, place] = solver.addVariable(lb=0, ub=1, type=whole)
                solver.addConstr(placed[number, place] <= bought[place])
        mine = [placed[number, place] for place in range(len(machines)) if (number, place) in placed]
        solver.addConstr(sum(mine, start=1.0 * unserved[number]) == 1)
    for place, machine in enumerate(machines):
        _share(solver, world, machine, {number: each for (number, at), each in placed.items() if at == place})
    for offer, places in shelves.items():
        solver.addConstr(sum((bought[place] for place in places[1:]), start=1.0 * bought[places[0]]) <= offer.left)
    for number, limit in enumerate(world.limits):
        used = [machine.uses[number] * bought[place] for place, machine in enumerate(machines) if machine.price]
        if used:
            solver.addConstr(sum(used[1:], start=used[0]) <= limit.left)
    cost = sum((float(machine.price) * bought[place] for place, machine in enumerate(machines)), start=0.0)
    charged = sum((UNSERVED * each for each in unserved), start=cost)
    for weight in sorted({each.pool.spec.weight for each in world.pools}, reverse=True)[:-1]:
        first = _charged_first(weight, machines, bought, placed, unserved)
        solver.minimize(first)
        solver.addConstr(first <= solver.getInfo().objective_function_value + 1)
    solver.minimize(charged)
    many = round(sum(solver.val(each) for each in unserved))
    return Best(many, round(solver.getInfo().objective_function_value - many * UNSERVED))


def _charged_first(
    weight: int, machines: list[_Machine], bought: list[Any], placed: dict[tuple[int, int], Any], unserved: list[Any]
) -> Any:
    """What machines of pools with at least this weight cost, and the pods that they do not serve."""
    charged = sum((UNSERVED * each for each in unserved), start=0.0)
    for (_, place), each in placed.items():
        charged += UNSERVED * each if machines[place].weight < weight else 0.0
    for each, machine in zip(bought, machines, strict=True):
        charged += float(machine.price) * each if machine.weight >= weight else 0.0
    return charged


def _machines(world: PlanInput) -> tuple[list[_Machine], dict[Offer, list[int]]]:
    """Every machine there is or could be bought, and by offer those of which only so many can be had."""
    nothing = (0.0,) * len(world.limits)
    machines = [
        _Machine(free_on(world, each), dict(each.labels), each.taints, each.pods, 0, nothing) for each in world.capacity
    ]
    shelves: dict[Offer, list[int]] = {}
    for offer in world.book.offers:
        for pool in world.pools:
            ceiling = pool.pool.spec.max_hourly_price
            if ceiling is not None and offer.hourly_microusd > float(ceiling) * 1e6:
                continue
            most = min(offer.hourly_microusd * MARGIN, float(ceiling or "inf") * 1e6)
            use = {"usd": most, "nodes": 1.0, GPU: float(offer.gpu_count)}
            uses = tuple(use[each.resource] if pool.key in each.pools else 0.0 for each in world.limits)
            for _ in range(min(offer.left or 0, len(world.pods))):
                shelves.setdefault(offer, []).append(len(machines))
                weight = pool.pool.spec.weight
                machines.append(_Machine(*machine_of(world, pool, offer), (), offer.hourly_microusd, uses, weight))
    return machines, shelves


def _share(solver: Any, world: PlanInput, machine: _Machine, mine: dict[int, Any]) -> None:
    """What pods on one machine take together, and which of them may not be there together."""
    if not mine:
        return
    for resource, unit in (("cpu", 1), ("memory", GIB), (GPU, 1)):
        needs = [world.pods[number].requests.of(resource) / unit * each for number, each in mine.items()]
        solver.addConstr(sum(needs[1:], start=needs[0]) <= machine.free.of(resource) / unit)
    for (one, first), (other, second) in itertools.combinations(mine.items(), 2):
        pair = [world.pods[one], world.pods[other]]
        if any("anti-affinity" in each for each in wrong_machine(pair, machine.free, {}, (), ())):
            solver.addConstr(first + second <= 1)
