"""A table kept in one ConfigMap of the operator's namespace, one line per entry. Only the leader writes."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from tgp.api.resource import CONFIG_MAP
from tgp.core.model.object_key import ObjectKey
from tgp.ports.cluster import AlreadyExists, Cluster, ClusterBusy, ClusterError, Conflict, NotFound
from tgp.ports.leadership import NotLeading

TRIES = 3  # against concurrent writes of the same object

E = TypeVar("E")


@dataclass(slots=True)
class _Batch(Generic[E]):
    changes: dict[str, E | None] = field(default_factory=dict)  # None: the line is removed
    before: dict[str, E] = field(default_factory=dict)  # entries that the write replaced or removed
    written: bool = False
    error: ClusterError | NotLeading | None = None


class ConfigTable(Generic[E]):
    """After any ClusterError the same call may be repeated."""

    def __init__(
        self,
        cluster: Cluster,
        key: ObjectKey,
        *,
        line_of: Callable[[E], str],
        read_line: Callable[[object], E | None],
    ) -> None:
        self._cluster = cluster
        self._key = key
        self._line_of = line_of
        self._read_line = read_line
        self._one_at_a_time = asyncio.Lock()
        self._held: dict[str, E] | None = None  # None: not read yet, or not sure any more
        self._version = ""
        self._uid = ""
        self._next: _Batch[E] = _Batch()  # changes that wait for their write

    async def entries(self) -> Mapping[str, E]:
        """As this process last wrote or read them: only the leader writes."""
        if self._held is None:
            async with self._one_at_a_time:
                if self._held is None:
                    await self._read()
        assert self._held is not None, "the table was just read"
        return self._held

    async def write(self, name: str, entry: E) -> None:
        await self._change(name, entry)

    async def drop(self, name: str) -> E | None:
        """The removed entry; None: there was none."""
        if name not in await self.entries():
            return None
        return await self._change(name, None)

    async def _change(self, name: str, entry: E | None) -> E | None:
        """Changes that come while a write is under way are written together, by the first of their callers.

        Returns the entry as it was before.
        """
        batch = self._next
        batch.changes[name] = entry
        async with self._one_at_a_time:
            if self._next is batch:
                self._next = _Batch()
            if not batch.written and batch.error is None:  # also if the caller that began to write was cancelled
                try:
                    await self._write_lines(batch)
                except (ClusterError, NotLeading) as error:
                    batch.error = error
            if batch.error is not None:
                raise batch.error
            return batch.before.get(name)

    async def _write_lines(self, batch: "_Batch[E]") -> None:
        lines = {name: None if entry is None else self._line_of(entry) for name, entry in batch.changes.items()}
        for _ in range(TRIES):
            if self._held is None:
                await self._read()
            held, self._held = self._held, None  # until the write is known to have happened
            assert held is not None, "the table was just read"
            try:
                await self._put_or_restore(held, lines)
            except (Conflict, AlreadyExists, NotFound):
                continue
            for name, entry in batch.changes.items():
                before = held.pop(name, None)
                if before is not None:
                    batch.before[name] = before
                if entry is not None:
                    held[name] = entry
            self._held, batch.written = held, True
            return
        raise ClusterBusy(f"ConfigMap {self._key} was changed concurrently by another client; retrying.")

    async def _put_or_restore(self, held: Mapping[str, E], change: dict[str, str | None]) -> None:
        try:
            await self._put(change)
        except NotFound:  # it was deleted: only this process knows its content
            self._uid = ""
            await self._put({**{name: self._line_of(entry) for name, entry in held.items()}, **change})

    async def _put(self, change: dict[str, str | None]) -> None:
        if not self._uid:
            data = {name: line for name, line in change.items() if line is not None}
            labels = {"app.kubernetes.io/managed-by": "tgp-operator"}
            metadata = {"namespace": self._key.namespace, "name": self._key.name, "labels": labels}
            written = await self._cluster.create(CONFIG_MAP, {"metadata": metadata, "data": data})
        else:
            written = await self._cluster.patch(
                CONFIG_MAP, self._key, {"data": change}, resource_version=self._version, uid=self._uid
            )
        self._version, self._uid = written.resource_version, written.uid

    async def _read(self) -> None:
        try:
            found: dict[str, Any] = await self._cluster.read(CONFIG_MAP, self._key)
        except NotFound:
            self._held, self._version, self._uid = {}, "", ""
            return
        rows = ((name, self._read_line(line)) for name, line in (found.get("data") or {}).items())
        self._held = {name: entry for name, entry in rows if entry is not None}
        self._version, self._uid = str(found["metadata"]["resourceVersion"]), str(found["metadata"]["uid"])
