"""Records what a machine cost, before its request may be deleted.

An entry is written once: a repeated reconcile finds it and does nothing. Pages (ConfigMaps) are filled one after the
other; a page that is full, immutable or being deleted is skipped. What other clients wrote into a page stays.
"""

import asyncio
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from tgp.adapters.kube.event_channel import LocalCache
from tgp.api.resource import CONFIG_MAP
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.spend import (
    SPEND_LABEL,
    MachineEnd,
    SpendEntry,
    end_of,
    entries,
    has_room,
    line_of,
    month_of,
    own_page_name,
    page_name,
    read_line,
)
from tgp.ports.cluster import Cluster, NotFound, Refused

RECENT_PAGES = 16  # of a month, that are read to know what happened lately
MOST_PAGES = 256  # a month: some 90,000 machines; each further one gets its own page


class SpendLog:
    """After any ClusterError the same call may be repeated. `ends`: is told of every entry written or read here."""

    def __init__(self, cluster: Cluster, namespace: str, ends: LocalCache[MachineEnd] | None = None) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._ends = ends
        self._one_at_a_time = asyncio.Lock()  # or concurrent reconciles would conflict with each other
        self._open = ("", 1)  # the month last written to, and the first of its pages that had room

    async def enter(self, entry: SpendEntry) -> None:
        """Returns once the API server holds a line for this machine, ours or one that a user corrected."""
        await self._enter(entry)
        self._tell((entry,))

    async def _enter(self, entry: SpendEntry) -> None:
        async with self._one_at_a_time:
            month, first = self._open
            for number in range(first if month == entry.month else 1, MOST_PAGES + 1):
                if await self._entered(page_name(entry.month, number), entry):
                    self._open = (entry.month, number)
                    return
            self._open = (entry.month, MOST_PAGES + 1)
            if not await self._entered(own_page_name(entry), entry):
                raise Refused(
                    f"ConfigMap {own_page_name(entry)} accepts no entry; the cost of the machine is not recorded"
                )

    async def recent(self, now: datetime) -> tuple[SpendEntry, ...]:
        """Of this month and the one before, as far as RECENT_PAGES go."""
        return await self.of_months((month_of(now.replace(day=1) - timedelta(days=1)), month_of(now)))

    async def of_months(self, months: Iterable[str]) -> tuple[SpendEntry, ...]:
        """Machines that ended in these months, as far as RECENT_PAGES of each go."""
        pages = []
        for month in months:
            for number in range(1, RECENT_PAGES + 1):
                try:
                    pages.append(
                        await self._cluster.read(CONFIG_MAP, ObjectKey(self._namespace, page_name(month, number)))
                    )
                except NotFound:
                    break
        found = entries(pages)
        self._tell(found)
        return found

    def _tell(self, found: Iterable[SpendEntry]) -> None:
        if self._ends is None:
            return
        for entry in found:
            self._ends.store.put(end_of(entry, self._ends.next_version()))

    async def _entered(self, name: str, entry: SpendEntry) -> bool:
        """False: there is no room on this page."""
        key = ObjectKey(self._namespace, name)
        try:
            page = await self._cluster.read(CONFIG_MAP, key)
        except NotFound:
            await self._cluster.create(CONFIG_MAP, self._page(name, entry))
            return True
        data = page.get("data") or {}
        if read_line(entry.key, data.get(entry.key)) is not None:
            return True
        metadata = page["metadata"]
        if page.get("immutable") or "deletionTimestamp" in metadata or not has_room(data, entry):
            return False
        change = {"metadata": {"labels": {SPEND_LABEL: entry.month}}, "data": {entry.key: line_of(entry)}}
        version = str(metadata["resourceVersion"])
        try:
            await self._cluster.patch(CONFIG_MAP, key, change, resource_version=version, uid=str(metadata["uid"]))
        except Refused:  # larger than computed, or a policy
            return False
        return True

    def _page(self, name: str, entry: SpendEntry) -> dict[str, Any]:
        labels = {SPEND_LABEL: entry.month, "app.kubernetes.io/managed-by": "tgp-operator"}
        metadata = {"namespace": self._namespace, "name": name, "labels": labels}
        return {"metadata": metadata, "data": {entry.key: line_of(entry)}}
