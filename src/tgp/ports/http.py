"""The port for HTTP: everything that leaves the process is a `Call`, answered by a `Reply` or a stream of lines.

An `Http` belongs to one endpoint: base URL, TLS and credentials are set where it is built (in `app`), so callers
write paths and never see a secret. In production it is aiohttp; in simulation it is a router in memory.

What a caller may rely on:

* **A changing call is single-shot.** It is written to a socket at most once. No retry, no redirect, ever.
* **"Never left" is told apart from "left, no answer".** `NeverLeft` proves that nothing happened at the server;
  `NoAnswer` proves nothing. A caller that pays treats the second as unknown.
* **`not_after` is checked twice**, the second time at the moment the bytes are written.
* **Bounded.** An answer larger than `max_bytes`, or a line longer than `MAX_LINE_BYTES`, raises `NoAnswer`.
* **Nothing here prints a secret**: `repr` of a Call shows method and path only.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from email.utils import parsedate_to_datetime
from typing import Any, Protocol, TypeAlias

import msgspec

from tgp.core.model.opaque import without_opaque_runs

Pairs: TypeAlias = tuple[tuple[str, str], ...]

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
DEFAULT_TIMEOUT = timedelta(seconds=30)
DEFAULT_MAX_BYTES = 16 << 20  # a page of 500 pods at 20 KB each is 10 MB
NO_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)  # the last: nested too deeply
MAX_LINE_BYTES = 8 << 20  # etcd refuses objects above 1.5 MB; managedFields and encoding add to it


class HttpError(Exception):
    """No usable answer. The text names the endpoint, never a header, a query or a body."""


class NeverLeft(HttpError):
    """Nothing was sent: no connection was made, or `not_after` had passed. It cannot have happened at the server."""


class NoAnswer(HttpError):
    """It was sent, or may have been, and no whole answer came back. It may have happened at the server."""


class TooLarge(NoAnswer):
    """The answer exceeded its size limit and was dropped."""


KIND_SHOWN = 80  # characters of a content type, which is the server's text


class UnreadableReply(Exception):
    """A whole answer came, and it is not what its reader expected (HTML from a proxy, say)."""


@dataclass(frozen=True, slots=True)
class Call:
    method: str
    path: str  # absolute, percent-encoded, without a query
    query: Pairs = field(default=(), repr=False)
    headers: Pairs = field(default=(), repr=False)
    body: bytes = field(default=b"", repr=False)
    timeout: timedelta = field(default=DEFAULT_TIMEOUT, repr=False)  # of a stream: until its headers arrived
    not_after: float | None = field(default=None, repr=False)  # Clock.boottime; None: no deadline but the timeout
    max_bytes: int = field(default=DEFAULT_MAX_BYTES, repr=False)
    peer: str = field(default="", repr=False)  # on the server side: the address that it came from

    @property
    def changes_things(self) -> bool:
        return self.method not in SAFE_METHODS

    def header(self, name: str) -> str:
        return _header(self.headers, name)

    def parameter(self, name: str) -> str:
        """The first query parameter of that name, or an empty string."""
        return next((value for key, value in self.query if key == name), "")


def json_call(method: str, path: str, value: Any, **rest: Any) -> Call:
    """A call that carries `value` as JSON."""
    headers = (("Content-Type", "application/json"), *rest.pop("headers", ()))
    return Call(method, path, headers=headers, body=msgspec.json.encode(value), **rest)


@dataclass(frozen=True, slots=True)
class Reply:
    status: int
    content: bytes = field(default=b"", repr=False)
    headers: Pairs = field(default=(), repr=False)

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    def header(self, name: str) -> str:
        return _header(self.headers, name)

    def json(self) -> Any:
        """The whole body as JSON; `UnreadableReply` if it is none."""
        try:
            return msgspec.json.decode(self.content)
        except NO_JSON as error:
            kind = without_opaque_runs(self.header("Content-Type")[:KIND_SHOWN]) or "no content type"
            raise UnreadableReply(f"expected JSON, got {len(self.content)} bytes of {kind}") from error

    def text(self, name: str) -> str:
        """A string at the top level of a JSON object; empty if it is missing, or the body is not a JSON object."""
        try:
            value = msgspec.json.decode(self.content)
        except NO_JSON:
            return ""
        found = value.get(name) if isinstance(value, dict) else None
        return found if isinstance(found, str) else ""

    @property
    def retry_after(self) -> timedelta | None:
        """What the server asked for: seconds, or a date measured against its own Date header. None: no such header."""
        said = self.header("Retry-After").strip()
        if not said:
            return None
        if said.isascii() and said.isdigit():
            return timedelta(seconds=min(int(said), 86_400))
        try:
            wait = parsedate_to_datetime(said) - parsedate_to_datetime(self.header("Date"))
        except (ValueError, TypeError):
            return None
        return min(max(wait, timedelta()), timedelta(days=1))


class Stream(Protocol):
    """An answer whose body is read as it arrives."""

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Pairs: ...

    def batches(self) -> AsyncIterator[list[bytes]]:
        """Lines, without their newline, in the groups they arrived in (one wake-up each); then the end.

        A line that the end cut short comes as the last one: its parser will notice. Raises NoAnswer when the
        connection breaks or stays silent for longer than the stream's `idle`.
        """
        ...

    async def rest(self) -> bytes:
        """All that is left as one piece, within the call's `max_bytes`: for the text of a refusal."""
        ...


