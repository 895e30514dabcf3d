"""The `Cluster` port over the Kubernetes API: one method, one request."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any, TypeVar

import msgspec

from tgp.adapters.kube.errors import error_for, meant_another_object
from tgp.adapters.kube.events import CORE_EVENT
from tgp.api.resource import CERTIFICATE_SIGNING_REQUEST, EVENT, LEASE, NAMESPACE, POD, Resource
from tgp.core.model.backoff import doubled
from tgp.core.model.identity import KUBE_SYSTEM, cluster_id
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.token_bucket import TokenBucket, TokenRate
from tgp.ports.cluster import Cluster, ClusterBusy, Conflict, NotFound, WriteUnknown, Written
from tgp.ports.entropy import Entropy
from tgp.ports.http import Call, Http, NeverLeft, NoAnswer, Pairs, Reply, UnreadableReply
from tgp.ports.leadership import Fence, NotLeading

FIELD_MANAGER = "tgp-operator"
MERGE_PATCH = "application/merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"  # JSON is YAML

# Besides the server's own fairness. A thousand machines at once are some ten thousand calls, and must take minutes.
REQUESTS = TokenRate(per_second=200.0, burst=400)
READ_TRIES = 3
FIRST_PAUSE = timedelta(milliseconds=250)  # between tries, doubled, with jitter
LONGEST_PAUSE = timedelta(seconds=5)  # a longer Retry-After is passed on as ClusterBusy.retry_after

T = TypeVar("T")

_AS_JSON: Pairs = (("Accept", "application/json"),)
_MANAGED: Pairs = (("fieldManager", FIELD_MANAGER),)

# A candidate writes the first, and Events are always allowed.
UNFENCED = frozenset({LEASE, EVENT, CORE_EVENT})
UNPACED = frozenset({LEASE})  # a renewal must not wait behind a burst of ordinary requests


class KubeCluster:
    """Sends a write once and never retries it; reads are tried a few times."""

    def __init__(
        self,
        http: Http,
        entropy: Entropy,
        *,
        fence: Fence | None = None,  # None: this process needs no leadership (the command line)
        pace: TokenRate = REQUESTS,
    ) -> None:
        self._http = http
        self._entropy = entropy
        self._fence = fence
        self._bucket = TokenBucket(pace)

    async def read(self, resource: Resource, key: ObjectKey) -> dict[str, Any]:
        call = Call("GET", resource.path(*key), headers=_AS_JSON)
        return await self._read(resource, call, f"reading {resource.kind} {key}", _object)

    async def create(self, resource: Resource, manifest: Mapping[str, Any]) -> Written:
        metadata = manifest.get("metadata", {})
        key = ObjectKey(metadata.get("namespace", "") if resource.namespaced else "", metadata.get("name", ""))
        assert key.namespace or not resource.namespaced, f"a {resource.kind} is made in a namespace"
        body = {"apiVersion": resource.api_version, "kind": resource.kind, **manifest}
        call = _changing("POST", resource.path(key.namespace), body, "application/json", _MANAGED)
        return await self._write(resource, call, f"creating {resource.kind} {key}")

    async def patch(
        self,
        resource: Resource,
        key: ObjectKey,
        change: Mapping[str, Any],
        *,
        resource_version: str = "",
        uid: str = "",
    ) -> Written:
        body = _expecting(change, resource_version, uid)
        call = _changing("PATCH", resource.path(*key), body, MERGE_PATCH, _MANAGED)
        written = await self._write(resource, call, f"patching {resource.kind} {key}")
        if resource_version and written.resource_version == resource_version:
            return Written(written.resource_version, written.uid, written.generation, changed=False)
        return written

    async def apply(self, resource: Resource, manifest: Mapping[str, Any], *, force: bool = False) -> Written:
        metadata = manifest["metadata"]
        key = ObjectKey(metadata.get("namespace", "") if resource.namespaced else "", metadata["name"])
        body = {"apiVersion": resource.api_version, "kind": resource.kind, **manifest}
        query = (*_MANAGED, ("force", "true")) if force else _MANAGED
        call = _changing("PATCH", resource.path(*key), body, APPLY_PATCH, query)
        return await self._write(resource, call, f"applying {resource.kind} {key}")

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
        change = difference(seen, status)
        if not change:
            return Written("", uid, 0, changed=False)
        body = _expecting({"status": change}, resource_version, uid)
        call = _changing("PATCH", resource.path(*key, "status"), body, MERGE_PATCH, _MANAGED)
        return await self._write(resource, call, f"writing the status of {resource.kind} {key}")

    async def delete(self, resource: Resource, key: ObjectKey, *, uid: str = "", resource_version: str = "") -> None:
        body: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        if expected := _preconditions(uid, resource_version):
            body["preconditions"] = expected
        call = _changing("DELETE", resource.path(*key), body, "application/json", ())
        try:
            await self._acknowledged(resource, call, f"deleting {resource.kind} {key}")
        except NotFound:
            return  # gone is what was wanted

    async def evict(self, pod: ObjectKey, *, uid: str, grace: timedelta | None = None) -> None:
        options: dict[str, Any] = {"preconditions": {"uid": uid}}
        if grace is not None:
            options["gracePeriodSeconds"] = max(0, int(grace.total_seconds()))
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"namespace": pod.namespace, "name": pod.name},
            "deleteOptions": options,
        }
        call = _changing("POST", POD.path(*pod, "eviction"), body, "application/json", ())
        try:
            await self._acknowledged(POD, call, f"evicting Pod {pod}")
        except NotFound:
            return
        except Conflict as error:
            if not meant_another_object(error):
                raise

    async def approve(
        self, name: str, *, uid: str, resource_version: str, approved: bool, reason: str, message: str
    ) -> Written:
        assert uid, "a verdict is about one request"
        assert resource_version, "a verdict is about the request that was seen"
        kind = "Approved" if approved else "Denied"
        condition = {"type": kind, "status": "True", "reason": reason, "message": message}
        body = _expecting({"status": {"conditions": [condition]}}, resource_version, uid)
        resource = CERTIFICATE_SIGNING_REQUEST
        call = _changing("PATCH", resource.path("", name, "approval"), body, MERGE_PATCH, _MANAGED)
        what = f"{'approving' if approved else 'denying'} {resource.kind} {name}"
        return await self._write(resource, call, what)

    async def version(self) -> str:
        call = Call("GET", "/version", headers=_AS_JSON)
        return await self._read(None, call, "asking for the API server's version", _git_version)

    async def groups(self) -> frozenset[str]:
        call = Call("GET", "/apis", headers=_AS_JSON)
        return await self._read(None, call, "asking for the API server's groups", _group_names)

    async def _read(self, resource: Resource | None, call: Call, what: str, read: Callable[[Reply], T]) -> T:
        for failures in range(1, READ_TRIES):
            try:
                return await self._read_once(resource, call, what, read)
            except ClusterBusy as error:
                if error.retry_after is not None and error.retry_after > LONGEST_PAUSE:
                    raise
                await asyncio.sleep(self._pause(failures, error.retry_after))
        return await self._read_once(resource, call, what, read)

    async def _read_once(self, resource: Resource | None, call: Call, what: str, read: Callable[[Reply], T]) -> T:
        await self._in_turn(resource)
        try:
            reply = await self._http.send(call)
        except (NeverLeft, NoAnswer) as error:
            raise ClusterBusy(f"{what}: {error}") from error
        if not reply.ok:
            raise error_for(reply, what, changes=False)
        try:
            return read(reply)
        except UnreadableReply as error:
            raise ClusterBusy(f"{what}: answered {reply.status}, but {error}") from error

    async def _write(self, resource: Resource, call: Call, what: str) -> Written:
        reply = await self._send_change(resource, call, what)
        try:
            return _written(_object(reply))
        except UnreadableReply as error:
            raise WriteUnknown(f"{what}: answered {reply.status}, but {error}") from error

    async def _acknowledged(self, resource: Resource, call: Call, what: str) -> None:
        """For verbs that answer with a Status or with the object; a proxy's error page is neither."""
        reply = await self._send_change(resource, call, what)
        if not reply.text("kind"):
            raise WriteUnknown(f"{what}: answered {reply.status}, but not with a Kubernetes object")

    async def _send_change(self, resource: Resource, call: Call, what: str) -> Reply:
        await self._in_turn(resource)
        call = self._fenced(resource, call, what)
        try:
            reply = await self._http.send(call)
        except NeverLeft as error:
            raise ClusterBusy(f"{what}: {error}") from error
        except NoAnswer as error:
            raise WriteUnknown(f"{what}: {error}") from error
        if not reply.ok:
            raise error_for(reply, what, changes=True)
        return reply

    async def _in_turn(self, resource: Resource | None) -> None:
        if resource not in UNPACED:
            wait = self._bucket.book(asyncio.get_running_loop().time())
            if wait > 0:
                await asyncio.sleep(wait)  # cancelled, it has used its token

    def _fenced(self, resource: Resource, call: Call, what: str) -> Call:
        """The same call, valid only while we lead."""
        if self._fence is None or resource in UNFENCED:
            return call
        deadline = self._fence.deadline()
        if deadline is None:
            raise NotLeading(f"{what}: this replica does not lead")
        return replace(call, not_after=deadline)

    def _pause(self, failures: int, asked: timedelta | None) -> float:
        wait = max(doubled(FIRST_PAUSE, failures, LONGEST_PAUSE), asked or timedelta())
        return wait.total_seconds() * (1 + self._entropy.jitter() / 2)


