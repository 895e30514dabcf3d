"""What holds for the plan of any world. Each property names what is wrong in the world of a seed.

`python -m tests.core.pools.planner.properties NAME WORLDS` says the first that is wrong, and exits with 1.
"""

import re
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

from tests.core.pools.builders import POOL_UID
from tests.core.pools.planner.odd_worlds import an_odd_world
from tests.core.pools.planner.plan_checker import broken_rules
from tests.core.pools.planner.small_worlds import (
    Best,
    a_small_world,
    best_possible,
    relaxed,
    with_preferences,
    with_stages,
)
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.object_key import ObjectKey
from tgp.core.pools.orders import AnchoredOrder, manifest_of, record_of
from tgp.core.pools.planner.classes import gang_of
from tgp.core.pools.planner.plan import plan
from tgp.core.pools.planner.world import NO_POOL, Order, Plan, PlanInput, PlannedPool
from tgp.core.requests.purchase import NoPurchase, PurchaseInput, decide_purchase

BROKEN = 1  # the exit code
COUNTED = re.compile(r"none of (\d+) offers fits: ([^;]*)")
COUNT = re.compile(r"(?:^|, )(\d+) ")
DEAREST = 1.01  # times the best possible: no plan of a small world costs more
ROUNDING = 2  # micro-dollars
CLOSED = 1e-6  # a gap that is none
KEPT = 2_000  # worlds with their plans, which several properties look at


@lru_cache(KEPT)
def odd(seed: int) -> tuple[PlanInput, Plan]:
    world = an_odd_world(seed)
    return world, plan(world)


@lru_cache(KEPT)
def small(seed: int) -> tuple[PlanInput, Plan]:
    world = a_small_world(seed)
    return world, plan(world)


def staged(seed: int) -> tuple[PlanInput, Plan]:
    world = with_stages(small(seed)[0], seed)
    return world, plan(world)


@lru_cache(KEPT)
def most_possible(seed: int) -> Best:
    return best_possible(small(seed)[0])


def bought_as_planned(seed: int) -> list[str]:
    """What the plan orders, the request of the order buys: it is not withdrawn, and its offer left out, for nothing."""
    world, answer = odd(seed)
    pools = {each.key: each for each in world.pools}
    return [why for order in answer.orders if (why := _not_bought(world, pools[order.pool], order))]


def _not_bought(world: PlanInput, pool: PlannedPool, order: Order) -> str:
    owner = KubeObject(key=pool.key, uid=POOL_UID, generation=1, value=pool.pool)
    manifest = manifest_of(ObjectKey("team", "r"), AnchoredOrder(order, "uid"), owner, pool.class_name, "now")
    inputs = PurchaseInput(
        record_of(manifest, owner),
        pool.class_name,
        pool.node_class,
        world.book,
        pool.sources,
        world.now,
        daemon_sets=world.daemon_sets,
        pool=pool.pool,
        untrusted_allowed=pool.key.namespace in pool.untrusted_namespaces,
    )
    decided = decide_purchase(inputs)
    if isinstance(decided, NoPurchase):
        return f"{order.offer.key}: {decided.reason}: {decided.message}"
    return "" if decided.hourly_microusd <= order.hourly_microusd else f"{order.offer.key}: bought {decided.offer.key}"


def rules(seed: int) -> list[str]:
    """Stock, limits, ceilings, room and every hard rule of a pod are kept; every pod is there once."""
    return broken_rules(*odd(seed))


def small_rules(seed: int) -> list[str]:
    """The same where worlds are small and nearly every pod can be served."""
    return broken_rules(*small(seed))


def reasons(seed: int) -> list[str]:
    """Every pod that is not served has a reason from every pool, and each accounts for every offer."""
    return wrong_reasons(*odd(seed))


def wrong_reasons(world: PlanInput, answer: Plan) -> list[str]:
    wrong = []
    pools = sorted(each.key for each in world.pools)
    for each in answer.unserved:
        told = sorted(reason.pool for reason in each.reasons if reason.pool != NO_POOL)
        alone = not told and bool(each.reasons)
        if not alone and told != pools:
            wrong.append(f"{each.pod.key}: reasons of {told}, not of {pools}")
        for reason in each.reasons:
            for total, listed in COUNTED.findall(reason.message):
                counted = sum(int(many) for many in COUNT.findall(listed))
                if not int(total) == counted == len(world.book.offers):
                    wrong.append(f"offers left out: {reason.message}")
    return wrong


