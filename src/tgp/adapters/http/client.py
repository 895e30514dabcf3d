"""The `Http` port over aiohttp: one endpoint, real sockets."""

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from ipaddress import IPv4Address, IPv6Address, ip_address
from urllib.parse import quote, urlencode, urlsplit

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from tgp.adapters.http.failures import FAILURES, explain
from tgp.adapters.http.send_once import GatedRequest, SendOnce, body_of
from tgp.adapters.http.stream import SocketStream
from tgp.ports.clock import Clock
from tgp.ports.http import Call, NeverLeft, Pairs, Reply, Stream

READ_BUFFER_BYTES = 256 << 10  # asyncio reads at most this much at once; a smaller buffer only adds wake-ups
MAX_HEADER_BYTES = 32 << 10  # one header; proxies with long cookies stay below it


@dataclass(frozen=True, slots=True)
class ConnectionPool:
    """How connections are made and kept."""

    connections: int = 64  # at once; further calls wait, within `connect_within`
    keep_idle: timedelta = timedelta(seconds=4)  # Node closes idle connections after 5 s, nginx 75, Go 90
    connect_within: timedelta = timedelta(seconds=10)  # includes waiting for a free one, DNS and the handshake
    fresh_for_changes: bool = True
    """A changing call gets a connection of its own, so that a dead idle connection shows up as a failed handshake
    (never left) and not as a missing answer (unknown). Where unknown is cheap to resolve, reuse is quicker."""


class HttpClient:
    """Sends each call once. Create it inside a running event loop; close it at the end."""

    def __init__(
        self,
        base_url: str,
        clock: Clock,
        *,
        tls: ssl.SSLContext | None = None,  # None: the system's CAs
        server_name: str = "",  # to verify instead of the URL's host
        # to connect to, whatever the URL's host resolves to; the host name is still the one verified
        address: str = "",
        proxy: str = "",
        headers: Pairs = (),  # added to every call; never printed
        pool: ConnectionPool = ConnectionPool(),  # noqa: B008 - frozen
    ) -> None:
        self._origin, self._prefix = _endpoint(base_url)
        self._clock = clock
        self._tls = tls
        self._server_name = server_name or None
        self._address = pinned(address, base_url, proxy)
        self._proxy = proxy or None
        self._headers = headers
        self._pool = pool
        self._kept: aiohttp.ClientSession | None = None
        self._fresh: aiohttp.ClientSession | None = None

    def __repr__(self) -> str:
        return f"HttpClient({self._origin})"

    async def send(self, call: Call) -> Reply:
        gate = SendOnce(self._clock, call.not_after)
        try:
            async with asyncio.timeout(call.timeout.total_seconds()):
                stream = await self._begin(call, gate, idle=None)
                try:
                    content = await stream.rest()
                finally:
                    stream.close()
                return Reply(stream.status, content, stream.headers)
        except FAILURES as error:
            failure = explain(error, self._name(call), gate)
        raise failure  # outside the handler, so that the original error is not attached

    def stream(self, call: Call, *, idle: timedelta) -> AbstractAsyncContextManager[Stream]:
        return self._streaming(call, idle)

    @asynccontextmanager
    async def _streaming(self, call: Call, idle: timedelta) -> AsyncIterator[Stream]:
        stream = await self._begin_in_time(call, idle)
        try:
            yield stream
        finally:
            stream.close()

    async def _begin_in_time(self, call: Call, idle: timedelta) -> SocketStream:
        gate = SendOnce(self._clock, call.not_after)
        try:
            async with asyncio.timeout(call.timeout.total_seconds()):
                return await self._begin(call, gate, idle)
        except FAILURES as error:
            failure = explain(error, self._name(call), gate)
        raise failure

    async def _begin(self, call: Call, gate: SendOnce, idle: timedelta | None) -> SocketStream:
        """Send, and read up to the end of the answer's headers."""
        headers = (("Accept-Encoding", "identity"), *self._headers, *call.headers)
        self._refuse_unsendable(call, headers)
        gate.check()
        answer = await self._session(call).request(
            call.method,
            self._url(call),
            data=body_of(call.body, gate),
            headers=headers,
            middlewares=(gate.middleware,),
            allow_redirects=False,
            ssl=self._tls or True,
            server_hostname=self._server_name,
            proxy=self._proxy,
        )
        return SocketStream(answer, self._name(call), gate, call.max_bytes, idle)

    async def close(self) -> None:
        """Close every connection. A call made afterwards opens new ones."""
        sessions, self._kept, self._fresh = (self._kept, self._fresh), None, None
        for session in sessions:
            if session is not None:
                await session.close()

    def _session(self, call: Call) -> aiohttp.ClientSession:
        if call.changes_things and self._pool.fresh_for_changes:
            self._fresh = self._fresh or self._new_session(fresh=True)
            return self._fresh
        self._kept = self._kept or self._new_session(fresh=False)
        return self._kept

    def _new_session(self, *, fresh: bool) -> aiohttp.ClientSession:
        pool = self._pool
        resolver = OneAddress(self._address) if self._address is not None else None
        if fresh:
            connector = aiohttp.TCPConnector(limit=pool.connections, resolver=resolver, force_close=True)
        else:
            keep = pool.keep_idle.total_seconds()
            connector = aiohttp.TCPConnector(limit=pool.connections, resolver=resolver, keepalive_timeout=keep)
        return aiohttp.ClientSession(
            connector=connector,
            request_class=GatedRequest,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, connect=pool.connect_within.total_seconds()),
            auto_decompress=False,
            read_bufsize=READ_BUFFER_BYTES,
            max_line_size=MAX_HEADER_BYTES,
            max_field_size=MAX_HEADER_BYTES,
            skip_auto_headers=("User-Agent",),
        )

    def _url(self, call: Call) -> URL:
        query = urlencode(call.query, quote_via=quote)
        return URL(f"{self._origin}{self._prefix}{call.path}{'?' if query else ''}{query}", encoded=True)

    def _name(self, call: Call) -> str:
        return f"{call.method} {self._origin}{self._prefix}{call.path}"

    def _refuse_unsendable(self, call: Call, headers: Pairs) -> None:
        """A call that would break the framing of the request is not sent; the value is not quoted."""
        if not call.path.startswith("/") or not call.path.isascii() or not call.path.isprintable() or " " in call.path:
            raise NeverLeft(f"{call.method} {self._origin}: the path is not absolute and percent-encoded")
        for name, value in headers:
            if not name.isascii() or not name.isprintable() or any(character in value for character in "\r\n\0"):
                raise NeverLeft(f"{self._name(call)} was not sent: header {name!r} has characters that are not allowed")


