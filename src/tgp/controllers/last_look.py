"""The last look before money leaves: the API server itself is asked whether the views show what stands there.

A watch may have fallen silent unnoticed. Whoever deletes a request, suspends its class or says `tgp hold` has stopped
the purchase once the API server said yes, and not only once some view has heard of it.
"""

from tgp.api.resource import GPU_NODE_CLASS, GPU_REQUEST, NAMESPACE, Resource
from tgp.controllers.request_sight import Views
from tgp.core.model.key import Key
from tgp.core.model.record import Record, uid_text
from tgp.core.rules.default_class import IMPLICIT
from tgp.ports.cluster import Cluster, ClusterBusy, NotFound, View


class LastLook:
    def __init__(self, views: Views, cluster: Cluster, *, home: str) -> None:
        self._views = views
        self._cluster = cluster
        self._home = Key("", home)  # the operator's own namespace: the brake is there

    async def confirm(self, request: Key, node_class: str) -> None:
        """Raises ClusterBusy while a view is behind; the request comes last, as others write it most often."""
        await self._confirm(self._views.namespaces, NAMESPACE, self._home)
        if node_class != IMPLICIT:  # which nobody wrote
            await self._confirm(self._views.classes, GPU_NODE_CLASS, Key("", node_class))
        await self._confirm(self._views.requests, GPU_REQUEST, request)

    async def _confirm(self, view: View[Record], resource: Resource, key: Key) -> None:
        """Only the version that is held will do: a newer one says more, and a lower one is another history's."""
        try:
            found = (await self._cluster.read(resource, key))["metadata"]
        except NotFound:
            found = None
        seen = view.get(key)
        stands = (str(found["uid"]), int(found["resourceVersion"])) if found is not None else None
        if stands != ((uid_text(seen.uid), seen.resource_version) if seen is not None else None):
            raise ClusterBusy(f"nothing is ordered yet: the view does not show {resource.kind} {key.name} as it is")
