"""Nodes that fall silent are marked; pods that may not stay are asked to leave; pods of lost nodes are removed."""

import asyncio
from collections.abc import Callable, Iterable

from tgp.api.resource import NODE, POD
from tgp.core.model.object_key import ObjectKey
from tgp.sim.apiserver.core import Core
from tgp.sim.apiserver.json_value import Json
from tgp.sim.cluster.component_api import condition, is_ending, is_true, key_of, set_condition
from tgp.sim.cluster.controller import ClusterController, StoreCommit
from tgp.sim.cluster.placement import tolerates, untolerated

SILENT_FOR = 50.0  # seconds until a silent node is believed lost (--node-monitor-grace-period since 1.32)
ORPHAN_AFTER = 40.0  # seconds a pod of a missing node is left alone first, as the pod collector waits
UNREACHABLE = "node.kubernetes.io/unreachable"
FINISHED = ("Succeeded", "Failed")


class NodeLifecycle(ClusterController):
    """Keys are nodes. Whether a machine is up is asked, not inferred from leases: that is what keeps leases sparse."""

    name = "node-controller"
    watched = (NODE,)

    def __init__(self, core: Core, loop: asyncio.AbstractEventLoop, is_up: Callable[[str], bool]) -> None:
        super().__init__(core, loop)
        self._is_up = is_up
        self._silent_since: dict[str, float] = {}

    def concerns(self, commit: StoreCommit) -> Iterable[ObjectKey]:
        if commit.after is None:
            self._silent_since.pop(commit.obj["metadata"]["name"], None)
        return (key_of(commit.obj),) if commit.before is None else ()

    def fell_silent(self, name: str) -> None:
        """Its machine lost power just now."""
        self._silent_since.setdefault(name, self._loop.time())
        self.look_at(ObjectKey("", name), SILENT_FOR)

    def reconcile(self, key: ObjectKey) -> float | None:
        node = self.api.get(NODE, *key)
        if node is None or self._is_up(key.name):
            self._silent_since.pop(key.name, None)
            return None
        since = self._silent_since.setdefault(key.name, self._loop.time())
        wait = since + SILENT_FOR - self._loop.time()
        if wait > 0:
            return wait
        self._mark(node)
        return None

    def _mark(self, node: Json) -> None:
        name, now = node["metadata"]["name"], self.api.now_text()
        self.api.edit_status(NODE, "", name, lambda status: _unknown(status, now))
        self.api.edit(NODE, "", name, lambda obj: _taint(obj, now))
        for pod in self.api.all(POD):
            if pod["spec"].get("nodeName") == name and is_true(pod, "Ready"):
                self.api.edit_status(POD, *key_of(pod), lambda status: set_condition(status, "Ready", "False", now))


def _unknown(status: Json, now: str) -> None:
    text = "Kubelet stopped posting node status."
    for kind in ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready"):
        set_condition(status, kind, "Unknown", now, reason="NodeStatusUnknown", message=text)


def _taint(node: Json, now: str) -> None:
    taints = node["spec"].setdefault("taints", [])
    held = {(taint["key"], taint["effect"]) for taint in taints}
    for effect in ("NoSchedule", "NoExecute"):
        if (UNREACHABLE, effect) not in held:
            taints.append({"key": UNREACHABLE, "effect": effect, "timeAdded": now})


class TaintEviction(ClusterController):
    """Keys are pods: one that does not tolerate a NoExecute taint of its node is deleted, now or in time."""

    name = "taint-eviction-controller"
    watched = (NODE, POD)

    def __init__(self, core: Core, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(core, loop)
        self._deadlines: dict[ObjectKey, float] = {}

    def concerns(self, commit: StoreCommit) -> Iterable[ObjectKey]:
        before, after = commit.before, commit.after
        if commit.served.kind == "Pod":
            if after is None:
                self._deadlines.pop(key_of(commit.obj), None)
                return ()
            moved = before is None or before["spec"].get("nodeName") != after["spec"].get("nodeName")
            return (key_of(after),) if moved and after["spec"].get("nodeName") else ()
        if after is None or (before is not None and _no_execute(before) == _no_execute(after)):
            return ()
        name = after["metadata"]["name"]
        return [key_of(pod) for pod in self.api.all(POD) if pod["spec"].get("nodeName") == name]

    def reconcile(self, key: ObjectKey) -> float | None:
        pod = self.api.get(POD, *key)
        node = self.api.get(NODE, "", pod["spec"].get("nodeName", "")) if pod is not None else None
        if pod is None or node is None or is_ending(pod):
            self._deadlines.pop(key, None)
            return None
        patience = _patience(pod, _no_execute(node))
        if patience is None:
            self._deadlines.pop(key, None)
            return None
        deadline = self._deadlines.setdefault(key, self._loop.time() + patience)
        if deadline > self._loop.time():
            return deadline - self._loop.time()
        self.api.event(pod, "Normal", "TaintManagerEviction", f"Marking for deletion Pod {key}")
        self.api.delete(POD, pod)
        return None


def _no_execute(node: Json) -> list[Json]:
    return [
        {"key": taint["key"], "value": taint.get("value", ""), "effect": "NoExecute"}
        for taint in node["spec"].get("taints", ())
        if taint["effect"] == "NoExecute"
    ]


def _patience(pod: Json, taints: list[Json]) -> float | None:
    """Seconds the pod may stay under these taints; None: as long as it likes."""
    tolerations = pod["spec"].get("tolerations") or []
    if untolerated(tolerations, taints, ("NoExecute",)):
        return 0.0
    lengths = [
        float(one["tolerationSeconds"])
        for taint in taints
        for one in tolerations
        if tolerates(one, taint) and one.get("tolerationSeconds") is not None
    ]
    return min(lengths) if lengths else None


class PodCollector(ClusterController):
    """Keys are nodes: what was bound to a node that no longer exists has no kubelet left to end it."""

    name = "pod-garbage-collector"
    watched = (NODE, POD)

    def concerns(self, commit: StoreCommit) -> Iterable[ObjectKey]:
        if commit.served.kind == "Node":
            if commit.after is None:
                self.look_at(key_of(commit.obj), ORPHAN_AFTER)
            return ()
        name = commit.obj["spec"].get("nodeName")
        if name and commit.after is not None and commit.before is None and self.api.get(NODE, "", name) is None:
            self.look_at(ObjectKey("", name), ORPHAN_AFTER)
        return ()

    def reconcile(self, key: ObjectKey) -> float | None:
        if self.api.get(NODE, *key) is not None:
            return None
        for pod in self.api.all(POD):
            if pod["spec"].get("nodeName") == key.name:
                self._lose(pod)
        return None

    def _lose(self, pod: Json) -> None:
        now = self.api.now_text()
        if pod.get("status", {}).get("phase") not in FINISHED:
            self.api.edit_status(POD, *key_of(pod), lambda status: _lost(status, now))
        self.api.delete(POD, pod, grace_seconds=0)


def _lost(status: Json, now: str) -> None:
    status["phase"] = "Failed"
    if condition({"status": status}, "DisruptionTarget") is None:
        text = "PodGC: node no longer exists"
        set_condition(status, "DisruptionTarget", "True", now, reason="DeletionByPodGC", message=text)