def _endpoint(base_url: str) -> tuple[str, str]:
    """Origin and path prefix of an http(s) URL; refuses what may carry a secret. Its errors quote no part of it."""
    wanted = "a base URL must be http:// or https://, a host, and optionally a port"
    try:
        parts = urlsplit(base_url)
        port = parts.port
    except ValueError:  # a port that is no number or too large, half of an IPv6 address
        raise ValueError(wanted) from None
    if parts.scheme not in {"http", "https"} or not parts.hostname or port == 0:
        raise ValueError(wanted)
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise ValueError(f"the base URL of {parts.hostname} must not have credentials, a query or a fragment")
    return f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")


class OneAddress(AbstractResolver):
    """Has one answer for every name. Sends no DNS query: the checked address is called, whatever DNS says now."""

    def __init__(self, address: IPv4Address | IPv6Address) -> None:
        self._address = address

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        found = socket.AF_INET if self._address.version == 4 else socket.AF_INET6
        if family not in (found, socket.AF_UNSPEC):
            raise OSError(None, "the pinned address and the URL's address are of different families")
        return [
            ResolveResult(
                hostname=host,
                host=str(self._address),
                port=port,
                family=found,
                proto=0,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
        ]

    async def close(self) -> None:
        """Nothing to close."""


def pinned(address: str, base_url: str, proxy: str) -> IPv4Address | IPv6Address | None:
    """The address to connect to; None: whichever the name has. Raises ValueError if it cannot be enforced."""
    if not address:
        return None
    found = ip_address(address)
    if proxy:
        raise ValueError("a proxy resolves the address itself: use a pinned address or a proxy, not both")
    host = urlsplit(base_url).hostname or ""
    try:
        literal = ip_address(host)
    except ValueError:
        return found  # a name
    if literal != found:  # the library connects to an address in a URL without asking a resolver
        raise ValueError(f"the URL's address is {literal}, but the pinned address is {found}")
    return found
