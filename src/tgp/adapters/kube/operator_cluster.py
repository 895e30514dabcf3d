"""The operator's writer, around the client. It does three things to what passes:

* No known secret gets into a status, an Event or a verdict that users read.
* Every successful write is recorded in the caches that will show it. A read compares with them: an object with a lower
  version than the one held at the call, or a conflict about such an object, shows that the API server's history went
  back.
* With --observe nothing is sent. A status that would have been written is shown in our own cache instead, so that one
  verdict can build on another.
"""

from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from typing import Any, Protocol

import msgspec

from tgp.adapters.kube.store import Store
from tgp.api.resource import CERTIFICATE_SIGNING_REQUEST, GPU_NODE_CLASS, GPU_REQUEST, NODE, POD, Resource
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.record import ObjectRecord
from tgp.ports.cluster import Cluster, ClusterError, Conflict, NotFound, Written

READABLE_GROUPS = frozenset({"tgp.io", "events.k8s.io"})  # what users read; our own Secrets must keep their values
# Fields that the API server uses, no texts for users: masked, the object would be refused or be another one.
IDENTIFIERS = frozenset(
    {"apiVersion", "kind", "name", "namespace", "uid", "resourceVersion", "generateName", "type", "status", "reason"}
)
NOT_SENT = Written("", "", 0, changed=False)
# Kinds that the operator's role may get one by one; a history that went back shows in each of them.
READ_AFTER_CONFLICT = frozenset({GPU_REQUEST, GPU_NODE_CLASS, NODE})


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


def _as_it_is(text: str) -> str:
    return text


