"""The ways out of this process: one client per endpoint, kept, and closed together at the end."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tgp import __version__
from tgp.adapters.http.client import HttpClient, Pool
from tgp.ports.clock import Clock
from tgp.ports.http import Http

CONNECTIONS = Pool(connections=16)


class Switchboard:
    """Implements `Dial` on real sockets."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._clients: dict[tuple[str, str], HttpClient] = {}

    def __call__(self, base_url: str, *, address: str = "") -> Http:
        found = self._clients.get((base_url, address))
        if found is None:
            headers = (("User-Agent", f"tgp/{__version__}"),)
            found = HttpClient(base_url, self._clock, headers=headers, pool=CONNECTIONS, address=address)
            self._clients[base_url, address] = found
        return found

    async def close(self) -> None:
        for client in self._clients.values():
            await client.close()


@asynccontextmanager
async def switchboard(clock: Clock) -> AsyncIterator[Switchboard]:
    board = Switchboard(clock)
    try:
        yield board
    finally:
        await board.close()
