"""HTTP clients of this process: one per endpoint, kept while in use, closed together at the end."""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tgp import __version__
from tgp.adapters.http.client import ConnectionPool, HttpClient
from tgp.ports.clock import Clock
from tgp.ports.http import Http

CONNECTIONS = ConnectionPool(connections=16)
MOST = 256  # a provider has one or two; an owned machine one for each address its name has had


class HttpClientPool:
    """Implements `HttpFactory` on real sockets."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._clients: OrderedDict[tuple[str, str], HttpClient] = OrderedDict()  # the longest unused first
        self._closing: set[asyncio.Task[None]] = set()  # asyncio itself keeps only weak references to tasks

    def __call__(self, base_url: str, *, address: str = "") -> Http:
        where = base_url, address
        found = self._clients.pop(where, None)
        if found is None:
            headers = (("User-Agent", f"tgp/{__version__}"),)
            found = HttpClient(base_url, self._clock, headers=headers, pool=CONNECTIONS, address=address)
        self._clients[where] = found
        if len(self._clients) > MOST:
            self._close_one(self._clients.popitem(last=False)[1])
        return found

    def __len__(self) -> int:
        return len(self._clients)

    async def close(self) -> None:
        for client in self._clients.values():
            await client.close()
        await asyncio.gather(*self._closing)

    def _close_one(self, client: HttpClient) -> None:
        """Closes the connections, not the client: a caller that still holds it opens new ones with its next call."""
        task = asyncio.get_running_loop().create_task(client.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)


@asynccontextmanager
async def http_client_pool(clock: Clock) -> AsyncIterator[HttpClientPool]:
    board = HttpClientPool(clock)
    try:
        yield board
    finally:
        await board.close()
