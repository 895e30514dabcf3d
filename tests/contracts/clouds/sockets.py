"""A provider's simulator on a real port, and its adapter on real sockets, as the operator runs it."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from tests.contracts.clouds.provider import Provider
from tgp.adapters.clock import SystemClock
from tgp.adapters.clouds.context import AdapterContext
from tgp.adapters.entropy import SystemEntropy
from tgp.adapters.http.client_pool import http_client_pool
from tgp.adapters.http.serve import listen
from tgp.adapters.resolver import SystemResolver
from tgp.core.model.secret import Secret
from tgp.ports.cloud import Cloud
from tgp.ports.http import Call, HangUp, Reply
from tgp.sim.clouds.cloud_faults import CloudVerb
from tgp.sim.clouds.simulator import Simulator


@dataclass
class Served:
    """One adapter and what reached the provider's port."""

    simulator: Simulator
    cloud: Cloud = field(init=False)
    requests: list[CloudVerb] = field(default_factory=list)
    drops: frozenset[CloudVerb] = (
        frozenset()
    )  # these requests are read to their end, and then the connection is dropped

    async def answer(self, call: Call) -> Reply:
        verb = self.simulator.verb_of(call)
        self.requests.append(verb)
        if verb in self.drops:
            raise HangUp
        return await self.simulator.handle(call)


@asynccontextmanager
async def served(provider: Provider) -> AsyncIterator[Served]:
    clock = SystemClock()
    simulator = provider.simulator(clock, "sockets")
    one = Served(simulator)
    server = await listen(one.answer)
    url = server.url + urlsplit(provider.facts.endpoint).path.rstrip("/")
    try:
        async with http_client_pool(clock) as dial:
            key = Secret(simulator.key_at(url)) if provider.keyed else None
            settings = provider.settings(url)
            context = AdapterContext(dial, clock, SystemEntropy(), SystemResolver(), key=key, settings=settings)
            one.cloud = provider.build(provider.furnish(context))
            yield one
    finally:
        await server.stop()
