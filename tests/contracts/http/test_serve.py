"""A handler on a real port: what kubectl and vendors' clients meet."""

import asyncio
import socket
from collections.abc import AsyncIterator

import aiohttp
import pytest

from tests.contracts.http.certificates import Certificates
from tgp.adapters.http.serve import MAX_REQUEST_BYTES, listen
from tgp.adapters.http.tls import client_context
from tgp.ports.http import Call, Reply, Streaming


async def says_ok(_: Call) -> Reply:
    return Reply(200, b"ok")


async def test_a_busy_port_is_no_error():
    """The next free one is taken, and told."""
    first = await listen(says_ok)
    second = await listen(says_ok, port=first.port)

    assert second.port > first.port
    assert second.url == f"http://127.0.0.1:{second.port}"
    async with aiohttp.ClientSession() as session, session.get(second.url) as answer:
        assert await answer.read() == b"ok"
    await second.stop()
    await first.stop()


async def test_a_stopped_server_frees_its_port():
    server = await listen(says_ok)
    await server.stop()
    again = await listen(says_ok, port=server.port)

    assert again.port == server.port
    await again.stop()


async def test_an_address_that_is_not_ours_is_an_error():
    with pytest.raises(OSError):
        await listen(says_ok, host="192.0.2.1", port=1)


async def test_pieces_are_sent_as_they_come():
    more = asyncio.Event()

    async def slowly(_: Call) -> Streaming:
        async def pieces() -> AsyncIterator[bytes]:
            yield b"one\n"
            await more.wait()
            yield b"two\n"

        return Streaming(200, (("Content-Type", "application/json"),), pieces())

    server = await listen(slowly)
    async with aiohttp.ClientSession() as session, session.get(server.url) as answer:
        assert await answer.content.readline() == b"one\n"
        more.set()
        assert await answer.content.readline() == b"two\n"
        assert await answer.content.readline() == b""
    await server.stop()


async def test_a_client_that_hangs_up_while_nothing_comes_closes_the_stream():
    """Also when the iterator waits for something that may never happen: a watch on a quiet kind."""
    closed = asyncio.Event()

    async def quiet(_: Call) -> Streaming:
        async def pieces() -> AsyncIterator[bytes]:
            try:
                yield b"one\n"
                await asyncio.get_running_loop().create_future()
            finally:
                closed.set()

        return Streaming(200, (), pieces())

    server = await listen(quiet)
    async with aiohttp.ClientSession() as session, session.get(server.url) as answer:
        await answer.content.readline()
    async with asyncio.timeout(5):
        await closed.wait()
    await server.stop()


async def test_what_was_asked_goes_on_when_the_client_hangs_up():
    """A real server does not undo half a write because its client lost patience."""
    begun, done = asyncio.Event(), asyncio.Event()

    async def writes(_: Call) -> Reply:
        begun.set()
        await asyncio.sleep(0.1)
        done.set()
        return Reply(200)

    server = await listen(writes)
    async with aiohttp.ClientSession() as session:
        call = asyncio.create_task(session.post(server.url, data=b"x"))
        await begun.wait()
        call.cancel()
    async with asyncio.timeout(5):
        await done.wait()
    await server.stop()


async def test_a_stream_without_a_reader_is_closed():
    begun, closed = asyncio.Event(), asyncio.Event()

    class Pieces:
        def __aiter__(self) -> "Pieces":
            return self

        async def __anext__(self) -> bytes:
            raise AssertionError("there is no reader")

        async def aclose(self) -> None:
            closed.set()

    async def late(_: Call) -> Streaming:
        begun.set()
        await asyncio.sleep(0.1)
        return Streaming(200, (), Pieces())

    server = await listen(late)
    async with aiohttp.ClientSession() as session:
        call = asyncio.create_task(session.get(server.url))
        await begun.wait()
        call.cancel()
    async with asyncio.timeout(5):
        await closed.wait()
    await server.stop()


