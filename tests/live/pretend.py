"""A walk against a pretend provider: in memory and in virtual time, nothing leaves the process."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from tgp.adapters.clouds.registry import facts_of
from tgp.api.nodeclass import ProviderSettings
from tgp.core.model.secret import Secret
from tgp.core.model.source import source_of
from tgp.ports.cloud import Cloud
from tgp.ports.http import Handler, Http
from tgp.services.credentials import ProviderAccess
from tgp.sim.clock import WorldClock
from tgp.sim.clouds.http_factory import Dialler, origin_of
from tgp.sim.clouds.lambdalabs import SSH_KEY_NAME
from tgp.sim.clouds.machine import SimulatedMachine
from tgp.sim.clouds.registry import pretend
from tgp.sim.entropy import SeededEntropy
from tgp.sim.loop import VirtualLoop, run
from tgp.sim.resolver import TableResolver
from tgp.sim.router import Network
from tgp.sim.trace import RunTrace
from tools.live.asked import Asked
from tools.live.cluster import Ways
from tools.live.walk import opened, walk

T = TypeVar("T")
DOLLAR = 1_000_000
CLUSTER = "http://town.test"
SETTINGS = {  # what a maintainer would have to say of these
    "lambdalabs": ProviderSettings(ssh_key_name=SSH_KEY_NAME),
    "gcp": ProviderSettings(image="talos-1-11"),
}


@dataclass
class Pretence:
    """One provider where the real one would be, and whoever walks there."""

    provider: str = "lambdalabs"
    cap_microusd: int = DOLLAR
    yes: bool = True
    said: list[str] = field(default_factory=list)
    watched: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self.clock = WorldClock(loop)
        self.simulator = pretend(self.provider, self.clock, "live")
        self.simulator.fleet.habits = replace(self.simulator.fleet.habits, moves=False)
        self.network = Network(loop, RunTrace(loop.time), "live")
        url = facts_of(self.provider).endpoint
        self.network.mount(origin_of(url), self.simulator.handle)
        key = Secret(self.simulator.key_at(url)) if facts_of(self.provider).key_variable else None
        settings = SETTINGS.get(self.provider)
        counter = ProviderAccess(source_of(self.provider, "", "", settings), facts_of(self.provider), key)
        self.asked = Asked(counter, self.cap_microusd, self.yes)
        entropy = SeededEntropy("live", "walk")
        self.ways = Ways(self.clock, entropy, Dialler(self.network, self.clock), TableResolver(), self._serve)

    @asynccontextmanager
    async def _serve(self, handler: Handler) -> AsyncIterator[Callable[[str], Http]]:
        self.network.mount(CLUSTER, handler)
        try:
            yield lambda token: _Shown(self.network.http(None, CLUSTER, self.clock), token)
        finally:
            self.network.unmount(CLUSTER)

    @property
    def cloud(self) -> Cloud:
        return opened(self.asked, self.ways)

    async def walk(self) -> None:
        await walk(self.asked, self.ways, self._watch, self.said.append)

    def _watch(self, prefix: str) -> Any:
        self.watched.append(prefix)
        return nullcontext()

    @property
    def made(self) -> list[SimulatedMachine]:
        self.simulator.fleet.advance()
        return list(self.simulator.fleet.machines.values())

    @property
    def alive(self) -> list[SimulatedMachine]:
        return [machine for machine in self.made if machine.alive]


class _Shown:
    """An `Http` that shows a token with every call."""

    def __init__(self, http: Http, token: str) -> None:
        self._http = http
        self._header = ("Authorization", f"Bearer {token}")

    async def send(self, call: Any) -> Any:
        return await self._http.send(replace(call, headers=(*call.headers, self._header)))

    def stream(self, call: Any, *, idle: Any) -> Any:
        return self._http.stream(replace(call, headers=(*call.headers, self._header)), idle=idle)


def in_virtual_time(main: Coroutine[Any, Any, T]) -> T:
    return run(main)
