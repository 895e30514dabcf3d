"""The writer of an operator with --observe: it reads like any other, and drops every write.

A status it would have written is shown in its own cache instead, so that one verdict can build on another.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from tgp.adapters.kube.store import Store
from tgp.api.resource import Resource
from tgp.core.model.object_key import ObjectKey
from tgp.ports.cluster import Cluster, Written

NOT_SENT = Written("", "", 0, changed=False)


class DryRunCluster:
    """A `Cluster` that cannot change anything. `dropped` counts what it would have sent."""

    def __init__(self, inner: Cluster, views: Mapping[Resource, Store[Any]] = MappingProxyType({})) -> None:
        self._inner = inner
        self._views = views
        self.dropped = 0

    async def read(self, resource: Resource, key: ObjectKey) -> dict[str, Any]:
        return await self._inner.read(resource, key)

    async def create(self, *_what: object, **_how: object) -> Written:
        return self._drop()

    async def patch(self, *_what: object, **_how: object) -> Written:
        return self._drop()

    async def apply(self, *_what: object, **_how: object) -> Written:
        return self._drop()

    async def write_status(
        self, resource: Resource, key: ObjectKey, *, status: Mapping[str, Any], **_how: object
    ) -> Written:
        document = msgspec.json.encode(status)
        if resource in self._views:
            self._views[resource].overlay(key, lambda held: msgspec.structs.replace(held, status_document=document))
        return self._drop()

    async def delete(self, *_what: object, **_how: object) -> None:
        self._drop()

    async def evict(self, *_what: object, **_how: object) -> None:
        self._drop()

    async def approve(self, *_what: object, **_how: object) -> Written:
        return self._drop()

    async def version(self) -> str:
        return await self._inner.version()

    def _drop(self) -> Written:
        self.dropped += 1
        return NOT_SENT


class SilentEvents:
    """Events of an operator with --observe: logged, not sent to the cluster."""

    def emit(self, *_what: object, **_how: object) -> None:
        pass
