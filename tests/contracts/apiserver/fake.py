"""The one that may lie: the suite's line to the in-memory API server, in virtual time."""

import asyncio
from collections.abc import Callable
from typing import TypeAlias

from tests.contracts.apiserver.kinds import PYTHON_CHECKS
from tests.contracts.apiserver.run import Host
from tgp.sim.apiserver.semantics import Semantics
from tgp.sim.apiserver.server import ApiServer
from tgp.sim.clock import WorldClock
from tgp.sim.entropy import SeededEntropy
from tgp.sim.loop import VirtualLoop
from tgp.sim.router import Latency, Network
from tgp.sim.trace import RunTrace

Make: TypeAlias = Callable[[WorldClock, SeededEntropy], ApiServer]

SEED = 1
AT_ONCE = 12  # as many as beside one another on the real server


class FakeServer:
    """What cases may do to the pretend machine under the pretend API."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server

    async def compact(self) -> None:
        await asyncio.sleep(0)
        self._server.store.compact(self._server.store.revision)


def server_with(semantics: Semantics) -> Make:
    """How a server is made that decides like `semantics`."""
    return lambda clock, entropy: ApiServer(clock, entropy, semantics=semantics, python_checks=PYTHON_CHECKS)


honest = server_with(Semantics())


def fake_host(make: Make = honest) -> Host:
    """A fresh server on the running (virtual) loop; `make` may build one that lies."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    clock = WorldClock(loop)
    server = make(clock, SeededEntropy(SEED, "apiserver"))
    network = Network(loop, RunTrace(loop.time), SEED)
    network.mount("apiserver", server.handle, Latency())
    return Host(network.http(None, "apiserver", clock), FakeServer(server), AT_ONCE)
