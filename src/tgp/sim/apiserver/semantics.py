"""The decisions that make this an API server, one method each.

They are gathered here so that each can be read alone, tested alone, and replaced alone by a test that wants to know
whether a client would notice.
"""

from dataclasses import dataclass

from tgp.sim.apiserver.json_value import Json, at, list_at, same
from tgp.sim.apiserver.options import DeleteOptions
from tgp.sim.apiserver.problems import forbidden_field, invalid_value
from tgp.sim.apiserver.registry import Served
from tgp.sim.apiserver.status_errors import Cause, conflict, invalid

IMMUTABLE = "field is immutable"
DEFAULT_GRACE_SECONDS = 30  # a pod without terminationGracePeriodSeconds, after defaulting
UNCOUNTED = frozenset({"metadata", "status", "apiVersion", "kind"})
STATUS_KEEPS_LABELS = frozenset(
    {("apps", "Deployment"), ("apps", "DaemonSet"), ("apps", "ReplicaSet"), ("apps", "StatefulSet")}
)


@dataclass(frozen=True, slots=True)
class Grace:
    """How a deletion begins. `pending`: it has begun already and nothing changes."""

    graceful: bool
    seconds: int = 0
    pending: bool = False


class Semantics:
    # resourceVersion and preconditions

    def check_resource_version(self, served: Served, name: str, sent: str, stored: str) -> None:
        """An update names the version it was made from; kinds that allow it may leave it out."""
        if not sent or sent == "0":
            if served.traits.unconditional_update:
                return
            why = invalid_value("metadata.resourceVersion", 0, "must be specified for an update")
            raise invalid(served.group, served.plural, name, [why])
        if sent != stored:
            raise conflict(served.group, served.plural, name)

    def check_precondition(self, served: Served, obj: Json, options: DeleteOptions) -> None:
        """A delete that says which object, or which version of it, it means."""
        meta = obj["metadata"]
        if options.uid is not None and options.uid != meta["uid"]:
            raise conflict(
                served.group,
                served.kind,
                meta["name"],
                f"the UID in the precondition ({options.uid}) does not match the UID in record ({meta['uid']}). "
                "The object might have been deleted and then recreated",
            )
        if options.resource_version is not None and options.resource_version != meta["resourceVersion"]:
            raise conflict(
                served.group,
                served.kind,
                meta["name"],
                f"the ResourceVersion in the precondition ({options.resource_version}) does not match the "
                f"ResourceVersion in record ({meta['resourceVersion']}). The object might have been modified",
            )

    def check_update_uid(self, served: Served, sent_uid: str, stored: Json, key: str) -> None:
        """A PUT or patch that carries another object's uid was meant for that object."""
        meta = stored.get("metadata", {})
        if sent_uid and sent_uid != meta.get("uid", ""):
            raise conflict(
                served.group,
                served.plural,
                key.rpartition("/")[2],
                f"StorageError: invalid object, Code: 4, Key: {storage_key(served, key)}, ResourceVersion: 0, "
                f"AdditionalErrorMsg: Precondition failed: UID in precondition: {sent_uid}, "
                f"UID in object meta: {meta.get('uid', '')}",
            )

    def is_unchanged(self, old: Json, new: Json) -> bool:
        """A write that changes nothing is answered, not stored: no new resourceVersion, no event."""
        return same(old, new)

    # generation

    def first_generation(self, served: Served) -> int | None:
        return 1 if served.traits.counts_generations else None

    def generation_after(self, served: Served, old: Json, new: Json) -> int | None:
        """Grows when the desired state changes, never for metadata or status."""
        before: int | None = at(old, "metadata", "generation")
        if not served.traits.counts_generations:
            return before
        return (before or 0) + (not self.is_same_intent(served, old, new))

    def is_same_intent(self, served: Served, old: Json, new: Json) -> bool:
        if served.custom:
            skip = UNCOUNTED if served.traits.split_status else UNCOUNTED - {"status"}
            return same(_without(old, skip), _without(new, skip))
        if served.kind.endswith("WebhookConfiguration"):
            return same(old.get("webhooks"), new.get("webhooks"))
        if served.kind == "PodTemplate":
            return same(old.get("template"), new.get("template"))
        if served.kind == "PriorityClass":
            return True
        if served.kind == "Deployment" and not same(
            at(old, "metadata", "annotations"), at(new, "metadata", "annotations")
        ):
            return False  # a rollout reads them too
        return same(old.get("spec"), new.get("spec"))

    # status and spec, each written through its own endpoint

    def keep_status(self, served: Served, old: Json, new: Json) -> None:
        """The main resource cannot write status."""
        if served.traits.split_status:
            _carry(old, new, "status")

    def keep_all_but_status(self, served: Served, old: Json, new: Json) -> Json:
        """The status subresource accepts status, and of the rest only what the kind's real strategy does."""
        if served.custom:
            kept = {**old}
            kept.pop("status", None)
            if "status" in new:
                kept["status"] = new["status"]
            kept["metadata"] = {**old["metadata"], "managedFields": new["metadata"].get("managedFields")}
            if kept["metadata"]["managedFields"] is None:
                del kept["metadata"]["managedFields"]
            for carried in ("resourceVersion", "uid"):
                if new["metadata"].get(carried) is not None:
                    kept["metadata"][carried] = new["metadata"][carried]
            return kept
        _carry(old, new, "spec")
        meta = new["metadata"]
        if served.kind == "Pod":
            _carry(old["metadata"], meta, "ownerReferences")
        if (served.group, served.kind) in STATUS_KEEPS_LABELS:
            _carry(old["metadata"], meta, "labels")
        return new

    # finalizers and deletion

    def new_finalizer_problems(self, old: Json, new: Json) -> list[Cause]:
        """A deletion that has begun cannot be postponed."""
        if old["metadata"].get("deletionTimestamp") is None:
            return []
        had = list_at(old, "metadata", "finalizers")
        extra = sorted({name for name in list_at(new, "metadata", "finalizers") if name not in had})
        if not extra:
            return []
        listed = "[]string{" + ", ".join(f'"{name}"' for name in extra) + "}"
        why = f"no new finalizers can be added if the object is being deleted, found new finalizers {listed}"
        return [forbidden_field("metadata.finalizers", why)]

    def ends_with_update(self, served: Served, old: Json, new: Json) -> bool:
        """The last finalizer gone from an object whose deletion was asked for: it goes."""
        meta = old["metadata"]
        if list_at(new, "metadata", "finalizers") or meta.get("deletionTimestamp") is None:
            return False
        if served.kind == "Namespace" and served.group == "" and list_at(new, "spec", "finalizers"):
            return False
        return (meta.get("deletionGracePeriodSeconds") or 0) == 0

    def grace_for(self, served: Served, obj: Json, options: DeleteOptions) -> Grace:
        """Pods end gracefully; everything else at once, unless finalizers hold it."""
        if served.kind != "Pod" or served.group:
            return Grace(graceful=False)
        asked = options.grace_seconds
        if asked is not None and asked < 0:
            asked = 1
        meta = obj["metadata"]
        if meta.get("deletionTimestamp") is not None:
            return self._grace_while_ending(meta, asked)
        if asked is None:
            asked = at(obj, "spec", "terminationGracePeriodSeconds")
        seconds = DEFAULT_GRACE_SECONDS if asked is None else int(asked)
        if not at(obj, "spec", "nodeName") or at(obj, "status", "phase") in {"Succeeded", "Failed"}:
            seconds = 0
        return Grace(graceful=True, seconds=max(0, seconds))

    def _grace_while_ending(self, meta: Json, asked: int | None) -> Grace:
        left = meta.get("deletionGracePeriodSeconds") or 0
        if left == 0:
            return Grace(graceful=False)
        if asked is None or asked >= left:
            return Grace(graceful=False, pending=True)
        return Grace(graceful=True, seconds=asked)

    # immutable metadata

    def metadata_change_problems(self, old: Json, new: Json) -> list[Cause]:
        found = self.new_finalizer_problems(old, new)
        before, after = old["metadata"], new["metadata"]
        for name in (
            "name",
            "namespace",
            "uid",
            "creationTimestamp",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
        ):
            was, now = before.get(name), after.get(name)
            if was is not now and not same(was, now):
                found.append(invalid_value(f"metadata.{name}", after.get(name), IMMUTABLE))
        return found

    # watches

    def event_type(self, kind: str, was_in: bool, is_in: bool) -> str:
        """What a watcher with a selector sees of a change: entering is ADDED, leaving is DELETED. Empty: nothing."""
        if kind == "DELETED":
            return "DELETED" if was_in else ""
        if is_in:
            return "MODIFIED" if was_in else "ADDED"
        return "DELETED" if was_in else ""

    def is_too_old(self, revision: int, floor: int) -> bool:
        """May a watch still start after `revision`? `floor` is the newest change that was forgotten."""
        return revision < floor


