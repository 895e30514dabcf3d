"""The last check before an order: read from the API server that the caches are current.

A watch may have stopped unnoticed. Deleting a request, suspending its class or `tgp hold` stops the purchase as soon as
the API server accepted it, and not only when a cache shows it.
"""

from tgp.api.resource import GPU_NODE_CLASS, GPU_REQUEST, NAMESPACE, Resource
from tgp.controllers.requests.purchase_gatherer import Views
from tgp.core.classes.default_class import IMPLICIT
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.record import ObjectRecord, uid_text
from tgp.ports.cluster import Cluster, ClusterBusy, NotFound, View


class FreshReadCheck:
    def __init__(self, views: Views, cluster: Cluster, *, home: str) -> None:
        self._views = views
        self._cluster = cluster
        self._home = ObjectKey("", home)  # the operator's own namespace: `tgp hold` annotates it

    async def confirm(self, request: ObjectKey, node_class: str) -> None:
        """Raises ClusterBusy while a cache is behind; the request comes last, as it changes most often."""
        await self._confirm(self._views.namespaces, NAMESPACE, self._home)
        if node_class != IMPLICIT:  # no object exists for it
            await self._confirm(self._views.classes, GPU_NODE_CLASS, ObjectKey("", node_class))
        await self._confirm(self._views.requests, GPU_REQUEST, request)

    async def _confirm(self, view: View[ObjectRecord], resource: Resource, key: ObjectKey) -> None:
        """Only the cached version will do: a newer one has changes, and a lower one belongs to another history."""
        try:
            found = (await self._cluster.read(resource, key))["metadata"]
        except NotFound:
            found = None
        seen = view.get(key)
        current = (str(found["uid"]), int(found["resourceVersion"])) if found is not None else None
        if current != ((uid_text(seen.uid), seen.resource_version) if seen is not None else None):
            raise ClusterBusy(f"Cache is behind the API server for {resource.kind} {key.name}; retrying before launch.")