def best(seed: int) -> list[str]:
    """As many pods are served as can be; and no plan costs more than DEAREST times the best possible."""
    (_, found), most = small(seed), most_possible(seed)
    wrong = [f"unserved: {len(found.unserved)}, not {most.unserved}"] * (len(found.unserved) != most.unserved)
    if found.cost > most.cost * DEAREST + ROUNDING:
        wrong.append(f"costs {found.cost}, not {most.cost}")
    return wrong


def bound(seed: int) -> list[str]:
    """No plan costs less than what is said to be the least, the gap is what it says."""
    (_, found), most = small(seed), most_possible(seed)
    return wrong_bound(found, most) if len(found.unserved) == most.unserved else []


def wrong_bound(found: Plan, most: Best) -> list[str]:
    if found.gap is None:
        return []
    wrong = [f"bound {found.bound} above what is possible: {most.cost}"] * (found.bound > most.cost + ROUNDING)
    if found.cost > found.bound * (1 + found.gap) + ROUNDING:
        wrong.append(f"cost {found.cost} is more than {found.gap:.3%} above the bound {found.bound}")
    return wrong


def closed(seed: int) -> list[str]:
    """A search of all that a small world allows proves that its plan is the best one, pods unserved or not."""
    found = small(seed)[1]
    return [] if found.gap is not None and found.gap <= CLOSED else [f"gap {found.gap}, {len(found.unserved)} unserved"]


def stages(seed: int) -> list[str]:
    """With weights and gangs, too, no plan that serves as many pods costs less than the bound, and no gap is open.

    A gang that is left out is no part of it. Where the bound leaves weights out, the gap is what they cost.
    """
    world, found = staged(seed)
    wrong = broken_rules(world, found)
    weights = {each.pool.spec.weight for each in world.pools}
    if found.gap is None:
        return wrong if len(weights) > 1 else [*wrong, "gap None"]
    left_out = {each.pod.uid for each in found.unserved if gang_of(each.pod)}
    most = best_possible(replace(world, pods=tuple(pod for pod in world.pods if pod.uid not in left_out)))
    if most.unserved == len(found.unserved) - len(left_out):
        wrong += wrong_bound(found, most)
    return wrong if found.bound_without or found.gap <= CLOSED else [*wrong, f"gap {found.gap}"]


def fewer_constraints(seed: int) -> list[str]:
    """With a constraint less no more pods are unserved, the bound is no higher, the cost only within the gap."""
    world, before = small(seed)
    wrong = []
    for what, looser in relaxed(world).items():
        after = plan(looser)
        if len(after.unserved) > len(before.unserved):
            wrong.append(f"{what}: {len(after.unserved)} unserved, before {len(before.unserved)}")
        if before.unserved or after.unserved or after.gap is None or before.gap is None:
            continue  # a bound is one of what is paid only where all pods are served
        if after.bound > before.bound + ROUNDING:
            wrong.append(f"{what}: the bound rises from {before.bound} to {after.bound}")
        if after.cost > before.cost * (1 + after.gap) + ROUNDING:
            wrong.append(f"{what}: the cost rises from {before.cost} to {after.cost}, gap {after.gap:.3%}")
    return wrong


def preferences(seed: int) -> list[str]:
    """What pods prefer changes neither the cost nor who is served, and breaks no rule."""
    world, _ = small(seed)
    liking = with_preferences(world, seed)
    before, after = plan(replace(liking, pods=world.pods)), plan(liking)
    wrong = broken_rules(liking, after)
    if len(after.unserved) != len(before.unserved) or after.cost > before.cost + ROUNDING:
        wrong.append(f"cost {after.cost} for {len(after.unserved)} unserved, without preferences {before.cost}")
    return wrong


PROPERTIES: dict[str, Callable[[int], list[str]]] = {
    each.__name__: each
    for each in (
        rules,
        bought_as_planned,
        small_rules,
        reasons,
        best,
        bound,
        closed,
        stages,
        fewer_constraints,
        preferences,
    )
}


def first_broken(name: str, seeds: range) -> str:
    """What is wrong in the first world of these that breaks the property; empty: it holds in all."""
    for seed in seeds:
        if wrong := PROPERTIES[name](seed):
            return f"{wrong[0]} (seed {seed})"
    return ""


if __name__ == "__main__":
    said = first_broken(sys.argv[1], range(int(sys.argv[2])))
    print(said)
    sys.exit(BROKEN if said else 0)