async def read_cluster_id(cluster: Cluster) -> str:
    """Of the cluster behind it, as the API server says now."""
    found = await cluster.read(NAMESPACE, KUBE_SYSTEM)
    return cluster_id(str(found["metadata"].get("uid", "")))


def _changing(method: str, path: str, body: Mapping[str, Any], content_type: str, query: Pairs) -> Call:
    headers = (("Content-Type", content_type), ("Accept", "application/json"))
    return Call(method, path, query=query, headers=headers, body=msgspec.json.encode(body))


def _expecting(change: Mapping[str, Any], resource_version: str, uid: str) -> dict[str, Any]:
    """The patch with its preconditions: the server compares, and refuses if they differ."""
    expected = _preconditions(uid, resource_version)
    return {**change, "metadata": {**change.get("metadata", {}), **expected}} if expected else dict(change)


def _preconditions(uid: str, resource_version: str) -> dict[str, str]:
    return {name: value for name, value in (("uid", uid), ("resourceVersion", resource_version)) if value}


def _object(reply: Reply) -> dict[str, Any]:
    body = reply.json()
    if not isinstance(body, dict) or not isinstance(body.get("metadata"), dict):
        raise UnreadableReply("the body is not a Kubernetes object")
    return body


def _git_version(reply: Reply) -> str:
    body = reply.json()
    found = body.get("gitVersion") if isinstance(body, dict) else None
    if not isinstance(found, str) or not found:
        raise UnreadableReply("the body has no gitVersion")
    return found


