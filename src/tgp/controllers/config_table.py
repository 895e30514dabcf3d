"""A table kept in one ConfigMap of the operator's namespace, one line per entry. Only the leader writes."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from tgp.api.resource import CONFIG_MAP
from tgp.core.model.object_key import ObjectKey
from tgp.ports.cluster import AlreadyExists, Cluster, ClusterBusy, Conflict, NotFound

TRIES = 3  # against concurrent writes of the same object

E = TypeVar("E")


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

    async def entries(self) -> Mapping[str, E]:
        """As this process last wrote or read them: only the leader writes."""
        if self._held is None:
            async with self._one_at_a_time:
                if self._held is None:
                    await self._read()
        assert self._held is not None, "the table was just read"
        return self._held

    async def write(self, name: str, entry: E) -> None:
        async with self._one_at_a_time:
            (await self._write_line(name, self._line_of(entry)))[name] = entry

    async def drop(self, name: str) -> E | None:
        """The removed entry; None: there was none."""
        if name not in await self.entries():
            return None
        async with self._one_at_a_time:
            return (await self._write_line(name, None)).pop(name, None)

    async def _write_line(self, name: str, line: str | None) -> dict[str, E]:
        """Write one line; returns the entries as before the write."""
        for _ in range(TRIES):
            if self._held is None:
                await self._read()
            held, self._held = self._held, None  # until the write is known to have happened
            assert held is not None, "the table was just read"
            try:
                await self._put_or_restore(held, {name: line})
            except (Conflict, AlreadyExists, NotFound):
                continue
            self._held = held
            return held
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
