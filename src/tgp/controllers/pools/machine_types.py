"""Remembers what machines of a type really had: in this process, and in a ConfigMap for the next one.

Without the table sizes are estimated from offers again.
"""

from datetime import datetime
from typing import TypeAlias

from tgp.controllers.pools.remembered_table import RememberedTable
from tgp.controllers.requests.indexes import own_node
from tgp.controllers.requests.purchase_gatherer import Views
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
from tgp.ports.cluster import Cluster
from tgp.ports.journal import Journal

ShapeTable: TypeAlias = RememberedTable[SeenShape]


def shape_table(cluster: Cluster, namespace: str, journal: Journal) -> ShapeTable:
    return RememberedTable(cluster, ObjectKey(namespace, SHAPES), journal, line_of=line_of, read_line=read_line)


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
        seen = seen_shape(record, own_node(self._views.nodes, record))
        if seen is not None and seen.boot_seconds:
            await self._keep(seen)
        return None

    async def _keep(self, seen: SeenShape) -> None:
        """A table that tells the same already is not written."""
        if to_write(seen, await self._table.entries()):
            await self._table.keep(seen.name, seen)
            await self._table.drop(surplus(await self._table.entries()))
