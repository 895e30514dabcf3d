"""Disruption on a real control plane: another Talos image replaces machines first, and one pod at a time may leave.

The audit log of the API server tells in which order things were asked for.
"""

import json
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

import pytest

from tests.controlplane.node_registrar import GPU, SILENT, NodeRegistrar
from tests.controlplane.replica import SHORT
from tests.controlplane.replicas import Replicas
from tests.controlplane.simulators import POWER_HOST, Simulators
from tests.controlplane.test_lifecycle import installed
from tests.controlplane.test_pools import EPHEMERAL, OPERATOR, PROVIDER, bought, pods_of, running
from tgp.sim.clouds.cloud_faults import CloudVerb
from tools.controlplane.client import Refused
from tools.controlplane.fixtures import a_control_plane
from tools.controlplane.kubectl import Kubectl
from tools.controlplane.nodes import FAKE, fake_node
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


@dataclass
class SeenMoves:
    """What looks at the requests show: which machine leaves in which move, and when its replacements were ready."""

    moves: dict[str, str] = field(default_factory=dict)  # by name of a machine
    ready: dict[str, dict[str, datetime | None]] = field(default_factory=dict)  # by move and name of a replacement

    def look(self, found: dict[str, dict[str, Any]]) -> None:
        for name, each in found.items():
            said = each["metadata"].get("annotations", {})
            if (move := said.get("tgp.io/move")) is None:
                continue
            if "tgp.io/replaces" not in said:
                self.moves[name] = move
                continue
            at = each.get("status", {}).get("readyAt")
            self.ready.setdefault(move, {})[name] = datetime.fromisoformat(at) if at else None


def nothing_left_early(plane: ControlPlane, seen: SeenMoves, names: Collection[str], pods: str) -> None:
    """By the audit log: machines went after all replacements of their move were ready, and pods after that."""
    calls = asked(plane)
    deleted = {each.name: each.at for each in calls if (each.verb, each.resource) == ("delete", "gpurequests")}
    ours = [each for each in calls if each.name.startswith(pods)]
    evictions = [each for each in ours if each.resource == "pods/eviction"]
    assert len(evictions) >= len(names)
    assert not [each for each in ours if (each.verb, each.resource) == ("delete", "pods")]
    assert set(seen.moves) >= set(names)
    for name in names:
        replacements = seen.ready[seen.moves[name]]
        assert replacements, "a replacement was ordered"
        for at in replacements.values():
            assert at is not None, "a replacement was never ready"
            assert deleted[name] >= at, "it went before its replacements were ready"
    assert evictions[0].at >= min(deleted[name] for name in names), "a pod was evicted early"


def test_another_image_replaces_machines_first_and_pods_leave_one_at_a_time(plane, admin, simulators, replicas):
    admin.apply(*manifests(simulators))
    replicas.until(lambda: len(running(pods_of(plane))) == PODS, lambda: f"all pods run: {told(plane)}")
    before = requests(plane)
    assert len(before) == PODS

    plane.admin.call("PATCH", f"/apis/tgp.io/v1/gpunodeclasses/{CLASS}", {"spec": {"talosConfig": {"image": SECOND}}})
    seen, least = SeenMoves(), PODS

    def replaced() -> bool:
        nonlocal least
        found = requests(plane)
        least = min(least, len(running(pods_of(plane))))
        seen.look(found)
        return not before.keys() & found.keys() and len(running(pods_of(plane))) == PODS

    replicas.until(replaced, lambda: f"all are replaced: {told(plane)}")
    assert sorted(seen.moves) == sorted(before)
    assert least >= PODS - 1
    nothing_left_early(plane, seen, before, "serve-")
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
    seen, least = SeenMoves(), 3

    def exchanged() -> bool:
        nonlocal least
        least = min(least, at_work())
        seen.look(own())
        return not before.keys() & own().keys() and at_work() == 3

    replicas.until(exchanged, lambda: f"three became two: {told(plane)}", within_s=300)
    assert least >= 2
    assert len(own()) == 2
    nothing_left_early(plane, seen, before, "batch-")


# -- machines you own, by environment variables ------------------------------------------------------------------------

