"""StatefulSets: pods with names that last, one after the other, each when the one before it is ready."""

from collections.abc import Iterable

from tgp.api.resource import POD
from tgp.core.model.object_key import ObjectKey
from tgp.sim.apiserver.json_value import Json
from tgp.sim.cluster.component_api import STATEFUL_SET, is_ending, key_of
from tgp.sim.cluster.controller import ClusterController, StoreCommit
from tgp.sim.cluster.pods_of import FINISHED, controlled, create_pod, is_available, is_ready, owner_keys

POD_NAME = "statefulset.kubernetes.io/pod-name"
POD_INDEX = "apps.kubernetes.io/pod-index"


class StatefulSets(ClusterController):
    name = "statefulset-controller"
    watched = (STATEFUL_SET, POD)

    def concerns(self, commit: StoreCommit) -> Iterable[ObjectKey]:
        if commit.served.kind == "StatefulSet":
            return (key_of(commit.obj),)
        return owner_keys(commit, "StatefulSet")

    def reconcile(self, key: ObjectKey) -> float | None:
        owner = self.api.get(STATEFUL_SET, *key)
        if owner is None:
            return None
        pods = {_index(pod): pod for pod in controlled(self.api, POD, owner)}
        if not is_ending(owner):
            self._towards(owner, pods)
        self._tell(owner, [pod for pod in pods.values() if not is_ending(pod)])
        return None

    def _towards(self, owner: Json, pods: dict[int, Json]) -> None:
        """One pod at a time, up and down; all at once where podManagementPolicy says Parallel."""
        at_once = owner["spec"].get("podManagementPolicy") == "Parallel"
        wanted = int(owner["spec"].get("replicas", 1))
        for index in range(wanted):
            pod = pods.get(index)
            if pod is None:
                self._create(owner, index)
            elif pod.get("status", {}).get("phase") in FINISHED and not is_ending(pod):
                self.api.delete(POD, pod)
            if not at_once and (pod is None or not is_ready(pod)):
                return
        for index in sorted((index for index in pods if index >= wanted), reverse=True):
            if not is_ending(pods[index]):
                self.api.delete(POD, pods[index])
                self._said(owner, "SuccessfulDelete", "delete", index)
            if not at_once:
                return

    def _create(self, owner: Json, index: int) -> None:
        name = f"{owner['metadata']['name']}-{index}"
        create_pod(self.api, owner, owner["spec"]["template"], {POD_NAME: name, POD_INDEX: str(index)}, name)
        self._said(owner, "SuccessfulCreate", "create", index)

    def _said(self, owner: Json, reason: str, verb: str, index: int) -> None:
        name = owner["metadata"]["name"]
        self.api.event(owner, "Normal", reason, f"{verb} Pod {name}-{index} in StatefulSet {name} successful")

    def _tell(self, owner: Json, pods: list[Json]) -> None:
        now = self.api.now().timestamp()
        patience = int(owner["spec"].get("minReadySeconds", 0))
        counts = {
            "replicas": len(pods),
            "currentReplicas": len(pods),
            "updatedReplicas": len(pods),
            "readyReplicas": sum(map(is_ready, pods)),
            "availableReplicas": sum(is_available(pod, patience, now) for pod in pods),
            "observedGeneration": owner["metadata"].get("generation", 1),
        }
        self.api.edit_status(STATEFUL_SET, *key_of(owner), lambda status: status.update(counts))


def _index(pod: Json) -> int:
    return int(pod["metadata"]["name"].rpartition("-")[2])
