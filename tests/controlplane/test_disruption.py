"""Disruption on a real control plane: another Talos image replaces machines first, and one pod at a time may leave.

The audit log of the API server tells in which order things were asked for.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import pytest

from tests.controlplane.node_registrar import GPU, NodeRegistrar
from tests.controlplane.replica import SHORT
from tests.controlplane.replicas import Replicas
from tests.controlplane.simulators import Simulators
from tests.controlplane.test_lifecycle import installed
from tests.controlplane.test_pools import EPHEMERAL, OPERATOR, PROVIDER, bought, pods_of, running
from tools.controlplane.fixtures import a_control_plane
from tools.controlplane.kubectl import Kubectl
from tools.controlplane.plane import EVERYTHING, ControlPlane

PODS = 2
CLASS, POOL = "imaged", "serve"
FIRST, SECOND = "v1.13.0", "v1.13.9"
REQUESTS = "/apis/tgp.io/v1/namespaces/default/gpurequests"
AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {
            "level": "Metadata",
            "verbs": ["create", "delete"],
            "resources": [
                {"group": "", "resources": ["pods/eviction", "pods"]},
                {"group": "tgp.io", "resources": ["gpurequests"]},
            ],
        },
        {"level": "None"},
    ],
}


@pytest.fixture(scope="module")
def plane(pytestconfig, tmp_path_factory) -> Iterator[ControlPlane]:
    policy = tmp_path_factory.mktemp("audit") / "policy.json"
    policy.write_text(json.dumps(AUDIT_POLICY))
    extra = {"kube-apiserver": (f"--audit-policy-file={policy}",)}
    with a_control_plane(pytestconfig, replace(EVERYTHING, extra=extra)) as running_now:
        yield running_now


@pytest.fixture(scope="module")
def simulators() -> Iterator[Simulators]:
    with Simulators() as open_now:
        yield open_now


@pytest.fixture(scope="module")
def admin(plane, kubectl_program, simulators) -> Iterator[Kubectl]:
    with NodeRegistrar(simulators, plane.admin):
        yield installed(Kubectl(kubectl_program, plane.kubeconfig, plane.directory), simulators)


@pytest.fixture(scope="module")
def replicas(plane, admin, simulators, tmp_path_factory) -> Iterator[Replicas]:
    aboard = Replicas(plane, simulators.signposts(), tmp_path_factory.mktemp("replicas"), shortened=SHORT)
    aboard.start("first")
    yield aboard
    aboard.leave()


@dataclass(frozen=True, order=True, slots=True)
class Asked:
    at: datetime
    verb: str
    resource: str  # with its subresource
    name: str


def asked(plane: ControlPlane) -> list[Asked]:
    """What the operator asked for and was given, in order."""
    found = []
    for line in plane.audit_log.read_text().splitlines(keepends=True):
        event = json.loads(line) if line.endswith("\n") else {}
        if event and event["user"]["username"] == OPERATOR and event["responseStatus"]["code"] < 300:
            ref = event["objectRef"]
            resource = "/".join(part for part in (ref["resource"], ref.get("subresource")) if part)
            at = datetime.fromisoformat(event["stageTimestamp"])
            found.append(Asked(at, event["verb"], resource, ref.get("name", "")))
    return sorted(found)


def requests(plane: ControlPlane) -> dict[str, dict[str, Any]]:
    return {each["metadata"]["name"]: each for each in plane.admin.call("GET", REQUESTS)["items"]}


def told(plane: ControlPlane) -> dict[str, list[str]]:
    every = {name: each.get("status", {}).get("conditions", ()) for name, each in requests(plane).items()}
    return {name: [f"{row['type']}={row['status']}: {row['message']}" for row in rows] for name, rows in every.items()}


def manifests(simulators: Simulators) -> tuple[dict[str, Any], ...]:
    labels = {"app": "serve"}
    apart = {"labelSelector": {"matchLabels": labels}, "topologyKey": "kubernetes.io/hostname"}
    pod = {
        "tolerations": [EPHEMERAL],
        "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "work", "image": "any", "resources": {"limits": {GPU: 1}}}],
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}},
    }
    of_default = {"namespace": "default"}
    return (
        {
            "apiVersion": "tgp.io/v1",
            "kind": "GPUNodeClass",
            "metadata": {"name": CLASS},
            "spec": {
                "providers": [{"name": PROVIDER, "settings": {"endpoint": simulators.urls()[PROVIDER]}}],
                "talosConfig": {"image": FIRST},
                "networking": {"backend": "none"},
            },
        },
        {
            "apiVersion": "tgp.io/v1",
            "kind": "GPUNodePool",
            "metadata": {"name": POOL, **of_default},
            "spec": {"nodeClassRef": {"name": CLASS}, "disruption": {"budgets": [{"nodes": "100%"}]}},
        },
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "serve", **of_default},
            "spec": {
                "replicas": PODS,
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": pod},
            },
        },
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "serve", **of_default},
            "spec": {"maxUnavailable": 1, "selector": {"matchLabels": labels}},
        },
    )


def test_another_image_replaces_machines_first_and_pods_leave_one_at_a_time(plane, admin, simulators, replicas):
    admin.apply(*manifests(simulators))
    replicas.until(lambda: len(running(pods_of(plane))) == PODS, lambda: f"all pods run: {told(plane)}")
    before = requests(plane)
    assert len(before) == PODS

    plane.admin.call("PATCH", f"/apis/tgp.io/v1/gpunodeclasses/{CLASS}", {"spec": {"talosConfig": {"image": SECOND}}})
    ready: dict[str, datetime] = {}  # by name of a replacement
    replaces: dict[str, str] = {}  # by name of a machine: its replacement
    least = PODS

    def replaced() -> bool:
        nonlocal least
        found = requests(plane)
        least = min(least, len(running(pods_of(plane))))
        for name, each in found.items():
            if candidate := each["metadata"].get("annotations", {}).get("tgp.io/replaces"):
                replaces[candidate] = name
                if at := each.get("status", {}).get("readyAt"):
                    ready.setdefault(name, datetime.fromisoformat(at))
        return not before.keys() & found.keys() and len(running(pods_of(plane))) == PODS

    replicas.until(replaced, lambda: f"all are replaced: {told(plane)}")
    assert sorted(replaces) == sorted(before)
    assert least >= PODS - 1
    calls = asked(plane)
    deleted = {each.name: each.at for each in calls if (each.verb, each.resource) == ("delete", "gpurequests")}
    evictions = [each for each in calls if each.resource == "pods/eviction"]
    assert len(evictions) >= PODS
    assert not [each for each in calls if (each.verb, each.resource) == ("delete", "pods")]
    for name, replacement in replaces.items():
        assert deleted[name] >= ready[replacement], "it went before its replacement was ready"
    assert evictions[0].at >= min(deleted.values()), "a pod was evicted early"
    assert len(bought(simulators)) == 2 * PODS
    replicas.until(lambda: sum(machine.alive for machine in bought(simulators)) == PODS, "the old ones are gone")


# -- three machines for two --------------------------------------------------------------------------------------------


def sells(simulators: Simulators, **dollars: float | None) -> None:
    """Only these types are on sale from now on, each at one price in all places; None: at the price that it has."""

    def change(api: Any) -> None:
        fleet = api.simulators[PROVIDER].fleet
        for name, stand in fleet.stands.items():
            sku = stand.product.sku.replace(".", "_")
            stand.stock = 4 if sku in dollars else 0
            if (price := dollars.get(sku)) is not None:
                fleet.reprice(name, int(price * 1_000_000))

    simulators.look(change)


def exchanged_manifests(simulators: Simulators) -> tuple[dict[str, Any], ...]:
    node_class, pool, deployment, guard = manifests(simulators)
    disruption = {
        "consolidationPolicy": "WhenEmptyOrUnderutilized",
        "consolidateAfter": "5s",
        "budgets": [{"nodes": "100%"}],
    }
    spec = {"nodeClassRef": {"name": "cheap"}, "disruption": disruption}
    template = deployment["spec"]["template"]
    pod = {key: value for key, value in template["spec"].items() if key != "affinity"}
    labels = {"app": "batch"}
    deployment_spec = {
        "replicas": 3,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": pod},
    }
    return (
        {**node_class, "metadata": {"name": "cheap"}},
        {**pool, "metadata": {**pool["metadata"], "name": "cheap"}, "spec": spec},
        {**deployment, "metadata": {**deployment["metadata"], "name": "batch"}, "spec": deployment_spec},
        {
            **guard,
            "metadata": {**guard["metadata"], "name": "batch"},
            "spec": {"maxUnavailable": 1, "selector": {"matchLabels": labels}},
        },
    )


def test_three_machines_become_two_and_pods_leave_one_at_a_time(plane, admin, simulators, replicas):
    def own() -> dict[str, dict[str, Any]]:
        return {name: each for name, each in requests(plane).items() if name.startswith("cheap-")}

    def at_work() -> int:
        return len([name for name in running(pods_of(plane)) if name.startswith("batch-")])

    sells(simulators, t4_1=None)
    admin.apply(*exchanged_manifests(simulators))
    replicas.until(lambda: at_work() == 3, lambda: f"all pods run: {told(plane)}")
    before = own()
    assert len(before) == 3

    sells(simulators, rtx4090_2=0.20)
    least = 3

    def exchanged() -> bool:
        nonlocal least
        least = min(least, at_work())
        return not before.keys() & own().keys() and at_work() == 3

    replicas.until(exchanged, lambda: f"three became two: {told(plane)}", within_s=300)
    assert least >= 2
    assert len(own()) == 2
