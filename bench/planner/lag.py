"""How long the event loop waits while a large world is planned behind the `Compute` port."""

import asyncio
import time
from collections.abc import Awaitable

import numpy as np

from bench.karpenter.cases import gpu_market
from bench.karpenter.ours import a_world
from tgp.adapters.compute import Threads
from tgp.core.pools.planner.plan import plan

PODS, OFFERS, CLASSES, SEED = 10_000, 5_000, 100, 1
TICK_S = 0.002
PLANS = 3  # the first one also imports the solver


def lag_p99_ms() -> float:
    """Of the lags of a ticker while plans are made."""
    world = a_world(gpu_market(PODS, CLASSES, SEED, OFFERS))

    async def planned() -> None:
        compute = Threads()
        for _ in range(PLANS):
            await compute.run(lambda: plan(world))
        compute.close()

    lags = asyncio.run(_lags_during(planned()))
    return float(np.percentile(lags, 99)) * 1000


async def _lags_during(work: Awaitable[None]) -> list[float]:
    lags: list[float] = []
    ticker = asyncio.create_task(_tick(lags))
    await work
    ticker.cancel()
    return lags


async def _tick(lags: list[float]) -> None:
    """Seconds beyond the tick, no more than this process was on a processor: the rest is what else runs here."""
    while True:
        began, used = time.perf_counter(), time.process_time()
        await asyncio.sleep(TICK_S)
        lags.append(max(0.0, min(time.perf_counter() - began, time.process_time() - used) - TICK_S))
