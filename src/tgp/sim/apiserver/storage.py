"""Everything the server remembers: objects by kind, one global resourceVersion, and the changes watches replay.

A stored object is never changed in place, so a record may be handed to any number of readers and its bytes are
encoded once. Keys sort as etcd sorts them (`namespace/name`), because lists and their pages come in that order.
"""

import asyncio
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import msgspec

from tgp.ports.clock import Clock
from tgp.sim.apiserver.json_value import Json, copied

HISTORY_LIMIT = (
    50_000  # changes kept per kind: several simulated hours of a busy cluster, ~100 bytes each beside the object
)
FIRST_REVISION = 1  # a fresh etcd answers 1 before the first write

View = Callable[[Json], Json]


class StoredObject:
    """One object at one resourceVersion, with its bytes."""

    __slots__ = ("_bodies", "obj", "revision")

    def __init__(self, obj: Json, revision: int) -> None:
        self.obj = obj
        self.revision = revision
        self._bodies: dict[str, bytes] = {}

    def body(self, api_version: str, view: View | None) -> bytes:
        """The object as JSON without `kind` and `apiVersion`, as one served version shows it."""
        slot = api_version if view else ""
        found = self._bodies.get(slot)
        if found is None:
            shown = view(self.obj) if view else self.obj
            bare = {key: value for key, value in shown.items() if key not in {"kind", "apiVersion"}}
            found = self._bodies[slot] = msgspec.json.encode(bare)
        return found


@dataclass(frozen=True, slots=True)
class Change:
    """One committed write. For DELETED the record is the last state, under the revision of the deletion."""

    revision: int
    type: str  # ADDED, MODIFIED or DELETED
    record: StoredObject
    previous: StoredObject | None
    at: float  # Clock.boottime of the commit


def key_of(namespace: str, name: str) -> str:
    return f"{namespace}/{name}" if namespace else name


class KindStorage:
    """All objects of one kind."""

    def __init__(self, history_limit: int, born: int) -> None:
        self.records: dict[str, StoredObject] = {}
        self.keys: list[str] = []
        self.changes: list[Change] = []
        self.dropped = 0  # revision of the newest change no longer in `changes`
        self.born = born  # a watch cannot start before the cache that serves it
        self._history_limit = history_limit
        self._waiters: dict[int, asyncio.Event] = {}
        self._next_waiter = 0

    def commit(self, key: str, change: Change) -> None:
        if change.type == "DELETED":
            del self.records[key]
            del self.keys[bisect_left(self.keys, key)]
        else:
            if key not in self.records:
                insort(self.keys, key)
            self.records[key] = change.record
        self.changes.append(change)
        if len(self.changes) > 2 * self._history_limit:
            self.drop(self.changes[-self._history_limit - 1].revision)
        self.ring()

    def ring(self) -> None:
        """Wake every listener to look again."""
        for waiter in self._waiters.values():
            waiter.set()

    def drop(self, revision: int) -> None:
        """Forget every change up to and including `revision`."""
        cut = bisect_right(self.changes, revision, key=_revision)
        if cut:
            self.dropped = self.changes[cut - 1].revision
            del self.changes[:cut]

    def after(self, revision: int, limit: int) -> list[Change]:
        start = bisect_right(self.changes, revision, key=_revision)
        return self.changes[start : start + limit]

    def range(self, namespace: str, after_key: str = "") -> Iterator[tuple[str, StoredObject]]:
        """Records in key order, of one namespace or all, beyond `after_key`."""
        return walk(self.records, self.keys, namespace, after_key)

    def as_of(self, revision: int) -> tuple[dict[str, StoredObject], list[str]]:
        """The records and sorted keys as they were at `revision`; the caller knows it is not yet dropped."""
        undo = self.changes[bisect_right(self.changes, revision, key=_revision) :]
        if not undo:
            return self.records, self.keys
        records = dict(self.records)
        for change in reversed(undo):
            key = key_of_object(change.record.obj)
            if change.previous is None:
                records.pop(key, None)
            else:
                records[key] = change.previous
        return records, sorted(records)

    def listen(self) -> tuple[int, asyncio.Event]:
        """A bell that rings at each commit, and the ticket to hand it back with."""
        self._next_waiter += 1
        bell = asyncio.Event()
        self._waiters[self._next_waiter] = bell
        return self._next_waiter, bell

    def leave(self, ticket: int) -> None:
        self._waiters.pop(ticket, None)


