"""What the orphan collector asks the API server itself, because a cache may be behind or empty."""

from typing import Protocol

from tgp.adapters.kube.event_channel import Caches
from tgp.adapters.kube.store import Store
from tgp.api.request import GPURequest
from tgp.api.resource import GPU_REQUEST, NAMESPACE
from tgp.core.inventory.orphan_evidence import ServerState
from tgp.core.model.identity import KUBE_SYSTEM
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.token import plain_uid
from tgp.ports.cluster import Cluster, ClusterError, NotFound


class Evidence(Protocol):
    """What the API server itself says of requests."""

    async def refresh(self) -> None:
        """Return when the cache shows a list of requests that was begun after this call. Raises ClusterError."""

    async def exists(self, key: ObjectKey, uid: str) -> bool:
        """Whether a request of this name and uid exists, or may exist."""

    async def server(self) -> ServerState | None:
        """Right after `refresh`: whose answer it was. None: it cannot be asked."""


class ServerEvidence:
    def __init__(self, cluster: Cluster, caches: Caches, requests: Store[KubeObject[GPURequest]]) -> None:
        self._cluster = cluster
        self._caches = caches
        self._requests = requests

    async def refresh(self) -> None:
        await self._caches.list_again(self._requests)

    async def exists(self, key: ObjectKey, uid: str) -> bool:
        try:
            found = await self._cluster.read(GPU_REQUEST, key)
        except NotFound:
            return False
        except ClusterError:
            return True
        return plain_uid(str(found["metadata"]["uid"])) == uid

    async def server(self) -> ServerState | None:
        """The revision is that of the fresh list."""
        try:
            home = await self._cluster.read(NAMESPACE, KUBE_SYSTEM)
        except ClusterError:
            return None
        return ServerState(str(home["metadata"]["uid"]), self._requests.version)
