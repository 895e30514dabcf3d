"""DaemonSets: one pod on every node that its template selects and whose taints it tolerates."""

from collections.abc import Iterable
from hashlib import blake2b

import msgspec

from tgp.api.resource import DAEMON_SET, NODE, POD
from tgp.core.model.object_key import ObjectKey
from tgp.sim.apiserver.json_value import Json, copied
from tgp.sim.cluster.component_api import is_ending, key_of
from tgp.sim.cluster.controller import ClusterController, StoreCommit
from tgp.sim.cluster.placement import SCHEDULING_EFFECTS, selects, untolerated
from tgp.sim.cluster.pods_of import FINISHED, controlled, create_pod, is_available, is_ready, owner_keys

HASH = "controller-revision-hash"
TOLERATED = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)
HOST_NETWORK_TOLERATED = ("node.kubernetes.io/network-unavailable", "NoSchedule")


class DaemonSets(ClusterController):
    name = "daemonset-controller"
    watched = (DAEMON_SET, POD, NODE)

    def concerns(self, commit: StoreCommit) -> Iterable[ObjectKey]:
        if commit.served.kind == "DaemonSet":
            return (key_of(commit.obj),)
        if commit.served.kind == "Pod":
            return owner_keys(commit, "DaemonSet")
        if commit.before is not None and commit.after is not None and _shape(commit.before) == _shape(commit.after):
            return ()
        return [key_of(owner) for owner in self.api.all(DAEMON_SET)]

    def reconcile(self, key: ObjectKey) -> float | None:
        owner = self.api.get(DAEMON_SET, *key)
        if owner is None:
            return None
        spec = _pod_spec(owner)
        nodes = self.api.all(NODE)
        chosen = [node["metadata"]["name"] for node in nodes if _admits(spec, node, SCHEDULING_EFFECTS)]
        kept = [node["metadata"]["name"] for node in nodes if _admits(spec, node, ("NoExecute",))]
        placed: dict[str, list[Json]] = {}
        for pod in controlled(self.api, POD, owner):
            placed.setdefault(_target(pod), []).append(pod)
        if not is_ending(owner):
            self._place(owner, spec, chosen, placed)
            self._remove(kept, placed)
            self._update(owner, chosen, placed)
        return self._tell(owner, chosen, placed)

    def _place(self, owner: Json, spec: Json, chosen: list[str], placed: dict[str, list[Json]]) -> None:
        for node in chosen:
            pods = placed.get(node, [])
            for pod in pods:
                if pod.get("status", {}).get("phase") in FINISHED and not is_ending(pod):
                    self.api.delete(POD, pod)  # a daemon that ended is replaced
            if not pods:
                template = {**owner["spec"]["template"], "spec": _pinned(spec, node)}
                created = create_pod(self.api, owner, template, {HASH: _hash(owner)})
                placed[node] = [created]

    def _remove(self, kept: list[str], placed: dict[str, list[Json]]) -> None:
        """What runs may stay until it is driven out: a taint that only keeps new pods away is no reason."""
        for node, pods in placed.items():
            surplus = pods if node not in kept else sorted(pods, key=_age)[1:]
            for pod in surplus:
                if not is_ending(pod):
                    self.api.delete(POD, pod)

    def _update(self, owner: Json, chosen: list[str], placed: dict[str, list[Json]]) -> None:
        """Replace pods of an older template, one at a time, while the others serve."""
        if owner["spec"].get("updateStrategy", {}).get("type", "RollingUpdate") != "RollingUpdate":
            return
        pods = [pod for node in chosen for pod in placed.get(node, ())]
        if any(not is_ready(pod) for pod in pods if _is_current(pod, owner)) or any(map(is_ending, pods)):
            return
        stale = [pod for pod in pods if not _is_current(pod, owner)]
        if stale:
            self.api.delete(POD, min(stale, key=lambda pod: (is_ready(pod), key_of(pod))))

    def _tell(self, owner: Json, chosen: list[str], placed: dict[str, list[Json]]) -> float | None:
        now = self.api.now().timestamp()
        patience = int(owner["spec"].get("minReadySeconds", 0))
        current = [min(placed[node], key=_age) for node in chosen if placed.get(node)]
        available = sum(is_available(pod, patience, now) for pod in current)
        ready = sum(map(is_ready, current))
        counts = {
            "currentNumberScheduled": len(current),
            "desiredNumberScheduled": len(chosen),
            "numberMisscheduled": sum(node not in chosen for node, pods in placed.items() if pods),
            "numberReady": ready,
            "updatedNumberScheduled": sum(_is_current(pod, owner) for pod in current),
            "numberAvailable": available,
            "numberUnavailable": len(chosen) - available,
            "observedGeneration": owner["metadata"].get("generation", 1),
        }
        self.api.edit_status(DAEMON_SET, *key_of(owner), lambda status: _say(status, counts))
        return float(patience) if ready > available else None


ALWAYS_SAID = ("currentNumberScheduled", "desiredNumberScheduled", "numberMisscheduled", "numberReady")


def _say(status: Json, counts: Json) -> None:
    for name, value in counts.items():
        if value or name in ALWAYS_SAID:
            status[name] = value
        else:
            status.pop(name, None)


def _admits(spec: Json, node: Json, effects: tuple[str, ...]) -> bool:
    """The node is selected, and no taint of these effects keeps the pod away."""
    return selects(spec, node) and untolerated(spec["tolerations"], node["spec"].get("taints") or [], effects) is None


def _pod_spec(owner: Json) -> Json:
    spec: Json = copied(owner["spec"]["template"]["spec"])
    added = TOLERATED if not spec.get("hostNetwork") else (*TOLERATED, HOST_NETWORK_TOLERATED)
    spec["tolerations"] = [
        *(spec.get("tolerations") or []),
        *({"key": key, "operator": "Exists", "effect": effect} for key, effect in added),
    ]
    return spec


def _pinned(spec: Json, node: str) -> Json:
    """To one node by name, whatever else its affinity asked for: that has been looked at already."""
    pinned: Json = copied(spec)
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    affinity = pinned.setdefault("affinity", {}).setdefault("nodeAffinity", {})
    affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": [term]}
    return pinned


def _target(pod: Json) -> str:
    if pod["spec"].get("nodeName"):
        return str(pod["spec"]["nodeName"])
    required = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    return str(required["nodeSelectorTerms"][0]["matchFields"][0]["values"][0])


def _age(pod: Json) -> tuple[bool, str, str]:
    meta = pod["metadata"]
    return (is_ending(pod), meta["creationTimestamp"], meta["name"])


def _shape(node: Json) -> tuple[object, ...]:
    return (node["metadata"].get("labels"), node["spec"].get("taints"), node["spec"].get("unschedulable"))


def _is_current(pod: Json, owner: Json) -> bool:
    return bool(pod["metadata"]["labels"].get(HASH) == _hash(owner))


def _hash(owner: Json) -> str:
    text = msgspec.json.encode(owner["spec"]["template"], order="deterministic")
    return blake2b(text, digest_size=5).hexdigest()
