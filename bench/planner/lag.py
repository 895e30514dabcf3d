"""How long the event loop waits while the world of a plan is gathered, and planned behind the `Compute` port."""

import asyncio
import gc
import time
from collections.abc import Awaitable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from bench.karpenter.cases import gpu_market
from bench.karpenter.ours import NOW, a_world
from bench.planner.observed import an_observer, fill
from tgp.adapters.compute import Threads
from tgp.controllers.deps import Stores
from tgp.core.pools.planner.plan import plan

PODS, OFFERS, CLASSES, SEED = 10_000, 5_000, 100, 1
MACHINES = 1_000
TICK_S = 0.002
PLANS = 3  # the first one also imports the solver


@dataclass(frozen=True)
class Lag:
    """Milliseconds."""

    p99: float
    longest: float


def lag_ms() -> Lag:
    """Of a ticker while plans are made, as the operator makes them: its caches are read on the event loop."""
    world = a_world(gpu_market(PODS, CLASSES, SEED, OFFERS))
    stores = Stores()
    observer = an_observer(stores)
    fill(stores, world, MACHINES)

    async def planned() -> None:
        compute = Threads()
        for _ in range(PLANS):
            await observer.read_ahead()
            await asyncio.sleep(0)
            seen = replace(observer.observe(NOW).world, shapes=world.shapes, device_plugin_required=False)
            await compute.run(partial(plan, seen))
        compute.close()

    gc.collect()
    gc.freeze()  # as the operator does once its caches are filled
    lags = asyncio.run(_lags_during(planned()))
    gc.unfreeze()
    return Lag(float(np.percentile(lags, 99)) * 1000, max(lags) * 1000)


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