def _group_names(reply: Reply) -> frozenset[str]:
    body = reply.json()
    groups = body.get("groups") if isinstance(body, dict) else None
    names = [each.get("name") for each in groups if isinstance(each, dict)] if isinstance(groups, list) else []
    if not names:
        raise UnreadableReply("the body has no groups")
    return frozenset(name for name in names if isinstance(name, str))


def _written(stored: Mapping[str, Any]) -> Written:
    metadata = stored["metadata"]
    version, uid, generation = metadata.get("resourceVersion"), metadata.get("uid"), metadata.get("generation", 0)
    if not isinstance(version, str) or not version or not isinstance(uid, str) or not isinstance(generation, int):
        raise UnreadableReply("the object has no uid or resourceVersion")
    return Written(version, uid, generation, changed=True)


def difference(seen: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """The smallest merge patch from `seen` to `wanted`; empty: no difference.

    A None in either means "not there": a merge patch cannot write one. Lists are replaced whole. Numbers are compared
    as JSON does (1 is 1.0), but a boolean is never a number.
    """
    patch: dict[str, Any] = {}
    for name in sorted(seen.keys() | wanted.keys()):
        old, new = seen.get(name), wanted.get(name)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            if inner := difference(old, new):
                patch[name] = inner
        elif not same(old, new):
            patch[name] = _without_none(new)
    return patch


def same(left: Any, right: Any) -> bool:
    """Equal as JSON documents, None inside an object meaning "not there"."""
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return not difference(left, right)
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(same(a, b) for a, b in zip(left, right, strict=True))
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    return bool(left == right)


def _without_none(value: Any) -> Any:
    """As it would be stored. Inside a patch a None would not be stored but remove something."""
    if isinstance(value, Mapping):
        return {name: _without_none(inner) for name, inner in value.items() if inner is not None}
    if isinstance(value, list | tuple):
        return [_without_none(inner) for inner in value]
    return value
