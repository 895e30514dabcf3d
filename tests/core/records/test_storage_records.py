"""Claims, volumes and storage classes: what they say about where a pod may run."""

import json

import pytest

from tgp.adapters.kube.records.kinds import claims, storage_classes, volumes
from tgp.core.model.labels import LabelRequirement
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.placement import NodeTerm
from tgp.core.model.storage import WAIT_FOR_FIRST_CONSUMER, StorageClass, Volume

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"
HERE = ObjectKey("", "it")


def read(projection, manifest):
    manifest.setdefault("metadata", {})
    manifest["metadata"] = {"name": "it", "resourceVersion": "7", **manifest["metadata"]}
    return projection.line(json.dumps({"type": "ADDED", "object": manifest}).encode(), {})[1]


def in_zone(*zones):
    return {"nodeSelectorTerms": [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": list(zones)}]}]}


def test_a_claim():
    claim = read(
        claims(),
        {
            "metadata": {"namespace": "ml", "labels": {"app": "x"}},
            "spec": {"storageClassName": "fast", "volumeName": "pv-1", "resources": {"requests": {"storage": "1Gi"}}},
            "status": {"phase": "Bound"},
        },
    )

    assert claim.key == ObjectKey("ml", "it")
    assert (claim.storage_class, claim.volume, claim.phase) == ("fast", "pv-1", "Bound")
    assert claim.selected_node == ""
    assert not claim.bound


@pytest.mark.parametrize(("volume", "bound"), [("pv-1", True), ("", False)])
def test_a_claim_is_bound_once_both_sides_agree(volume, bound):
    metadata = {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}}

    assert read(claims(), {"metadata": metadata, "spec": {"volumeName": volume}}).bound is bound


@pytest.mark.parametrize(
    ("metadata", "spec", "storage_class"),
    [
        ({}, {}, None),
        ({}, {"storageClassName": ""}, ""),
        ({"annotations": {"volume.beta.kubernetes.io/storage-class": "old"}}, {"storageClassName": "new"}, "old"),
        ({"annotations": None}, {"storageClassName": "new"}, "new"),
    ],
)
def test_a_claims_class_is_the_one_that_kubernetes_reads(metadata, spec, storage_class):
    assert read(claims(), {"metadata": metadata, "spec": spec}).storage_class == storage_class


def test_a_claim_whose_volume_is_being_made_names_the_node():
    annotations = {"volume.kubernetes.io/selected-node": "node-1", "other": "x"}

    assert read(claims(), {"metadata": {"annotations": annotations}}).selected_node == "node-1"


def test_a_volumes_terms_are_shared():
    projection = volumes()
    first, second = (read(projection, {"spec": {"nodeAffinity": {"required": in_zone("a")}}}) for _ in range(2))

    assert first.node_terms == (NodeTerm((LabelRequirement(ZONE, "In", ("a",)),)),)
    assert first.node_terms is second.node_terms
    assert read(projection, {"spec": {}}).node_terms is None
    assert read(projection, {"spec": {"nodeAffinity": None}}).node_terms is None


def test_a_storage_class():
    annotations = {"storageclass.kubernetes.io/is-default-class": "true"}
    record = read(
        storage_classes(),
        {
            "metadata": {"annotations": annotations},
            "provisioner": "csi.example.com",
            "volumeBindingMode": "WaitForFirstConsumer",
            "allowedTopologies": [{"matchLabelExpressions": [{"key": ZONE, "values": ["a", "b"]}]}],
        },
    )

    assert (record.provisioner, record.binding_mode, record.is_default) == (
        "csi.example.com",
        WAIT_FOR_FIRST_CONSUMER,
        True,
    )
    assert record.topologies == ((LabelRequirement(ZONE, "In", ("a", "b")),),)
    assert not read(storage_classes(), {"provisioner": "x"}).is_default
    assert read(storage_classes(), {"provisioner": "x"}).binding_mode == "Immediate"


@pytest.mark.parametrize(
    ("projection", "manifest"),
    [
        (claims(), {"spec": {"volumeName": 7}}),
        (volumes(), {"spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": "all"}}}}),
        (storage_classes(), {"allowedTopologies": {}}),
    ],
)
def test_one_that_cannot_be_read_is_still_there(projection, manifest):
    record = read(projection, manifest)

    assert record.key == HERE
    assert record.unreadable


@pytest.mark.parametrize(
    ("volume", "labels", "reached"),
    [
        (Volume(key=HERE), {}, True),
        (Volume(key=HERE, node_terms=()), {}, False),
        (Volume(key=HERE, node_terms=(NodeTerm((LabelRequirement(ZONE, "In", ("a",)),)),)), {ZONE: "a"}, True),
        (Volume(key=HERE, node_terms=(NodeTerm((LabelRequirement(ZONE, "In", ("a",)),)),)), {ZONE: "b"}, False),
        (Volume(key=HERE, labels={ZONE: "a"}), {ZONE: "b"}, False),
        (Volume(key=HERE, labels={ZONE: "a__b"}), {ZONE: "b"}, True),
        (Volume(key=HERE, labels={ZONE: "a"}), {"app": "x"}, True),  # a Node without zones
        (Volume(key=HERE, labels={ZONE: "a"}), {REGION: "r"}, False),
        (Volume(key=HERE, labels={OLD_ZONE: "a"}), {ZONE: "a"}, True),
        (Volume(key=HERE, labels={ZONE: "a"}), {OLD_ZONE: "a"}, False),  # only the old name is translated
    ],
)
def test_which_nodes_reach_a_volume(volume, labels, reached):
    assert volume.admits(labels) is reached


@pytest.mark.parametrize(
    ("topologies", "labels", "made"),
    [
        ((), {}, True),
        (((LabelRequirement(ZONE, "In", ("a",)),),), {ZONE: "a"}, True),
        (((LabelRequirement(ZONE, "In", ("a",)),),), {}, False),
        (((LabelRequirement(ZONE, "In", ("a",)),), (LabelRequirement(REGION, "In", ("r",)),)), {REGION: "r"}, True),
    ],
)
def test_for_which_nodes_a_class_makes_volumes(topologies, labels, made):
    assert StorageClass(key=HERE, topologies=topologies).admits(labels) is made
