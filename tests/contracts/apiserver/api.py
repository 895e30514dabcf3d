"""A tiny raw client over the `Http` port: it sends what a case says and notes what came back.

Nothing is interpreted on the way (no retry, no decoding into types), so a note is what the server said. The same code
talks to the in-memory server and to the real one.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Protocol, TypeAlias

import msgspec

from tgp.api.resource import Resource
from tgp.ports.http import Call, Http, NoAnswer, Pairs, Reply, Stream

Json: TypeAlias = dict[str, Any]

PATIENCE = 20.0  # seconds to wait for something that must come; a loaded machine with two cores needs most of it
SILENCE = 0.5  # seconds without an event that count as "nothing comes"
STEP = 0.05  # seconds between two looks
LOOKS = 600  # 30 s: the real server trusts some of its caches for ten
IDLE = timedelta(seconds=60)
MAX_UNREAD = 1000  # events a case may leave unread

AGENT = ("User-Agent", "contract/1")  # the server makes a field manager's name of it

MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"


class Server(Protocol):
    """What a case may ask of the machine under the API."""

    async def compact(self) -> None:
        """Forget the history before now, as etcd's compaction does."""
        ...


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: Any  # decoded JSON, or text where it is none
    headers: Pairs = ()

    @property
    def meta(self) -> Json:
        found = self.body.get("metadata", {}) if isinstance(self.body, dict) else {}
        return found if isinstance(found, dict) else {}

    @property
    def rv(self) -> str:
        return str(self.meta.get("resourceVersion", ""))

    @property
    def uid(self) -> str:
        return str(self.meta.get("uid", ""))

    @property
    def items(self) -> list[Json]:
        return list(self.body["items"] or ())

    @property
    def names(self) -> list[str]:
        return [item["metadata"]["name"] for item in self.items]

    @property
    def reason(self) -> str:
        return str(self.body.get("reason", "")) if isinstance(self.body, dict) else ""

    @property
    def message(self) -> str:
        return str(self.body.get("message", "")) if isinstance(self.body, dict) else ""

    @property
    def causes(self) -> list[Json]:
        details = self.body.get("details", {}) if isinstance(self.body, dict) else {}
        return list(details.get("causes", ()))

    @property
    def warnings(self) -> list[str]:
        return [value for name, value in self.headers if name.lower() == "warning"]

    def __getitem__(self, path: str) -> Any:
        """The value at a dotted path of the body; None where it is not there."""
        found: Any = self.body
        for part in path.split("."):
            found = found.get(part) if isinstance(found, dict) else None
        return found


@dataclass(frozen=True, slots=True)
class Event:
    type: str
    object: Json

    @property
    def name(self) -> str:
        return str(self.object.get("metadata", {}).get("name", ""))

    @property
    def rv(self) -> int:
        return int(self.object["metadata"]["resourceVersion"])


@dataclass(slots=True)
class Note:
    """One thing seen, as it came; made comparable only once the whole case is over."""

    title: str
    query: dict[str, str] = field(default_factory=dict)
    status: int = 0
    warnings: list[str] = field(default_factory=list)
    retry_after: str = ""
    sent: Any = None  # what was asked with, so that a difference explains itself
    body: Any = None


class Events:
    """A watch that is being read. Only what the case took is noted: what else was on the way depends on timing."""

    def __init__(self, note: Note, stream: Stream) -> None:
        self._note = note
        self._stream = stream
        self._lines: asyncio.Queue[bytes | None] = asyncio.Queue(MAX_UNREAD)

    @property
    def status(self) -> int:
        return self._stream.status

    async def read(self) -> None:
        """Move lines from the wire into the queue until the end, which is a None."""
        try:
            async for batch in self._stream.batches():
                for line in batch:
                    await self._lines.put(line)
        except NoAnswer:
            await self._lines.put(b'{"type":"BROKEN","object":{}}')
        await self._lines.put(None)

    async def next(self) -> Event | None:
        """The next event; None: the server ended the stream."""
        async with asyncio.timeout(PATIENCE):
            line = await self._lines.get()
        if line is None:
            self._note.body.append("the end")
            return None
        told = msgspec.json.decode(line)
        self._note.body.append(told)
        return Event(told["type"], told["object"])

    async def take(self, count: int) -> list[Event]:
        taken: list[Event] = []
        while len(taken) < count:
            event = await self.next()
            assert event is not None, f"the stream ended after {len(taken)} of {count} events"
            taken.append(event)
        return taken

    async def to_the_end(self) -> list[Event]:
        taken: list[Event] = []
        while (event := await self.next()) is not None:
            taken.append(event)
        return taken

    async def are_silent(self) -> None:
        """Nothing comes for a while. The wait is real on a real server, so it is short."""
        try:
            async with asyncio.timeout(SILENCE):
                line = await self._lines.get()
        except TimeoutError:
            self._note.body.append("silence")
            return
        self._note.body.append("the end" if line is None else msgspec.json.decode(line))
        raise AssertionError(f"something came where nothing should: {line!r}")


