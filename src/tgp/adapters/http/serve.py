"""The server side: a `Handler` on a loopback port, so that kubectl and vendors' clients can talk to it."""

import asyncio
import errno
import logging
import ssl
from collections.abc import Awaitable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import timedelta
from urllib.parse import parse_qsl

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from tgp.ports.http import Call, Handler, HangUp, Reply, Streaming

PORTS_TRIED = 64  # from the wanted one upwards
MAX_REQUEST_BYTES = 16 << 20  # etcd refuses objects far below it
PIECE_BYTES = 64 << 10
HOP_BY_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "content-length", "upgrade", "te", "trailer"})


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """What strangers may take up: for a port that is open to a network."""

    max_request_bytes: int = MAX_REQUEST_BYTES
    request_within: float | None = None  # seconds for a request to arrive, and for its answer to be read; None: any
    handshake_within: float | None = None  # seconds of TLS; None: asyncio's own
    connections: int | None = None  # at once; more are closed. None: any number


NO_LIMITS = ServerLimits()
IDLE_FOR_EVER, LINGERING = 3630.0, 10.0  # seconds, as aiohttp has them


class _OurFaults(logging.Filter):
    """Strangers must not be able to fill the log: a request that is not HTTP gets its 400, and no line."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError))


_LOG = logging.getLogger("tgp.http.server")
_LOG.addFilter(_OurFaults())


class NoFreePort(Exception):
    """None of the ports tried was free."""


@dataclass(frozen=True, slots=True)
class Listening:
    """A mounted handler. It answers until it is stopped."""

    url: str
    port: int
    _runner: web.ServerRunner

    async def stop(self) -> None:
        """Close the port, let answers in progress finish for a moment, abort the rest."""
        await self._runner.cleanup()


async def listen(
    handler: Handler,
    *,
    host: str = "127.0.0.1",
    port: int = 0,  # 0: any free one
    exact: bool = False,  # True: that port or none, where clients know it beforehand
    tls: ssl.SSLContext | None = None,
    grace: timedelta = timedelta(seconds=1),
    limits: ServerLimits = NO_LIMITS,
) -> Listening:
    """Mount `handler` on `port`, or on the next free one; the caller prints the chosen one. Raises NoFreePort."""
    server = web.Server(
        _Bridge(handler, limits).answer,
        handler_cancellation=True,
        access_log=None,
        logger=_LOG,
        keepalive_timeout=limits.request_within or IDLE_FOR_EVER,  # of a connection without a complete request
        lingering_time=limits.request_within or LINGERING,
    )
    runner = web.ServerRunner(server, shutdown_timeout=grace.total_seconds())
    async with AsyncExitStack() as if_it_fails:
        await runner.setup()
        if_it_fails.push_async_callback(runner.cleanup)
        found = await _bind(runner, host, port, tls, tries=1 if exact else PORTS_TRIED, limits=limits)
        if_it_fails.pop_all()
    shown = f"[{host}]" if ":" in host else host
    return Listening(f"{'https' if tls else 'http'}://{shown}:{found}", found, runner)


async def _bind(
    runner: web.ServerRunner, host: str, port: int, tls: ssl.SSLContext | None, *, tries: int, limits: ServerLimits
) -> int:
    for candidate in range(port, min(port + tries, 65536)) if port else (0,):
        site = _LimitedSite(runner, host, candidate, tls, limits)
        try:
            await site.start()
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            await site.stop()
            continue
        return int(runner.addresses[0][1])
    if tries == 1:
        raise NoFreePort(f"port {port} on {host} is in use")
    raise NoFreePort(f"ports {port} to {port + tries - 1} on {host} are all in use")


class _LimitedSite(web.BaseSite):
    """aiohttp's own has neither a number of connections nor a time for handshakes."""

    def __init__(
        self, runner: web.ServerRunner, host: str, port: int, tls: ssl.SSLContext | None, limits: ServerLimits
    ) -> None:
        super().__init__(runner, ssl_context=tls)
        self._host = host
        self._port = port
        self._limits = limits

    @property
    def name(self) -> str:
        return f"{self._host}:{self._port}"

    async def start(self) -> None:
        await super().start()
        self._server = await asyncio.get_running_loop().create_server(
            self._protocol,
            self._host,
            self._port,
            ssl=self._ssl_context,
            backlog=self._backlog,
            ssl_handshake_timeout=self._limits.handshake_within if self._ssl_context else None,
        )

    def _protocol(self) -> asyncio.BaseProtocol:
        server = self._runner.server
        assert isinstance(server, web.Server), "the runner was set up"
        most = self._limits.connections
        return _Refusal() if most is not None and len(server.connections) >= most else server()


