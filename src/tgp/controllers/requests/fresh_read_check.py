"""The last check before an order: read from the API server that the caches are current.

A watch may have stopped unnoticed. Deleting a request, suspending its class or `tgp hold` stops the purchase as soon as
the API server accepted it, and not only when a cache shows it.

The request is read for each order. Its class and the operator's Namespace are read once a second for all orders
together. An order is valid for a few seconds counted from the oldest of these reads, and not from the check: sharing
makes no order valid for longer than reading everything for itself would. So a suspension or a hold stops every order
but those whose reads were under way: they have that second, and the time of the other reads and of a new connection.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from tgp.api.resource import GPU_NODE_CLASS, GPU_REQUEST, NAMESPACE, Resource
from tgp.controllers.requests.purchase_gatherer import Views
from tgp.core.classes.default_class import IMPLICIT
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.record import ObjectRecord, uid_text
from tgp.ports.cluster import Cluster, ClusterBusy, NotFound, View

SHARED_FOR = 1.0  # seconds, from the start of a read


@dataclass(frozen=True, slots=True)
class _SharedRead:
    began: float  # Clock.boottime
    task: "asyncio.Task[tuple[str, int] | None]"  # uid and version that cache and API server agree on; None: not there


class FreshReadCheck:
    def __init__(self, views: Views, cluster: Cluster, *, home: str, boottime: Callable[[], float]) -> None:
        self._views = views
        self._cluster = cluster
        self._home = ObjectKey("", home)  # the operator's own namespace: `tgp hold` annotates it
        self._boottime = boottime
        self._shared: dict[tuple[Resource, ObjectKey], _SharedRead] = {}  # one per class, and one

    async def confirm(self, request: ObjectKey, node_class: str) -> float:
        """When the oldest of the reads began. Raises ClusterBusy while a cache is behind.

        The request comes last, as it changes most often.
        """
        began = await self._confirm_shared(self._views.namespaces, NAMESPACE, self._home)
        if node_class != IMPLICIT:  # no object exists for it
            found = await self._confirm_shared(self._views.classes, GPU_NODE_CLASS, ObjectKey("", node_class))
            began = min(began, found)
        await self._confirm(self._views.requests, GPU_REQUEST, request)
        return began

    async def _confirm_shared(self, view: View[ObjectRecord], resource: Resource, key: ObjectKey) -> float:
        """A read that began within the last second will do, while the cache has not gone back since."""
        known = self._shared.get((resource, key))
        if known is None or self._boottime() - known.began >= SHARED_FOR:
            known = self._shared[resource, key] = _SharedRead(
                self._boottime(), asyncio.create_task(self._confirm(view, resource, key), name="fresh read")
            )
            known.task.add_done_callback(lambda task: self._forget_failure(resource, key, task))
        agreed = await asyncio.shield(known.task)
        if not _continues(agreed, view.get(key)):
            raise _behind(resource, key)
        return known.began

    def _forget_failure(self, resource: Resource, key: ObjectKey, task: "asyncio.Task[tuple[str, int] | None]") -> None:
        """Only orders that waited for it fail with it: the next one reads again."""
        known = self._shared.get((resource, key))
        if (task.cancelled() or task.exception() is not None) and known is not None and known.task is task:
            del self._shared[resource, key]

    async def _confirm(self, view: View[ObjectRecord], resource: Resource, key: ObjectKey) -> tuple[str, int] | None:
        """Only the cached version will do: a newer one has changes, and a lower one belongs to another history."""
        try:
            found = (await self._cluster.read(resource, key))["metadata"]
        except NotFound:
            found = None
        seen = view.get(key)
        current = (str(found["uid"]), int(found["resourceVersion"])) if found is not None else None
        if current != ((uid_text(seen.uid), seen.resource_version) if seen is not None else None):
            raise _behind(resource, key)
        return current


def _continues(agreed: tuple[str, int] | None, seen: ObjectRecord | None) -> bool:
    """The cache shows what was agreed on, or what a watch has reported of the same object since."""
    if agreed is None or seen is None:
        return agreed is None and seen is None
    return uid_text(seen.uid) == agreed[0] and seen.resource_version >= agreed[1]


def _behind(resource: Resource, key: ObjectKey) -> ClusterBusy:
    return ClusterBusy(f"Cache is behind the API server for {resource.kind} {key.name}; retrying before launch.")
