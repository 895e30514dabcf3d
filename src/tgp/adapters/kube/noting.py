"""The writer that remembers: every write that went through is noted in the views it will show up in."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Protocol

from tgp.api.resource import CERTIFICATE_SIGNING_REQUEST, POD, Resource
from tgp.core.model.key import Key
from tgp.ports.cluster import Cluster, Written


class Notes(Protocol):
    """The side of a store that hears of our own writes."""

    def note_write(self, key: Key, resource_version: str) -> None: ...

    def note_delete(self, key: Key, uid: str) -> None: ...


class NotingCluster:
    """A `Cluster` around another one. A write that failed, or may have happened, notes nothing."""

    def __init__(self, inner: Cluster, views: Mapping[Resource, tuple[Notes, ...]]) -> None:
        self._inner = inner
        self._views = views

    async def read(self, resource: Resource, key: Key) -> dict[str, Any]:
        return await self._inner.read(resource, key)

    async def create(self, resource: Resource, manifest: Mapping[str, Any]) -> Written:
        return self._noted(resource, _key(manifest), await self._inner.create(resource, manifest))

    async def patch(
        self, resource: Resource, key: Key, change: Mapping[str, Any], *, resource_version: str = "", uid: str = ""
    ) -> Written:
        written = await self._inner.patch(resource, key, change, resource_version=resource_version, uid=uid)
        return self._noted(resource, key, written)

    async def apply(self, resource: Resource, manifest: Mapping[str, Any], *, force: bool = False) -> Written:
        return self._noted(resource, _key(manifest), await self._inner.apply(resource, manifest, force=force))

    async def write_status(
        self,
        resource: Resource,
        key: Key,
        *,
        uid: str,
        seen: Mapping[str, Any],
        status: Mapping[str, Any],
        resource_version: str = "",
    ) -> Written:
        written = await self._inner.write_status(
            resource, key, uid=uid, seen=seen, status=status, resource_version=resource_version
        )
        return self._noted(resource, key, written)

    async def delete(self, resource: Resource, key: Key, *, uid: str = "", resource_version: str = "") -> None:
        await self._inner.delete(resource, key, uid=uid, resource_version=resource_version)
        self._noted_end(resource, key, uid)

    async def evict(self, pod: Key, *, uid: str, grace: timedelta | None = None) -> None:
        await self._inner.evict(pod, uid=uid, grace=grace)
        self._noted_end(POD, pod, uid)

    async def approve(
        self, name: str, *, uid: str, resource_version: str, approved: bool, reason: str, message: str
    ) -> Written:
        written = await self._inner.approve(
            name, uid=uid, resource_version=resource_version, approved=approved, reason=reason, message=message
        )
        return self._noted(CERTIFICATE_SIGNING_REQUEST, Key("", name), written)

    async def version(self) -> str:
        return await self._inner.version()

    def _noted(self, resource: Resource, key: Key | None, written: Written) -> Written:
        if key is not None:
            for view in self._views.get(resource, ()):
                view.note_write(key, written.resource_version)
        return written

    def _noted_end(self, resource: Resource, key: Key, uid: str) -> None:
        for view in self._views.get(resource, ()):
            view.note_delete(key, uid)


def _key(manifest: Mapping[str, Any]) -> Key | None:
    """None: the server makes the name up (generateName), so nobody can be waiting for it."""
    meta = manifest.get("metadata", {})
    name = meta.get("name", "")
    return Key(meta.get("namespace", ""), name) if name else None
