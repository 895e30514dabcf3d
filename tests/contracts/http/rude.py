"""Servers with bad manners, on real sockets: each says exactly what it does to a connection."""

import asyncio
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from tgp.adapters.http.client import ConnectionPool, HttpClient
from tgp.ports.clock import Clock

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


@dataclass
class Line:
    """One connection as the server sees it."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    requests: list[str]

    async def request(self) -> str:
        """Read one whole request and remember its first line."""
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
        length = next((int(h.split(":")[1]) for h in head.split("\r\n") if h.lower().startswith("content-length")), 0)
        await self.reader.readexactly(length)
        self.requests.append(head.split("\r\n")[0])
        return head

    async def say(self, content: bytes) -> None:
        self.writer.write(content)
        await self.writer.drain()

    def reset(self) -> None:
        """Not a polite end (FIN) but an abrupt one (RST)."""
        connection = self.writer.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


Manners = Callable[[Line], Awaitable[None]]


@dataclass
class Rude:
    url: str
    requests: list[str] = field(default_factory=list)
    connections: int = 0


@asynccontextmanager
async def rude_server(manners: Manners, tls: ssl.SSLContext | None = None) -> AsyncIterator[Rude]:
    """Treats each connection by `manners`, and closes it afterwards."""
    rude = Rude("")
    over = asyncio.Event()

    async def treat(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        rude.connections += 1
        treating = asyncio.ensure_future(manners(Line(reader, writer, rude.requests)))
        ending = asyncio.ensure_future(over.wait())
        await asyncio.wait({treating, ending}, return_when=asyncio.FIRST_COMPLETED)
        for task in (treating, ending):
            task.cancel()
        (failure, _) = await asyncio.gather(treating, ending, return_exceptions=True)
        if not isinstance(failure, None | asyncio.IncompleteReadError | ConnectionError | asyncio.CancelledError):
            raise failure
        writer.close()

    server = await asyncio.start_server(treat, "127.0.0.1", 0, ssl=tls)
    rude.url = f"{'https' if tls else 'http'}://localhost:{server.sockets[0].getsockname()[1]}"
    try:
        yield rude
    finally:
        over.set()
        server.close()
        await asyncio.sleep(0.01)  # the treatments end


@asynccontextmanager
async def client_of(rude: Rude, clock: Clock, *, fresh: bool = True, **options: object) -> AsyncIterator[HttpClient]:
    pool = options.pop("pool", ConnectionPool(fresh_for_changes=fresh))
    client = HttpClient(rude.url, clock, pool=pool, **options)
    try:
        yield client
    finally:
        await client.close()


class HandClock:
    """A boot clock that a test moves by hand."""

    def __init__(self) -> None:
        self.seconds = 1_000.0

    def boottime(self) -> float:
        return self.seconds
