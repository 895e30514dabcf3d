"""What holds for the plan of any world. Each property names what is wrong in the world of a seed.

`python -m tests.core.pools.planner.properties NAME WORLDS` says the first that is wrong, and exits with 1.
"""

import re
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

from tests.core.pools.planner.odd_worlds import an_odd_world
from tests.core.pools.planner.plan_checker import broken_rules
from tests.core.pools.planner.small_worlds import Best, a_small_world, best_possible, relaxed, with_preferences
from tgp.core.pools.planner.plan import plan
from tgp.core.pools.planner.world import NO_POOL, Plan, PlanInput

BROKEN = 1  # the exit code
COUNTED = re.compile(r"none of (\d+) offers fits: ([^;]*)")
COUNT = re.compile(r"(?:^|, )(\d+) ")
DEAREST = 1.01  # times the best possible: no plan of a small world costs more
ROUNDING = 2  # micro-dollars
KEPT = 2_000  # worlds with their plans, which several properties look at


@lru_cache(KEPT)
def odd(seed: int) -> tuple[PlanInput, Plan]:
    world = an_odd_world(seed)
    return world, plan(world)


@lru_cache(KEPT)
def small(seed: int) -> tuple[PlanInput, Plan]:
    world = a_small_world(seed)
    return world, plan(world)


@lru_cache(KEPT)
def most_possible(seed: int) -> Best:
    return best_possible(small(seed)[0])


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
    if found.gap is None or found.unserved:
        return []
    wrong = [f"bound {found.bound} above what is possible: {most.cost}"] * (found.bound > most.cost + ROUNDING)
    if found.cost > found.bound * (1 + found.gap) + ROUNDING:
        wrong.append(f"cost {found.cost} is more than {found.gap:.3%} above the bound {found.bound}")
    return wrong


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
    each.__name__: each for each in (rules, small_rules, reasons, best, bound, fewer_constraints, preferences)
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