def storage_key(served: Served, key: str) -> str:
    if served.custom:
        return f"/registry/{served.group}/{served.plural}/{key}"
    return f"/registry/{'minions' if served.plural == 'nodes' and not served.group else served.plural}/{key}"


def _without(obj: Json, skip: frozenset[str]) -> Json:
    return {key: value for key, value in obj.items() if key not in skip}


def _carry(source: Json, target: Json, key: str) -> None:
    if key in source:
        target[key] = source[key]
    else:
        target.pop(key, None)


def finalizers_for_deletion(served: Served, obj: Json, options: DeleteOptions) -> list[str]:
    """The finalizers a delete leaves behind: the two of garbage collection come and go with its policy."""
    had = list_at(obj, "metadata", "finalizers")
    kept = [name for name in had if name not in {"orphan", "foregroundDeletion"}]
    if _orphans(served, had, options):
        kept.append("orphan")
    if _waits_for_dependents(had, options):
        kept.append("foregroundDeletion")
    return had if sorted(kept) == sorted(had) else kept


def _orphans(served: Served, had: list[str], options: DeleteOptions) -> bool:
    if options.orphan_dependents is not None:
        return options.orphan_dependents
    if options.propagation:
        return options.propagation == "Orphan"
    if "orphan" in had:
        return True
    if "foregroundDeletion" in had:
        return False
    return served.traits.orphans_by_default


def _waits_for_dependents(had: list[str], options: DeleteOptions) -> bool:
    if options.orphan_dependents is not None:
        return False
    if options.propagation:
        return options.propagation == "Foreground"
    return "foregroundDeletion" in had and "orphan" not in had
