"""Writing what a machine cost, before the request that paid for it may go.

An entry is written once: a turn that is taken again finds it and does nothing. Pages are filled one after the other; a
page that is full, frozen or on its way out is left as it is and the next one is taken. What others wrote into a page
stays.
"""

import asyncio
from typing import Any

from tgp.api.resource import CONFIG_MAP
from tgp.core.model.key import Key
from tgp.core.model.spend import SPEND_LABEL, Entry, has_room, line_of, own_page_name, page_name, read_line
from tgp.ports.cluster import Cluster, NotFound, Refused

MOST_PAGES = 256  # a month: some 90,000 machines; what comes after gets a page of its own each


class Books:
    """Whatever ClusterError it raises: nothing is lost by asking the same again."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._one_at_a_time = asyncio.Lock()  # or else turns that end machines at once would refuse each other
        self._open = ("", 1)  # the month last written to, and the first of its pages that had room

    async def enter(self, entry: Entry) -> None:
        """Returns once the API server holds a line for this machine, ours or one that somebody corrected."""
        async with self._one_at_a_time:
            month, first = self._open
            for number in range(first if month == entry.month else 1, MOST_PAGES + 1):
                if await self._entered(page_name(entry.month, number), entry):
                    self._open = (entry.month, number)
                    return
            self._open = (entry.month, MOST_PAGES + 1)
            if not await self._entered(own_page_name(entry), entry):
                raise Refused(f"ConfigMap {own_page_name(entry)} takes no line: what the machine cost is not written")

    async def _entered(self, name: str, entry: Entry) -> bool:
        """False: there is no room on this page."""
        key = Key(self._namespace, name)
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
        except Refused:  # larger than it looked, or somebody's policy
            return False
        return True

    def _page(self, name: str, entry: Entry) -> dict[str, Any]:
        labels = {SPEND_LABEL: entry.month, "app.kubernetes.io/managed-by": "tgp-operator"}
        metadata = {"namespace": self._namespace, "name": name, "labels": labels}
        return {"metadata": metadata, "data": {entry.key: line_of(entry)}}
