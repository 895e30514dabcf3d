"""A port that is open to a network: slow, large and many requests are cut, and a certificate changes while it runs."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime

import aiohttp
import pytest

from tgp.adapters.entropy import SystemEntropy
from tgp.adapters.http.issue import issue
from tgp.adapters.http.serve import ServerLimits, listen
from tgp.adapters.http.tls import ServingContext, client_context
from tgp.core.access.certificate import AUTHORITY, CERTIFICATE, KEY, Issue, service_names
from tgp.ports.http import Call, Reply

WITHIN = 0.3
LIMITS = ServerLimits(max_request_bytes=1000, request_within=WITHIN, handshake_within=WITHIN, connections=3)
NAMES = service_names("tgp-system")
LARGE = bytes(64 << 20)


async def answers(call: Call) -> Reply:
    return Reply(200, LARGE if call.path == "/large" else call.peer.encode())


@asynccontextmanager
async def connected(port: int) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield reader, writer
    finally:
        writer.transport.abort()
        await asyncio.sleep(0)


async def ended(reader: asyncio.StreamReader) -> bytes:
    async with asyncio.timeout(20 * WITHIN):
        return await reader.read()


@pytest.mark.parametrize("sent", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: "])
async def test_a_request_that_does_not_come_is_cut(sent):
    server = await listen(answers, limits=LIMITS)
    async with connected(server.port) as (reader, writer):
        writer.write(sent)
        assert await ended(reader) == b""
    await server.stop()


async def test_a_body_that_does_not_come_is_cut():
    server = await listen(answers, limits=LIMITS)
    async with connected(server.port) as (reader, writer):
        writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nx")
        assert (await ended(reader)).startswith(b"HTTP/1.1 408")
    await server.stop()


async def test_a_body_and_a_header_that_are_too_large_are_refused():
    server = await listen(answers, limits=LIMITS)
    async with aiohttp.ClientSession() as session:
        async with session.post(server.url, data=bytes(1001)) as answer:
            assert answer.status == 413
        async with session.get(server.url, headers={"Authorization": "x" * 9000}) as answer:
            assert answer.status == 400
    await server.stop()


async def test_a_large_answer_and_the_head_of_it_are_whole():
    server = await listen(answers, limits=ServerLimits(request_within=60))
    async with aiohttp.ClientSession() as session:
        async with session.get(f"{server.url}/large") as answer:
            assert await answer.read() == LARGE
        async with session.head(f"{server.url}/large") as answer:
            assert (await answer.read(), answer.headers["Content-Length"]) == (b"", str(len(LARGE)))
        async with session.get(f"{server.url}/large") as answer:
            assert answer.headers["Content-Length"] == str(len(LARGE))
    await server.stop()


async def test_a_client_that_does_not_read_is_cut():
    server = await listen(answers, limits=LIMITS)
    with socket.create_connection(("127.0.0.1", server.port)) as client:
        client.sendall(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
        await asyncio.sleep(3 * WITHIN)
        assert await asyncio.to_thread(size_of, client) < len(LARGE)
    await server.stop()


def size_of(client: socket.socket) -> int:
    """Of all that comes until the end."""
    size = 0
    while piece := client.recv(1 << 20):
        size += len(piece)
    return size


async def test_one_connection_too_many_is_closed_and_the_others_go_on():
    server = await listen(answers, limits=ServerLimits(request_within=600, connections=3))
    async with AsyncExitStack() as held:
        first, *_ = [await held.enter_async_context(connected(server.port)) for _ in range(3)]
        reader, _ = await held.enter_async_context(connected(server.port))
        assert await ended(reader) == b""
        first[1].write(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")

        assert (await ended(first[0])).endswith(b"127.0.0.1"), "and the handler knows who asks"
    await server.stop()


async def test_a_handshake_that_does_not_come_is_cut():
    tls = ServingContext()
    server = await listen(answers, tls=tls.context, limits=LIMITS)
    async with connected(server.port) as (reader, _):
        assert await ended(reader) == b""
    await server.stop()


async def test_a_new_certificate_is_served_without_a_restart_and_open_connections_go_on():
    tls = ServingContext()
    server = await listen(answers, tls=tls.context)
    made = issue(Issue.EVERYTHING, {}, NAMES, datetime.now(UTC), SystemEntropy())
    trust = client_context(made[AUTHORITY])
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=trust)) as session:
        with pytest.raises(aiohttp.ClientConnectorError):  # there is none yet
            await session.get(server.url)
        seen = set()
        for _ in range(5):
            tls.load(made[CERTIFICATE], made[KEY])
            async with session.get(server.url, server_hostname="tgp-operator.tgp-system.svc") as answer:
                assert answer.status == 200
            seen.add(await _certificate(server.port, trust))
            made = issue(Issue.LEAF, made, NAMES, datetime.now(UTC), SystemEntropy())
    assert len(seen) == 5
    await server.stop()


async def _certificate(port: int, trust: ssl.SSLContext) -> bytes:
    """By address, without a server name, as some scrapers connect."""
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=trust)
    shown: bytes = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.transport.abort()
    await asyncio.sleep(0)
    return shown
