"""The book of what was made for machines to join: one ConfigMap, one line per machine, written before it is made."""

from collections.abc import Callable, Mapping

from tgp.controllers.config_table import ConfigTable
from tgp.core.model.boot_book import BOOK, Entry, line_of, read_line
from tgp.core.model.key import Key
from tgp.ports.cluster import Cluster


class BootBook:
    """Only the leader writes. Whatever ClusterError it raises: nothing is lost by asking the same again."""

    def __init__(
        self, cluster: Cluster, namespace: str, changed: Callable[[Entry], None] = lambda _entry: None
    ) -> None:
        self._table: ConfigTable[Entry] = ConfigTable(
            cluster, Key(namespace, BOOK), line_of=line_of, read_line=read_line
        )
        self._changed = changed

    async def entries(self) -> Mapping[str, Entry]:
        """By token, as this process last wrote or read them: nobody else writes while we lead."""
        return await self._table.entries()

    async def get(self, token: str) -> Entry | None:
        return (await self.entries()).get(token)

    async def write(self, entry: Entry) -> None:
        await self._table.write(entry.token, entry)
        self._changed(entry)

    async def drop(self, token: str) -> None:
        gone = await self._table.drop(token)
        if gone is not None:
            self._changed(gone)
