"""Volumes of a pod: on which nodes they can be reached, and how one that waits for its first consumer is made."""

from collections.abc import Mapping
from dataclasses import dataclass

from tgp.api.quantity import whole
from tgp.api.resource import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, STORAGE_CLASS
from tgp.sim.apiserver.json_value import Json, at, list_at, mapping_at
from tgp.sim.apiserver.selectors import from_label_selector
from tgp.sim.cluster.component_api import ComponentApi, is_ending, key_of
from tgp.sim.cluster.placement import term_holds

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
NEWER_NAMES = {
    "failure-domain.beta.kubernetes.io/zone": ZONE,
    "failure-domain.beta.kubernetes.io/region": REGION,
    ZONE: ZONE,
    REGION: REGION,
}
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
OLD_CLASS = "volume.beta.kubernetes.io/storage-class"
NO_PROVISIONER = "kubernetes.io/no-provisioner"

UNBOUND = "pod has unbound immediate PersistentVolumeClaims"
OTHER_NODE = "node(s) didn't match PersistentVolume's node affinity"
NOTHING_TO_BIND = "node(s) didn't find available persistent volumes to bind"
OTHER_ZONE = "node(s) had no available volume zone"


@dataclass(frozen=True, slots=True)
class PodVolumes:
    """`refused`: why the pod goes nowhere, whatever the node; empty: it depends on the node."""

    refused: str = ""
    bound: tuple[Json, ...] = ()  # volumes
    to_make: tuple[tuple[Json, Json], ...] = ()  # claims that wait for their first consumer, each with its class
    free: tuple[Json, ...] = ()  # volumes that such a claim could take

    def objection(self, node: Json) -> str:
        """Empty: none."""
        labels = node["metadata"].get("labels") or {}
        if not all(_reaches(volume, labels) for volume in self.bound):
            return OTHER_NODE
        if self.chosen(node) is None:
            return NOTHING_TO_BIND
        return "" if all(_in_zone(volume, labels) for volume in self.bound) else OTHER_ZONE

    def chosen(self, node: Json) -> list[tuple[Json, Json | None]] | None:
        """For each claim the free volume it takes; None as volume: a new one. None: it cannot be had on this node."""
        labels = node["metadata"].get("labels") or {}
        taken: list[tuple[Json, Json | None]] = []
        for claim, storage_class in sorted(self.to_make, key=lambda pair: _size(pair[0])):
            selected = mapping_at(claim, "metadata", "annotations").get(SELECTED_NODE)
            if selected is not None and selected != node["metadata"]["name"]:
                return None
            used = {volume["metadata"]["name"] for _, volume in taken if volume is not None}
            free = [each for each in self.free if each["metadata"]["name"] not in used]
            found = None if selected is not None else _matching(claim, free, labels)
            if found is None and not _makes(storage_class, labels):
                return None
            taken.append((claim, found))
        return taken


def volumes_of(api: ComponentApi, pod: Json) -> PodVolumes:
    bound: list[Json] = []
    to_make: list[tuple[Json, Json]] = []
    for name, ephemeral in _claim_names(pod):
        claim = api.get(PERSISTENT_VOLUME_CLAIM, pod["metadata"]["namespace"], name)
        refused = _unusable(claim, name, ephemeral)
        if claim is None or refused:
            return PodVolumes(refused)
        volume_name = claim["spec"].get("volumeName") or ""
        if not volume_name:
            storage_class = api.get(STORAGE_CLASS, "", class_of(claim)) if class_of(claim) else None
            if storage_class is None or storage_class.get("volumeBindingMode") != "WaitForFirstConsumer":
                return PodVolumes(UNBOUND)
            to_make.append((claim, storage_class))
            continue
        if BIND_COMPLETED not in mapping_at(claim, "metadata", "annotations"):
            return PodVolumes(UNBOUND)
        volume = api.get(PERSISTENT_VOLUME, "", volume_name)
        if volume is None:
            return PodVolumes(f'persistentvolume "{volume_name}" not found')
        bound.append(volume)
    return PodVolumes("", tuple(bound), tuple(to_make), tuple(api.all(PERSISTENT_VOLUME)) if to_make else ())


def uses_claims(pod: Json) -> bool:
    return bool(_claim_names(pod))


def _claim_names(pod: Json) -> list[tuple[str, bool]]:
    """Each with whether it is made for this pod alone."""
    found: list[tuple[str, bool]] = []
    for volume in pod["spec"].get("volumes") or ():
        if volume.get("persistentVolumeClaim"):
            found.append((volume["persistentVolumeClaim"]["claimName"], False))
        elif volume.get("ephemeral"):
            found.append((f"{pod['metadata']['name']}-{volume['name']}", True))
    return found


def _unusable(claim: Json | None, name: str, ephemeral: bool) -> str:
    if claim is None:
        if ephemeral:
            return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"'
        return f'persistentvolumeclaim "{name}" not found'
    if at(claim, "status", "phase") == "Lost":
        volume = claim["spec"].get("volumeName", "")
        return f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{volume}"'
    return f'persistentvolumeclaim "{name}" is being deleted' if is_ending(claim) else ""


