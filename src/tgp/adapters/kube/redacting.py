"""The writer through which no known secret passes into a status or an Event."""

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

from tgp.api.resource import Resource
from tgp.core.model.object_key import ObjectKey
from tgp.ports.cluster import Cluster, Written

READABLE_GROUPS = frozenset({"tgp.io", "events.k8s.io"})  # what users read; our own Secrets must keep their values
# Fields that the API server uses, no texts for users: masked, the object would be refused or be another one.
IDENTIFIERS = frozenset(
    {"apiVersion", "kind", "name", "namespace", "uid", "resourceVersion", "generateName", "type", "status", "reason"}
)


class RedactingCluster:
    """A `Cluster` around another one."""

    def __init__(self, inner: Cluster, redact: Callable[[str], str]) -> None:
        self._inner = inner
        self._redact = redact

    async def read(self, resource: Resource, key: ObjectKey) -> dict[str, Any]:
        return await self._inner.read(resource, key)

    async def create(self, resource: Resource, manifest: Mapping[str, Any]) -> Written:
        return await self._inner.create(resource, self._clean(resource, manifest))

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
        return await self._inner.patch(resource, key, clean, resource_version=resource_version, uid=uid)

    async def apply(self, resource: Resource, manifest: Mapping[str, Any], *, force: bool = False) -> Written:
        return await self._inner.apply(resource, self._clean(resource, manifest), force=force)

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
        clean = self._clean(resource, status)
        return await self._inner.write_status(
            resource, key, uid=uid, seen=seen, status=clean, resource_version=resource_version
        )

    async def delete(self, resource: Resource, key: ObjectKey, *, uid: str = "", resource_version: str = "") -> None:
        await self._inner.delete(resource, key, uid=uid, resource_version=resource_version)

    async def evict(self, pod: ObjectKey, *, uid: str, grace: timedelta | None = None) -> None:
        await self._inner.evict(pod, uid=uid, grace=grace)

    async def approve(
        self, name: str, *, uid: str, resource_version: str, approved: bool, reason: str, message: str
    ) -> Written:
        clean = self._redact(message)
        return await self._inner.approve(
            name, uid=uid, resource_version=resource_version, approved=approved, reason=reason, message=clean
        )

    async def version(self) -> str:
        return await self._inner.version()

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