class OperatorCluster:
    """A `Cluster` around another one. A write that failed, or may have happened, notes nothing.

    `shown` None: writes are sent. Otherwise none is, `dropped` counts them, and a status that was not written is
    shown in the cache of its kind, if there is one.
    """

    def __init__(
        self,
        inner: Cluster,
        views: Mapping[Resource, tuple[OwnWrites, ...]],
        contradictions: Contradictions = _Unheard(),  # noqa: B008 - has no state
        *,
        redact: Callable[[str], str] = _as_it_is,
        shown: Mapping[Resource, Store[Any]] | None = None,
    ) -> None:
        self._inner = inner
        self._views = views
        self._contradictions = contradictions
        self._redact = redact
        self._shown = shown
        self.dropped = 0

    async def read(self, resource: Resource, key: ObjectKey) -> dict[str, Any]:
        held = max((seen.resource_version for seen in self._seen(resource, key)), default=0)
        fresh = await self._inner.read(resource, key)
        if _version(fresh) < held:
            self._contradictions.went_back(f"{resource.kind} {key} has version {_version(fresh)}; {held} was seen")
        return fresh

    async def create(self, resource: Resource, manifest: Mapping[str, Any]) -> Written:
        clean = self._clean(resource, manifest)
        return await self._write(resource, _key(manifest), lambda: self._inner.create(resource, clean))

    async def patch(
        self,
        resource: Resource,
        key: ObjectKey,
        change: Mapping[str, Any],
        *,
        resource_version: str = "",
        uid: str = "",
    ) -> Written:
        clean = self._clean(resource, change)
        return await self._write(
            resource,
            key,
            lambda: self._inner.patch(resource, key, clean, resource_version=resource_version, uid=uid),
            resource_version=resource_version,
            uid=uid,
        )

    async def apply(self, resource: Resource, manifest: Mapping[str, Any], *, force: bool = False) -> Written:
        clean = self._clean(resource, manifest)
        return await self._write(resource, _key(manifest), lambda: self._inner.apply(resource, clean, force=force))

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
        if self._shown is not None and resource in self._shown:
            self._shown[resource].overlay(key, lambda held: _with_status(held, status))
        clean = self._clean(resource, status)
        return await self._write(
            resource,
            key,
            lambda: self._inner.write_status(
                resource, key, uid=uid, seen=seen, status=clean, resource_version=resource_version
            ),
            resource_version=resource_version,
            uid=uid,
        )

    async def delete(self, resource: Resource, key: ObjectKey, *, uid: str = "", resource_version: str = "") -> None:
        await self._remove(
            resource,
            key,
            lambda: self._inner.delete(resource, key, uid=uid, resource_version=resource_version),
            resource_version=resource_version,
            uid=uid,
        )

    async def evict(self, pod: ObjectKey, *, uid: str, grace: timedelta | None = None) -> None:
        await self._remove(POD, pod, lambda: self._inner.evict(pod, uid=uid, grace=grace), uid=uid)

    async def approve(
        self, name: str, *, uid: str, resource_version: str, approved: bool, reason: str, message: str
    ) -> Written:
        clean = self._redact(message)
        return await self._write(
            CERTIFICATE_SIGNING_REQUEST,
            ObjectKey("", name),
            lambda: self._inner.approve(
                name, uid=uid, resource_version=resource_version, approved=approved, reason=reason, message=clean
            ),
        )

    async def version(self) -> str:
        return await self._inner.version()

    async def groups(self) -> frozenset[str]:
        return await self._inner.groups()

    async def _write(
        self,
        resource: Resource,
        key: ObjectKey | None,
        send: Callable[[], Awaitable[Written]],
        *,
        resource_version: str = "",
        uid: str = "",
    ) -> Written:
        if self._shown is not None:
            return self._drop()
        try:
            written = await send()
        except Conflict:
            await self._explain(resource, key, resource_version, uid)
            raise
        if key is not None:
            for view in self._views.get(resource, ()):
                view.note_write(key, written.resource_version)
        return written

    async def _remove(
        self,
        resource: Resource,
        key: ObjectKey,
        send: Callable[[], Awaitable[None]],
        *,
        resource_version: str = "",
        uid: str,
    ) -> None:
        if self._shown is not None:
            self._drop()
            return
        try:
            await send()
        except Conflict:
            await self._explain(resource, key, resource_version, uid)
            raise
        for view in self._views.get(resource, ()):
            view.note_delete(key, uid)

    def _drop(self) -> Written:
        self.dropped += 1
        return NOT_SENT

    def _seen(self, resource: Resource, key: ObjectKey) -> list[ObjectRecord]:
        return [seen for view in self._views.get(resource, ()) if (seen := view.get(key)) is not None]

    async def _explain(self, resource: Resource, key: ObjectKey | None, resource_version: str, uid: str) -> None:
        """A conflict is ordinary if another client wrote since. If none did, no watch will ever show it."""
        if key is None or resource not in READ_AFTER_CONFLICT or not resource_version.isdigit():
            return
        try:
            fresh = await self._inner.read(resource, key)
        except NotFound:
            self._contradictions.replaced(resource)
            return
        except ClusterError:
            return
        if _version(fresh) < int(resource_version):
            why = f"{resource.kind} {key} has version {_version(fresh)}; {int(resource_version)} was seen"
            self._contradictions.went_back(why)
        elif uid and fresh["metadata"].get("uid") != uid:
            self._contradictions.replaced(resource)

    def _clean(self, resource: Resource, value: Mapping[str, Any]) -> Mapping[str, Any]:
        if resource.group not in READABLE_GROUPS and resource.kind != "Event":
            return value
        clean: Mapping[str, Any] = self._cleaned(value)
        return clean

    def _cleaned(self, value: Any) -> Any:
        """Only string values: a secret that is an ordinary word must not change field names or other values."""
        match value:
            case str():
                return self._redact(value)
            case Mapping():
                return {name: self._field(name, each) for name, each in value.items()}
            case list() | tuple():
                return [self._cleaned(each) for each in value]
            case _:
                return value

    def _field(self, name: Any, value: Any) -> Any:
        return value if name in IDENTIFIERS and isinstance(value, str) else self._cleaned(value)


def _version(found: Mapping[str, Any]) -> int:
    told = str(found["metadata"].get("resourceVersion", ""))
    return int(told) if told.isascii() and told.isdigit() else 0


def _key(manifest: Mapping[str, Any]) -> ObjectKey | None:
    """None: the server makes the name up (generateName), so no caller can be waiting for it."""
    meta = manifest.get("metadata", {})
    name = meta.get("name", "")
    return ObjectKey(meta.get("namespace", ""), name) if name else None


def _with_status(held: Any, status: Mapping[str, Any]) -> Any:
    """The record as if the API server held this status."""
    document = msgspec.json.encode(status)
    value = held.value
    if value is not None:
        read = msgspec.json.decode(document, type=type(value.status))
        value = msgspec.structs.replace(value, status=read)
    return msgspec.structs.replace(held, status_document=document, value=value)