class Api:
    """One case's line to one server. Keyword arguments of the verbs are query parameters."""

    def __init__(self, http: Http, namespace: str, server: Server, headers: Pairs = ()) -> None:
        self._http = http
        self._headers = headers
        self.namespace = namespace
        self.server = server
        self.notes: list[Note] = []

    def acting_as(self, user: str, *groups: str) -> "Api":
        """The same client for another user; its notes go to the same list."""
        headers = (("Impersonate-User", user), *(("Impersonate-Group", group) for group in groups))
        other = Api(self._http, self.namespace, self.server, headers)
        other.notes = self.notes
        return other

    @property
    def quiet(self) -> "Api":
        """The same line, noting nothing: for preparations, and for looks whose number depends on timing."""
        return Api(self._http, self.namespace, self.server, self._headers)

    def note(self, title: str, value: Any) -> None:
        """Write down a conclusion, where the answers themselves are not comparable (races, times)."""
        self.notes.append(Note(title, body=value))

    async def call(
        self, method: str, path: str, body: Any = None, kind: str = "application/json", accept: str = "", **query: Any
    ) -> Answer:
        """Send `body` (bytes as they are, anything else as JSON) and note the answer."""
        pairs = _pairs(query)
        content = body if isinstance(body, bytes) else b"" if body is None else msgspec.json.encode(body)
        headers = (AGENT, ("Accept", accept or "application/json"), *self._headers)
        if body is not None and kind:
            headers = (("Content-Type", kind), *headers)
        reply = await self._http.send(Call(method, path, pairs, headers, content))
        answer = Answer(reply.status, _decoded(reply), reply.headers)
        shown = Note(f"{method} {path}", dict(pairs), reply.status, answer.warnings, body=answer.body)
        shown.sent = body if isinstance(body, dict | list) else None
        shown.retry_after = reply.header("Retry-After")
        self.notes.append(shown)
        return answer

    def path(self, resource: Resource, name: str = "", sub: str = "", *, everywhere: bool = False) -> str:
        return resource.path("" if everywhere or not resource.namespaced else self.namespace, name, sub)

    async def create(self, resource: Resource, body: Any, **query: Any) -> Answer:
        return await self.call("POST", self.path(resource), _typed(resource, body), **query)

    async def get(self, resource: Resource, name: str, sub: str = "", **query: Any) -> Answer:
        return await self.call("GET", self.path(resource, name, sub), **query)

    async def list(self, resource: Resource, *, everywhere: bool = False, **query: Any) -> Answer:
        return await self.call("GET", self.path(resource, everywhere=everywhere), **query)

    async def update(self, resource: Resource, body: Json, sub: str = "", **query: Any) -> Answer:
        return await self.call(
            "PUT", self.path(resource, body["metadata"]["name"], sub), _typed(resource, body), **query
        )

    async def patch(
        self, resource: Resource, name: str, body: Any, sub: str = "", kind: str = MERGE, **query: Any
    ) -> Answer:
        return await self.call("PATCH", self.path(resource, name, sub), body, kind, **query)

    async def apply(self, resource: Resource, body: Json, manager: str, sub: str = "", **query: Any) -> Answer:
        path = self.path(resource, body["metadata"]["name"], sub)
        return await self.call("PATCH", path, _typed(resource, body), APPLY, fieldManager=manager, **query)

    async def delete(self, resource: Resource, name: str, options: Json | None = None, **query: Any) -> Answer:
        return await self.call("DELETE", self.path(resource, name), options, **query)

    @asynccontextmanager
    async def watch(
        self, resource: Resource, *, everywhere: bool = False, accept: str = "", **query: Any
    ) -> AsyncIterator[Events]:
        pairs = _pairs({"watch": "1", **query})
        headers = (AGENT, ("Accept", accept or "application/json"), *self._headers)
        path = self.path(resource, everywhere=everywhere)
        note = Note(f"WATCH {path}", dict(pairs), body=[])
        self.notes.append(note)
        async with self._http.stream(Call("GET", path, pairs, headers), idle=IDLE) as stream:
            note.status = stream.status
            events = Events(note, stream)
            reading = asyncio.create_task(events.read())
            try:
                yield events
            finally:
                reading.cancel()
                await asyncio.wait([reading])

    async def refused_watch(self, resource: Resource, **query: Any) -> Answer:
        """Ask for a watch that the server answers at once with a Status instead of a stream."""
        return await self.call("GET", self.path(resource), watch="1", timeoutSeconds="1", **query)

    async def eventually(self, look: Callable[["Api"], Awaitable[bool]]) -> None:
        """Wait until `look` (over a line that notes nothing) sees what it is waiting for."""
        quiet = self.quiet
        for _ in range(LOOKS):
            if await look(quiet):
                return
            await asyncio.sleep(STEP)
        raise AssertionError(f"what was waited for did not come within {LOOKS} looks")


def _pairs(query: Json) -> Pairs:
    return tuple((name.rstrip("_"), str(value)) for name, value in query.items())


def _typed(resource: Resource, body: Any) -> Any:
    """Spare every case its apiVersion and kind; a case that writes them means them."""
    if not isinstance(body, dict):
        return body
    return {"apiVersion": resource.api_version, "kind": resource.kind, **body}


def _decoded(reply: Reply) -> Any:
    try:
        return msgspec.json.decode(reply.content)
    except msgspec.DecodeError:
        return reply.content.decode(errors="replace")
