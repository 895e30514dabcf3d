"""ReplicaSets: as many pods as asked for."""

from collections.abc import Iterable

from tgp.api.resource import POD
from tgp.core.model.object_key import ObjectKey
from tgp.sim.apiserver.json_value import Json
from tgp.sim.cluster.component_api import REPLICA_SET, is_ending, key_of, moment
from tgp.sim.cluster.controller import ClusterController, StoreCommit
from tgp.sim.cluster.pods_of import controlled, create_pod, is_active, is_available, is_ready, owner_keys

BURST = 500  # pods created or deleted in one go, as the real controller bounds it


class ReplicaSets(ClusterController):
    name = "replicaset-controller"
    watched = (REPLICA_SET, POD)

    def concerns(self, commit: StoreCommit) -> Iterable[ObjectKey]:
        if commit.served.kind == "ReplicaSet":
            return (key_of(commit.obj),)
        return owner_keys(commit, "ReplicaSet")

    def reconcile(self, key: ObjectKey) -> float | None:
        owner = self.api.get(REPLICA_SET, *key)
        if owner is None:
            return None
        pods = [pod for pod in controlled(self.api, POD, owner) if is_active(pod)]
        wanted = int(owner["spec"].get("replicas", 1))
        if not is_ending(owner):
            for _ in range(min(wanted - len(pods), BURST)):
                create_pod(self.api, owner, owner["spec"]["template"])
            for pod in sorted(pods, key=_least_missed)[: min(max(len(pods) - wanted, 0), BURST)]:
                self.api.delete(POD, pod)
        return self._tell(owner, pods)

    def _tell(self, owner: Json, pods: list[Json]) -> float | None:
        now = self.api.now().timestamp()
        patience = int(owner["spec"].get("minReadySeconds", 0))
        ready = sum(map(is_ready, pods))
        available = sum(is_available(pod, patience, now) for pod in pods)
        labels = owner["spec"]["template"].get("metadata", {}).get("labels") or {}
        labelled = sum(labels.items() <= (pod["metadata"].get("labels") or {}).items() for pod in pods)
        status = {
            "replicas": len(pods),
            "fullyLabeledReplicas": labelled,
            "readyReplicas": ready,
            "availableReplicas": available,
            "observedGeneration": owner["metadata"].get("generation", 1),
        }
        self.api.edit_status(REPLICA_SET, *key_of(owner), lambda said: _say(said, status))
        return float(patience) if ready > available else None


def _say(said: Json, status: Json) -> None:
    """Zero counts are absent on the wire, except the one that is always there."""
    for name, value in status.items():
        if value or name in {"replicas", "observedGeneration"}:
            said[name] = value
        else:
            said.pop(name, None)


def _least_missed(pod: Json) -> tuple[bool, bool, bool, float]:
    """Unassigned before assigned, pending before running, not ready before ready, younger before older."""
    created = pod["metadata"]["creationTimestamp"]
    return (
        bool(pod["spec"].get("nodeName")),
        pod.get("status", {}).get("phase") == "Running",
        is_ready(pod),
        -_seconds(created),
    )


def _seconds(text: str) -> float:
    return moment(text).timestamp()