BOX = "cellar-1"
ENVIRONMENT = {
    "GPU_NODE_1_NAME": BOX,
    "GPU_NODE_1_GPU_COUNT": "2",
    "GPU_NODE_1_SCALE_UP_ENDPOINT": f"http://{POWER_HOST}/{BOX}/on",
    "GPU_NODE_1_SCALE_DOWN_ENDPOINT": f"http://{POWER_HOST}/{BOX}/off",
}
POWER_NODES = "/apis/tgp.io/v1/gpunodeclasses/power-nodes"
ITS_POOL = "/apis/tgp.io/v1/namespaces/tgp-system/gpunodepools/power-nodes"
SILENT_FOR = {"tgp.core.requests.lifecycle:OFF_SHOWN_AFTER": 5}  # seconds: without a status endpoint its Node tells


@pytest.fixture
def seeded(plane, admin, simulators, replicas, tmp_path) -> Iterator[Replicas]:
    """An operator with these variables, instead of the one without. The machine was a Node once, and is off."""
    path = f"/api/v1/nodes/{BOX}"
    plane.admin.call("POST", "/api/v1/nodes", fake_node(BOX, {GPU: "2"}, {"nvidia.com/gpu.present": "true"}))
    replicas.until(lambda: plane.admin.call("GET", path)["status"].get("conditions"), "KWOK knows its Node")
    plane.admin.call("PATCH", path, {"metadata": {"annotations": dict.fromkeys(FAKE)}})
    plane.admin.call("PATCH", f"{path}/status", {"status": {"conditions": SILENT}})
    replicas.stop("first")
    aboard = Replicas(plane, simulators.signposts(), tmp_path, shortened={**SHORT, **SILENT_FOR}, variables=ENVIRONMENT)
    aboard.start("seeded")
    yield aboard
    aboard.leave()


def owned_on(simulators: Simulators) -> list[str]:
    """Machines of the power API that are on."""
    return [machine.product.sku for _, machine in simulators.machines("webhook") if machine.alive]


def calls(simulators: Simulators, verb: CloudVerb) -> int:
    return simulators.look(lambda api: api.simulators["webhook"].calls[verb])


def test_variables_of_the_environment_wake_a_machine_for_a_pod_and_it_is_off_again(plane, simulators, seeded):
    """`tgp operator` and a power API on a socket: class and pool are written, a pod runs, the machine goes off."""
    seeded.until(lambda: there(plane, POWER_NODES) and there(plane, ITS_POOL), "class and pool are written")
    (machine,) = plane.admin.call("GET", POWER_NODES)["spec"]["providers"][0]["settings"]["machines"]
    assert (machine["name"], machine["gpuCount"]) == (BOX, 2)
    providers = [{"name": "webhook", "settings": {"machines": [machine | {"minOnTime": "5s"}]}}]
    plane.admin.call("PATCH", POWER_NODES, {"spec": {"providers": providers}})
    plane.admin.call("PATCH", ITS_POOL, {"spec": {"disruption": {"consolidateAfter": "5s"}}})

    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "on-the-box", "namespace": "default"},
        "spec": {
            "nodeSelector": {"kubernetes.io/hostname": BOX},
            "containers": [{"name": "work", "image": "any", "resources": {"limits": {GPU: 1}}}],
        },
    }
    plane.admin.call("POST", "/api/v1/namespaces/default/pods", pod)
    seeded.until(lambda: "on-the-box" in running(pods_of(plane)), lambda: f"the pod runs: {owned_requests(plane)}")
    assert owned_on(simulators) == [BOX]
    assert calls(simulators, CloudVerb.LAUNCH) == 1
    assert calls(simulators, CloudVerb.TERMINATE) == 0

    plane.admin.call("DELETE", "/api/v1/namespaces/default/pods/on-the-box?gracePeriodSeconds=0")
    seeded.until(lambda: not owned_on(simulators), lambda: f"it is off: {owned_requests(plane)}")
    seeded.until(lambda: not owned_requests(plane), lambda: f"its request is gone: {owned_requests(plane)}")
    assert calls(simulators, CloudVerb.LAUNCH) == 1
    assert there(plane, f"/api/v1/nodes/{BOX}"), "the Node stays"


def there(plane: ControlPlane, path: str) -> bool:
    try:
        plane.admin.call("GET", path)
    except Refused as error:
        if error.status != 404:
            raise
        return False
    return True


def owned_requests(plane: ControlPlane) -> dict[str, list[str]]:
    found = plane.admin.call("GET", "/apis/tgp.io/v1/namespaces/tgp-system/gpurequests")["items"]
    return {
        each["metadata"]["name"]: [f"{row['type']}: {row['message']}" for row in each["status"].get("conditions", ())]
        for each in found
        if "status" in each
    }
