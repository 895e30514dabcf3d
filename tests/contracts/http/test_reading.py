"""Answers are read within bounds, whatever the server sends."""

import asyncio
import gzip
import zlib
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.contracts.http.rude import Line, Manners, client_of, rude_server
from tgp.adapters.clock import SystemClock
from tgp.adapters.http.body import CannotInflate, Inflater, LineSplitter, LineTooLong
from tgp.ports.http import Call, NoAnswer, TooLarge, UnreadableReply

CLOCK = SystemClock()
WHILE = timedelta(seconds=10)


def says(*parts: bytes) -> Manners:
    """Reads a request and answers in these pieces, then closes."""

    async def manners(line: Line) -> None:
        await line.request()
        for part in parts:
            await line.say(part)
            await asyncio.sleep(0.01)

    return manners


def answer(body: bytes, *headers: bytes) -> bytes:
    head = b"".join(header + b"\r\n" for header in headers)
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n%s\r\n%s" % (len(body), head, body)


async def test_we_ask_for_plain_bytes():
    heads: list[str] = []

    async def listens(line: Line) -> None:
        heads.append(await line.request())
        await line.say(answer(b""))

    async with rude_server(listens) as rude, client_of(rude, CLOCK) as http:
        await http.send(Call("GET", "/"))

    assert "accept-encoding: identity" in heads[0].lower()


@pytest.mark.parametrize("encode", [gzip.compress, zlib.compress], ids=["gzip", "deflate"])
async def test_an_answer_compressed_all_the_same_is_read(encode):
    body = b'{"kind": "Pod"}' * 100
    name = b"Content-Encoding: " + (b"gzip" if encode is gzip.compress else b"deflate")
    async with rude_server(says(answer(encode(body), name))) as rude, client_of(rude, CLOCK) as http:
        assert (await http.send(Call("GET", "/"))).content == body


