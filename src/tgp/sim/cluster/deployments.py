"""Deployments: one ReplicaSet per version of the template, rolled from old to new within the bounds asked for."""

from collections.abc import Iterable
from hashlib import blake2b

import msgspec

from tgp.api.resource import DEPLOYMENT, POD
from tgp.core.model.object_key import ObjectKey
from tgp.sim.apiserver.json_value import Json, copied
from tgp.sim.cluster.component_api import REPLICA_SET, controller_of, is_ending, key_of, owner_reference, set_condition
from tgp.sim.cluster.controller import ClusterController, StoreCommit
from tgp.sim.cluster.pods_of import FINISHED, controlled, owner_keys

REVISION = "deployment.kubernetes.io/revision"
HASH = "pod-template-hash"


class Deployments(ClusterController):
    name = "deployment-controller"
    watched = (DEPLOYMENT, REPLICA_SET, POD)

    def concerns(self, commit: StoreCommit) -> Iterable[ObjectKey]:
        if commit.served.kind == "Deployment":
            return (key_of(commit.obj),)
        if commit.served.kind == "ReplicaSet":
            return owner_keys(commit, "Deployment")
        return self._waiting_for(commit.obj) if commit.after is None else ()

    def _waiting_for(self, pod: Json) -> Iterable[ObjectKey]:
        """The deployment that may go on now that this pod is gone."""
        owner = controller_of(pod)
        if owner is None or owner["kind"] != "ReplicaSet":
            return ()
        one = self.api.get(REPLICA_SET, pod["metadata"]["namespace"], owner["name"])
        above = controller_of(one) if one is not None else None
        return (ObjectKey(pod["metadata"]["namespace"], above["name"]),) if above is not None else ()

    def reconcile(self, key: ObjectKey) -> float | None:
        owner = self.api.get(DEPLOYMENT, *key)
        if owner is None or is_ending(owner):
            return None
        sets = controlled(self.api, REPLICA_SET, owner)
        new = next((one for one in sets if one["metadata"]["labels"].get(HASH) == _hash(owner)), None)
        old = [one for one in sets if one is not new]
        if not owner["spec"].get("paused"):
            if new is None:
                new = self._create(owner, old)
            self._roll(owner, new, old)
            self._tidy(owner, old)
        self._tell(owner)
        return None

    def _create(self, owner: Json, old: list[Json]) -> Json:
        digest = _hash(owner)
        template: Json = copied(owner["spec"]["template"])
        labels = {**(template.setdefault("metadata", {}).get("labels") or {}), HASH: digest}
        template["metadata"]["labels"] = labels
        selector: Json = copied(owner["spec"]["selector"])
        selector["matchLabels"] = {**(selector.get("matchLabels") or {}), HASH: digest}
        revision = str(1 + max((_revision(one) for one in old), default=0))
        name, namespace = owner["metadata"]["name"], owner["metadata"]["namespace"]
        created = self.api.create(
            REPLICA_SET,
            {
                "metadata": {
                    "name": f"{name}-{digest}",
                    "namespace": namespace,
                    "labels": labels,
                    "annotations": {REVISION: revision},
                    "ownerReferences": [owner_reference(owner)],
                },
                "spec": {
                    "replicas": 0,
                    "selector": selector,
                    "template": template,
                    "minReadySeconds": owner["spec"].get("minReadySeconds", 0),
                },
            },
        )

        def note(obj: Json) -> None:
            obj["metadata"].setdefault("annotations", {})[REVISION] = revision

        self.api.edit(DEPLOYMENT, namespace, name, note, "status")  # as the real one does: it moves no generation
        return created

    def _roll(self, owner: Json, new: Json, old: list[Json]) -> None:
        wanted = int(owner["spec"].get("replicas", 1))
        running_old = sum(_replicas(one) for one in old)
        if owner["spec"].get("strategy", {}).get("type") == "Recreate":
            for one in old:
                self._scale(owner, one, 0)
            if not any(self._still_runs(one) for one in old):
                self._scale(owner, new, wanted)
            return
        surge, missing = _bounds(owner, wanted)
        self._scale(owner, new, min(wanted, max(_replicas(new), wanted + surge - running_old)))
        available = sum(one.get("status", {}).get("availableReplicas", 0) for one in (new, *old))
        may_go = available - (wanted - missing)
        for one in sorted(old, key=_revision):
            # A replica that is not available takes nothing away when it goes.
            idle = _replicas(one) - one.get("status", {}).get("availableReplicas", 0)
            going = min(_replicas(one), max(idle, 0) + max(may_go, 0))
            may_go -= max(going - max(idle, 0), 0)
            self._scale(owner, one, _replicas(one) - going)

    def _still_runs(self, one: Json) -> bool:
        """A pod that is being ended runs until it has ended."""
        pods = controlled(self.api, POD, one)
        return any(pod.get("status", {}).get("phase") not in FINISHED for pod in pods)

    def _scale(self, owner: Json, one: Json, replicas: int) -> None:
        if (before := _replicas(one)) != replicas:
            self.api.edit(REPLICA_SET, *key_of(one), lambda obj: obj["spec"].update(replicas=replicas))
            way, name = "up" if replicas > before else "down", one["metadata"]["name"]
            words = f"Scaled {way} replica set {name} from {before} to {replicas}"
            self.api.event(owner, "Normal", "ScalingReplicaSet", words)

    def _tidy(self, owner: Json, old: list[Json]) -> None:
        """Keep so many old versions for an undo, and no more."""
        idle = [
            one
            for one in sorted(old, key=_revision)
            if not _replicas(one) and not one.get("status", {}).get("replicas")
        ]
        keep = int(owner["spec"].get("revisionHistoryLimit", 10))
        for one in idle[: max(len(idle) - keep, 0)]:
            self.api.delete(REPLICA_SET, one)

    def _tell(self, owner: Json) -> None:
        sets = controlled(self.api, REPLICA_SET, owner)
        digest = _hash(owner)
        counts = {
            "replicas": _total(sets, "replicas"),
            "updatedReplicas": _total(
                [one for one in sets if one["metadata"]["labels"].get(HASH) == digest], "replicas"
            ),
            "readyReplicas": _total(sets, "readyReplicas"),
            "availableReplicas": _total(sets, "availableReplicas"),
        }
        wanted = int(owner["spec"].get("replicas", 1))
        counts["unavailableReplicas"] = max(wanted - counts["availableReplicas"], 0)
        now = self.api.now_text()
        self.api.edit_status(DEPLOYMENT, *key_of(owner), lambda status: _say(status, owner, counts, now))


