"""Remembers what machines of a type really had: in this process, and in a ConfigMap for the next one.

Nothing depends on the table: without it sizes are estimated from offers again.
"""

from collections.abc import Mapping
from datetime import datetime

from tgp.api.request import GPURequest
from tgp.controllers.config_table import ConfigTable
from tgp.controllers.requests.purchase_gatherer import Views
from tgp.core.model.facts import ShapeTableFailing
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.node import Node
from tgp.core.model.object_key import ObjectKey
from tgp.core.pools.machine_types import (
    SHAPES,
    MachineTypes,
    SeenShape,
    line_of,
    read_line,
    seen_shape,
    surplus,
    to_write,
)
from tgp.ports.clock import Clock
from tgp.ports.cluster import Cluster, ClusterError, Forbidden, Refused
from tgp.ports.journal import Journal


class ShapeTable:
    def __init__(self, cluster: Cluster, namespace: str, journal: Journal) -> None:
        self._key = ObjectKey(namespace, SHAPES)
        self._table: ConfigTable[SeenShape] = ConfigTable(
            cluster, self._key, line_of=line_of, read_line=self._read_line
        )
        self._journal = journal
        self._unreadable = 0  # lines
        self._told = False

    async def entries(self) -> Mapping[str, SeenShape]:
        """By name of the line; nothing, if the table cannot be read."""
        try:
            entries = await self._table.entries()
        except ClusterError as error:
            self._tell(str(error))
            return {}
        if self._unreadable:
            self._tell(f"{self._unreadable} of its lines are malformed")
        return entries

    async def keep(self, seen: SeenShape) -> None:
        """Raises ClusterError where another try may help. A table that tells the same already is not written."""
        try:
            if to_write(seen, await self._table.entries()):
                await self._table.write(seen.name, seen)
                for name in surplus(await self._table.entries()):
                    await self._table.drop(name)
        except (Forbidden, Refused) as error:  # a quota, a policy
            self._tell(str(error))

    def _read_line(self, line: object) -> SeenShape | None:
        seen = read_line(line)
        self._unreadable += seen is None
        return seen

    def _tell(self, why: str) -> None:
        if not self._told:
            self._journal.note(ShapeTableFailing(self._key, why))
        self._told = True


class MachineTypeReconciler:
    """Its keys are requests, of pools and of users."""

    def __init__(self, views: Views, *, types: MachineTypes, table: ShapeTable, clock: Clock) -> None:
        self._views = views
        self._types = types
        self._table = table
        self._since = clock.now()

    async def reconcile(self, key: ObjectKey) -> datetime | None:
        record = self._views.requests.get(key)
        if record is None:
            self._types.forget(key)
            return None
        self._types.count(record, self._since)
        seen = seen_shape(record, node_of(self._views, record))
        if seen is not None and seen.boot_seconds:
            await self._table.keep(seen)
        return None


def node_of(views: Views, record: KubeObject[GPURequest]) -> Node | None:
    name = record.value.status.node_name if record.value is not None else None
    return views.nodes.get(ObjectKey("", name)) if name else None