async def test_a_bomb_is_dropped_at_the_bound():
    """A gigabyte of zeros in a megabyte: refused after `max_bytes`, not after a gigabyte."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    bomb = b"".join(packer.compress(bytes(1 << 20)) for _ in range(256)) + packer.flush()
    async with rude_server(says(answer(bomb, b"Content-Encoding: gzip"))) as rude, client_of(rude, CLOCK) as http:
        with pytest.raises(TooLarge):
            await http.send(Call("GET", "/", max_bytes=1 << 20))


async def test_a_bomb_in_a_stream_is_dropped_at_the_longest_line():
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    bomb = b"".join(packer.compress(bytes(1 << 20)) for _ in range(64)) + packer.flush()
    async with rude_server(says(answer(bomb, b"Content-Encoding: gzip"))) as rude, client_of(rude, CLOCK) as http:
        with pytest.raises(TooLarge):
            async with http.stream(Call("GET", "/"), idle=WHILE) as stream:
                async for _ in stream.batches():
                    pass


@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        (b"br", b"anything"),
        (b"zstd", b"anything"),
        (b"gzip", b"this is no gzip"),
        (b"gzip", gzip.compress(b"x" * 1000)[:-12]),
        (b"gzip, gzip", gzip.compress(gzip.compress(b"x"))),
    ],
    ids=["br", "zstd", "not gzip", "cut short", "twice"],
)
async def test_an_unexpected_encoding_is_no_answer(encoding: bytes, body: bytes):
    manners = says(answer(body, b"Content-Encoding: " + encoding))
    async with rude_server(manners) as rude, client_of(rude, CLOCK) as http:
        with pytest.raises(NoAnswer):
            await http.send(Call("GET", "/"))


async def test_headers_that_are_too_large_are_no_answer():
    manners = says(answer(b"ok", b"X-Long: " + b"x" * 100_000))
    async with rude_server(manners) as rude, client_of(rude, CLOCK) as http:
        with pytest.raises(NoAnswer, match="headers of the answer are too large"):
            await http.send(Call("POST", "/buy", body=b"{}"))


async def test_headers_without_end_are_no_answer():
    async def endless(line: Line) -> None:
        await line.request()
        await line.say(b"HTTP/1.1 200 OK\r\n")
        for number in range(100_000):
            await line.say(b"X-%d: y\r\n" % number)

    async with rude_server(endless) as rude, client_of(rude, CLOCK) as http:
        with pytest.raises(NoAnswer):
            await http.send(Call("GET", "/"))


@pytest.mark.parametrize(
    "nonsense",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n",
        b"HTTP/9.9 999 ?\r\n\r\n",
        b"HTTP/1.1 abc OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
        b"HTTP/1.1 200 OK\r\nno colon here\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
)
async def test_what_is_not_http_is_no_answer(nonsense: bytes):
    async with rude_server(says(nonsense)) as rude, client_of(rude, CLOCK) as http:
        with pytest.raises(NoAnswer):
            await http.send(Call("POST", "/buy", body=b"{}"))


async def test_a_page_of_html_is_an_answer_that_is_no_json():
    page = b"<html><body>502 Bad Gateway</body></html>"
    manners = says(answer(page, b"Content-Type: text/html"))
    async with rude_server(manners) as rude, client_of(rude, CLOCK) as http:
        reply = await http.send(Call("GET", "/"))

    assert reply.content == page
    with pytest.raises(UnreadableReply, match="text/html"):
        reply.json()


CHUNKED = b"HTTP/1.1 201 Created\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n"


@pytest.mark.parametrize("whole", [answer(b"hello world", b"X-Y: z"), CHUNKED], ids=["sized", "chunked"])
async def test_an_answer_cut_off_anywhere_is_no_answer(whole: bytes):
    """After every single byte: never half a Reply, and never a second request."""

    async def answers_in_part(line: Line) -> None:
        head = await line.request()
        await line.say(whole[: int(head.split()[1].strip("/"))])

    async with rude_server(answers_in_part) as rude, client_of(rude, CLOCK) as http:
        for length in range(len(whole)):
            with pytest.raises(NoAnswer):
                await http.send(Call("POST", f"/{length}", body=b"{}"))
        assert (await http.send(Call("POST", f"/{len(whole)}", body=b"{}"))).content == b"hello world"

    assert rude.requests == [f"POST /{length} HTTP/1.1" for length in range(len(whole) + 1)]


async def test_a_slow_drip_is_bounded_by_the_whole_timeout():
    async def drips(line: Line) -> None:
        await line.request()
        await line.say(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        for _ in range(1000):
            await line.say(b"x")
            await asyncio.sleep(0.02)

    async with rude_server(drips) as rude, client_of(rude, CLOCK) as http:
        with pytest.raises(NoAnswer, match="timeout passed"):
            await http.send(Call("GET", "/", timeout=timedelta(milliseconds=200)))


async def test_a_stream_that_breaks_is_no_answer():
    """Lines that arrived are delivered; the broken-off one is not taken for a line."""
    manners = says(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n8\r\none\ntwo\n\r\n", b"4\r\nthr")
    lines: list[bytes] = []
    async with rude_server(manners) as rude, client_of(rude, CLOCK) as http:
        with pytest.raises(NoAnswer):
            async with http.stream(Call("GET", "/"), idle=WHILE) as stream:
                async for batch in stream.batches():
                    lines += batch

    assert lines == [b"one", b"two"]


async def test_a_stream_read_to_its_end_gives_its_connection_back():
    async def answers(line: Line) -> None:
        while True:
            await line.request()
            await line.say(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\none\n\r\n0\r\n\r\n")

    async with rude_server(answers) as rude, client_of(rude, CLOCK) as http:
        for _ in range(3):
            async with http.stream(Call("GET", "/"), idle=WHILE) as stream:
                assert [batch async for batch in stream.batches()] == [[b"one"]]

    assert rude.connections == 1


@given(content=st.binary(max_size=200), cuts=st.lists(st.integers(0, 200), max_size=10))
def test_lines_do_not_depend_on_how_they_arrive(content: bytes, cuts: list[int]):
    splitter, lines, at = LineSplitter(), [], 0
    for cut in (*sorted(cuts), len(content)):
        lines += splitter.feed(content[at:cut])
        at = max(at, cut)
    last = splitter.rest()

    assert [*lines, last] == content.split(b"\n")


@given(pieces=st.lists(st.binary(max_size=12), max_size=12))
def test_no_line_is_held_beyond_its_bound(pieces: list[bytes]):
    splitter = LineSplitter(max_line_bytes=8)
    too_long = any(len(line) > 8 for line in b"".join(pieces).split(b"\n"))

    def feed() -> None:
        for piece in pieces:
            assert all(len(line) <= 8 for line in splitter.feed(piece))

    if too_long:
        with pytest.raises(LineTooLong):
            feed()
    else:
        feed()


@given(content=st.binary(max_size=2000), size=st.integers(1, 50))
def test_inflating_in_pieces_gives_the_whole(content: bytes, size: int):
    packed, inflater = gzip.compress(content), Inflater("gzip")
    plain = b"".join(part for at in range(0, len(packed), size) for part in inflater.feed(packed[at : at + size]))

    assert plain == content
    assert inflater.finished


def test_an_unknown_encoding_is_refused_before_anything_is_read():
    with pytest.raises(CannotInflate):
        Inflater("br")
