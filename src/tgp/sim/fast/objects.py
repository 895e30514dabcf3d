"""The objects of a cluster, kept in memory under the API server's rules, without its wire.

One revision for everything; writes that are conditional on it; a status that is written apart; finalizers that hold an
object that is being deleted. Objects are shared and never changed in place.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias
from uuid import UUID

import msgspec

from tgp.api.resource import Resource
from tgp.api.values import rfc3339
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.record import ObjectRecord
from tgp.ports.clock import Clock
from tgp.ports.cluster import AlreadyExists, Conflict, NotFound
from tgp.sim.apiserver.json_value import Json
from tgp.sim.apiserver.patch.merge import merge_patched
from tgp.sim.entropy import stream

Reader: TypeAlias = Callable[[bytes], ObjectRecord]  # an object as it is on the wire → what a view holds of it


@dataclass(frozen=True, slots=True)
class FastCommit:
    resource: Resource
    key: ObjectKey
    version: int
    before: Json | None  # None: it was made
    after: Json | None  # None: it is gone
    record: (
        ObjectRecord | None
    )  # what views hold of it, of one that is gone its last state; None: its kind is not watched


Hearer: TypeAlias = Callable[[FastCommit], None]


class Objects:
    def __init__(self, clock: Clock, seed: int | str) -> None:
        self.version = 0
        self.readers: dict[Resource, Reader] = {}  # of the kinds that are watched
        self._clock = clock
        self._luck = stream(seed, "objects")
        self._kinds: dict[Resource, dict[ObjectKey, Json]] = {}
        self._records: dict[Resource, dict[ObjectKey, ObjectRecord]] = {}
        self._hearers: dict[Resource | None, dict[Hearer, None]] = {}

    # -- reading -------------------------------------------------------------------------------------------------------

    def get(self, resource: Resource, key: ObjectKey) -> Json | None:
        return self._kinds.get(resource, {}).get(key)

    def all(self, resource: Resource) -> list[Json]:
        return list(self._kinds.get(resource, {}).values())

    def records(self, resource: Resource) -> dict[ObjectKey, ObjectRecord]:
        """What a list shows now."""
        return dict(self._records.get(resource, {}))

    def listen(self, resource: Resource | None, hearer: Hearer) -> None:
        """Hear of each commit, of one kind or of all."""
        self._hearers.setdefault(resource, {})[hearer] = None

    def leave(self, resource: Resource | None, hearer: Hearer) -> None:
        self._hearers.get(resource, {}).pop(hearer, None)

    # -- writing -------------------------------------------------------------------------------------------------------

    def create(self, resource: Resource, manifest: Mapping[str, Any]) -> Json:
        meta = manifest["metadata"]
        key = ObjectKey(meta.get("namespace", ""), meta["name"])
        if self.get(resource, key) is not None:
            raise AlreadyExists(f"there is a {resource.kind} {key} already")
        made: Json = {
            **manifest,
            "metadata": {
                **meta,
                "uid": str(UUID(int=self._luck.getrandbits(128), version=4)),
                "creationTimestamp": self._now(),
                "generation": 1,
            },
        }
        return self._commit(resource, key, None, made)

    def patch(
        self,
        resource: Resource,
        key: ObjectKey,
        change: Mapping[str, Any],
        *,
        resource_version: str = "",
        uid: str = "",
        status: bool = False,
    ) -> Json:
        """A merge patch of the object, or of its status alone. What changes nothing is no commit."""
        before = self._expected(resource, key, uid, resource_version)
        if status:
            after = {**before, "status": merge_patched(before.get("status"), change.get("status", {}))}
        else:
            after = merge_patched(before, {name: part for name, part in change.items() if name != "status"})
        return self._store(resource, key, before, after)

    def replace(self, resource: Resource, key: ObjectKey, change: Mapping[str, Any]) -> Json:
        """A merge patch of everything at once, status included: for those who live beside the API server."""
        before = self._expected(resource, key, "", "")
        return self._store(resource, key, before, merge_patched(before, change))

    def _store(self, resource: Resource, key: ObjectKey, before: Json, after: Json) -> Json:
        if after == before:
            return before
        meta = after["metadata"]
        if after.get("spec") != before.get("spec"):
            meta = {**meta, "generation": meta["generation"] + 1}
        if "deletionTimestamp" in meta and not meta.get("finalizers"):
            return self._commit(resource, key, before, None, last={**after, "metadata": meta})
        return self._commit(resource, key, before, {**after, "metadata": meta})

    def delete(self, resource: Resource, key: ObjectKey, *, uid: str = "", resource_version: str = "") -> None:
        before = self._expected(resource, key, uid, resource_version)
        meta = before["metadata"]
        if not meta.get("finalizers"):
            self._commit(resource, key, before, None)
        elif "deletionTimestamp" not in meta:
            self._commit(resource, key, before, {**before, "metadata": {**meta, "deletionTimestamp": self._now()}})

    def _expected(self, resource: Resource, key: ObjectKey, uid: str, resource_version: str) -> Json:
        found = self.get(resource, key)
        if found is None:
            raise NotFound(f"there is no {resource.kind} {key}")
        meta = found["metadata"]
        if (uid and uid != meta["uid"]) or (resource_version and resource_version != meta["resourceVersion"]):
            raise Conflict(f"{resource.kind} {key} is not what it was")
        return found

    def _commit(
        self, resource: Resource, key: ObjectKey, before: Json | None, after: Json | None, *, last: Json | None = None
    ) -> Json:
        self.version += 1
        stored = after or last or before
        assert stored is not None, "a commit is about something"
        stored = {**stored, "metadata": {**stored["metadata"], "resourceVersion": str(self.version)}}
        reader = self.readers.get(resource)
        record = reader(msgspec.json.encode(stored)) if reader is not None else None
        if after is None:
            del self._kinds[resource][key]
            self._records.get(resource, {}).pop(key, None)
        else:
            self._kinds.setdefault(resource, {})[key] = stored
            if record is not None:
                self._records.setdefault(resource, {})[key] = record
        commit = FastCommit(resource, key, self.version, before, None if after is None else stored, record)
        for hearer in (*self._hearers.get(resource, ()), *self._hearers.get(None, ())):
            hearer(commit)
        return stored

    def _now(self) -> str:
        return rfc3339(self._clock.now().replace(microsecond=0))
