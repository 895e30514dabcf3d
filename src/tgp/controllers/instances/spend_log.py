"""Records what a machine cost, before its request may be deleted.

An entry is written once: a repeated reconcile finds it and does nothing. Pages (ConfigMaps) are filled one after the
other; a page that is full, immutable or being deleted is skipped. What other clients wrote into a page stays.
"""

import asyncio
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from tgp.api.resource import CONFIG_MAP
from tgp.controllers.instances.machine_ends import MachineEnds
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.spend import (
    SPEND_LABEL,
    SpendEntry,
    entries,
    has_room,
    line_of,
    month_before,
    month_of,
    own_page_name,
    page_name,
    read_line,
)
from tgp.ports.cluster import Cluster, NotFound, Refused

RECENT_PAGES = 16  # of a month, that are read to know what happened lately
TOLD_AT_ONCE = 256  # ends that are told before the event loop may go on: some 2 ms
MOST_PAGES = 256  # a month: some 90,000 machines; each further one gets its own page


class SpendLog:
    """After any ClusterError the same call may be repeated. `ends`: is told of every entry written or read here."""

    def __init__(self, cluster: Cluster, namespace: str, ends: MachineEnds | None = None) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._ends = ends
        self._one_at_a_time = asyncio.Lock()  # or concurrent reconciles would conflict with each other
        self._open = ("", 1)  # the month last written to, and the first of its pages that had room

    async def enter(self, entry: SpendEntry) -> None:
        """Returns once the API server holds a line for this machine, ours or one that a user corrected."""
        held = await self._enter(entry)
        if self._ends is not None:
            self._ends.tell(held)
            self._ends.drop_before(month_before(entry.ended))

    async def _enter(self, entry: SpendEntry) -> SpendEntry:
        """The line that the API server holds."""
        async with self._one_at_a_time:
            month, first = self._open
            for number in range(first if month == entry.month else 1, MOST_PAGES + 1):
                if (held := await self._entered(page_name(entry.month, number), entry)) is not None:
                    self._open = (entry.month, number)
                    return held
            self._open = (entry.month, MOST_PAGES + 1)
            if (held := await self._entered(own_page_name(entry), entry)) is None:
                raise Refused(
                    f"ConfigMap {own_page_name(entry)} accepts no entry; the cost of the machine is not recorded"
                )
            return held

    async def recent(self, now: datetime) -> tuple[SpendEntry, ...]:
        """Of this month and the one before, as far as RECENT_PAGES go."""
        found = await self.of_months((month_before(now), month_of(now)))
        if self._ends is not None:
            self._ends.drop_before(month_before(now))
        return found

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
        if self._ends is not None:
            for number, entry in enumerate(found):
                if number % TOLD_AT_ONCE == 0:
                    await asyncio.sleep(0)
                self._ends.tell(entry)
        return found

    async def _entered(self, name: str, entry: SpendEntry) -> SpendEntry | None:
        """The line for this machine on this page, once it is there; None: there is no room."""
        key = ObjectKey(self._namespace, name)
        try:
            page = await self._cluster.read(CONFIG_MAP, key)
        except NotFound:
            await self._cluster.create(CONFIG_MAP, self._page(name, entry))
            return entry
        data = page.get("data") or {}
        if (held := read_line(entry.key, data.get(entry.key))) is not None:
            return held
        metadata = page["metadata"]
        if page.get("immutable") or "deletionTimestamp" in metadata or not has_room(data, entry):
            return None
        change = {"metadata": {"labels": {SPEND_LABEL: entry.month}}, "data": {entry.key: line_of(entry)}}
        version = str(metadata["resourceVersion"])
        try:
            await self._cluster.patch(CONFIG_MAP, key, change, resource_version=version, uid=str(metadata["uid"]))
        except Refused:  # larger than computed, or a policy
            return None
        return entry

    def _page(self, name: str, entry: SpendEntry) -> dict[str, Any]:
        labels = {SPEND_LABEL: entry.month, "app.kubernetes.io/managed-by": "tgp-operator"}
        metadata = {"namespace": self._namespace, "name": name, "labels": labels}
        return {"metadata": metadata, "data": {entry.key: line_of(entry)}}
