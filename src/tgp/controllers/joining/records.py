"""Join records: what was made for machines to join. One ConfigMap, one entry per machine, written before."""

from collections.abc import Mapping

from tgp.controllers.config_table import ConfigTable
from tgp.core.model.join_record import JOIN_RECORDS, JoinRecord, line_of, read_line
from tgp.core.model.object_key import ObjectKey
from tgp.ports.cluster import Cluster

REMEMBERED = 1000


class JoinRecords:
    """Only the leader writes. After a ClusterError the same call can be repeated."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self._table: ConfigTable[JoinRecord] = ConfigTable(
            cluster, ObjectKey(namespace, JOIN_RECORDS), line_of=line_of, read_line=read_line
        )
        self._dropped: dict[str, None] = {}  # the newest REMEMBERED tokens whose record this process dropped

    async def entries(self) -> Mapping[str, JoinRecord]:
        """By token, as this process last wrote or read them: only the leader writes."""
        return await self._table.entries()

    async def get(self, token: str) -> JoinRecord | None:
        return (await self.entries()).get(token)

    async def begin(self, entry: JoinRecord) -> None:
        """Write the record of a machine that is about to be ordered."""
        self._dropped.pop(entry.token, None)
        await self._table.write(entry.token, entry)

    async def update(self, entry: JoinRecord) -> None:
        """Write the record again, unless it was dropped: its machine may have been terminated while we looked at it."""
        if entry.token in self._dropped:
            return
        await self._table.write(entry.token, entry)
        if entry.token in self._dropped:  # meanwhile
            await self._table.drop(entry.token)

    async def drop(self, token: str) -> None:
        self._dropped[token] = None
        if len(self._dropped) > REMEMBERED:
            del self._dropped[next(iter(self._dropped))]
        await self._table.drop(token)
