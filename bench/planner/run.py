"""Every plan is checked by code that shares nothing with the planner, and its bound is proven."""

import argparse
import gc
import resource
import time
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

import numpy as np

from bench.planner.checker import violations
from bench.planner.small import same_as_full
from bench.planner.worlds import Size, a_market
from tgp.core.pools.planner.plan import plan
from tgp.core.pools.planner.solve import Effort, solve

PROVING = Effort(exact_rounds=10_000)  # however long it takes
USUAL_CLASSES, MANY_CLASSES = 100, 200
WANTED_LAG_MS = 20
JUDGED = (10_000, 5_000)  # pods and offers of the last line


@dataclass(frozen=True)
class Measured:
    size: Size
    seconds: float  # of processor time, of the whole plan: from pods and offers to the orders
    solver: float  # of these, to the packing and its bound
    gap: float  # over the proven bound
    unserved: int


def main(options: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench planner", description=__doc__)
    parser.add_argument("--full", action="store_true", help="also 1,000 classes, and all seeds everywhere")
    parser.add_argument("--seeds", type=int, default=5)
    asked = parser.parse_args(options)
    print(f"{'pods x offers x classes':<28}{'seconds':>9}{'solver':>9}{'gap':>10}{'largest':>10}{'unserved':>10}")
    found: list[Measured] = []
    for size in _sizes(full=asked.full):
        judged = (size.pods, size.offers) == JUDGED or asked.full
        rows = [_measure(size, seed) for seed in range(asked.seeds if judged else 1)]
        found += rows
        gaps = [row.gap for row in rows]
        print(
            f"{size.name:<28}{median(row.seconds for row in rows):>9.2f}{median(row.solver for row in rows):>9.2f}"
            f"{median(gaps):>9.3%}{max(gaps):>10.3%}"
            f"{max(row.unserved for row in rows):>10}",
            flush=True,
        )
    memory_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    judged_rows = [row for row in found if (row.size.pods, row.size.offers) == JUDGED]
    usual = [row for row in judged_rows if row.size.classes <= USUAL_CLASSES]
    many = [row for row in judged_rows if row.size.classes == MANY_CLASSES]
    small = same_as_full(200)
    from bench.planner.lag import lag_ms  # here: what it imports is no memory of the solver

    lag = lag_ms()
    print(
        f"event loop while the world is gathered and planned: 99 % of its waits at most {lag.p99:.1f} ms, "
        f"the longest {lag.longest:.1f} ms (wanted: {WANTED_LAG_MS} at most)"
    )
    print(
        f"200 worlds of 1 to 60 pods: {small.same:.3f} cost what a full search costs, the worst {small.worst:.3%} more"
    )
    print(
        f"planner seconds={max(row.seconds for row in usual):.2f} gap_median={median(row.gap for row in usual):.5f}"
        f" gap_max={max(row.gap for row in usual):.5f} seconds_200={max(row.seconds for row in many):.2f}"
        f" solver={max(row.solver for row in usual):.2f}"
        f" unserved={sum(row.unserved for row in found)} rss_mb={memory_mb:.0f} small={small.same:.3f}"
        f" lag_p99_ms={lag.p99:.1f}"
    )
    return 0


def _sizes(*, full: bool) -> Iterator[Size]:
    for pods in (1_000, 10_000, 50_000):
        for offers in (500, 5_000):
            for classes in (10, 100, 200, *((1_000,) if full else ())):
                for tight in (True, False):
                    yield Size(pods, offers, classes, tight)


def _measure(size: Size, seed: int) -> Measured:
    market = a_market(size, seed)
    problem, world = market.problem, market.world()
    gc.collect()
    began = time.process_time()
    found = solve(problem)
    solver = time.process_time() - began
    wrong = violations(problem, found.packing.machines, found.packing.unserved)
    assert not wrong, wrong[:3]
    gc.collect()
    began = time.process_time()
    planned = plan(world)
    seconds = time.process_time() - began
    bound = found.bound if found.bound.proven else solve(problem, PROVING).bound
    gap = max(found.packing.charged / bound.least - 1.0, 0.0)
    served = sum(len(order.pods) for order in planned.orders)
    assert len(planned.unserved) + served == len(world.pods), f"{size.name}: pods are missing in the plan"
    return Measured(size, seconds, solver, gap, max(int(np.sum(found.packing.unserved)), len(planned.unserved)))
