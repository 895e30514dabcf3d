"""The writer of a replica that only looks: it reads like any other, and drops every write."""

from typing import Any

from tgp.api.resource import Resource
from tgp.core.model.key import Key
from tgp.ports.cluster import Cluster, Written

NOT_SENT = Written("", "", 0, changed=False)


class ObservingCluster:
    """A `Cluster` that cannot change anything, whoever asks. `dropped` counts what it would have sent."""

    def __init__(self, inner: Cluster) -> None:
        self._inner = inner
        self.dropped = 0

    async def read(self, resource: Resource, key: Key) -> dict[str, Any]:
        return await self._inner.read(resource, key)

    async def create(self, *_what: object, **_how: object) -> Written:
        return self._drop()

    async def patch(self, *_what: object, **_how: object) -> Written:
        return self._drop()

    async def apply(self, *_what: object, **_how: object) -> Written:
        return self._drop()

    async def write_status(self, *_what: object, **_how: object) -> Written:
        return self._drop()

    async def delete(self, *_what: object, **_how: object) -> None:
        self._drop()

    async def evict(self, *_what: object, **_how: object) -> None:
        self._drop()

    def _drop(self) -> Written:
        self.dropped += 1
        return NOT_SENT


class SilentEvents:
    """Events of a replica that only looks: the log has them, the cluster is told nothing."""

    def emit(self, *_what: object, **_how: object) -> None:
        pass