def walk(
    records: dict[str, StoredObject], keys: list[str], namespace: str, after_key: str
) -> Iterator[tuple[str, StoredObject]]:
    prefix = f"{namespace}/" if namespace else ""
    start = bisect_left(keys, prefix)
    if after_key:
        start = max(start, bisect_right(keys, after_key))
    for index in range(start, len(keys)):
        key = keys[index]
        if not key.startswith(prefix):
            return
        yield key, records[key]


@dataclass(frozen=True, slots=True)
class StorageSnapshot:
    """Everything at one revision, as a backup of etcd holds it."""

    revision: int
    records: Mapping[str, Mapping[str, StoredObject]]  # by storage, by key


class ObjectStorage:
    def __init__(self, clock: Clock, *, history_limit: int = HISTORY_LIMIT) -> None:
        self._clock = clock
        self._history_limit = history_limit
        self._kinds: dict[str, KindStorage] = {}
        self.revision = FIRST_REVISION
        self.compacted = 0
        self.era = 0  # times it was restored: clients connected before have to reconnect

    def kind_storage(self, storage: str) -> KindStorage:
        found = self._kinds.get(storage)
        if found is None:
            found = self._kinds[storage] = KindStorage(self._history_limit, self.revision)
        return found

    def get(self, storage: str, namespace: str, name: str) -> StoredObject | None:
        return self.kind_storage(storage).records.get(key_of(namespace, name))

    def floor(self, storage: str) -> int:
        """The oldest revision a list of this kind can still be shown at."""
        return max(self.compacted, self.kind_storage(storage).dropped)

    def watch_floor(self, storage: str) -> int:
        """The oldest revision a watch of this kind can still start from."""
        return max(self.floor(storage), self.kind_storage(storage).born)

    def put(self, storage: str, obj: Json) -> StoredObject:
        """Commit `obj`, which the store now owns; its resourceVersion is written into it."""
        self.revision += 1
        obj["metadata"]["resourceVersion"] = str(self.revision)
        record = StoredObject(obj, self.revision)
        kind_storage, key = self.kind_storage(storage), key_of_object(obj)
        previous = kind_storage.records.get(key)
        kind = "MODIFIED" if previous else "ADDED"
        kind_storage.commit(key, Change(self.revision, kind, record, previous, self._clock.boottime()))
        return record

    def remove(self, storage: str, namespace: str, name: str, last: Json | None = None) -> StoredObject:
        """Commit a deletion; watchers see `last` (or the stored state) under a new resourceVersion."""
        kind_storage, key = self.kind_storage(storage), key_of(namespace, name)
        previous = kind_storage.records[key]
        self.revision += 1
        obj: Json = copied(last if last is not None else previous.obj)
        obj["metadata"]["resourceVersion"] = str(self.revision)
        record = StoredObject(obj, self.revision)
        kind_storage.commit(key, Change(self.revision, "DELETED", record, previous, self._clock.boottime()))
        return record

    def snapshot(self) -> StorageSnapshot:
        return StorageSnapshot(
            self.revision, {name: dict(kind_storage.records) for name, kind_storage in self._kinds.items()}
        )

    def restore(self, snapshot: StorageSnapshot) -> None:
        """As a restored etcd: what was written since never was, and its revisions are given out again."""
        self.revision = snapshot.revision
        self.compacted = min(self.compacted, snapshot.revision)
        self.era += 1
        for name, kind_storage in self._kinds.items():
            kind_storage.records = dict(snapshot.records.get(name, {}))
            kind_storage.keys = sorted(kind_storage.records)
            kind_storage.changes = [change for change in kind_storage.changes if change.revision <= snapshot.revision]
            kind_storage.dropped = min(kind_storage.dropped, snapshot.revision)
            kind_storage.born = min(kind_storage.born, snapshot.revision)
        self.ring_all()

    def ring_all(self) -> None:
        for kind_storage in self._kinds.values():
            kind_storage.ring()

    def compact(self, revision: int | None = None) -> None:
        """Forget history up to `revision` (default: all of it), as etcd's compaction does."""
        self.compacted = max(self.compacted, min(self.revision, self.revision if revision is None else revision))
        for kind_storage in self._kinds.values():
            kind_storage.drop(self.compacted)
        self.ring_all()


def key_of_object(obj: Json) -> str:
    meta = obj["metadata"]
    return key_of(meta.get("namespace", ""), meta["name"])


def _revision(change: Change) -> int:
    return change.revision
