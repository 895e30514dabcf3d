"""Garbage collection by owner references: in the background, in the foreground, or leaving orphans behind."""

import asyncio
from collections.abc import Iterable

from tgp.core.model.object_key import ObjectKey
from tgp.sim.apiserver.core import Core
from tgp.sim.apiserver.json_value import Json
from tgp.sim.apiserver.registry import Served
from tgp.sim.cluster.component_api import is_ending
from tgp.sim.cluster.controller import ClusterController, StoreCommit

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"


class GarbageCollector(ClusterController):
    """Keys are (storage, namespace/name): whatever may have lost an owner, or waits for its dependents."""

    name = "generic-garbage-collector"

    def __init__(self, core: Core, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(core, loop)
        self._kinds: dict[str, Served] = {}
        self._dependents: dict[str, dict[ObjectKey, None]] = {}  # by the owner's uid
        self._waiting: dict[str, ObjectKey] = {}  # owners held until their dependents are gone, by uid

    def concerns(self, commit: StoreCommit) -> Iterable[ObjectKey]:
        served, before, after = commit.served, commit.before, commit.after
        self._kinds[served.storage] = served
        key = _key(served, commit.obj)
        self._index(key, before, after)
        if after is None:
            owners = [owner for uid in _owner_uids(commit.obj) if (owner := self._waiting.get(uid)) is not None]
            return (*self._dependents.get(commit.obj["metadata"]["uid"], ()), *owners)
        if is_ending(after) and _waits(after):
            return (key,)
        changed = before is None or _owner_uids(before) != _owner_uids(after)
        return (key,) if changed and _owner_uids(after) else ()

    def _index(self, key: ObjectKey, before: Json | None, after: Json | None) -> None:
        old = _owner_uids(before) if before is not None else ()
        new = _owner_uids(after) if after is not None else ()
        for uid in old:
            if uid not in new:
                held = self._dependents.get(uid, {})
                held.pop(key, None)
                if not held:
                    self._dependents.pop(uid, None)
        for uid in new:
            self._dependents.setdefault(uid, {})[key] = None

    def reconcile(self, key: ObjectKey) -> float | None:
        served = self._kinds[key.namespace]
        obj = self._find(key)
        if obj is None:
            return None
        if is_ending(obj):
            finalizers = obj["metadata"].get("finalizers", ())
            if ORPHAN in finalizers:
                self._orphan(served, obj)
            elif FOREGROUND in finalizers:
                self._foreground(key, served, obj)
            return None
        self._check_owners(served, obj)
        return None

    def _find(self, key: ObjectKey) -> Json | None:
        record = self.api.core.store.kind_storage(key.namespace).records.get(key.name)
        return record.obj if record else None

    def _check_owners(self, served: Served, obj: Json) -> None:
        """Delete what has no owner left; forget owners that are gone while others stay."""
        references = obj["metadata"].get("ownerReferences") or []
        if not references:
            return
        standing = [(reference, self._owner(reference, obj)) for reference in references]
        solid = [reference for reference, owner in standing if owner is not None and not _goes_in_foreground(owner)]
        if solid:
            if len(solid) != len(references):
                self._keep_owners(served, obj, solid)
            return
        waited_for = any(owner is not None for _, owner in standing)
        has_dependents = bool(self._dependents.get(obj["metadata"]["uid"]))
        self.api.delete(
            served.resource, obj, propagation="Foreground" if waited_for and has_dependents else "Background"
        )

    def _owner(self, reference: Json, dependent: Json) -> Json | None:
        group, _, _ = reference["apiVersion"].rpartition("/")
        served = self.api.core.registry.by_kind(group, reference["kind"])
        if served is None:
            return None
        namespace = dependent["metadata"].get("namespace", "") if served.namespaced else ""
        record = self.api.core.store.get(served.storage, namespace, reference["name"])
        if record is None or record.obj["metadata"]["uid"] != reference["uid"]:
            return None
        return record.obj

    def _keep_owners(self, served: Served, obj: Json, kept: list[Json]) -> None:
        meta = obj["metadata"]

        def edit(changed: Json) -> None:
            if kept:
                changed["metadata"]["ownerReferences"] = kept
            else:
                changed["metadata"].pop("ownerReferences", None)

        self.api.edit(served.resource, meta.get("namespace", ""), meta["name"], edit)

    def _orphan(self, served: Served, obj: Json) -> None:
        uid = obj["metadata"]["uid"]
        for key in list(self._dependents.get(uid, ())):
            dependent = self._find(key)
            if dependent is not None:
                references = dependent["metadata"].get("ownerReferences") or []
                kept = [reference for reference in references if reference["uid"] != uid]
                self._keep_owners(self._kinds[key.namespace], dependent, kept)
        self._release(served, obj, ORPHAN)

    def _foreground(self, key: ObjectKey, served: Served, obj: Json) -> None:
        uid = obj["metadata"]["uid"]
        self._waiting[uid] = key
        blocking = 0
        for dependent_key in list(self._dependents.get(uid, ())):
            dependent = self._find(dependent_key)
            if dependent is None:
                continue
            if not is_ending(dependent):
                self._check_owners(self._kinds[dependent_key.namespace], dependent)
                dependent = self._find(dependent_key)
            if dependent is not None and _blocks(dependent, uid):
                blocking += 1
        if not blocking:
            self._waiting.pop(uid, None)
            self._release(served, obj, FOREGROUND)

    def _release(self, served: Served, obj: Json, finalizer: str) -> None:
        meta = obj["metadata"]

        def edit(changed: Json) -> None:
            changed["metadata"]["finalizers"] = [
                name for name in changed["metadata"].get("finalizers", ()) if name != finalizer
            ]

        self.api.edit(served.resource, meta.get("namespace", ""), meta["name"], edit)


def _key(served: Served, obj: Json) -> ObjectKey:
    meta = obj["metadata"]
    namespace = meta.get("namespace", "")
    return ObjectKey(served.storage, f"{namespace}/{meta['name']}" if namespace else meta["name"])


def _owner_uids(obj: Json) -> tuple[str, ...]:
    return tuple(reference["uid"] for reference in obj["metadata"].get("ownerReferences") or ())


def _waits(obj: Json) -> bool:
    finalizers = obj["metadata"].get("finalizers", ())
    return FOREGROUND in finalizers or ORPHAN in finalizers


def _goes_in_foreground(owner: Json) -> bool:
    return is_ending(owner) and FOREGROUND in owner["metadata"].get("finalizers", ())


def _blocks(dependent: Json, uid: str) -> bool:
    return any(
        reference["uid"] == uid and reference.get("blockOwnerDeletion")
        for reference in dependent["metadata"].get("ownerReferences") or ()
    )
