"""The book of what was made for machines to join: one ConfigMap, one line per machine, written before it is made."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from tgp.api.resource import CONFIG_MAP
from tgp.core.model.boot_book import BOOK, Entry, line_of, read_line
from tgp.core.model.key import Key
from tgp.ports.cluster import AlreadyExists, Cluster, ClusterBusy, Conflict, NotFound

TRIES = 3  # against whoever writes the same object


class BootBook:
    """Only the leader writes. Whatever ClusterError it raises: nothing is lost by asking the same again."""

    def __init__(
        self, cluster: Cluster, namespace: str, changed: Callable[[Entry], None] = lambda _entry: None
    ) -> None:
        self._cluster = cluster
        self._key = Key(namespace, BOOK)
        self._changed = changed
        self._one_at_a_time = asyncio.Lock()
        self._held: dict[str, Entry] | None = None  # None: not read yet, or not sure any more
        self._version = ""
        self._uid = ""

    async def entries(self) -> Mapping[str, Entry]:
        """As this process last wrote or read them: nobody else writes while we lead."""
        if self._held is None:
            async with self._one_at_a_time:
                if self._held is None:
                    await self._read()
        assert self._held is not None, "it was read just now"
        return self._held

    async def get(self, token: str) -> Entry | None:
        return (await self.entries()).get(token)

    async def write(self, entry: Entry) -> None:
        async with self._one_at_a_time:
            (await self._put_down(entry.token, line_of(entry)))[entry.token] = entry
        self._changed(entry)

    async def drop(self, token: str) -> None:
        if token not in await self.entries():
            return
        async with self._one_at_a_time:
            gone = (await self._put_down(token, None)).pop(token, None)
        if gone is not None:
            self._changed(gone)

    async def _put_down(self, token: str, line: str | None) -> dict[str, Entry]:
        """One line, on paper; what is held then, as it was before."""
        for _ in range(TRIES):
            if self._held is None:
                await self._read()
            held, self._held = self._held, None  # until the write is known to have happened
            assert held is not None, "it was read just now"
            try:
                await self._put_or_restore(held, {token: line})
            except (Conflict, AlreadyExists, NotFound):
                continue
            self._held = held
            return held
        raise ClusterBusy(f"ConfigMap {self._key} is being written by somebody else")

    async def _put_or_restore(self, held: Mapping[str, Entry], change: dict[str, str | None]) -> None:
        try:
            await self._put(change)
        except NotFound:  # somebody deleted it: what it said is known here, and nowhere else
            self._uid = ""
            await self._put({**{token: line_of(entry) for token, entry in held.items()}, **change})

    async def _put(self, change: dict[str, str | None]) -> None:
        if not self._uid:
            data = {token: line for token, line in change.items() if line is not None}
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
        entries = (read_line(line) for line in (found.get("data") or {}).values())
        self._held = {entry.token: entry for entry in entries if entry is not None}
        self._version, self._uid = str(found["metadata"]["resourceVersion"]), str(found["metadata"]["uid"])
