"""Where a pod's volumes let it run, as kube-scheduler decides it."""

from collections.abc import Iterator

from tgp.core.model.arrays import Bools, np
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.pod import Pod
from tgp.core.model.storage import LOST, WAIT_FOR_FIRST_CONSUMER, ZONE_LABELS, Claim, StorageClass, Volume
from tgp.core.pools.planner.masks import SourceTable
from tgp.core.pools.planner.world import PlanInput

SELECTED_NODE = "volume.kubernetes.io/selected-node"


def volume_problem(pod: Pod, world: PlanInput) -> str:
    """Why the pod can be scheduled nowhere, and what to do; empty: its volumes do not prevent it."""
    for name, claim in _claims(pod, world):
        if problem := f"{name} does not exist. Create it" if claim is None else _problem(claim, world):
            return f"PersistentVolumeClaim {problem}"
    return ""


def tied_to_full_node(pod: Pod, world: PlanInput) -> str:
    """Of a pod without room: whether a volume that is being made keeps it off all Nodes but one; empty: none does."""
    tied = (claim for _, claim in _claims(pod, world) if claim is not None and _is_being_made(claim))
    return next((f"PersistentVolumeClaim {_tied(each, 'where the pod does not fit now')}" for each in tied), "")


def reached_by(pod: Pod, world: PlanInput, table: SourceTable) -> Bools:
    """By source: whether all volumes of the pod can be attached there, or made there."""
    reached = np.ones(table.size, np.bool_)
    for _, claim in _claims(pod, world):
        if claim is None:
            continue
        volume, storage = world.volumes.get(claim.volume), world.storage_classes.get(claim.storage_class or "")
        if claim.bound and volume is not None:
            reached &= table.judged_by_labels(_keys_of_volume(volume), volume.admits)
        elif not claim.bound and storage is not None:
            reached &= table.judged_by_labels(_keys_of_class(storage), storage.admits)
        if _is_being_made(claim):
            reached &= _only_there(claim.selected_node, world, table.size)
    return reached


def _claims(pod: Pod, world: PlanInput) -> Iterator[tuple[str, Claim | None]]:
    return ((name, world.claims.get(ObjectKey(pod.key.namespace, name))) for name in pod.volume_claims)


def _problem(claim: Claim, world: PlanInput) -> str:
    name, volume = claim.key.name, claim.volume
    if claim.phase == LOST:
        return (
            f"{name} is Lost: PersistentVolume {volume}, to which it was bound, is gone. Restore the volume, or delete "
            "the claim and create it again"
        )
    if claim.deleting:
        return f"{name} is being deleted. Create it again when it is gone"
    if volume and not claim.bound:
        return (
            f"{name} names PersistentVolume {volume} and is not bound to it. Check that the volume's claimRef, size, "
            "access modes and StorageClass match the claim"
        )
    if volume:
        return _problem_of_volume(claim, world)
    if not claim.storage_class:
        return f"{name} is not bound and names no StorageClass. {_without_class(claim, world)}"
    storage = world.storage_classes.get(claim.storage_class)
    return _problem_of_class(claim, storage) or _problem_of_node(claim, world)


def _problem_of_volume(claim: Claim, world: PlanInput) -> str:
    volume = world.volumes.get(claim.volume)
    if volume is None:
        return (
            f"{claim.key.name} is bound to PersistentVolume {claim.volume}, which does not exist. Restore the volume, "
            "or delete the claim and create it again"
        )
    if volume.unreadable:
        return f"{claim.key.name}: PersistentVolume {claim.volume} cannot be read: {volume.unreadable}"
    return ""


def _without_class(claim: Claim, world: PlanInput) -> str:
    defaults = sorted(each.key.name for each in world.storage_classes.values() if each.is_default)
    if claim.storage_class is None and defaults:
        return f"Kubernetes fills in its default, {defaults[0]}; if it does not, create the claim again"
    return "Create a PersistentVolume for it, or name a StorageClass"


def _problem_of_class(claim: Claim, storage: StorageClass | None) -> str:
    name = claim.key.name
    if storage is None:
        return (
            f"{name} is not bound, and StorageClass {claim.storage_class} does not exist. Create the class, or name "
            "another one"
        )
    if storage.binding_mode != WAIT_FOR_FIRST_CONSUMER:
        return (
            f"{name} is not bound yet, and StorageClass {storage.key.name} binds at once: see kubectl describe pvc "
            f"{name} -n {claim.key.namespace}"
        )
    if not storage.provisions:
        return (
            f"{name} is not bound, and StorageClass {storage.key.name} makes no volumes. Create a PersistentVolume "
            "and name it in the claim's volumeName"
        )
    return ""


def _problem_of_node(claim: Claim, world: PlanInput) -> str:
    if not _is_being_made(claim) or _only_there(claim.selected_node, world, len(world.capacity)).any():
        return ""
    return _tied(claim, "which takes no pods now")


def _is_being_made(claim: Claim) -> bool:
    return bool(claim.selected_node) and not claim.volume


def _tied(claim: Claim, why: str) -> str:
    name, namespace = claim.key.name, claim.key.namespace
    return (
        f"{name} waits for a volume on Node {claim.selected_node}, {why}. The pod can run on no other Node: to let the "
        f"scheduler choose another one, kubectl annotate pvc {name} -n {namespace} {SELECTED_NODE}-"
    )


def _only_there(node: str, world: PlanInput, sources: int) -> Bools:
    there = np.zeros(sources, np.bool_)
    there[: len(world.capacity)] = [each.coming is None and each.name == node for each in world.capacity]
    return there


def _keys_of_volume(volume: Volume) -> set[str]:
    """Labels of a Node that decide whether the volume can be attached there."""
    keys = {each.key for term in volume.node_terms or () for each in term.labels}
    return keys | (ZONE_LABELS.keys() if volume.labels.keys() & ZONE_LABELS.keys() else set())


def _keys_of_class(storage: StorageClass) -> set[str]:
    return {each.key for term in storage.topologies for each in term}
