"""An answer of aiohttp as the port's `Stream`, read within bounds."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import aiohttp

from tgp.adapters.http.body import Inflater, LineSplitter
from tgp.adapters.http.failures import FAILURES, explain
from tgp.adapters.http.send_once import SendOnce
from tgp.ports.http import Pairs, TooLarge


class SocketStream:
    """Owns the connection of one answer until it is closed, or read to its end."""

    def __init__(
        self, answer: aiohttp.ClientResponse, name: str, gate: SendOnce, max_bytes: int, idle: timedelta | None
    ) -> None:
        self._answer = answer
        self._name = name
        self._gate = gate
        self._max_bytes = max_bytes
        self._idle = idle.total_seconds() if idle is not None else None
        self.status = answer.status
        self.headers: Pairs = tuple(answer.headers.items())

    async def batches(self) -> AsyncIterator[list[bytes]]:
        lines = LineSplitter()
        try:
            async for piece in self._pieces():
                if batch := lines.feed(piece):
                    yield batch
            if last := lines.rest():
                yield [last]
        except FAILURES as error:
            failure = explain(error, self._name, self._gate)
        else:
            return
        raise failure  # outside the handler, so that the original error is not attached

    async def rest(self) -> bytes:
        announced = self._answer.content_length
        if announced is not None and announced > self._max_bytes and self._answer.method != "HEAD":
            raise self._too_large()
        pieces: list[bytes] = []
        size = 0
        try:
            async for piece in self._pieces():
                size += len(piece)
                if size > self._max_bytes:
                    raise self._too_large()
                pieces.append(piece)
            return b"".join(pieces)
        except FAILURES as error:
            failure = explain(error, self._name, self._gate)
        raise failure

    def close(self) -> None:
        """Release the connection if the answer was read to its end, else close it. Idempotent."""
        self._answer.close()

    async def _pieces(self) -> AsyncIterator[bytes]:
        inflater = Inflater(self._answer.headers.get("Content-Encoding", ""))
        content = self._answer.content
        begun = False
        while True:
            async with asyncio.timeout(self._idle):
                piece = await content.readany()
            if not piece:  # the end, sent by the server; a broken connection raises instead
                break
            begun = True
            for plain in inflater.feed(piece):
                yield plain
        if begun and not inflater.finished:
            raise aiohttp.ClientPayloadError

    def _too_large(self) -> TooLarge:
        return TooLarge(f"{self._name} answered with more than {self._max_bytes} bytes")