async def test_stopping_cuts_streams_that_never_end():
    closed = asyncio.Event()

    async def endless(_: Call) -> Streaming:
        async def pieces() -> AsyncIterator[bytes]:
            try:
                yield b"one\n"
                await asyncio.get_running_loop().create_future()
            finally:
                closed.set()

        return Streaming(200, (), pieces())

    server = await listen(endless)
    async with aiohttp.ClientSession() as session, session.get(server.url) as answer:
        await answer.content.readline()
        async with asyncio.timeout(10):
            await server.stop()
    assert closed.is_set()


async def test_one_connection_serves_many_requests():
    server = await listen(says_ok)
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    for _ in range(3):
        writer.write(b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n")
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 OK")
        assert await reader.readexactly(2) == b"ok"
    writer.close()
    await server.stop()


async def test_the_head_of_an_answer_has_no_body():
    async def sized(_: Call) -> Reply:
        return Reply(200, b"0123456789", (("Content-Type", "text/plain"),))

    server = await listen(sized)
    async with aiohttp.ClientSession() as session, session.head(server.url) as answer:
        assert (answer.status, await answer.read(), answer.headers["Content-Length"]) == (200, b"", "10")
    await server.stop()


async def test_a_request_beyond_the_bound_is_refused():
    server = await listen(says_ok)
    too_much = iter_zeros(MAX_REQUEST_BYTES + 1)
    async with aiohttp.ClientSession() as session, session.post(server.url, data=too_much) as answer:
        assert answer.status == 413
    await server.stop()


async def iter_zeros(size: int) -> AsyncIterator[bytes]:
    for at in range(0, size, 1 << 20):
        yield bytes(min(1 << 20, size - at))


async def test_headers_are_the_handlers_own():
    async def typed(_: Call) -> Reply:
        return Reply(200, b"{}", (("Content-Type", "application/json"), ("Warning", "one"), ("Warning", "two")))

    server = await listen(typed)
    async with aiohttp.ClientSession() as session, session.get(server.url) as answer:
        assert answer.headers.getall("Content-Type") == ["application/json"]
        assert answer.headers.getall("Warning") == ["one", "two"]
    await server.stop()


async def test_it_can_speak_tls():
    certificates = Certificates()
    server = await listen(says_ok, tls=certificates.server_context())
    tls = client_context(certificates.authority)
    async with aiohttp.ClientSession() as session, session.get(server.url, ssl=tls) as answer:
        assert await answer.read() == b"ok"
    assert server.url.startswith("https://")
    await server.stop()


async def test_it_listens_on_loopback_only():
    server = await listen(says_ok)
    with socket.socket() as anywhere:
        anywhere.bind(("127.0.0.2", server.port))  # free: only 127.0.0.1 was taken
    await server.stop()


async def test_a_client_that_hangs_up_before_a_stream_begins_is_no_error(caplog):
    """A killed client leaves no traceback in the server's log, and the stream is closed."""
    closed = asyncio.Event()
    asked = asyncio.Event()

    async def at_last(_: Call) -> Streaming:
        asked.set()
        await asyncio.sleep(0.1)

        async def pieces() -> AsyncIterator[bytes]:
            try:
                yield b"line\n"
                await asyncio.Event().wait()
            finally:
                closed.set()

        stream = pieces()
        await anext(stream)  # begun, so that closing it runs its `finally`
        return Streaming(200, (), stream)

    server = await listen(at_last)
    _, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    await asked.wait()
    writer.transport.abort()
    async with asyncio.timeout(5):
        await closed.wait()
    await server.stop()

    assert caplog.records == []


@pytest.mark.parametrize(
    "said",
    [
        b"GET / HTTP/1.1\r\nhost: a\r\nbad header\r\n\r\n",
        b"GET / HTTP/9.x\r\n\r\n",
        b"\x16\x03\x01\x00\xa5\r\n\r\n",
    ],
    ids=["header", "version", "tls"],
)
async def test_a_request_that_is_not_http_is_refused_and_not_logged(said, caplog):
    """A port that is open to a network would else fill the log."""
    server = await listen(says_ok)
    for _ in range(3):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(said)
        assert (await reader.read(64)).startswith(b"HTTP/1.0 400")
        writer.close()
    await server.stop()

    assert [record.getMessage() for record in caplog.records] == []
