"""A server in virtual time, and a short way to ask it things."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from tgp.ports.http import Call, Reply, Streaming
from tgp.sim.apiserver import ApiServer
from tgp.sim.clock import WorldClock
from tgp.sim.entropy import SeededEntropy
from tgp.sim.loop import run

PODS = "/api/v1/namespaces/default/pods"
MAPS = "/api/v1/namespaces/default/configmaps"


class ApiClient:
    def __init__(self, seed: int = 1, **options: Any) -> None:
        clock = WorldClock(asyncio.get_running_loop())
        self.server = ApiServer(clock, SeededEntropy(seed, "apiserver"), **options)

    async def ask(self, method: str, path: str, body: Any = None, **rest: Any) -> Reply:
        headers = tuple(rest.pop("headers", ()))
        kind = rest.pop("kind", "application/json")
        query = tuple((name, str(value)) for name, value in rest.items())
        content = b"" if body is None else msgspec.json.encode(body)
        call = Call(method, path, query, (("Content-Type", kind), ("User-Agent", "client/1"), *headers), content)
        answer = await self.server.handle(call)
        assert isinstance(answer, Reply)
        return answer

    async def merge(self, path: str, change: Any, **rest: Any) -> Reply:
        return await self.ask("PATCH", path, change, kind="application/merge-patch+json", **rest)

    async def watch(self, path: str, **query: Any) -> "Watching":
        words = tuple((name, str(value)) for name, value in {"watch": 1, **query}.items())
        answer = await self.server.handle(Call("GET", path, words, (("User-Agent", "watcher/1"),)))
        assert isinstance(answer, Streaming), answer
        return Watching(answer)


class Watching:
    """The events of one watch, one by one."""

    def __init__(self, answer: Streaming) -> None:
        self._pieces = answer.pieces
        self._waiting: list[Any] = []

    async def next(self, within: float = 5.0) -> Any:
        """The next event; None: the stream ended; TimeoutError: it is quiet."""
        if not self._waiting:
            try:
                async with asyncio.timeout(within):
                    piece = await anext(self._pieces)
            except StopAsyncIteration:
                return None
            self._waiting = [msgspec.json.decode(line) for line in piece.splitlines()]
        return self._waiting.pop(0)

    async def names(self, count: int) -> list[tuple[str, str]]:
        events = [await self.next() for _ in range(count)]
        return [(event["type"], event["object"]["metadata"]["name"]) for event in events]


def a_pod(name: str, node: str = "", **metadata: Any) -> dict[str, Any]:
    spec: dict[str, Any] = {"containers": [{"name": "main", "image": "example.org/main:1"}]}
    if node:
        spec["nodeName"] = node
    return {"metadata": {"name": name, **metadata}, "spec": spec}


def a_map(name: str, **data: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "data": data or {"k": "v"}}


def in_virtual_time(script: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """Run an async test on a virtual loop: its waits cost nothing."""

    def test() -> None:
        run(script())

    test.__name__, test.__doc__ = script.__name__, script.__doc__
    return test