class _Refusal(asyncio.Protocol):
    """Closes a connection that is one too many."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.abort()


class _Bridge:
    """Between aiohttp's requests and the port's calls."""

    def __init__(self, handler: Handler, limits: ServerLimits) -> None:
        self._handler = handler
        self._limits = limits

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        within = self._limits.request_within
        try:
            async with asyncio.timeout(within):
                body = await _body(request, self._limits.max_request_bytes)
        except TimeoutError:
            return _closing(408, f"the request did not arrive within {within:.0f} s\n")
        if body is None:
            return _closing(413, "the request is too large\n")
        # A client that disconnects cancels this task. The handler still runs to its end, as on any real server.
        work = asyncio.ensure_future(_awaited(self._handler(_call(request, body))))
        try:
            reply = await asyncio.shield(work)
        except asyncio.CancelledError:
            work.add_done_callback(_close_unread)
            raise
        except HangUp:
            if request.transport is not None:
                request.transport.abort()
            return web.Response()  # the client is gone
        if not isinstance(reply, Reply):
            return await _pour(request, reply)
        return _whole(reply) if within is None else await _send_within(request, reply, within)


def _closing(status: int, text: str) -> web.Response:
    """The rest of the request is not read."""
    response = web.Response(status=status, text=text)
    response.force_close()
    return response


async def _awaited(answer: Awaitable[Reply | Streaming]) -> Reply | Streaming:
    return await answer


def _close_unread(work: "asyncio.Future[Reply | Streaming]") -> None:
    """The client is gone: close the stream, so that its `finally` runs."""
    if work.cancelled() or work.exception() is not None or isinstance(work.result(), Reply):
        return
    reply = work.result()
    assert isinstance(reply, Streaming)
    closing = asyncio.ensure_future(_close(reply))
    _CLOSING.add(closing)
    closing.add_done_callback(_CLOSING.discard)


_CLOSING: set["asyncio.Future[None]"] = set()  # asyncio itself keeps only weak references to tasks


async def _close(reply: Streaming) -> None:
    close = getattr(reply.pieces, "aclose", None)  # generators have it, plain iterators need not
    if close is not None:
        await close()


async def _body(request: web.BaseRequest, most: int) -> bytes | None:
    """The whole body; None if it is too large."""
    pieces: list[bytes] = []
    size = 0
    async for piece in request.content.iter_any():
        size += len(piece)
        if size > most:
            return None
        pieces.append(piece)
    return b"".join(pieces)


def _call(request: web.BaseRequest, body: bytes) -> Call:
    return Call(
        request.method,
        request.rel_url.raw_path,
        query=tuple(parse_qsl(request.rel_url.raw_query_string, keep_blank_values=True)),
        headers=tuple(request.headers.items()),
        body=body,
        peer=request.remote or "",
    )


def _whole(reply: Reply) -> web.Response:
    response = web.Response(status=reply.status, body=reply.content)
    _copy_headers(response, reply)
    return response


async def _send_within(request: web.BaseRequest, reply: Reply, within: float) -> web.StreamResponse:
    """Piece by piece: aiohttp waits for a client that reads slowly only between them."""
    response = web.StreamResponse(status=reply.status)
    _copy_headers(response, reply)
    response.content_length = len(reply.content)
    try:
        async with asyncio.timeout(within):
            await response.prepare(request)
            if request.method != "HEAD":
                for start in range(0, len(reply.content), PIECE_BYTES):
                    await response.write(reply.content[start : start + PIECE_BYTES])
            await response.write_eof()
    except TimeoutError:
        if request.transport is not None:
            request.transport.abort()
    except ConnectionResetError:
        pass  # the client disconnected
    return response


async def _pour(request: web.BaseRequest, reply: Streaming) -> web.StreamResponse:
    response = web.StreamResponse(status=reply.status)
    _copy_headers(response, reply)
    try:
        await response.prepare(request)
        async for piece in reply.pieces:
            await response.write(piece)
        await response.write_eof()
    except ConnectionResetError:
        pass  # the client disconnected
    finally:
        await _close(reply)
    return response


def _copy_headers(response: web.StreamResponse, reply: Reply | Streaming) -> None:
    """The handler's headers, but for those that frame the message: aiohttp writes these itself."""
    response.headers.popall("Content-Type", None)
    for name, value in reply.headers:
        if name.lower() not in HOP_BY_HOP:
            response.headers.add(name, value)
