"""The factory's client and its simulator, joined by a network in memory, in virtual time."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from tgp.adapters.image_factory import FactoryClient
from tgp.sim.clock import WorldClock
from tgp.sim.clouds.http_factory import Dialler
from tgp.sim.factory import FactorySimulator
from tgp.sim.loop import VirtualLoop, close
from tgp.sim.router import Network
from tgp.sim.trace import RunTrace

URL = "https://factory.test"
T = TypeVar("T")


class Stage:
    def __init__(self, loop: VirtualLoop, url: str = URL) -> None:
        self.clock = WorldClock(loop)
        self.simulator = FactorySimulator(self.clock)
        self.network = Network(loop, RunTrace(loop.time), 1)
        self.network.mount(URL, self.simulator.handle)
        self.http = Dialler(self.network, self.clock)(url)
        self.client = FactoryClient(self.http, url)

    def asked(self, path: str) -> int:
        return sum(path in each for each in self.simulator.asked)


def play(script: Callable[[Stage], Awaitable[T]]) -> T:
    loop = VirtualLoop()

    async def begin() -> T:
        return await script(Stage(loop))

    try:
        return loop.run_until_complete(begin())
    finally:
        close(loop)
