"""DELETE of one object or a collection: at once, gracefully, or when the last finalizer lets go."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from tgp.sim.apiserver.admission.namespaces import check_may_be_deleted
from tgp.sim.apiserver.core import Core, time_text
from tgp.sim.apiserver.json_value import Json, copied
from tgp.sim.apiserver.kinds.definitions import CLEANUP
from tgp.sim.apiserver.options import DeleteOptions
from tgp.sim.apiserver.registry import Served
from tgp.sim.apiserver.semantics import Grace, finalizers_for_deletion
from tgp.sim.apiserver.status_errors import not_found
from tgp.sim.apiserver.storage import StoredObject


@dataclass(frozen=True, slots=True)
class Removal:
    record: StoredObject  # the last state, or the state in which it waits for its end
    gone: bool
    status_only: bool  # answer with a Status rather than the object


def delete(core: Core, served: Served, namespace: str, name: str, options: DeleteOptions) -> Removal:
    check_may_be_deleted(served, name)
    existing = core.store.get(served.storage, namespace, name)
    if existing is None:
        raise not_found(served.group, served.plural, name)
    core.semantics.check_precondition(served, existing.obj, options)
    if _is_definition(served) and not options.dry_run:
        existing = _empty_definition(core, served, existing)
    status_only = not served.traits.returns_deleted
    grace = core.semantics.grace_for(served, existing.obj, options)
    if grace.pending:
        return Removal(existing, gone=False, status_only=status_only)
    obj = _ending(core, served, existing.obj, grace, options)
    if obj is None:
        return _remove(core, served, existing.obj, options, status_only=status_only)
    held = bool(obj["metadata"].get("finalizers"))
    if not held and grace.graceful and grace.seconds == 0:
        return _remove_marked(core, served, existing, obj, options, status_only=status_only)
    if core.semantics.is_unchanged(existing.obj, obj):
        return Removal(existing, gone=False, status_only=False)
    if options.dry_run:
        return Removal(StoredObject(obj, existing.revision), gone=False, status_only=False)
    return Removal(core.commit(served, obj), gone=False, status_only=False)


def _ending(core: Core, served: Served, stored: Json, grace: Grace, options: DeleteOptions) -> Json | None:
    """The object as it waits for its end; None: nothing holds it."""
    finalizers = finalizers_for_deletion(served, stored, options)
    holds = bool(finalizers) or _namespace_holds(served, stored)
    if not grace.graceful and not holds:
        return None
    obj: Json = copied(stored)
    meta = obj["metadata"]
    if finalizers:
        meta["finalizers"] = list(finalizers)
    else:
        meta.pop("finalizers", None)
    if grace.graceful:
        _mark_graceful(core, meta, grace)
    else:
        _mark_ending(core, meta, zero=not _is_namespace(served))
    if _is_namespace(served):
        obj["status"] = {**obj.get("status", {}), "phase": "Terminating"}
    return obj


def _mark_graceful(core: Core, meta: Json, grace: Grace) -> None:
    now = core.now()
    if "deletionTimestamp" in meta:
        began = _moment(meta["deletionTimestamp"]) - timedelta(seconds=meta.get("deletionGracePeriodSeconds") or 0)
        ends, seconds = began + timedelta(seconds=grace.seconds), grace.seconds
        if ends < now:
            ends, seconds = now, min(1, grace.seconds)
        meta["deletionTimestamp"], meta["deletionGracePeriodSeconds"] = time_text(ends), seconds
        return
    meta["deletionTimestamp"] = time_text(now + timedelta(seconds=grace.seconds))
    meta["deletionGracePeriodSeconds"] = grace.seconds
    if meta.get("generation", 0) > 0:
        meta["generation"] += 1


def _mark_ending(core: Core, meta: Json, *, zero: bool) -> None:
    if "deletionTimestamp" not in meta and meta.get("generation", 0) > 0:
        meta["generation"] += 1
    now = core.now()
    if "deletionTimestamp" not in meta or _moment(meta["deletionTimestamp"]) > now:
        meta["deletionTimestamp"] = time_text(now)
    if zero:
        meta["deletionGracePeriodSeconds"] = 0


def _is_definition(served: Served) -> bool:
    return served.kind == "CustomResourceDefinition" and not served.custom


def _empty_definition(core: Core, served: Served, existing: StoredObject) -> StoredObject:
    """Delete every object of the kind; while some stay, a finalizer of ours keeps the definition."""
    spec = existing.obj["spec"]
    plural, group = spec["names"]["plural"], spec["group"]
    kind = next((row for row in core.registry if row.group == group and row.plural == plural), None)
    kind_storage = core.store.kind_storage(f"{plural}.{group}")
    if kind is None or not kind_storage.records:
        return existing
    if CLEANUP not in existing.obj["metadata"].get("finalizers", []):
        obj: Json = copied(existing.obj)
        obj["metadata"].setdefault("finalizers", []).append(CLEANUP)
        existing = core.commit(served, obj)
    for _, record in list(kind_storage.range("")):
        meta = record.obj["metadata"]
        delete(core, kind, meta.get("namespace", ""), meta["name"], DeleteOptions())
    if not kind_storage.records:
        obj = copied(existing.obj)
        obj["metadata"]["finalizers"] = [name for name in obj["metadata"]["finalizers"] if name != CLEANUP]
        existing = core.commit(served, obj)
    return existing


def _is_namespace(served: Served) -> bool:
    return served.group == "" and served.kind == "Namespace"


def _namespace_holds(served: Served, obj: Json) -> bool:
    """A namespace is always marked first; then its contents are deleted, and its finalizer says when they are gone."""
    if not _is_namespace(served):
        return False
    return "deletionTimestamp" not in obj["metadata"] or bool(obj.get("spec", {}).get("finalizers"))


def _remove_marked(
    core: Core, served: Served, existing: StoredObject, obj: Json, options: DeleteOptions, *, status_only: bool
) -> Removal:
    """A graceful kind that is deleted at once is first marked, so that watchers see why, then removed."""
    if options.dry_run:
        return Removal(StoredObject(obj, existing.revision), gone=True, status_only=False)
    marked = core.commit(served, obj)
    return _remove(core, served, marked.obj, options, status_only=status_only)


def _remove(core: Core, served: Served, obj: Json, options: DeleteOptions, *, status_only: bool) -> Removal:
    if options.dry_run:
        return Removal(StoredObject(obj, int(obj["metadata"]["resourceVersion"])), gone=True, status_only=status_only)
    return Removal(core.discard(served, obj), gone=True, status_only=status_only)


def _moment(text: str) -> datetime:
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
