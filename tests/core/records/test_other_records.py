"""Nodes, DaemonSets, budgets, namespaces, name plates, and our own kinds."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from tgp.adapters.kube.list import ListTarget
from tgp.adapters.kube.records.kinds import (
    daemon_sets,
    disruption_budgets,
    jobs,
    metadata_of,
    namespaces,
    nodes,
    signing_requests,
    typed,
)
from tgp.api.nodepool import GPUNodePool
from tgp.api.resource import GPU_NODE_POOL, SECRET
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.placement import HostPort
from tgp.core.model.record import pack_uid, uid_text
from tgp.core.model.resources import Resources
from tgp.core.model.signing import KUBELET_SIGNER, TOKEN_GROUP, CsrAnswer
from tgp.core.model.taints import Taint, Toleration

T0 = datetime(2026, 1, 1, 10, 0, tzinfo=UTC)


def read(projection, manifest, known=None):
    manifest.setdefault("metadata", {}).setdefault("resourceVersion", "7")
    manifest["metadata"].setdefault("name", "it")
    _, record = projection.line(json.dumps({"type": "ADDED", "object": manifest}).encode(), known or {})
    return record


def test_a_node():
    node = read(
        nodes(),
        {
            "metadata": {
                "name": "gpu-1",
                "labels": {"tgp.io/request": "r"},
                "annotations": {"tgp.io/hourly-price": "2"},
            },
            "spec": {
                "providerID": "tgp://simulated/t",
                "unschedulable": True,
                "taints": [{"key": "tgp.io/ephemeral", "effect": "NoSchedule"}],
            },
            "status": {
                "capacity": {"cpu": "8", "memory": "64Gi", "nvidia.com/gpu": "2", "pods": "110"},
                "allocatable": {"cpu": "7500m", "memory": "60Gi", "nvidia.com/gpu": "2", "pods": "110"},
                "conditions": [
                    {"type": "MemoryPressure", "status": "False"},
                    {
                        "type": "Ready",
                        "status": "True",
                        "reason": "KubeletReady",
                        "lastTransitionTime": "2026-01-01T10:00:00Z",
                    },
                ],
                "addresses": [{"type": "InternalIP", "address": "100.64.0.1"}],
                "nodeInfo": {"kubeletVersion": "v1.36.3", "osImage": "Talos (v1.13.0)", "architecture": "amd64"},
            },
        },
    )

    assert node.key == ObjectKey("", "gpu-1")
    assert node.provider_id == "tgp://simulated/t"
    assert node.cordoned
    assert node.taints == (Taint("tgp.io/ephemeral", "NoSchedule"),)
    assert node.allocatable == Resources(7500, 60 << 30, (("nvidia.com/gpu", 2), ("pods", 110)))
    assert (node.ready, node.ready_since, node.ready_reason) == (True, T0, "KubeletReady")
    assert node.addresses == (("InternalIP", "100.64.0.1"),)
    assert (node.kubelet_version, node.os_image, node.architecture) == ("v1.36.3", "Talos (v1.13.0)", "amd64")
    assert node.annotations == {"tgp.io/hourly-price": "2"}


def test_a_node_whose_kubelet_is_silent_is_neither_ready_nor_not():
    silent = {"status": {"conditions": [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}]}}

    assert read(nodes(), silent).ready is None
    assert read(nodes(), {}).ready is None


def test_a_daemon_set_tells_where_its_pods_would_run_and_what_they_take():
    container = {
        "image": "nvcr.io/nvidia/k8s-device-plugin:v1",
        "resources": {"requests": {"cpu": "50m"}},
        "ports": [{"containerPort": 9100, "hostPort": 9100}],
    }
    template = {
        "metadata": {"labels": {"app": "plugin"}},
        "spec": {
            "containers": [container],
            "nodeSelector": {"nvidia.com/gpu.present": "true"},
            "tolerations": [{"operator": "Exists"}],
        },
    }
    record = read(daemon_sets(), {"metadata": {"namespace": "kube-system"}, "spec": {"template": template}})

    assert record.images == ("nvcr.io/nvidia/k8s-device-plugin:v1",)
    assert record.pod_labels == {"app": "plugin"}
    assert record.requests == Resources(50)
    assert record.host_ports == (HostPort(9100),)
    assert record.node_selector == {"nvidia.com/gpu.present": "true"}
    assert record.tolerations == (Toleration(operator="Exists"),)


def test_a_job_tells_whether_it_runs_and_what_its_pods_take():
    container = {"name": "main", "resources": {"requests": {"cpu": "500m"}}}
    template = {"metadata": {"labels": {"team": "a"}}, "spec": {"containers": [container]}}
    spec = {"suspend": True, "parallelism": 4, "completions": 6, "template": template}
    record = read(jobs(), {"spec": spec, "status": {"succeeded": 3}})

    assert (record.suspended, record.finished, record.pods) == (True, False, 3)
    assert record.pod_labels == {"team": "a"}
    assert record.requests == Resources(500)
    ended = read(jobs(), {"status": {"conditions": [{"type": "Failed", "status": "True"}]}})
    assert (ended.suspended, ended.finished, ended.pods) == (False, True, 1)


@pytest.mark.parametrize(
    ("spec", "selected"),
    [({}, False), ({"selector": {}}, True), ({"selector": {"matchLabels": {"a": "b"}}}, True)],
)
def test_a_disruption_budget_selects_as_policy_v1_says(spec, selected):
    """No selector selects nothing; an empty one selects every pod of the namespace."""
    manifest = {
        "metadata": {"generation": 2},
        "spec": spec,
        "status": {"disruptionsAllowed": 1, "observedGeneration": 2},
    }
    record = read(disruption_budgets(), manifest)

    assert record.selector.selects({"a": "b"}) is selected
    assert record.disruptions_allowed == 1
    assert record.current
    manifest["metadata"]["generation"] = 3
    assert not read(disruption_budgets(), manifest).current


@pytest.mark.parametrize(("policy", "evicts"), [(None, False), ("IfHealthyBudget", False), ("AlwaysAllow", True)])
def test_a_disruption_budget_says_whether_it_guards_pods_that_are_not_ready(policy, evicts):
    manifest = {"spec": {"selector": {}, **({"unhealthyPodEvictionPolicy": policy} if policy else {})}}

    assert read(disruption_budgets(), manifest).evicts_unready is evicts


def test_a_namespace():
    record = read(namespaces(), {"metadata": {"labels": {"team": "x"}}, "status": {"phase": "Terminating"}})

    assert record.labels == {"team": "x"}
    assert record.terminating


def test_of_a_secret_only_the_name_plate_is_asked_for_and_kept():
    projection = metadata_of(SECRET)
    record = read(projection, {"metadata": {"namespace": "tgp"}, "data": {"KEY": "c2VjcmV0"}})

    assert "PartialObjectMetadata" in projection.accept
    assert "c2VjcmV0" not in repr(record)
    assert record.key == ObjectKey("tgp", "it")


POOL = {
    "metadata": {"namespace": "team", "name": "a100", "uid": "u-1", "generation": 4, "annotations": {"any": "thing"}},
    "spec": {"nodeClassRef": {"name": "default"}, "fromTheFuture": 1},
    "status": {"nodeCount": 3, "fromTheFuture": {"x": 1}},
}


def test_one_of_our_own_kinds_is_its_typed_value_with_its_status_beside_it():
    record = read(typed(GPU_NODE_POOL, GPUNodePool), json.loads(json.dumps(POOL)))

    assert record.value is not None
    assert record.value.spec.node_class_ref.name == "default"
    assert (record.generation, record.uid_text) == (4, "u-1")
    assert record.annotations == {"any": "thing"}, "all of them"
    assert record.status == {"nodeCount": 3, "fromTheFuture": {"x": 1}}, "with what we do not know"


def test_one_of_our_own_that_cannot_be_read_is_still_there():
    """Written by a newer version, perhaps: it still owns what it bought."""
    manifest = json.loads(json.dumps(POOL))
    manifest["spec"] = {"nodeClassRef": "a string"}
    record = read(typed(GPU_NODE_POOL, GPUNodePool), manifest)

    assert record.value is None
    assert "nodeClassRef" in record.unreadable
    assert record.status["nodeCount"] == 3
    assert (record.key, record.uid_text) == (ObjectKey("team", "a100"), "u-1")


@pytest.mark.parametrize(
    "text",
    [
        "0f8fad5b-d9cb-469f-a165-70867728950e",
        "0F8FAD5B-D9CB-469F-A165-70867728950E",
        "0f8fad5bd9cb-469f-a165-70867728950e-",
        "not a uuid",
        "sixteen bytes !!",
        "",
    ],
)
def test_a_uid_comes_back_as_it_was(text):
    assert uid_text(pack_uid(text)) == text


SIGNING = {
    "request": "aGVsbG8=",
    "signerName": KUBELET_SIGNER,
    "usages": ["digital signature", "client auth"],
    "username": "system:bootstrap:abc123",
    "groups": ["system:bootstrappers", TOKEN_GROUP],
}


def test_a_signing_request():
    asked = read(signing_requests(), {"metadata": {"name": "node-csr-1"}, "spec": SIGNING, "status": {}})

    assert (asked.username, asked.signer, asked.document) == ("system:bootstrap:abc123", KUBELET_SIGNER, b"hello")
    assert asked.usages == ("digital signature", "client auth")
    assert asked.ours
    assert asked.answer is None


@pytest.mark.parametrize(
    ("conditions", "answer"),
    [
        ([{"type": "Approved", "status": "True", "reason": "AutoApproved"}], CsrAnswer("Approved", "AutoApproved")),
        ([{"type": "Denied", "status": "True"}], CsrAnswer("Denied")),
        ([{"type": "Approved"}, {"type": "Failed", "reason": "X"}], CsrAnswer("Failed", "X")),
        ([{"type": "SomethingNew", "status": "True"}], None),
        (None, None),
    ],
)
def test_a_signing_request_that_was_answered(conditions, answer):
    asked = read(signing_requests(), {"spec": SIGNING, "status": {"conditions": conditions}})

    assert asked.answer == answer


@pytest.mark.parametrize(
    "change",
    [
        {"groups": None},
        {"groups": ["system:bootstrappers:nodes"]},
        {"signerName": "kubernetes.io/kubelet-serving"},
        {"groups": 7},  # cannot be read: whatever it is, it is not ours
    ],
)
def test_a_signing_request_of_others(change):
    assert not read(signing_requests(), {"spec": SIGNING | change}).ours


def test_only_requests_to_our_signer_are_asked_for():
    call = ListTarget(signing_requests()).call((), accept="*/*", timeout=timedelta(seconds=1))

    assert ("fieldSelector", f"spec.signerName={KUBELET_SIGNER}") in call.query
