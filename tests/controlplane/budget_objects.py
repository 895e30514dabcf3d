"""A budget of team a, and pods of it in every form: by themselves and with each kind of owner."""

from typing import Any

from tools.controlplane.nodes import RUNS_FOR

TEAM = {"team": "a"}
EVERY_KIND = {"bare", "train", "serve", "keep"}  # the names below


def a_budget(namespace: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "tgp.io/v1",
        "kind": "GPUWorkloadBudget",
        "metadata": {"name": "team-a", "namespace": namespace},
        "spec": {"selector": {"matchLabels": TEAM}, **spec},
    }


def a_pod(name: str, namespace: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace, "labels": TEAM}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod_spec()}


def pod_spec() -> dict[str, Any]:
    container = {"name": "main", "image": "example.org/main:1", "resources": {"limits": {"nvidia.com/gpu": 1}}}
    return {"containers": [container], "restartPolicy": "Always"}


def a_job(name: str, namespace: str) -> dict[str, Any]:
    template = {
        "metadata": {"labels": TEAM, "annotations": {RUNS_FOR: "1h"}},
        "spec": {**pod_spec(), "restartPolicy": "Never"},
    }
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": template}}


def a_deployment(name: str, namespace: str) -> dict[str, Any]:
    labels = {**TEAM, "app": name}
    spec = {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": pod_spec()}}
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


def a_stateful_set(name: str, namespace: str) -> dict[str, Any]:
    made = a_deployment(name, namespace)
    return {**made, "kind": "StatefulSet", "spec": {**made["spec"], "serviceName": name}}


def every_kind(namespace: str) -> tuple[dict[str, Any], ...]:
    return (a_pod("bare", namespace), *owners(namespace))


def owners(namespace: str) -> tuple[dict[str, Any], ...]:
    return (a_job("train", namespace), a_deployment("serve", namespace), a_stateful_set("keep", namespace))


def without_gpu(pod: dict[str, Any]) -> dict[str, Any]:
    pod["spec"]["containers"][0].pop("resources")
    return pod
