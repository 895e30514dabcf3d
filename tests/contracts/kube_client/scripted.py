"""An Http that answers from a script, and a loop on which waiting costs nothing."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, TypeVar

import msgspec

from tgp.ports.http import Call, HttpError, Reply, Stream
from tgp.sim.loop import VirtualLoop
from tgp.sim.loop import close as close_loop

T = TypeVar("T")
Answer = Reply | HttpError | Callable[[Call], Reply]


def in_virtual_time(deed: Coroutine[Any, Any, T]) -> T:
    loop = VirtualLoop()
    try:
        return loop.run_until_complete(deed)
    finally:
        close_loop(loop)


def json_reply(status: int, value: Any, *headers: tuple[str, str]) -> Reply:
    return Reply(status, msgspec.json.encode(value), (("Content-Type", "application/json"), *headers))


def a_status(code: int, reason: str = "", message: str = "", **details: Any) -> Reply:
    body = {"kind": "Status", "apiVersion": "v1", "code": code, "reason": reason, "message": message}
    return json_reply(code, {**body, "details": details} if details else body)


class ScriptedHttp:
    """Gives one answer after the other, the last one again and again, and keeps what it was asked."""

    def __init__(self, *answers: Answer) -> None:
        self._answers = list(answers)
        self.calls: list[Call] = []
        self.closed = False

    async def send(self, call: Call) -> Reply:
        await asyncio.sleep(0)
        self.calls.append(call)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, HttpError):
            raise answer
        return answer if isinstance(answer, Reply) else answer(call)

    @asynccontextmanager
    async def stream(self, call: Call, *, idle: timedelta) -> AsyncIterator[Stream]:
        assert idle > timedelta(), "every stream has a bound on its silence"
        yield Whole(await self.send(call))

    async def close(self) -> None:
        self.closed = True

    @property
    def bodies(self) -> list[Any]:
        return [msgspec.json.decode(call.body) for call in self.calls]


class Whole:
    def __init__(self, reply: Reply) -> None:
        self._reply = reply
        self.status = reply.status
        self.headers = reply.headers

    async def batches(self) -> AsyncIterator[list[bytes]]:
        yield self._reply.content.split(b"\n")

    async def rest(self) -> bytes:
        return self._reply.content
