"""Join records: what was made for machines to join. One ConfigMap, one entry per machine, written before."""

from collections.abc import Callable, Mapping

from tgp.controllers.config_table import ConfigTable
from tgp.core.model.join_record import JOIN_RECORDS, JoinRecord, line_of, read_line
from tgp.core.model.object_key import ObjectKey
from tgp.ports.cluster import Cluster


class JoinRecords:
    """Only the leader writes. After a ClusterError the same call can be repeated."""

    def __init__(
        self, cluster: Cluster, namespace: str, changed: Callable[[JoinRecord], None] = lambda _entry: None
    ) -> None:
        self._table: ConfigTable[JoinRecord] = ConfigTable(
            cluster, ObjectKey(namespace, JOIN_RECORDS), line_of=line_of, read_line=read_line
        )
        self._changed = changed

    async def entries(self) -> Mapping[str, JoinRecord]:
        """By token, as this process last wrote or read them: only the leader writes."""
        return await self._table.entries()

    async def get(self, token: str) -> JoinRecord | None:
        return (await self.entries()).get(token)

    async def write(self, entry: JoinRecord) -> None:
        await self._table.write(entry.token, entry)
        self._changed(entry)

    async def drop(self, token: str) -> None:
        gone = await self._table.drop(token)
        if gone is not None:
            self._changed(gone)
