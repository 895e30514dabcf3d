"""What every workload controller needs: the pods it controls, how they fare, and new ones from its template."""

from collections.abc import Iterable

from tgp.api.resource import POD, Resource
from tgp.core.model.object_key import ObjectKey
from tgp.sim.apiserver.json_value import Json, copied
from tgp.sim.cluster.component_api import ComponentApi, controller_of, is_ending, is_true, moment, owner_reference
from tgp.sim.cluster.controller import StoreCommit

FINISHED = ("Succeeded", "Failed")


def controlled(api: ComponentApi, resource: Resource, owner: Json) -> list[Json]:
    """Objects of `resource` whose controller is this very owner."""
    meta = owner["metadata"]
    return [obj for obj in api.all(resource, meta["namespace"]) if _uid(controller_of(obj)) == meta["uid"]]


def owner_keys(commit: StoreCommit, kind: str) -> Iterable[ObjectKey]:
    """The controllers of that kind which a change of a pod (or another dependent) concerns."""
    seen: dict[ObjectKey, None] = {}
    for obj in (commit.before, commit.after):
        owner = controller_of(obj) if obj is not None else None
        if obj is not None and owner is not None and owner["kind"] == kind:
            seen[ObjectKey(obj["metadata"]["namespace"], owner["name"])] = None
    return seen


def is_active(pod: Json) -> bool:
    return not is_ending(pod) and pod.get("status", {}).get("phase") not in FINISHED


def is_ready(pod: Json) -> bool:
    return is_true(pod, "Ready") and not is_ending(pod)


def is_available(pod: Json, min_ready_seconds: int, now: float) -> bool:
    """Ready for long enough."""
    if not is_ready(pod):
        return False
    since = next(row["lastTransitionTime"] for row in pod["status"]["conditions"] if row["type"] == "Ready")
    return now - moment(since).timestamp() >= min_ready_seconds


def create_pod(api: ComponentApi, owner: Json, template: Json, labels: Json | None = None, name: str = "") -> Json:
    meta: Json = copied(template.get("metadata") or {})
    meta["namespace"] = owner["metadata"]["namespace"]
    meta["ownerReferences"] = [owner_reference(owner)]
    meta["labels"] = {**(meta.get("labels") or {}), **(labels or {})}
    meta.pop("name", None)
    meta.pop("creationTimestamp", None)
    if name:
        meta["name"] = name
    else:
        meta["generateName"] = owner["metadata"]["name"] + "-"
    return api.create(POD, {"metadata": meta, "spec": copied(template["spec"])})


def _uid(reference: Json | None) -> str:
    return str(reference["uid"]) if reference else ""
