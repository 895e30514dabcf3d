"""Where a pod's volumes let it run."""

from collections.abc import Iterable

from tgp.core.model.arrays import Bools, np
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.pod import Pod
from tgp.core.model.storage import (
    BETWEEN_ZONES,
    BOUND,
    WAIT_FOR_FIRST_CONSUMER,
    ZONE_LABELS,
    Claim,
    StorageClass,
    Volume,
)
from tgp.core.pools.planner.masks import SourceTable
from tgp.core.pools.planner.world import PlanInput

NO_PROVISIONER = "kubernetes.io/no-provisioner"  # local volumes: they exist on Nodes, and are never made


def volume_problem(pod: Pod, world: PlanInput) -> str:
    """Why the pod cannot be scheduled anywhere yet; empty: its volumes do not prevent it."""
    for name in pod.volume_claims:
        claim = world.claims.get(ObjectKey(pod.key.namespace, name))
        if claim is None:
            return f"PersistentVolumeClaim {name} does not exist"
        if claim.phase == BOUND:
            if claim.volume not in world.volumes:
                return f"PersistentVolume {claim.volume} of PersistentVolumeClaim {name} does not exist"
            continue
        storage = _storage_class(claim, world)
        if storage is None:
            return f"PersistentVolumeClaim {name} is not bound, and its StorageClass does not exist"
        if storage.binding_mode != WAIT_FOR_FIRST_CONSUMER:
            return f"PersistentVolumeClaim {name} is not bound yet"
        if storage.provisioner == NO_PROVISIONER:
            return f"PersistentVolumeClaim {name} needs a local volume, which only existing Nodes have"
    return ""


def reached_by(pod: Pod, world: PlanInput, table: SourceTable) -> Bools:
    """By source: whether all volumes of the pod can be attached there."""
    reached = np.ones(table.size, np.bool_)
    for name in pod.volume_claims:
        claim = world.claims.get(ObjectKey(pod.key.namespace, name))
        if claim is None:
            continue
        if claim.phase == BOUND:
            volume = world.volumes.get(claim.volume)
            if volume is not None:
                reached &= _reached(volume, table)
            continue
        storage = _storage_class(claim, world)
        if storage is not None and storage.topologies:
            reached &= _any(table.matches_all(each) for each in storage.topologies)
    return reached


def _reached(volume: Volume, table: SourceTable) -> Bools:
    """Its node affinity, and its own zone labels; a Node without zones is in all of them."""
    reached = np.ones(table.size, np.bool_)
    if volume.node_terms is not None:
        reached &= _any(table.admitted_by(term) for term in volume.node_terms)
    zones = [(key, value.split(BETWEEN_ZONES)) for key, value in volume.labels.items() if key in ZONE_LABELS]
    if zones:
        nowhere = np.logical_and.reduce([_absent(table, key) for key in ZONE_LABELS])
        for key, names in zones:
            there = table.values(key if key in table.labels else ZONE_LABELS[key])
            reached &= nowhere | there.admitted(frozenset(names).__contains__)
    return reached


def _absent(table: SourceTable, key: str) -> Bools:
    return table.values(key).admitted(lambda value: value is None)


def _storage_class(claim: Claim, world: PlanInput) -> StorageClass | None:
    if claim.storage_class is not None:
        return world.storage_classes.get(claim.storage_class)
    return min(
        (each for each in world.storage_classes.values() if each.is_default),
        key=lambda each: each.key.name,
        default=None,
    )


def _any(masks: Iterable[Bools]) -> Bools:
    anywhere: Bools = np.logical_or.reduce(list(masks))
    return anywhere
