"""Watches: each is a cursor into the history of one kind, woken by every commit.

A watcher holds no queue of its own. One that falls behind what the history keeps gets an error (410 inside the stream),
as the real watch cache does.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass

import msgspec

from tgp.sim.apiserver.core import Core
from tgp.sim.apiserver.encoding import bookmark_line, event_line, object_bytes
from tgp.sim.apiserver.json_value import Json, copied
from tgp.sim.apiserver.options import ListOptions
from tgp.sim.apiserver.registry import Served
from tgp.sim.apiserver.selectors import Predicate
from tgp.sim.apiserver.status_errors import Failure, expired
from tgp.sim.apiserver.storage import Change, KindStorage, StoredObject, walk
from tgp.sim.apiserver.verbs.read import read_revision, selector_of

BOOKMARK_EVERY = 60.0  # seconds; the real watch cache sends one about every minute
BOOKMARK_BEFORE_END = 2.0  # and a last one this long before the stream times out
MIN_TIMEOUT = 1800.0  # --min-request-timeout; the real server draws a timeout between it and twice as much
BATCH_LIMIT = 1_000  # changes encoded per piece: a bound on what is built at once, not on what is sent


@dataclass(frozen=True, slots=True)
class WatchFaults:
    """What faults do to one watch; none by default."""

    lag: float = 0.0  # seconds every change is held back
    coalesce: bool = False  # of several changes to one object waiting together only the last is shown
    silent: bool = False  # the stream stays open and says nothing ever again: a half-open connection
    drop: bool = False  # the stream ends after its next piece


WatchFaultSource = Callable[[], WatchFaults]  # called at every poll, so that faults can be switched while watches run
ToJson = Callable[[StoredObject], bytes]


class WatchSchedule:
    """What a stream does by time alone: bookmarks, and its end."""

    def __init__(self, now: float, duration: float, *, bookmarks: bool) -> None:
        self.ends = now + duration
        self._bookmarks = bookmarks
        self._next = now + BOOKMARK_EVERY
        self._last_sent = False

    def bookmark_is_due(self, now: float) -> bool:
        """Asked once per look; saying yes moves the schedule on."""
        if not self._bookmarks:
            return False
        closing = not self._last_sent and now >= self.ends - BOOKMARK_BEFORE_END
        if not closing and now < self._next:
            return False
        self._last_sent = self._last_sent or closing
        self._next = now + BOOKMARK_EVERY
        return True

    def next_look(self, now: float) -> float:
        if not self._bookmarks:
            return self.ends
        before_end = self.ends if self._last_sent else max(now, self.ends - BOOKMARK_BEFORE_END)
        return min(self.ends, self._next, before_end)


class Watcher:
    """One watch request: what it has shown, and what it shows next."""

    def __init__(
        self, core: Core, served: Served, namespace: str, options: ListOptions, watch_faults: WatchFaultSource
    ) -> None:
        self._core = core
        self._served = served
        self._namespace = namespace
        self._options = options
        self._watch_faults = watch_faults
        self._wanted: Predicate | None = selector_of(served, options)
        self._kind_storage: KindStorage = core.store.kind_storage(served.storage)
        self._to_json: ToJson = lambda record: object_bytes(served, record)
        self._cursor = core.store.revision
        self._era = core.store.era
        self._as_of: int | None = None
        self._only = b""

    def render_with(self, to_json: ToJson) -> None:
        """Show objects as something else (a Table of one row, say)."""
        self._to_json = to_json

    def start_from(self, revision: int) -> None:
        """Show the initial state as it was at `revision` (a fault: a relist older than already seen)."""
        self._as_of = revision

    def begin_with(self, line: bytes) -> None:
        """Say this and nothing more (a fault)."""
        self._only = line

    def starts_too_old(self) -> Failure | None:
        """The refusal a start from a forgotten version earns; in the stream, unless a fault says otherwise."""
        asked = self._options.resource_version
        if asked in {"", "0"} or self._wants_state():
            return None
        revision = read_revision(asked)
        floor = self._core.store.watch_floor(self._served.storage)
        if self._core.semantics.is_too_old(revision, floor):
            return too_old(revision, floor)
        return None

    def _wants_state(self) -> bool:
        if self._options.send_initial_events is not None:
            return self._options.send_initial_events
        return self._options.resource_version in {"", "0"}

    async def pieces(self) -> AsyncIterator[bytes]:
        if self._only:
            yield self._only
            return
        refusal = self.starts_too_old()
        if refusal is not None:
            yield error_line(refusal)
            return
        ticket, bell = self._kind_storage.listen()
        try:
            first = self._first()
            if first:
                yield first
            async for piece in self._follow(bell):
                yield piece
        finally:
            self._kind_storage.leave(ticket)

    def _first(self) -> bytes:
        if not self._wants_state():
            asked = self._options.resource_version
            if asked not in {"", "0"}:
                self._cursor = read_revision(asked)
            return b""
        self._cursor = self._core.store.revision if self._as_of is None else self._as_of
        lines = [event_line("ADDED", self._to_json(record)) for record in self._state()]
        if self._options.send_initial_events and self._options.bookmarks:
            lines.append(bookmark_line(self._served, self._cursor, initial_events_end=True))
        return b"".join(lines)

    def _state(self) -> Iterator[StoredObject]:
        if self._as_of is None:
            records, keys = self._kind_storage.records, self._kind_storage.keys
        else:
            records, keys = self._kind_storage.as_of(self._as_of)
        for _, record in walk(records, keys, self._namespace, ""):
            if self._wanted is None or self._wanted(record.obj):
                yield record

    async def _follow(self, bell: asyncio.Event) -> AsyncIterator[bytes]:
        loop = asyncio.get_running_loop()
        schedule = WatchSchedule(loop.time(), self._duration(), bookmarks=self._options.bookmarks)
        while True:
            bell.clear()
            if self._era != self._core.store.era:
                return  # the server was started again
            faults = self._watch_faults()
            if faults.silent:
                await asyncio.Event().wait()  # never set: only the client closing the connection ends this
            try:
                lines = self._due(faults)
            except Failure as failure:
                yield error_line(failure)
                return
            if lines:
                yield b"".join(lines)
                if faults.drop:
                    return
                if self._kind_storage.after(self._cursor, 1) and not faults.lag:
                    continue
            now = loop.time()
            if now >= schedule.ends:
                return
            if schedule.bookmark_is_due(now):
                yield bookmark_line(self._served, self._cursor)
            await self._rest(bell, faults, now, schedule.next_look(now))

    async def _rest(self, bell: asyncio.Event, faults: WatchFaults, now: float, until: float) -> None:
        """Sleep until a commit, or the next thing that is due by time."""
        if faults.lag:
            held = self._kind_storage.after(self._cursor, 1)
            if held:
                left = held[0].at + faults.lag - self._core.clock.boottime()
                if left > 0:
                    until = min(until, now + left)
        try:
            async with asyncio.timeout(max(until - now, 0.0)):
                await bell.wait()
        except TimeoutError:
            return

    def _duration(self) -> float:
        if self._options.timeout_seconds:
            return float(self._options.timeout_seconds)
        return MIN_TIMEOUT * (1.0 + self._core.entropy.jitter())

    def _due(self, faults: WatchFaults) -> list[bytes]:
        """The lines of every change that may be shown now; the cursor moves past them."""
        floor = self._core.store.floor(self._served.storage)
        if self._core.semantics.is_too_old(self._cursor, floor) and self._kind_storage.dropped > self._cursor:
            raise too_old(self._cursor, floor)
        changes = self._kind_storage.after(self._cursor, BATCH_LIMIT)
        if faults.lag:
            limit = self._core.clock.boottime() - faults.lag
            changes = [change for change in changes if change.at <= limit]
        full = len(changes) == BATCH_LIMIT
        if changes:
            self._cursor = changes[-1].revision
        if not full and not faults.lag:
            self._cursor = max(self._cursor, self._core.store.revision)  # a bookmark may promise this much
        shown = coalesced(changes) if faults.coalesce else changes
        return [line for change in shown if (line := self._line(change))]

    def _line(self, change: Change) -> bytes:
        meta = change.record.obj["metadata"]
        if self._namespace and meta.get("namespace", "") != self._namespace:
            return b""
        if self._wanted is None:
            return event_line(change.type, self._to_json(change.record))
        was_in = change.previous is not None and self._wanted(change.previous.obj)
        is_in = self._wanted(change.record.obj)
        kind = self._core.semantics.event_type(change.type, was_in, is_in)
        if not kind:
            return b""
        record = change.record
        if kind == "DELETED" and change.type != "DELETED" and change.previous is not None:
            record = _under_revision(change.previous, change.revision)
        return event_line(kind, self._to_json(record))


def _under_revision(record: StoredObject, revision: int) -> StoredObject:
    """What left a selector is shown as it was when it last belonged, under the revision of its leaving."""
    obj: Json = copied(record.obj)
    obj["metadata"]["resourceVersion"] = str(revision)
    return StoredObject(obj, revision)


def coalesced(changes: list[Change]) -> list[Change]:
    """Only the last change of each object, as one step from what the watcher knew before them."""
    first: dict[str, Change] = {}
    last: dict[str, Change] = {}
    for change in changes:
        uid = change.record.obj["metadata"]["uid"]
        first.setdefault(uid, change)
        last[uid] = change
    merged = []
    for uid, change in last.items():
        before = first[uid].previous
        if before is None and change.type == "DELETED":
            continue  # came and went between two looks
        kind = change.type if before is not None or change.type == "DELETED" else "ADDED"
        merged.append(Change(change.revision, kind, change.record, before, change.at))
    return sorted(merged, key=lambda change: change.revision)


def too_old(revision: int, floor: int) -> Failure:
    return expired(f"too old resource version: {revision} ({floor})")


def error_line(failure: Failure) -> bytes:
    return event_line("ERROR", msgspec.json.encode(failure.as_status()))