class Http(Protocol):
    async def send(self, call: Call) -> Reply:
        """Send once. Any status is a Reply; raises NeverLeft or NoAnswer (also for a cancelled timeout)."""
        ...

    def stream(self, call: Call, *, idle: timedelta) -> AbstractAsyncContextManager[Stream]:
        """Send once and read the answer as it comes; silence for longer than `idle` raises NoAnswer."""
        ...


Answered: TypeAlias = Callable[[Reply | None], None]


def _unseen(_reply: Reply | None) -> None:
    pass


class WrappedHttp:
    """An `Http` around another one. A subclass changes each call, or sees each answer; what it leaves out passes."""

    def __init__(self, inner: Http) -> None:
        self._inner = inner

    def _changed(self, call: Call) -> Call:
        """What is sent instead; raises NeverLeft for what must not be sent."""
        return call

    def _sent(self, call: Call) -> Answered:  # noqa: ARG002 - for subclasses
        """Called as the call is sent. What it returns gets the answer, of a stream its status and headers; None: there
        was none.
        """
        return _unseen

    async def send(self, call: Call) -> Reply:
        call = self._changed(call)
        answered = self._sent(call)
        try:
            reply = await self._inner.send(call)
        except HttpError:
            answered(None)
            raise
        answered(reply)
        return reply

    def stream(self, call: Call, *, idle: timedelta) -> AbstractAsyncContextManager[Stream]:
        return self._streaming(self._changed(call), idle)

    @asynccontextmanager
    async def _streaming(self, call: Call, idle: timedelta) -> AsyncIterator[Stream]:
        answered: Answered | None = self._sent(call)
        try:
            async with self._inner.stream(call, idle=idle) as stream:
                if answered is not None:
                    answered(Reply(stream.status, headers=stream.headers))
                    answered = None
                yield stream
        except HttpError:
            if answered is not None:
                answered(None)
            raise


class HttpFactory(Protocol):
    def __call__(self, base_url: str, *, address: str = "") -> Http:
        """A client for another endpoint. `address`: connect to this one and no other, whatever the name resolves to."""
        ...


# The server side: a handler, mounted on a router in memory or on a real port.


class Streaming(msgspec.Struct, frozen=True):
    """An answer that goes on: pieces of bytes until the iterator ends or the caller hangs up (it is then closed)."""

    status: int
    headers: Pairs
    pieces: AsyncIterator[bytes]


class HangUp(Exception):
    """Raised by a handler instead of an answer: the connection is closed without one."""


Handler: TypeAlias = Callable[[Call], Awaitable["Reply | Streaming"]]


def _header(headers: Pairs, name: str) -> str:
    wanted = name.lower()
    for key, value in headers:  # not a generator: this is asked several times a call
        if key.lower() == wanted:
            return value
    return ""
