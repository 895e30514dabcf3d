"""Budgets and pods by chance: every operator of a selector, missing labels, init containers, amounts of nothing."""

import random
from typing import Any

import msgspec

from tgp.api.budget import GPUWorkloadBudgetSpec
from tgp.core.budgets.admission import label_key, label_of

KEYS = ("team", "tier", "app")
VALUES = ("a", "b", "")
RESOURCES = ("cpu", "nvidia.com/gpu")
OPERATORS = "tgp-system"
SINCE = "2026-11-17T19:00:00Z"


def budget(chance: random.Random, name: str, namespace: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """A manifest, and the status to be written to it. One in six has a label that says less than its spec.

    In the operator's namespace, which none of the pods is in, each selects some of the namespaces.
    """
    spec = {
        "selector": _selector(chance),
        "quota": {"gpuHours": chance.choice((10, "0.5")), "windowHours": 24},
        "enforcement": {"action": "AlertOnly", "admission": chance.choice(("Off", "Gate", "Gate", "Deny", "Deny"))},
        "gpuResourceName": chance.choice(RESOURCES),
        "accounting": chance.choice(("Observed", "Observed", "Exact")),
    }
    if chance.random() < 0.5:
        spec["quota"]["usd"] = "250"
    if namespace == OPERATORS:
        spec["namespaceSelector"] = {} if chance.random() < 0.1 else _selector(chance)
    if chance.random() < 0.3:
        spec["weights"] = [{"resource": "example.org/slice", "weight": "0.25"}, {"gpuType": "H100", "weight": 2}]
    exceeded = chance.random() < 0.8
    typed = msgspec.convert(spec, GPUWorkloadBudgetSpec)
    label = label_of(typed, exceeded=exceeded, exact=typed.accounting == "Exact")
    if chance.random() < 1 / 6:
        label = chance.choice((None, "Gate", "Deny", "Exact"))
    metadata = {"name": name, "namespace": namespace, "labels": {label_key(typed): label} if label else {}}
    status: dict[str, Any] = {"conditions": [_condition("Ready", True), _condition("QuotaExceeded", exceeded)]}
    if chance.random() < 0.8:
        status["consumedGpuHours"] = "10.25"
    if chance.random() < 0.3:
        status["quotaGpuHours"] = chance.choice((30, "12.5"))
    if chance.random() < 0.4:
        status["consumedUsd"] = "251.5"
    if chance.random() < 0.5:
        status["nextChangeAt"] = "2026-11-17T21:30:00Z"
    return {"apiVersion": "tgp.io/v1", "kind": "GPUWorkloadBudget", "metadata": metadata, "spec": spec}, status


def namespace(chance: random.Random, name: str) -> dict[str, Any]:
    labels = {key: chance.choice(VALUES) for key in KEYS if chance.random() < 0.6}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def pod(chance: random.Random, name: str, namespace: str) -> dict[str, Any]:
    labels = {key: chance.choice(VALUES) for key in KEYS if chance.random() < 0.6}
    spec: dict[str, Any] = {
        "containers": [_container(chance, f"c{number}") for number in range(chance.randint(1, 2))],
        "automountServiceAccountToken": False,
    }
    if chance.random() < 0.4:
        spec["initContainers"] = [_container(chance, "init")]
    if chance.random() < 0.2:
        spec["initContainers"] = [
            *spec.get("initContainers", ()),
            _container(chance, "sidecar", restartPolicy="Always"),
        ]
    if chance.random() < 0.1:
        spec["nodeName"] = "somewhere"
    elif chance.random() < 0.1:
        spec["schedulingGates"] = [{"name": chance.choice(("tgp.io/budget", "example.org/other"))}]
    metadata: dict[str, Any] = {"name": name, "namespace": namespace}
    if labels or chance.random() < 0.5:
        metadata["labels"] = labels
    if chance.random() < 0.1:
        metadata["finalizers"] = [chance.choice(("tgp.io/counted", "example.org/other"))]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _selector(chance: random.Random) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if chance.random() < 0.5:
        found["matchLabels"] = {key: chance.choice(VALUES) for key in chance.sample(KEYS, chance.randint(1, 2))}
    if not found or chance.random() < 0.5:
        found["matchExpressions"] = [_requirement(chance) for _ in range(chance.randint(1, 2))]
    return found


def _requirement(chance: random.Random) -> dict[str, Any]:
    operator = chance.choice(("In", "NotIn", "Exists", "DoesNotExist"))
    row: dict[str, Any] = {"key": chance.choice(KEYS), "operator": operator}
    if operator in {"In", "NotIn"}:
        row["values"] = chance.sample(VALUES, chance.randint(1, 2))
    return row


def _container(chance: random.Random, name: str, **more: Any) -> dict[str, Any]:
    resources: dict[str, Any] = {}
    if chance.random() < 0.4:
        resources["limits"] = {"nvidia.com/gpu": chance.choice((0, 1, "2"))}
    if chance.random() < 0.1:
        resources["limits"] = {**resources.get("limits", {}), "example.org/slice": 1}
    if chance.random() < 0.4:
        resources.setdefault(chance.choice(("limits", "requests")), {})["cpu"] = chance.choice(("0", "0.5", 1, "100m"))
    return {"name": name, "image": "example.org/main:1", "resources": resources, **more}


def _condition(kind: str, holds: bool) -> dict[str, Any]:
    status = "True" if holds else "False"
    return {"type": kind, "status": status, "reason": "Told", "message": "", "lastTransitionTime": SINCE}
