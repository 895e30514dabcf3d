"""A writer that records every successful write in the caches that will show it.

And a reader that compares: an object with a lower version than the one held at the call, or a conflict
about such an object, shows that the API server's history went back.
"""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, Protocol

from tgp.api.resource import CERTIFICATE_SIGNING_REQUEST, POD, Resource
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.record import ObjectRecord
from tgp.ports.cluster import Cluster, ClusterError, Conflict, NotFound, Written


class OwnWrites(Protocol):
    """The side of a store that gets our own writes."""

    def note_write(self, key: ObjectKey, resource_version: str) -> None: ...

    def note_delete(self, key: ObjectKey, uid: str) -> None: ...

    def get(self, key: ObjectKey) -> ObjectRecord | None: ...


class Contradictions(Protocol):
    """Called when the API server shows something else than the cache, and no watch will report it."""

    def went_back(self, why: str) -> None:
        """An object has a lower version than the one held."""

    def replaced(self, resource: Resource) -> None:
        """An object of this kind is another one than the one held, or gone."""


class _Unheard:
    def went_back(self, why: str) -> None:
        pass

    def replaced(self, resource: Resource) -> None:
        pass


class WriteTrackingCluster:
    """A `Cluster` around another one. A write that failed, or may have happened, notes nothing."""

    def __init__(
        self,
        inner: Cluster,
        views: Mapping[Resource, tuple[OwnWrites, ...]],
        contradictions: Contradictions = _Unheard(),  # noqa: B008 - has no state
    ) -> None:
        self._inner = inner
        self._views = views
        self._contradictions = contradictions

    async def read(self, resource: Resource, key: ObjectKey) -> dict[str, Any]:
        held = max((seen.resource_version for seen in self._seen(resource, key)), default=0)
        fresh = await self._inner.read(resource, key)
        if _version(fresh) < held:
            self._contradictions.went_back(f"{resource.kind} {key} has version {_version(fresh)}; {held} was seen")
        return fresh

    async def create(self, resource: Resource, manifest: Mapping[str, Any]) -> Written:
        return self._noted(resource, _key(manifest), await self._inner.create(resource, manifest))

    async def patch(
        self,
        resource: Resource,
        key: ObjectKey,
        change: Mapping[str, Any],
        *,
        resource_version: str = "",
        uid: str = "",
    ) -> Written:
        async with self._explained(resource, key, resource_version, uid):
            written = await self._inner.patch(resource, key, change, resource_version=resource_version, uid=uid)
        return self._noted(resource, key, written)

    async def apply(self, resource: Resource, manifest: Mapping[str, Any], *, force: bool = False) -> Written:
        return self._noted(resource, _key(manifest), await self._inner.apply(resource, manifest, force=force))

    async def write_status(
        self,
        resource: Resource,
        key: ObjectKey,
        *,
        uid: str,
        seen: Mapping[str, Any],
        status: Mapping[str, Any],
        resource_version: str = "",
    ) -> Written:
        async with self._explained(resource, key, resource_version, uid):
            written = await self._inner.write_status(
                resource, key, uid=uid, seen=seen, status=status, resource_version=resource_version
            )
        return self._noted(resource, key, written)

    async def delete(self, resource: Resource, key: ObjectKey, *, uid: str = "", resource_version: str = "") -> None:
        async with self._explained(resource, key, resource_version, uid):
            await self._inner.delete(resource, key, uid=uid, resource_version=resource_version)
        self._noted_end(resource, key, uid)

    async def evict(self, pod: ObjectKey, *, uid: str, grace: timedelta | None = None) -> None:
        await self._inner.evict(pod, uid=uid, grace=grace)
        self._noted_end(POD, pod, uid)

    async def approve(
        self, name: str, *, uid: str, resource_version: str, approved: bool, reason: str, message: str
    ) -> Written:
        written = await self._inner.approve(
            name, uid=uid, resource_version=resource_version, approved=approved, reason=reason, message=message
        )
        return self._noted(CERTIFICATE_SIGNING_REQUEST, ObjectKey("", name), written)

    async def version(self) -> str:
        return await self._inner.version()

    def _seen(self, resource: Resource, key: ObjectKey) -> list[ObjectRecord]:
        return [seen for view in self._views.get(resource, ()) if (seen := view.get(key)) is not None]

    @asynccontextmanager
    async def _explained(
        self, resource: Resource, key: ObjectKey, resource_version: str, uid: str
    ) -> AsyncIterator[None]:
        """A conflict is ordinary if another client wrote since. If none did, no watch will ever show it."""
        try:
            yield
        except Conflict:
            if resource in self._views and resource_version.isdigit():
                await self._explain(resource, key, int(resource_version), uid)
            raise

    async def _explain(self, resource: Resource, key: ObjectKey, expected: int, uid: str) -> None:
        try:
            fresh = await self._inner.read(resource, key)
        except NotFound:
            self._contradictions.replaced(resource)
            return
        except ClusterError:
            return
        if _version(fresh) < expected:
            why = f"{resource.kind} {key} has version {_version(fresh)}; {expected} was seen"
            self._contradictions.went_back(why)
        elif uid and fresh["metadata"].get("uid") != uid:
            self._contradictions.replaced(resource)

    def _noted(self, resource: Resource, key: ObjectKey | None, written: Written) -> Written:
        if key is not None:
            for view in self._views.get(resource, ()):
                view.note_write(key, written.resource_version)
        return written

    def _noted_end(self, resource: Resource, key: ObjectKey, uid: str) -> None:
        for view in self._views.get(resource, ()):
            view.note_delete(key, uid)


def _version(found: Mapping[str, Any]) -> int:
    told = str(found["metadata"].get("resourceVersion", ""))
    return int(told) if told.isascii() and told.isdigit() else 0


def _key(manifest: Mapping[str, Any]) -> ObjectKey | None:
    """None: the server makes the name up (generateName), so no caller can be waiting for it."""
    meta = manifest.get("metadata", {})
    name = meta.get("name", "")
    return ObjectKey(meta.get("namespace", ""), name) if name else None
