"""What every Http does. Each case opens a side, uses it, and looks at both sides."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from tests.contracts.http.sides import Case, HttpSide
from tgp.ports.http import MAX_LINE_BYTES, Call, NeverLeft, NoAnswer, Reply, Streaming, TooLarge

CHANGING = ("POST", "PUT", "PATCH", "DELETE")
SECRET = "s3cr3t-canary"
SOON = timedelta(milliseconds=150)
WHILE = timedelta(seconds=20)


class Server:
    """Answers everything with what it was given, and remembers what it was asked."""

    def __init__(self, answer: Reply | Streaming) -> None:
        self.answer = answer
        self.calls: list[Call] = []

    async def __call__(self, call: Call) -> Reply | Streaming:
        self.calls.append(call)
        return self.answer


class Silent(Server):
    """Hears everything and says nothing."""

    def __init__(self) -> None:
        super().__init__(Reply(200))

    async def __call__(self, call: Call) -> Reply | Streaming:
        self.calls.append(call)
        await asyncio.sleep(1.0)
        return self.answer


async def pieces(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        await asyncio.sleep(0.01)
        yield part


def streaming(*parts: bytes) -> Streaming:
    return Streaming(200, (("Content-Type", "text/plain"),), pieces(*parts))


async def the_answer_comes_back_whole(side: HttpSide) -> None:
    http = await side.open(Server(Reply(201, b"\x00\xffbody", (("X-One", "1"), ("Content-Type", "a/b")))))

    reply = await http.send(Call("GET", "/"))

    assert (reply.status, reply.content) == (201, b"\x00\xffbody")
    assert (reply.header("x-one"), reply.header("content-type")) == ("1", "a/b")


async def any_status_is_a_reply(side: HttpSide) -> None:
    for status in (200, 202, 204, 304, 400, 401, 403, 404, 409, 410, 422, 429, 500, 502, 503, 504, 599):
        server = Server(Reply(status))
        http = await side.open(server)

        assert (await http.send(Call("GET", "/"))).status == status
        assert len(server.calls) == 1


async def a_redirect_is_not_followed(side: HttpSide) -> None:
    for status in (301, 302, 303, 307, 308):
        for method in ("GET", *CHANGING):
            server = Server(Reply(status, b"", (("Location", "/elsewhere"),)))
            http = await side.open(server)

            reply = await http.send(Call(method, "/", body=b"x" if method != "GET" else b""))

            assert (reply.status, reply.header("Location")) == (status, "/elsewhere")
            assert [call.path for call in server.calls] == ["/"]


async def a_call_arrives_as_it_was_made(side: HttpSide) -> None:
    for method in ("GET", *CHANGING):
        server = Server(Reply(200))
        http = await side.open(server)
        query = (("a b", "c&d=e/f"), ("é", "ü+%"), ("empty", ""), ("a b", "again"))
        body = b"" if method == "GET" else bytes(range(256)) * 20_000  # 5 MB
        headers = (("X-Thing", "one, two"), ("Content-Type", "application/merge-patch+json"))

        await http.send(Call(method, "/names/x%2Fy/%C3%A9:z", query, headers, body))

        (seen,) = server.calls
        assert (seen.method, seen.path, seen.query, seen.body) == (method, "/names/x%2Fy/%C3%A9:z", query, body)
        assert (seen.header("X-Thing"), seen.header("Content-Type")) == ("one, two", "application/merge-patch+json")


async def an_answer_is_bounded(side: HttpSide) -> None:
    for answer in (Reply(200, b"x" * 1001), streaming(b"x" * 600, b"x" * 401)):
        http = await side.open(Server(answer))

        with pytest.raises(TooLarge):
            await http.send(Call("GET", "/", max_bytes=1000))


async def an_answer_of_just_the_bound_is_fine(side: HttpSide) -> None:
    http = await side.open(Server(Reply(200, b"x" * 1000)))

    assert len((await http.send(Call("GET", "/", max_bytes=1000))).content) == 1000


async def past_its_deadline_nothing_leaves(side: HttpSide) -> None:
    server = Server(Reply(200))
    http = await side.open(server)

    for method in ("GET", *CHANGING):
        with pytest.raises(NeverLeft):
            await http.send(Call(method, "/", body=b"x", not_after=side.clock.boottime() - 1))
    with pytest.raises(NeverLeft):
        async with http.stream(Call("GET", "/", not_after=side.clock.boottime() - 1), idle=WHILE):
            pass
    assert server.calls == []


async def before_its_deadline_it_leaves(side: HttpSide) -> None:
    http = await side.open(Server(Reply(200)))

    reply = await http.send(Call("POST", "/", body=b"x", not_after=side.clock.boottime() + 30))

    assert reply.ok


async def without_a_listener_nothing_leaves(side: HttpSide) -> None:
    http = await side.open_without_listener()

    for method in ("GET", *CHANGING):
        with pytest.raises(NeverLeft):
            await http.send(Call(method, "/", body=b"x"))
    with pytest.raises(NeverLeft):
        async with http.stream(Call("GET", "/"), idle=WHILE):
            pass


async def silence_is_no_answer_and_is_heard_once(side: HttpSide) -> None:
    for method in ("GET", *CHANGING):
        server = Silent()
        http = await side.open(server)

        with pytest.raises(NoAnswer):
            await http.send(Call(method, "/", body=b"" if method == "GET" else b"x", timeout=SOON))
        assert len(server.calls) == 1


async def a_stream_that_does_not_begin_is_no_answer(side: HttpSide) -> None:
    http = await side.open(Silent())

    with pytest.raises(NoAnswer):
        async with http.stream(Call("GET", "/", timeout=SOON), idle=WHILE):
            pass


async def lines_come_without_their_ends(side: HttpSide) -> None:
    http = await side.open(Server(streaming(b"one\ntw", b"o\n", b"\nfour\nfi", b"ve", b"\n")))

    async with http.stream(Call("GET", "/"), idle=WHILE) as stream:
        batches = [batch async for batch in stream.batches()]

    assert stream.status == 200
    assert [line for batch in batches for line in batch] == [b"one", b"two", b"", b"four", b"five"]
    assert all(batches), "an empty batch would be a wake-up for nothing"


async def a_line_cut_short_comes_last(side: HttpSide) -> None:
    http = await side.open(Server(streaming(b"one\n", b"tw")))

    async with http.stream(Call("GET", "/"), idle=WHILE) as stream:
        lines = [line async for batch in stream.batches() for line in batch]

    assert lines == [b"one", b"tw"]


async def long_lines_are_fine_up_to_the_bound(side: HttpSide) -> None:
    long = b"x" * (1 << 20)
    http = await side.open(Server(streaming(long[:500_000], long[500_000:] + b"\nnext\n")))

    async with http.stream(Call("GET", "/"), idle=WHILE) as stream:
        lines = [line async for batch in stream.batches() for line in batch]

    assert lines == [long, b"next"]


async def a_line_beyond_the_bound_is_too_large(side: HttpSide) -> None:
    half = b"x" * (MAX_LINE_BYTES // 2 + 1)
    http = await side.open(Server(streaming(half, half + b"\n")))

    with pytest.raises(TooLarge):
        async with http.stream(Call("GET", "/"), idle=WHILE) as stream:
            async for _ in stream.batches():
                pass


async def a_stream_that_falls_silent_is_no_answer(side: HttpSide) -> None:
    async def stalls() -> AsyncIterator[bytes]:
        yield b"one\n"
        await asyncio.sleep(2.0)
        yield b"two\n"

    http = await side.open(Server(Streaming(200, (), stalls())))
    lines: list[bytes] = []

    with pytest.raises(NoAnswer):
        async with http.stream(Call("GET", "/"), idle=SOON) as stream:
            async for batch in stream.batches():
                lines += batch
    assert lines == [b"one"]


async def leaving_a_stream_disconnects(side: HttpSide) -> None:
    closed = asyncio.Event()

    async def endless() -> AsyncIterator[bytes]:
        try:
            while True:
                yield b"tick\n"
                await asyncio.sleep(0.02)
        finally:
            closed.set()

    http = await side.open(Server(Streaming(200, (), endless())))

    async with http.stream(Call("GET", "/"), idle=WHILE) as stream:
        async for _ in stream.batches():
            break
    async with asyncio.timeout(5):
        await closed.wait()


async def the_rest_of_a_stream_is_one_piece(side: HttpSide) -> None:
    http = await side.open(Server(Streaming(410, (), pieces(b'{"kind":', b'"Status"}'))))

    async with http.stream(Call("GET", "/"), idle=WHILE) as stream:
        assert stream.status == 410
        assert await stream.rest() == b'{"kind":"Status"}'


async def the_rest_of_a_stream_is_bounded(side: HttpSide) -> None:
    http = await side.open(Server(streaming(b"x" * 600, b"x" * 600)))

    with pytest.raises(TooLarge):
        async with http.stream(Call("GET", "/", max_bytes=1000), idle=WHILE) as stream:
            await stream.rest()


async def a_plain_answer_can_be_streamed(side: HttpSide) -> None:
    http = await side.open(Server(Reply(200, b"one\ntwo\n", (("X-One", "1"),))))

    async with http.stream(Call("GET", "/"), idle=WHILE) as stream:
        assert [line async for batch in stream.batches() for line in batch] == [b"one", b"two"]
        assert ("x-one", "1") in [(name.lower(), value) for name, value in stream.headers]


async def a_stream_can_be_read_whole(side: HttpSide) -> None:
    http = await side.open(Server(streaming(b"one", b"two")))

    assert (await http.send(Call("GET", "/"))).content == b"onetwo"


async def many_calls_at_once_are_all_answered(side: HttpSide) -> None:
    server = Server(Reply(200, b"ok"))
    http = await side.open(server)

    replies = await asyncio.gather(*(http.send(Call("POST", f"/{n}", body=b"x")) for n in range(100)))

    assert {reply.content for reply in replies} == {b"ok"}
    assert sorted(call.path for call in server.calls) == sorted(f"/{n}" for n in range(100))


async def no_error_tells_a_secret(side: HttpSide) -> None:
    call = Call("POST", "/", (("key", SECRET),), (("Authorization", SECRET),), SECRET.encode(), timeout=SOON)
    silent = await side.open(Silent())
    refused = await side.open_without_listener()
    large = await side.open(Server(Reply(200, SECRET.encode() * 1000)))

    for http in (silent, refused, large):
        with pytest.raises((NeverLeft, NoAnswer)) as caught:
            await http.send(Call(**{**_fields(call), "max_bytes": 100}))
        assert SECRET not in _everything_said(caught.value)


def _fields(call: Call) -> dict[str, object]:
    return {name: getattr(call, name) for name in Call.__slots__}


def _everything_said(error: BaseException | None) -> str:
    """All that a careless log line could print, causes and contexts included."""
    words: list[str] = []
    for _ in range(20):
        if error is None:
            break
        words += [str(error), repr(error), repr(error.args)]
        error = error.__cause__ or error.__context__
    return "\n".join(words)


CASES: tuple[Case, ...] = (
    the_answer_comes_back_whole,
    any_status_is_a_reply,
    a_redirect_is_not_followed,
    a_call_arrives_as_it_was_made,
    an_answer_is_bounded,
    an_answer_of_just_the_bound_is_fine,
    past_its_deadline_nothing_leaves,
    before_its_deadline_it_leaves,
    without_a_listener_nothing_leaves,
    silence_is_no_answer_and_is_heard_once,
    a_stream_that_does_not_begin_is_no_answer,
    lines_come_without_their_ends,
    a_line_cut_short_comes_last,
    long_lines_are_fine_up_to_the_bound,
    a_line_beyond_the_bound_is_too_large,
    a_stream_that_falls_silent_is_no_answer,
    leaving_a_stream_disconnects,
    the_rest_of_a_stream_is_one_piece,
    the_rest_of_a_stream_is_bounded,
    a_plain_answer_can_be_streamed,
    a_stream_can_be_read_whole,
    many_calls_at_once_are_all_answered,
    no_error_tells_a_secret,
)
