"""How a cluster component reads and writes: straight from the store, and by the same verbs that answer HTTP.

Everything here is synchronous and happens at one instant, so a component never loses a conflict; what it writes passes
the same validation, admission and bookkeeping as every client's write, and watchers see it as such.
"""

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime

from tgp.api.resource import Resource
from tgp.core.model.object_key import ObjectKey
from tgp.sim.apiserver.core import Core
from tgp.sim.apiserver.json_value import Json, copied
from tgp.sim.apiserver.local_api import LocalApi
from tgp.sim.apiserver.status_errors import Failure

Edit = Callable[[Json], None]

CORE_EVENT = Resource("", "v1", "events", "Event", namespaced=True)
HEARTBEAT = "lastHeartbeatTime"
STATEFUL_SET = Resource("apps", "v1", "statefulsets", "StatefulSet", namespaced=True)
REPLICA_SET = Resource("apps", "v1", "replicasets", "ReplicaSet", namespaced=True)


class ComponentApi:
    """One component's place at the server; `name` signs what it writes. A refusal raises `Failure`."""

    def __init__(self, core: Core, name: str) -> None:
        self.core = core
        self.name = name
        self._stage = LocalApi(core, name)

    # Reading. What comes back is shared: never change it.

    def get(self, resource: Resource, namespace: str, name: str) -> Json | None:
        return self._stage.get(resource, namespace, name)

    def all(self, resource: Resource, namespace: str = "") -> list[Json]:
        """In key order. A snapshot: the store may change while the caller acts."""
        return list(self._stage.objects(resource, namespace))

    def now(self) -> datetime:
        return self.core.now()

    def now_text(self) -> str:
        return self.core.now_text()

    # Writing.

    def create(self, resource: Resource, manifest: Json) -> Json:
        return self._stage.create(resource, manifest)

    def edit(self, resource: Resource, namespace: str, name: str, edit: Edit, subresource: str = "") -> Json:
        """Change the object as it is now; nothing is written when nothing changes."""
        found = self.get(resource, namespace, name)
        assert found is not None, f"{resource.kind} {namespace}/{name} is gone"
        changed: Json = copied(found)
        edit(changed)
        return found if changed == found else self._stage.update(resource, changed, subresource)

    def edit_status(self, resource: Resource, namespace: str, name: str, edit: Edit) -> Json:
        """`edit` is given the status alone."""
        return self.edit(resource, namespace, name, lambda obj: edit(obj.setdefault("status", {})), "status")

    def beat(self, resource: Resource, obj: Json, **parts: Json) -> None:
        """Commit `obj` with these top-level parts replaced, unchecked: for heartbeats, which change only a time.

        They are most of what an idle cluster writes, and every check would find nothing.
        """
        served = self.core.registry.of(resource)
        self.core.commit(served, {**obj, **parts, "metadata": dict(obj["metadata"])})

    def delete(
        self, resource: Resource, obj: Json, *, propagation: str = "Background", grace_seconds: int | None = None
    ) -> None:
        """This very object, not another of its name."""
        meta = obj["metadata"]
        self._stage.delete(
            resource,
            meta.get("namespace", ""),
            meta["name"],
            uid=meta["uid"],
            propagation=propagation,
            grace_seconds=grace_seconds,
        )

    def bind(self, pod: Json, node: str) -> None:
        self._stage.bind(pod["metadata"]["namespace"], pod["metadata"]["name"], node)

    def event(self, about: Json, kind: str, reason: str, message: str) -> None:
        """Write an Event; `kind` is Normal or Warning. In a terminating namespace no Event is written."""
        meta, now = about["metadata"], self.now_text()
        namespace = meta.get("namespace") or "default"
        regarding = {name: meta[name] for name in ("name", "namespace", "uid", "resourceVersion") if name in meta}
        manifest: Json = {
            "metadata": {"name": f"{meta['name']}.{self.core.store.revision + 1:x}", "namespace": namespace},
            "involvedObject": {"apiVersion": about["apiVersion"], "kind": about["kind"], **regarding},
            "type": kind,
            "reason": reason,
            "message": message,
            "source": {"component": self.name},
            "reportingComponent": self.name,
            "reportingInstance": "",
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
            "eventTime": None,
        }
        with suppress(Failure):
            self.create(CORE_EVENT, manifest)


def key_of(obj: Json) -> ObjectKey:
    meta = obj["metadata"]
    return ObjectKey(meta.get("namespace", ""), meta["name"])


def moment(text: str) -> datetime:
    """A metav1.Time."""
    return datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)


def is_ending(obj: Json) -> bool:
    return obj["metadata"].get("deletionTimestamp") is not None


def controller_of(obj: Json) -> Json | None:
    """The owner that controls it, as its reference says."""
    return next((owner for owner in obj["metadata"].get("ownerReferences", ()) if owner.get("controller")), None)


def owner_reference(owner: Json) -> Json:
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


def set_condition(
    status: Json, kind: str, truth: str, now: str, *, reason: str = "", message: str = "", **more: str | None
) -> None:
    """Make the condition say so. Saying the same again is no change.

    Its transition time moves only with its truth, its other times only with its words; a heartbeat always moves.
    """
    conditions = status.setdefault("conditions", [])
    found = next((row for row in conditions if row["type"] == kind), None)
    if found is None:
        found = {"type": kind}
        conditions.append(found)
    same = (found.get("status"), found.get("reason", ""), found.get("message", "")) == (truth, reason, message)
    if found.get("status") != truth:
        found["lastTransitionTime"] = now
    found["status"] = truth
    for name, value in more.items():
        if not same or name not in found or name == HEARTBEAT:
            found[name] = value
    for name, value in (("reason", reason), ("message", message)):
        if value:
            found[name] = value
        else:
            found.pop(name, None)


def condition(obj: Json, kind: str) -> Json | None:
    rows = (obj.get("status") or {}).get("conditions") or ()
    return next((row for row in rows if row["type"] == kind), None)


def is_true(obj: Json, kind: str) -> bool:
    row = condition(obj, kind)
    return row is not None and row["status"] == "True"
