"""One streamed answer on its way: pieces that a server yields become bytes that a reader meets later, in order."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextvars import Context
from datetime import timedelta
from inspect import isasyncgen

from tgp.ports.http import MAX_LINE_BYTES, NoAnswer, Pairs, Streaming, TooLarge
from tgp.sim.deadline import CallDeadline
from tgp.sim.faults import Fault
from tgp.sim.loop import RESOLUTION

MAX_BUFFERED_BYTES = 4 << 20  # what socket buffers on both sides hold; beyond it the server is made to wait


class Pipe:
    """Belongs to the network: it goes on while its reader is paused, and ends when the reader hangs up."""

    def __init__(self, answer: Streaming, *, lag: float, frozen_until: Callable[[], float]) -> None:
        self._loop = asyncio.get_running_loop()
        self._pieces = answer.pieces
        self._lag = lag
        self._frozen_until = frozen_until
        self._flying: deque[tuple[float, bytes]] = deque()
        self._landed: list[bytes] = []
        self._buffered = 0
        self._landing: asyncio.TimerHandle | None = None
        self._reader: asyncio.Future[None] | None = None
        self._room: asyncio.Future[None] | None = None
        self._ended = False  # the server has no more
        self._broken = ""  # why the connection is no more; empty: it stands
        self._silent = False
        self._doom: Fault | None = None
        self._context = Context()
        self._pump = self._loop.create_task(self._run(), name="pipe", context=self._context.copy())

    # The server's end.

    async def _run(self) -> None:
        try:
            async for piece in self._pieces:
                if self._doom is not None:
                    self._meet(self._doom, piece)
                    break
                self._fly(piece)
                await self._make_room()
            else:
                self._finish()
        finally:
            if isasyncgen(self._pieces):
                await self._pieces.aclose()

    def _fly(self, piece: bytes) -> None:
        if self._silent or not piece:
            return
        due = max(self._loop.time() + self._lag, self._frozen_until())
        self._flying.append((due, piece))
        self._buffered += len(piece)
        self._land()

    def _finish(self) -> None:
        self._ended = True
        self._wake_reader()

    async def _make_room(self) -> None:
        while self._buffered > MAX_BUFFERED_BYTES:
            self._room = self._loop.create_future()
            await self._room

    def _meet(self, doom: Fault, piece: bytes) -> None:
        """The connection comes to its end in the middle of this piece."""
        self._fly(piece[: len(piece) // 2])
        if doom is Fault.TRUNCATED:
            self._finish()
        else:
            self.fail("was cut")

    # What the world does to it.

    def doom(self, kind: Fault) -> None:
        """The next piece is the last, and not whole; a silent pipe has no next piece."""
        if kind is Fault.SILENT:
            self.silence()
        else:
            self._doom = kind

    def silence(self) -> None:
        """Nothing arrives any more, without a notification."""
        self._silent = True
        self._flying.clear()

    def fail(self, why: str) -> None:
        self._broken = self._broken or why
        self._wake_reader()

    def hang_up(self) -> None:
        """The reader is gone: the server's iterator is closed."""
        self._broken = self._broken or "was closed"
        self._pump.cancel()
        if self._landing is not None:
            self._landing.cancel()

    # On the way.

    def _land(self) -> None:
        horizon = self._loop.time() + RESOLUTION
        while self._flying and self._flying[0][0] <= horizon:
            self._landed.append(self._flying.popleft()[1])
        if self._landed:
            self._wake_reader()
        if self._flying and (self._landing is None or self._landing.when() <= self._loop.time()):
            self._landing = self._loop.call_at(self._flying[0][0], self._land, context=self._context)

    def _wake_reader(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    # The reader's end.

    async def read(self, idle: float) -> bytes:
        """All that has arrived, waiting for something at most `idle` seconds; empty: the end."""
        while not self._landed:
            if self._broken:
                raise NoAnswer(f"the stream {self._broken}")
            if self._ended and not self._silent and not self._flying:
                return b""
            self._reader = self._loop.create_future()
            patience = CallDeadline(idle)
            try:
                await patience.wait_for(self._reader)
            except TimeoutError as error:
                raise NoAnswer(f"the stream was silent for {idle:g} s") from error
            finally:
                patience.end()
        arrived = b"".join(self._landed)
        self._landed.clear()
        self._buffered -= len(arrived)
        if self._room is not None and not self._room.done():
            self._room.set_result(None)
        return arrived


class PipedStream:
    """The reader's side of a pipe, as the port describes it."""

    def __init__(self, answer: Streaming, pipe: Pipe, *, idle: timedelta, max_bytes: int) -> None:
        self._answer = answer
        self._pipe = pipe
        self._idle = idle.total_seconds()
        self._max_bytes = max_bytes
        self._cut_short = b""  # a line whose end has not arrived yet

    @property
    def status(self) -> int:
        return self._answer.status

    @property
    def headers(self) -> Pairs:
        return self._answer.headers

    async def batches(self) -> AsyncIterator[list[bytes]]:
        while arrived := await self._pipe.read(self._idle):
            *lines, self._cut_short = (self._cut_short + arrived).split(b"\n")
            if max(len(self._cut_short), *map(len, lines), 0) > MAX_LINE_BYTES:
                raise TooLarge(f"a line of the stream outgrew {MAX_LINE_BYTES} bytes")
            if lines:
                yield lines
        if self._cut_short:
            last, self._cut_short = self._cut_short, b""
            yield [last]

    async def rest(self) -> bytes:
        found = [self._cut_short]
        size = len(self._cut_short)
        self._cut_short = b""
        while arrived := await self._pipe.read(self._idle):
            size += len(arrived)
            if size > self._max_bytes:
                raise TooLarge(f"the answer outgrew {self._max_bytes} bytes")
            found.append(arrived)
        return b"".join(found)