def _say(status: Json, owner: Json, counts: Json, now: str) -> None:
    for name, value in counts.items():
        if value:
            status[name] = value
        else:
            status.pop(name, None)
    status["observedGeneration"] = owner["metadata"].get("generation", 1)
    wanted = int(owner["spec"].get("replicas", 1))
    _, missing = _bounds(owner, wanted)
    if counts["availableReplicas"] >= wanted - missing:
        text = "Deployment has minimum availability."
        set_condition(
            status, "Available", "True", now, reason="MinimumReplicasAvailable", message=text, lastUpdateTime=now
        )
    else:
        text = "Deployment does not have minimum availability."
        set_condition(
            status, "Available", "False", now, reason="MinimumReplicasUnavailable", message=text, lastUpdateTime=now
        )
    done = counts["updatedReplicas"] == wanted == counts["replicas"] == counts["availableReplicas"]
    reason = "NewReplicaSetAvailable" if done else "ReplicaSetUpdated"
    text = "the new ReplicaSet " + ("has successfully progressed." if done else "is progressing.")
    set_condition(status, "Progressing", "True", now, reason=reason, message=text, lastUpdateTime=now)


def _bounds(owner: Json, wanted: int) -> tuple[int, int]:
    """How many may be too many, and how many may be missing; both zero would never move."""
    rolling = owner["spec"].get("strategy", {}).get("rollingUpdate") or {}
    surge = scaled(rolling.get("maxSurge", "25%"), wanted, up=True)
    missing = scaled(rolling.get("maxUnavailable", "25%"), wanted, up=False)
    return (surge, missing) if surge or missing else (0, 1)


def scaled(value: int | str, total: int, *, up: bool) -> int:
    """An IntOrString of `total`."""
    if isinstance(value, int):
        return value
    share = int(value.rstrip("%")) * total
    return -(-share // 100) if up else share // 100


def _replicas(one: Json) -> int:
    return int(one["spec"].get("replicas", 1))


def _revision(one: Json) -> int:
    return int((one["metadata"].get("annotations") or {}).get(REVISION, 0))


def _total(sets: list[Json], name: str) -> int:
    return sum(one.get("status", {}).get(name, 0) for one in sets)


def _hash(owner: Json) -> str:
    """Stands for the template; of letters that a name may hold."""
    text = msgspec.json.encode(owner["spec"]["template"], order="deterministic")
    return blake2b(text, digest_size=5).hexdigest()
