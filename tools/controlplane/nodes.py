"""Pretend nodes: Node objects whose kubelet KWOK plays."""

from collections.abc import Mapping
from typing import Any

FAKE = {"kwok.x-k8s.io/node": "fake"}  # the annotation by which KWOK knows its nodes
RUNS_FOR = "kwok.tgp.io/runs-for"  # a pod's annotation: it succeeds after this long, for example "30s"
ORDINARY = {"cpu": "8", "memory": "32Gi", "pods": "110"}


def fake_node(
    name: str, capacity: Mapping[str, str] | None = None, labels: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """To be created as it is: the API server keeps the status of a new Node."""
    resources = {**ORDINARY, **(capacity or {})}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": dict(FAKE),
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                **(labels or {}),
            },
        },
        "status": {"capacity": resources, "allocatable": resources},
    }
