"""The latch that every request passes right before its bytes reach a socket.

aiohttp re-sends some methods (PUT and DELETE among them) when a connection breaks under them. Here nothing is sent
twice, whatever the method: the errors that would make it try again are turned into one that does not, and the latch
itself opens once. Both use documented extension points (middleware, request class, payload), not on private ones.
"""

from typing import Any

import aiohttp
from aiohttp.abc import AbstractStreamWriter
from aiohttp.connector import Connection
from aiohttp.payload import Payload

from tgp.ports.clock import Clock


class SendRefused(aiohttp.ClientError):
    """The latch did not open: nothing of this request was written."""


class ConnectionBroke(aiohttp.ClientError):
    """The connection broke. Not among the errors that aiohttp answers by sending again."""

    def __init__(self, cause: aiohttp.ClientError) -> None:
        super().__init__(type(cause).__name__)
        self.cause = cause


class SendOnce:
    """Lets one request pass, once, and not after its deadline."""

    def __init__(self, clock: Clock, not_after: float | None) -> None:
        self._clock = clock
        self._not_after = not_after
        self.opened = False  # from then on bytes may be sent
        self.late = False

    def check(self) -> None:
        if self._not_after is not None and self._clock.boottime() >= self._not_after:
            self.late = True
            raise SendRefused("the deadline has passed")

    def open(self) -> None:
        if self.opened:
            raise SendRefused("the request was already sent")
        self.check()
        self.opened = True

    async def middleware(
        self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        """Wraps one attempt, from choosing a connection to the headers of the answer."""
        assert isinstance(request, GatedRequest)
        request.gate = self
        try:
            return await handler(request)
        except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
            raise ConnectionBroke(error) from None


class GatedRequest(aiohttp.ClientRequest):
    """A request that asks the latch once it holds a connection: after the pool, the resolver and the handshake."""

    gate: SendOnce

    async def send(self, conn: Connection) -> aiohttp.ClientResponse:
        if self.body:
            self.gate.check()  # a request with a body is written by a task of its own; that one opens the latch
        else:
            self.gate.open()
        return await super().send(conn)


class GatedBody(Payload):
    """Bytes that open the latch right before they, and the headers buffered with them, are written."""

    _autoclose = True  # bytes hold no file

    def __init__(self, content: bytes, gate: SendOnce) -> None:
        super().__init__(content, content_type="application/octet-stream")
        self._size = len(content)
        self._content = content
        self._gate = gate

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        return self._content.decode(encoding, errors)

    async def write(self, writer: AbstractStreamWriter) -> None:
        self._gate.open()
        await writer.write(self._content)

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        assert content_length in {None, len(self._content)}, "we announce what we send"
        await self.write(writer)


def body_of(content: bytes, gate: SendOnce) -> Any:
    """What to hand to aiohttp as `data`: nothing for an empty body."""
    return GatedBody(content, gate) if content else None
