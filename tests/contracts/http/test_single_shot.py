"""A changing call is written to a socket at most once, however rudely the other side behaves."""

import asyncio

import aiohttp
import pytest

from tests.contracts.http.rude import OK, Line, Manners, client_of, rude_server
from tgp.adapters.clock import SystemClock
from tgp.ports.http import Call, NoAnswer

CLOCK = SystemClock()
CHANGING = ("POST", "PUT", "PATCH", "DELETE")


async def reads_and_drops(line: Line) -> None:
    await line.request()


async def reads_and_resets(line: Line) -> None:
    await line.request()
    line.reset()


async def reads_the_head_and_resets(line: Line) -> None:
    head = await line.reader.readuntil(b"\r\n\r\n")
    line.requests.append(head.decode().split("\r\n")[0])
    line.reset()


async def begins_a_status_line(line: Line) -> None:
    await line.request()
    await line.say(b"HTTP/1.1 20")


async def answers_half_a_head(line: Line) -> None:
    await line.request()
    await line.say(b"HTTP/1.1 200 OK\r\nContent-Le")


async def answers_half_a_body(line: Line) -> None:
    await line.request()
    await line.say(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")


async def answers_half_its_chunks(line: Line) -> None:
    await line.request()
    await line.say(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n")


async def answers_with_nonsense(line: Line) -> None:
    await line.request()
    await line.say(b"SSH-2.0-OpenSSH_9.2\r\n\r\n")


RUDE: tuple[Manners, ...] = (
    reads_and_drops,
    reads_and_resets,
    reads_the_head_and_resets,
    begins_a_status_line,
    answers_half_a_head,
    answers_half_a_body,
    answers_half_its_chunks,
    answers_with_nonsense,
)
BODIES = {"without a body": b"", "with a small body": b"{}", "with a large body": b"x" * 3_000_000}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
@pytest.mark.parametrize("manners", RUDE, ids=lambda manners: manners.__name__)
@pytest.mark.parametrize("method", CHANGING)
async def test_on_a_new_connection_it_is_sent_once(method: str, manners: Manners, body: bytes):
    """Server reads, then fails in every way it can: requests seen = 1, and the outcome is unknown."""
    async with rude_server(manners) as rude, client_of(rude, CLOCK) as http:
        with pytest.raises(NoAnswer):
            await http.send(Call(method, "/buy", body=body))
        await asyncio.sleep(0.05)  # a second request would arrive now

    assert rude.requests == [f"{method} /buy HTTP/1.1"]


@pytest.mark.parametrize("manners", RUDE, ids=lambda manners: manners.__name__)
@pytest.mark.parametrize("method", CHANGING)
async def test_on_a_kept_connection_it_is_sent_once(method: str, manners: Manners):
    """The case in which aiohttp would send again: a connection that served one request and breaks under the next."""

    async def polite_then_rude(line: Line) -> None:
        await line.request()
        await line.say(OK)
        await manners(line)

    async with rude_server(polite_then_rude) as rude, client_of(rude, CLOCK, fresh=False) as http:
        assert (await http.send(Call("GET", "/hello"))).content == b"ok"
        with pytest.raises(NoAnswer):
            await http.send(Call(method, "/buy", body=b"{}"))
        await asyncio.sleep(0.05)

    assert rude.requests == ["GET /hello HTTP/1.1", f"{method} /buy HTTP/1.1"]
    assert rude.connections == 1


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
async def test_plain_aiohttp_sends_it_twice(method: str):
    """The same server against the library as it comes: these tests can fail, and the gate is what makes them pass."""

    async def polite_then_rude(line: Line) -> None:
        await line.request()
        await line.say(OK)
        await line.request()

    async with rude_server(polite_then_rude) as rude, aiohttp.ClientSession() as session:
        async with session.get(rude.url) as first:
            await first.read()
        async with session.request(method, f"{rude.url}/buy", data=b"{}"):
            pass
        await asyncio.sleep(0.05)

    assert rude.requests.count(f"{method} /buy HTTP/1.1") == 2


@pytest.mark.parametrize("method", CHANGING)
async def test_a_kept_connection_that_the_server_closed_meanwhile(method: str):
    """Whether the close was noticed in time or not: at most one request, and unknown only if one may have left."""

    async def answers_one_and_closes(line: Line) -> None:
        await line.request()
        await line.say(OK)

    for pause in (0.0, 0.0, 0.001, 0.05):
        async with rude_server(answers_one_and_closes) as rude, client_of(rude, CLOCK, fresh=False) as http:
            await http.send(Call("GET", "/hello"))
            await asyncio.sleep(pause)
            try:
                reply = await http.send(Call(method, "/buy", body=b"{}"))
            except NoAnswer:
                expected = 0  # written to a connection that was no longer read
            else:
                assert reply.ok
                expected = 1
            await asyncio.sleep(0.02)

        assert rude.requests.count(f"{method} /buy HTTP/1.1") == expected


@pytest.mark.parametrize("method", CHANGING)
async def test_a_changing_call_does_not_trust_a_kept_connection(method: str):
    """By default each gets a connection of its own, so a stale one cannot make its outcome unknown."""

    async def answers_one(line: Line) -> None:
        await line.request()
        await line.say(OK)
        await line.reader.read()

    async with rude_server(answers_one) as rude, client_of(rude, CLOCK) as http:
        for path in ("/1", "/2", "/3"):
            assert (await http.send(Call(method, path, body=b"{}"))).ok

    assert len(rude.requests) == 3
    assert rude.connections == 3


async def test_kept_connections_are_used_again():
    async def answers_for_ever(line: Line) -> None:
        while True:
            await line.request()
            await line.say(OK)

    async with rude_server(answers_for_ever) as rude, client_of(rude, CLOCK) as http:
        for _ in range(5):
            assert (await http.send(Call("GET", "/"))).ok

    assert rude.connections == 1
