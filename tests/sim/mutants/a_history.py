"""What histories begin with, and what happens in several of them."""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests.sim.an_operator import a_class, operator_main
from tests.sim.lifecycle.a_world import SimEnv
from tgp.api.resource import GPU_REQUEST
from tgp.sim.checkers.recorded import RecordedOrder
from tgp.sim.checkers.recorder import Checker
from tgp.sim.clouds.cloud_faults import CloudVerb
from tgp.sim.world import KUBERNETES

BUSY_FOR_AN_ORDER = 29.5  # seconds that a slow provider takes over an order: just within a client's patience
LATE = (9.0, 9.9)  # seconds until a launch is listed: just within what this provider is known for
FOUR = tuple(f"train-{number}" for number in range(4))


def begin(env: SimEnv, replicas: int = 1, **spec: Any) -> None:
    """A class and an operator or two, settled."""
    a_class(env.world, "rented", **spec)
    for number in range(replicas):
        env.world.process(f"tgp-{number}", operator_main(shipped=True))
    env.world.run(minutes=1)


def is_ready(env: SimEnv, name: str = "train") -> Callable[[], bool]:
    return lambda: env.phase(name) == "Ready"


class AtOrders(Checker):
    """Does something at the moment an order leaves."""

    def __init__(self, env: SimEnv, deed: Callable[[RecordedOrder], None]) -> None:
        super().__init__(env.recorder)
        self._deed = deed
        self.orders: list[RecordedOrder] = []

    def ordered(self, order: RecordedOrder) -> None:
        self.orders.append(order)
        self._deed(order)


def at_first_order(env: SimEnv, deed: Callable[[], None], after: float = 0.0) -> AtOrders:
    def once(_order: RecordedOrder) -> None:
        if len(checker.orders) == 1:
            env.world.loop.call_later(after, deed)

    checker = env.recorder.add(AtOrders(env, once))
    return checker


def slow_orders(env: SimEnv, at_one: Callable[[], None] = lambda: None, takes: float = BUSY_FOR_AN_ORDER) -> None:
    """From now on the provider takes its time over an order, and lists what it made as late as it is known to.

    `at_one` is called when the next order arrives there.
    """
    simulator, next_one = env.simulator, [at_one]
    simulator.fleet.habits = replace(simulator.fleet.habits, list_lag=LATE)
    (place,) = [name for name in env.world.network.endpoints() if name != KUBERNETES]

    async def handle(call: Any) -> Any:
        if simulator.verb_of(call) is CloudVerb.LAUNCH:
            if next_one:
                next_one.pop()()
            await asyncio.sleep(takes)
        return await simulator.handle(call)

    env.world.mount(place, handle)


def crash(env: SimEnv, restart_after: float = 1.0) -> Callable[[], None]:
    return lambda: env.world.processes["tgp-0"].crash(restart_after=restart_after)


def wipe(env: SimEnv, name: str = "train") -> None:
    nothing = dict.fromkeys((env.request(name) or {}).get("status", {}))
    env.world.api.local_api.merge_patch(GPU_REQUEST, "default", name, {"status": nothing}, "status")


def all_ready(env: SimEnv, names: tuple[str, ...] = FOUR) -> Callable[[], bool]:
    return lambda: all(is_ready(env, name)() for name in names)