def class_of(claim: Json) -> str:
    written = mapping_at(claim, "metadata", "annotations").get(OLD_CLASS)
    return str(claim["spec"].get("storageClassName") or "") if written is None else str(written)


def _reaches(volume: Json, labels: Mapping[str, str]) -> bool:
    required = at(volume, "spec", "nodeAffinity", "required")
    if required is None:
        return True
    return any(term_holds(term, labels, {}) for term in required.get("nodeSelectorTerms") or ())


def _in_zone(volume: Json, labels: Mapping[str, str]) -> bool:
    if not any(key in labels for key in NEWER_NAMES):
        return True
    zones = mapping_at(volume, "metadata", "labels")
    return all(
        labels.get(key, labels.get(newer)) in zones[key].split("__")
        for key, newer in NEWER_NAMES.items()
        if key in zones
    )


def _makes(storage_class: Json, labels: Mapping[str, str]) -> bool:
    if storage_class.get("provisioner", "") in ("", NO_PROVISIONER):
        return False
    allowed = storage_class.get("allowedTopologies") or ()
    return not allowed or any(
        all(labels.get(row["key"]) in row["values"] for row in term.get("matchLabelExpressions") or ())
        for term in allowed
    )


def _matching(claim: Json, free: list[Json], labels: Mapping[str, str]) -> Json | None:
    """The volume that was made for it, else the smallest that serves it."""
    large = [each for each in free if _size(each) >= _size(claim) and not is_ending(each) and _same_mode(each, claim)]
    own = next((each for each in large if _refers_to(each, claim)), None)
    if own is not None:
        return own if _reaches(own, labels) else None
    wanted = at(claim, "spec", "selector")
    serving = [
        each
        for each in large
        if at(each, "spec", "claimRef") is None
        and at(each, "status", "phase") == "Available"
        and (each["spec"].get("storageClassName") or "") == class_of(claim)
        and (wanted is None or from_label_selector(wanted).matches(each["metadata"].get("labels")))
        and set(claim["spec"].get("accessModes") or ()) <= set(each["spec"].get("accessModes") or ())
        and _reaches(each, labels)
    ]
    return min(serving, key=lambda each: (_size(each), each["metadata"]["name"]), default=None)


def _same_mode(volume: Json, claim: Json) -> bool:
    return bool(volume["spec"].get("volumeMode", "Filesystem") == claim["spec"].get("volumeMode", "Filesystem"))


def _refers_to(volume: Json, claim: Json) -> bool:
    reference = at(volume, "spec", "claimRef")
    if reference is None or (reference.get("namespace", ""), reference.get("name")) != key_of(claim):
        return False
    return reference.get("uid") in (None, "", claim["metadata"]["uid"])


def _size(obj: Json) -> int:
    """Of a claim what it asks for, of a volume what it has."""
    spec = obj["spec"]
    return whole(at(spec, "resources", "requests", "storage") or at(spec, "capacity", "storage") or 0)


def bind_volumes(api: ComponentApi, volumes: PodVolumes, node: Json) -> None:
    """Scheduler, provisioner and volume controller in one: afterwards every claim of the pod has its volume."""
    storage_classes = {key_of(claim): storage_class for claim, storage_class in volumes.to_make}
    for claim, found in volumes.chosen(node) or ():
        volume = found or api.create(PERSISTENT_VOLUME, _made(claim, storage_classes[key_of(claim)], node))
        _tie(api, claim, volume["metadata"]["name"])


def _tie(api: ComponentApi, claim: Json, volume: str) -> None:
    def give(obj: Json) -> None:
        obj["spec"]["claimRef"] = _reference(claim)

    def take(obj: Json) -> None:
        obj["spec"]["volumeName"] = volume
        obj["metadata"].setdefault("annotations", {})[BIND_COMPLETED] = "yes"

    def tied(status: Json) -> None:
        status["phase"] = "Bound"

    api.edit(PERSISTENT_VOLUME, "", volume, give)
    api.edit_status(PERSISTENT_VOLUME, "", volume, tied)
    api.edit(PERSISTENT_VOLUME_CLAIM, *key_of(claim), take)
    api.edit_status(PERSISTENT_VOLUME_CLAIM, *key_of(claim), tied)


def _reference(claim: Json) -> Json:
    meta = claim["metadata"]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": meta["namespace"],
        "name": meta["name"],
        "uid": meta["uid"],
    }


def _made(claim: Json, storage_class: Json, node: Json) -> Json:
    """A new volume, in the zone of the node where it has one."""
    name = f"pvc-{claim['metadata']['uid']}"
    zone = mapping_at(node, "metadata", "labels").get(ZONE)
    rule = {"key": ZONE, "operator": "In", "values": [zone]}
    affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": [rule]}]}}
    return {
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": at(claim, "spec", "resources", "requests", "storage") or "1Gi"},
            "accessModes": list_at(claim, "spec", "accessModes"),
            "storageClassName": storage_class["metadata"]["name"],
            "volumeMode": claim["spec"].get("volumeMode", "Filesystem"),
            "persistentVolumeReclaimPolicy": storage_class.get("reclaimPolicy", "Delete"),
            "csi": {"driver": storage_class["provisioner"], "volumeHandle": name},
            **({"nodeAffinity": affinity} if zone else {}),
        },
    }
