"""A few pods behind the `Http` port, with every trouble a watch can meet. Small on purpose: a script, not a server."""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from copy import deepcopy
from datetime import timedelta
from typing import Any, TypeVar
from uuid import UUID

from tgp.core.model.facts import Fact
from tgp.core.model.object_key import ObjectKey
from tgp.ports.http import Call, NoAnswer, Pairs, Reply, TooLarge
from tgp.sim.loop import VirtualLoop

T = TypeVar("T")

LONG = 10 * 24 * 3600.0  # virtual seconds; every test ends long before


def in_virtual_time(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run it on a clock that jumps."""
    loop = VirtualLoop()
    try:
        return loop.run_until_complete(asyncio.wait_for(coroutine, LONG))
    finally:
        loop.close()


class Even:
    """Luck without surprises."""

    def token(self, size: int) -> bytes:
        return bytes(size)

    def jitter(self) -> float:
        return 0.5


class Noted:
    def __init__(self) -> None:
        self.facts: list[Fact] = []

    def note(self, fact: Fact) -> None:
        self.facts.append(fact)

    def names(self) -> list[str]:
        return [type(fact).__name__ for fact in self.facts]


def a_status(code: int, reason: str = "", message: str = "", **details: Any) -> dict[str, Any]:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
        "details": details,
    }


def a_refusal(code: int, reason: str = "", message: str = "", headers: Pairs = ()) -> Reply:
    return Reply(code, json.dumps(a_status(code, reason, message)).encode(), headers)


class ServedPods:
    """Implements `Http`. Everything is logged in `calls`; `refusals` are given out first, one per call."""

    def __init__(self) -> None:
        self.pods: dict[ObjectKey, dict[str, Any]] = {}
        self.version = 100
        self.history: list[tuple[int, bytes]] = []
        self.compacted = 0  # versions up to here can no longer be watched from
        self.uids = 0
        self.calls: list[tuple[float, Call]] = []
        self.refusals: deque[Reply | Exception] = deque()
        self.streaming = "yes"  # or "refused", "ignored", "early bookmark"
        self.expired_inside = False  # 410 as an event in a 200 stream
        self.expire_pages = 0  # continue tokens that will turn out to be too old
        self.largest_page = 10**9  # objects; more than that is TooLarge
        self.frozen: dict[ObjectKey, dict[str, Any]] | None = None  # lists show this older state
        self.frozen_version = 0
        self.deaf = False  # new changes reach no client: half-open connections
        self.lasts: float | None = None  # seconds; every stream ends so soon, without a word
        self._watchers: list[asyncio.Queue[bytes | Exception | None]] = []

    # -- the cluster's side ------------------------------------------------------------------------------------------

    def create(self, name: str, namespace: str = "team", **fields: Any) -> ObjectKey:
        key = ObjectKey(namespace, name)
        self.uids += 1
        uid = str(UUID(int=self.uids))
        self.pods[key] = {
            "kind": "Pod",
            "apiVersion": "v1",
            "metadata": {"name": name, "namespace": namespace, "uid": uid, **fields.pop("metadata", {})},
            "spec": {"containers": [], **fields.pop("spec", {})},
            "status": {"phase": "Pending", **fields.pop("status", {})},
        }
        assert not fields
        self._happened("ADDED", self.pods[key])
        return key

    def modify(self, key: ObjectKey, **status: Any) -> None:
        self.pods[key]["status"].update(status)
        self._happened("MODIFIED", self.pods[key])

    def move(self, key: ObjectKey, node: str) -> None:
        self.pods[key]["spec"]["nodeName"] = node
        self._happened("MODIFIED", self.pods[key])

    def delete(self, key: ObjectKey) -> None:
        self._happened("DELETED", self.pods.pop(key))

    def compact(self) -> None:
        self.compacted = self.version

    def cut(self) -> None:
        """Every connection breaks."""
        self._tell_all(NoAnswer("cut"))

    def end(self) -> None:
        """Every stream is ended in good order."""
        self._tell_all(None)

    def garble(self, line: bytes) -> None:
        """Something unreadable is sent to all clients."""
        self._tell_all(line)

    def go_deaf(self) -> None:
        """Connections stand, and nothing comes through them any more; new ones work."""
        self._watchers = []

    def freeze(self) -> None:
        self.frozen, self.frozen_version = deepcopy(self.pods), self.version

    def thaw(self) -> None:
        self.frozen = None

    def _happened(self, verb: str, pod: dict[str, Any]) -> None:
        self.version += 1
        pod["metadata"]["resourceVersion"] = str(self.version)
        line = json.dumps({"type": verb, "object": pod}).encode()
        self.history.append((self.version, line))
        self._tell_all(line)

    def _tell_all(self, said: bytes | Exception | None) -> None:
        for watcher in self._watchers:
            watcher.put_nowait(said)

    # -- the Http port -----------------------------------------------------------------------------------------------

    async def send(self, call: Call) -> Reply:
        self._log(call)
        if self.refusals:
            return _given(self.refusals.popleft())
        await asyncio.sleep(0.001)
        pods, version = self._listed()
        limit, start = int(call.parameter("limit")), int(call.parameter("continue") or 0)
        if start and self.expire_pages:
            self.expire_pages -= 1
            return a_refusal(410, "Expired", "The provided continue parameter is too old")
        if limit > self.largest_page:
            raise TooLarge("too large")
        page = pods[start : start + limit]
        following = str(start + limit) if start + limit < len(pods) else ""
        body = {"kind": "PodList", "metadata": {"resourceVersion": str(version), "continue": following}, "items": page}
        return Reply(200, json.dumps(body).encode())

    @asynccontextmanager
    async def stream(self, call: Call, *, idle: timedelta) -> AsyncIterator["Lines"]:
        self._log(call)
        if self.refusals:
            reply = _given(self.refusals.popleft())
            yield Lines(reply.status, reply.headers, reply.content)
            return
        await asyncio.sleep(0.001)
        if call.parameter("sendInitialEvents") and self.streaming == "refused":
            refusal = a_refusal(422, "Invalid", "sendInitialEvents: Forbidden: ... unless the WatchList feature gate")
            yield Lines(refusal.status, refusal.headers, refusal.content)
            return
        heard: asyncio.Queue[bytes | Exception | None] = asyncio.Queue()
        for line in self._first_lines(call):
            heard.put_nowait(line)
        expired = not call.parameter("sendInitialEvents") and int(call.parameter("resourceVersion")) < self.compacted
        if expired and not self.expired_inside:
            refusal = a_refusal(410, "Expired", "too old resource version")
            yield Lines(refusal.status, refusal.headers, refusal.content)
            return
        if expired:
            heard.put_nowait(json.dumps({"type": "ERROR", "object": a_status(410, "Expired")}).encode())
            heard.put_nowait(None)
        elif not self.deaf:
            self._watchers.append(heard)
        lasts = float(call.parameter("timeoutSeconds"))
        yield Lines(200, (), b"", self._batches(heard, idle.total_seconds(), lasts))

    def _first_lines(self, call: Call) -> list[bytes]:
        if call.parameter("sendInitialEvents"):
            pods, version = self._listed()
            lines = [json.dumps({"type": "ADDED", "object": pod}).encode() for pod in pods]
            if self.streaming == "early bookmark":
                return [*lines[: len(lines) // 2], a_bookmark(version)]
            return lines if self.streaming == "ignored" else [*lines, a_bookmark(version, end=True)]
        since = int(call.parameter("resourceVersion"))
        return [line for version, line in self.history if version > since >= self.compacted]

    def _listed(self) -> tuple[list[dict[str, Any]], int]:
        if self.frozen is not None:
            return list(self.frozen.values()), self.frozen_version
        return list(self.pods.values()), self.version

    async def _batches(
        self, heard: "asyncio.Queue[bytes | Exception | None]", idle: float, lasts: float
    ) -> AsyncIterator[list[bytes]]:
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + (lasts if self.lasts is None else self.lasts)
        while True:
            # A server that lost us will never end the stream: only the reader's own patience does.
            patience = idle if heard not in self._watchers and heard.empty() else min(idle, ends_at - loop.time())
            began = loop.time()
            try:
                async with asyncio.timeout(max(0.0, patience)):
                    said = await heard.get()
            except TimeoutError:
                if heard in self._watchers:
                    self._watchers.remove(heard)
                    if self.lasts is None:
                        yield [a_bookmark(self.version)]
                    return
                await asyncio.sleep(max(0.0, began + idle - loop.time()))
                raise NoAnswer("silent") from None
            if said is None:
                return
            if isinstance(said, Exception):
                raise said
            yield [said]

    def _log(self, call: Call) -> None:
        self.calls.append((asyncio.get_running_loop().time(), call))

    def lists(self) -> int:
        """How many lists were begun, by stream or by pages."""
        return sum(
            1
            for _, call in self.calls
            if call.parameter("sendInitialEvents") or (call.parameter("limit") and not call.parameter("continue"))
        )


class Lines:
    def __init__(
        self, status: int, headers: Pairs, content: bytes, lines: AsyncIterator[list[bytes]] | None = None
    ) -> None:
        self.status = status
        self.headers = headers
        self._content = content
        self._lines = lines

    def batches(self) -> AsyncIterator[list[bytes]]:
        assert self._lines is not None
        return self._lines

    async def rest(self) -> bytes:
        return self._content


def a_bookmark(version: int, *, end: bool = False) -> bytes:
    meta: dict[str, Any] = {"resourceVersion": str(version), "creationTimestamp": None}
    if end:
        meta["annotations"] = {"k8s.io/initial-events-end": "true"}
    body = {"kind": "Pod", "apiVersion": "v1", "metadata": meta, "spec": {"containers": None}, "status": {}}
    return json.dumps({"type": "BOOKMARK", "object": body}).encode()


def _given(answer: Reply | Exception) -> Reply:
    if isinstance(answer, Exception):
        raise answer
    return answer
