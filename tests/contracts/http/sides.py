"""The two sides on which the Http port stands: real sockets, and the router of the pretend world."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from tgp.adapters.clock import SystemClock
from tgp.adapters.http.client import ConnectionPool, HttpClient
from tgp.adapters.http.serve import Listening, listen
from tgp.ports.clock import Clock
from tgp.ports.http import Call, Handler, Http, Reply, Streaming
from tgp.sim.world import World


class HttpSide(Protocol):
    clock: Clock

    async def open(self, handler: Handler) -> Http:
        """The way to a server that answers with `handler`."""
        ...

    async def open_without_listener(self) -> Http:
        """A client for an address without a listener."""
        ...


Case = Callable[[HttpSide], Awaitable[None]]


class Sockets:
    def __init__(self, pool: ConnectionPool) -> None:
        self.clock = SystemClock()
        self._pool = pool
        self._servers: list[Listening] = []
        self._clients: list[HttpClient] = []

    async def open(self, handler: Handler) -> Http:
        server = await listen(handler)
        self._servers.append(server)
        return self._client(server.url)

    async def open_without_listener(self) -> Http:
        server = await listen(refuse)
        await server.stop()
        return self._client(server.url)

    def _client(self, url: str) -> Http:
        client = HttpClient(url, self.clock, pool=self._pool)
        self._clients.append(client)
        return client

    async def close(self) -> None:
        for client in self._clients:
            await client.close()
        for server in self._servers:
            await server.stop()


class Routed:
    def __init__(self, world: World) -> None:
        self.clock = world.clock
        self._world = world

    async def open(self, handler: Handler) -> Http:
        self._world.mount("server", handler)
        return self._world.visitor("server")

    async def open_without_listener(self) -> Http:
        return self._world.visitor("absent")


def through_sockets(case: Case, *, fresh_for_changes: bool = True) -> None:
    async def run() -> None:
        side = Sockets(ConnectionPool(fresh_for_changes=fresh_for_changes))
        try:
            await case(side)
        finally:
            await side.close()

    asyncio.run(run())


def through_kept_sockets(case: Case) -> None:
    through_sockets(case, fresh_for_changes=False)


def through_the_router(case: Case) -> None:
    with World(1) as world:
        world.until(_as_coroutine(case, Routed(world)))


async def _as_coroutine(case: Case, side: HttpSide) -> None:
    await case(side)


async def refuse(call: Call) -> Reply | Streaming:
    raise AssertionError(f"unexpected call {call}")
