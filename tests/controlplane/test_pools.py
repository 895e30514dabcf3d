"""Pools on a real control plane: the shipped operator buys by sockets, the real scheduler places, KWOK runs the pods.

The manifests of the first README are applied as they stand there. Their words are followed until pods run, as a new
user would. Then pairs of pods compete for machines of two prices.
"""

import re
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.amounts import amount
from tests.controlplane.node_registrar import GPU
from tests.controlplane.replica import SHORT
from tests.controlplane.replicas import Replicas
from tests.controlplane.simulators import Simulators
from tests.controlplane.test_lifecycle import condition, installed, seen
from tgp.core.model.offer import CONTAINER_ONLY
from tgp.sim.clouds.machine import Phase, SimulatedMachine
from tools.controlplane.kubectl import Kubectl
from tools.controlplane.plane import ControlPlane

ROOT = Path(__file__).parents[2]
SEEDS = ROOT / "deploy" / "examples" / "seeds"
CLASS, POOL = "standard-gpu-class", "ml-workload-pool"  # of the first README
PROVIDER = "simulated"
EPHEMERAL = {"key": "tgp.io/ephemeral", "operator": "Exists", "effect": "NoSchedule"}
OF_THE_POOL = {"key": "gpu-node", "operator": "Equal", "value": "true", "effect": "NoSchedule"}
PODS = 2  # of the Deployment
WITH, WITHOUT = "nominated", "control"  # runs, each in a namespace of its name
PAIRS = {WITH: amount(10, 20), WITHOUT: 4}
ALL_MACHINES = 2 * sum(PAIRS.values())
# The scheduler removes a nomination each time it tries the pod in vain, and knows of the one that is written again
# some milliseconds later. GPUs that appear in that very moment may go to another pod: they appear once it has passed.
UNCHANGED_S = 1.5
SMALL, LARGE = "RTX4090", "A100-80GB-SXM"  # 24 GB and 80 GB
RUN = "example.com/run"  # the label that keeps the machines of the two runs apart
WRITERS = 4
OPERATOR = "system:serviceaccount:tgp-system:tgp-operator"


@pytest.fixture(scope="module")
def admin(plane, kubectl_program, simulators, registrar) -> Kubectl:
    return installed(Kubectl(kubectl_program, plane.kubeconfig, plane.directory), simulators)


@pytest.fixture(scope="module")
def replicas(plane, admin, simulators, tmp_path_factory) -> Iterator[Replicas]:
    aboard = Replicas(plane, simulators.signposts(), tmp_path_factory.mktemp("replicas"), shortened=SHORT)
    aboard.start("first")
    yield aboard
    aboard.leave()


# -- what is looked at -------------------------------------------------------------------------------------------------


def status_of(plane: ControlPlane, path: str) -> Mapping[str, Any]:
    return (seen(plane, f"/apis/tgp.io/v1/{path}") or {}).get("status", {})


def class_status(plane: ControlPlane) -> Mapping[str, Any]:
    return status_of(plane, f"gpunodeclasses/{CLASS}")


def pool_status(plane: ControlPlane) -> Mapping[str, Any]:
    return status_of(plane, f"namespaces/default/gpunodepools/{POOL}")


def pods_of(plane: ControlPlane, namespace: str = "default") -> list[dict[str, Any]]:
    return list(plane.admin.call("GET", f"/api/v1/namespaces/{namespace}/pods")["items"])


def told(plane: ControlPlane, kind: str, reason: str) -> list[str]:
    """What Events of this reason say to objects of this kind in namespace default."""
    events = plane.admin.call("GET", "/api/v1/namespaces/default/events")["items"]
    return [each["message"] for each in events if (each["involvedObject"]["kind"], each["reason"]) == (kind, reason)]


def bought(simulators: Simulators) -> list[SimulatedMachine]:
    """From whatever provider, living or gone."""
    return [machine for _, machine in simulators.machines() if not machine.foreign]


def running(pods: list[dict[str, Any]]) -> list[str]:
    return [pod["metadata"]["name"] for pod in pods if pod["status"]["phase"] == "Running"]


# -- the manifests of the first README ---------------------------------------------------------------------------------


def a_deployment() -> dict[str, Any]:
    """With the toleration that the README's pool asks for, and no other."""
    pod = {
        "tolerations": [OF_THE_POOL],
        "terminationGracePeriodSeconds": 1,
        "containers": [{"name": "work", "image": "any", "resources": {"limits": {GPU: 1}}}],
    }
    labels = {"app": "work"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "work", "namespace": "default"},
        "spec": {
            "replicas": PODS,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod},
        },
    }


@pytest.fixture(scope="module")
def as_written(admin, replicas) -> None:
    written = [
        YAML(typ="safe").load((SEEDS / f"readme-{kind}.yaml").read_text()) for kind in ("gpunodeclass", "gpunodepool")
    ]
    admin.apply(*written, a_deployment())


def test_class_pool_and_pods_say_that_nothing_can_be_bought_and_what_could(plane, simulators, replicas, as_written):
    """RunPod sells the model, and starts containers; Lambda boots Talos, and does not sell it."""

    def why() -> str:
        return str(condition(pool_status(plane), "Ready").get("message", ""))

    replicas.until(
        lambda: condition(pool_status(plane), "Ready").get("reason") == "NodeClassCannotBuy",
        lambda: f"it says: {why()}",
    )
    verdict = condition(class_status(plane), "CanBuy")
    assert (verdict["status"], verdict["reason"]) == ("False", "CannotBuy")
    assert condition(class_status(plane), "Ready")["status"] == "False"
    assert verdict["message"] in why()
    assert CONTAINER_ONLY in why()
    would_work = re.search(r"To fix: .*: 1x (\S+) at \$\S+/h from (\S+) in ", why())
    assert would_work, why()
    assert would_work[2] == "lambdalabs"
    assert would_work[1] not in ("RTX4090", "RTX3090")
    assert "tgp.io/gpu-type" in why(), "the pool would have to allow it, too"

    replicas.until(
        lambda: sum(why() in text for text in told(plane, "Pod", "NotTriggerScaleUp")) == PODS, "every pod is told"
    )
    assert told(plane, "GPUNodePool", "NodeClassCannotBuy") == [why()]
    assert bought(simulators) == []


@pytest.fixture(scope="module")
def can_buy(plane, admin, simulators, replicas, as_written) -> None:
    """The same class on a provider that sells the model and boots Talos."""
    entry = [{"name": PROVIDER, "settings": {"endpoint": simulators.urls()[PROVIDER]}}]
    plane.admin.call("PATCH", f"/apis/tgp.io/v1/gpunodeclasses/{CLASS}", {"spec": {"providers": entry}})
    replicas.until(lambda: condition(pool_status(plane), "Ready").get("status") == "True", "the pool is Ready")


def test_pods_that_lack_one_toleration_are_told_which(plane, simulators, replicas, can_buy):
    """The taint of rented machines is newer than the README."""
    missing = "add to the pod's tolerations: {key: tgp.io/ephemeral, operator: Exists, effect: NoSchedule}"

    replicas.until(
        lambda: sum(missing in text for text in told(plane, "Pod", "NotTriggerScaleUp")) == PODS, "every pod is told"
    )

    assert bought(simulators) == []


def test_a_deployment_scales_from_no_machine_to_some_and_back(plane, admin, simulators, replicas, can_buy):
    short = {"spec": {"disruption": {"consolidateAfter": "3s"}}}
    plane.admin.call("PATCH", f"/apis/tgp.io/v1/namespaces/default/gpunodepools/{POOL}", short)
    tolerant = {"spec": {"template": {"spec": {"tolerations": [OF_THE_POOL, EPHEMERAL]}}}}
    deployment = "/apis/apps/v1/namespaces/default/deployments/work"
    plane.admin.call("PATCH", deployment, tolerant)

    replicas.until(lambda: len(running(pods_of(plane))) == PODS, lambda: f"all pods run: {pool_status(plane)}")
    machines = bought(simulators)
    assert {machine.product.gpu for machine in machines} == {"RTX4090"}
    assert sum(machine.product.gpu_count for machine in machines) == PODS
    assert {machine.product.place for machine in machines} <= {"us-west-1", "us-east-1"}
    header, row = admin("get", "gnp", "--namespace=default").splitlines()
    shown = dict(zip(re.split(r"\s{2,}", header), re.split(r"\s{2,}", row), strict=True))
    assert (shown["MACHINES"], shown["WAITING"]) == (str(len(machines)), "0")
    assert 0 < float(shown["HOURLY"]) <= 2.0 * len(machines)

    plane.admin.call("PATCH", deployment, {"spec": {"replicas": 0}})
    replicas.until(
        lambda: not any(machine.alive for machine in bought(simulators)), lambda: f"all go: {pool_status(plane)}"
    )

    def left() -> list[Any]:
        requests = plane.admin.call("GET", "/apis/tgp.io/v1/namespaces/default/gpurequests")["items"]
        nodes = plane.admin.call("GET", f"/api/v1/nodes?labelSelector=tgp.io/nodepool={POOL}")["items"]
        return [*requests, *nodes]

    replicas.until(lambda: not left(), "neither requests nor Nodes are left")
    replicas.until(lambda: pool_status(plane).get("nodeCount") == 0, "the pool counts none")
    assert len(bought(simulators)) == len(machines), "none was bought beside"


# -- nominations -------------------------------------------------------------------------------------------------------


def a_pair(run: str, number: int) -> Iterator[dict[str, Any]]:
    """A pod that runs on any GPU, and one that needs 80 GB. The undemanding one is first in the scheduler's queue."""
    large = {"key": "tgp.io/gpu-memory", "operator": "Gt", "values": ["40"]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [large]}]}
    needs_large = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    for name, affinity in (("any", {}), ("large", needs_large)):
        yield {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"{name}-{number:02}", "namespace": run},
            "spec": {
                "nodeSelector": {RUN: run},
                "tolerations": [EPHEMERAL],
                "affinity": affinity,
                "terminationGracePeriodSeconds": 1,
                "containers": [{"name": "work", "image": "any", "resources": {"limits": {GPU: "1"}}}],
            },
        }


def a_pool(run: str) -> dict[str, Any]:
    """One GPU per machine; no more machines than pods, whatever the scheduler makes of them."""
    alone = {"key": "tgp.io/gpu-count", "operator": "In", "values": ["1"]}
    return {
        "apiVersion": "tgp.io/v1",
        "kind": "GPUNodePool",
        "metadata": {"name": "pairs", "namespace": run},
        "spec": {
            "nodeClassRef": {"name": "pairs"},
            "template": {"metadata": {"labels": {RUN: run}}, "spec": {"requirements": [alone]}},
            "limits": {"resources": {"nodes": 2 * PAIRS[run]}},
        },
    }


def no_nominations_there() -> tuple[dict[str, Any], dict[str, Any]]:
    """The operator may nominate no pod of the control run: the API server refuses it."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["pods/status"]}
    api = "admissionregistration.k8s.io/v1"
    policy = {
        "apiVersion": api,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "control"},
        "spec": {
            "failurePolicy": "Fail",
            "matchConstraints": {"resourceRules": [rule]},
            "matchConditions": [{"name": "ours", "expression": f"request.userInfo.username == '{OPERATOR}'"}],
            "validations": [{"expression": f"object.metadata.namespace != '{WITHOUT}'", "message": "the control run"}],
        },
    }
    binding = {
        "apiVersion": api,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "control"},
        "spec": {"policyName": "control", "validationActions": ["Deny"]},
    }
    return policy, binding


@dataclass(frozen=True)
class PairEnv:
    """Both runs: what becomes of their pods and machines."""

    plane: ControlPlane
    simulators: Simulators
    earlier: frozenset[str]  # machines of the tests before

    def machines(self, gpu: str = "") -> list[SimulatedMachine]:
        found = (each for each in bought(self.simulators) if each.id not in self.earlier)
        return [each for each in found if gpu in ("", each.product.gpu)]

    def nodes(self) -> list[dict[str, Any]]:
        return list(self.plane.admin.call("GET", f"/api/v1/nodes?labelSelector={RUN}")["items"])

    def pods(self, *runs: str) -> list[dict[str, Any]]:
        return [pod for run in runs for pod in pods_of(self.plane, run)]

    def nominated(self, run: str) -> int:
        return sum("nominatedNodeName" in pod["status"] for pod in self.pods(run))

    def not_nominated(self) -> list[str]:
        """Pods that need a large machine, and wait for it."""
        waiting = [pod for pod in self.pods(WITH) if not pod["spec"].get("nodeName")]
        names = [pod["metadata"]["name"] for pod in waiting if "nominatedNodeName" not in pod["status"]]
        return [name for name in names if name.startswith("large")]

    def stay_nominated(self) -> bool:
        if self.not_nominated():
            return False
        time.sleep(UNCHANGED_S)
        return not self.not_nominated()

    def running(self, run: str) -> int:
        return len(running(self.pods(run)))

    def waits(self) -> list[str]:
        """What requests without a Node say."""
        lists = (
            self.plane.admin.call("GET", f"/apis/tgp.io/v1/namespaces/{run}/gpurequests")["items"] for run in PAIRS
        )
        statuses = (each.get("status", {}) for found in lists for each in found)
        return [str(each.get("message")) for each in statuses if not each.get("nodeName")]

    def placed(self) -> dict[str, dict[str, str]]:
        """Run → pod → the GPU model of its machine."""
        model = {node["metadata"]["name"]: node["metadata"]["labels"]["tgp.io/gpu-type"] for node in self.nodes()}
        return {
            run: {
                pod["metadata"]["name"]: model[pod["spec"]["nodeName"]]
                for pod in self.pods(run)
                if pod["spec"].get("nodeName")
            }
            for run in PAIRS
        }


@pytest.fixture(scope="module")
def pairs(plane, admin, simulators, replicas) -> PairEnv:
    """A class that can buy both models, plenty of them on sale, and a namespace for each run."""

    def plenty(api: Any) -> None:
        for stand in api.simulators[PROVIDER].fleet.stands.values():
            stand.stock = ALL_MACHINES

    simulators.look(plenty)
    env = PairEnv(plane, simulators, frozenset(machine.id for machine in bought(simulators)))
    entry = {"name": PROVIDER, "settings": {"endpoint": simulators.urls()[PROVIDER]}}
    spec = {
        "providers": [entry],
        "networking": {"backend": "none"},
        "instanceRequirements": {"gpuTypes": [SMALL, LARGE]},
    }
    node_class = {"apiVersion": "tgp.io/v1", "kind": "GPUNodeClass", "metadata": {"name": "pairs"}, "spec": spec}
    namespaces = ({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": run}} for run in PAIRS)
    admin.apply(*no_nominations_there(), *namespaces, node_class)
    replicas.until(
        lambda: condition(status_of(plane, "gpunodeclasses/pairs"), "Ready").get("status") == "True",
        "the class is Ready",
    )
    for run in PAIRS:
        replicas.until(lambda run=run: admin.run("get", "sa", "default", f"--namespace={run}").returncode == 0, "")
    return env


@pytest.fixture(scope="module")
def wanted(pairs, plane, admin, registrar, replicas) -> None:
    """The scheduler has tried every pod in vain, and then the pools come: machines are planned for all pods at once."""
    registrar.with_gpus = False
    pods = [pod for run, number in PAIRS.items() for each in range(number) for pod in a_pair(run, each)]
    with ThreadPoolExecutor(WRITERS) as writers:
        list(
            writers.map(
                lambda pod: plane.admin.call("POST", f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods", pod),
                pods,
            )
        )
    replicas.until(
        lambda: sum(bool(pod["status"].get("conditions")) for pod in pairs.pods(*PAIRS)) == len(pods),
        "the scheduler has tried every pod",
    )
    admin.apply(a_pool(WITH), a_pool(WITHOUT))


@pytest.fixture(scope="module")
def placed(pairs, wanted, plane, registrar, replicas) -> dict[str, dict[str, str]]:
    """Run → pod → the GPU model of its machine. The 80 GB show their GPUs first, one after the other."""
    replicas.until(
        lambda: len(pairs.nodes()) == ALL_MACHINES and not pairs.not_nominated(),
        lambda: (
            f"{len(pairs.machines())} machines, {len(pairs.nodes())} Nodes, {pairs.nominated(WITH)} nominated: "
            f"{pairs.waits()}"
        ),
    )
    assert pairs.nominated(WITHOUT) == 0

    for machine in pairs.machines(LARGE):
        replicas.until(
            pairs.stay_nominated, lambda: f"not nominated: {pairs.not_nominated()}; placed: {pairs.placed()}"
        )
        registrar.show_gpus(machine)
    replicas.until(lambda: pairs.running(WITHOUT) == PAIRS[WITHOUT], "what came first is taken")
    for machine in pairs.machines(SMALL):
        registrar.show_gpus(machine)
    replicas.until(
        lambda: pairs.running(WITH) == 2 * PAIRS[WITH],
        lambda: f"{pairs.running(WITH)} pods run",
    )
    assert len(pairs.machines()) == ALL_MACHINES
    assert all(machine.phase is Phase.RUNNING for machine in pairs.machines())
    return pairs.placed()


def test_pods_go_to_the_machines_that_were_bought_for_them(placed):
    where, pairs = placed[WITH], range(PAIRS[WITH])

    served = sum(where[f"large-{number:02}"] == LARGE for number in pairs)
    print(f"nominations: {served} of {PAIRS[WITH]} machines run the pod that they were bought for")
    assert served == PAIRS[WITH]
    assert all(where[f"any-{number:02}"] == SMALL for number in pairs)


def test_without_nominations_undemanding_pods_take_expensive_machines(placed):
    """Which of them is left to chance. The pods that need these wait then, and would cost further machines."""
    where = placed[WITHOUT]

    taken = sum(where.get(f"any-{number:02}") == LARGE for number in range(PAIRS[WITHOUT]))
    assert taken, "as many pods that need the machine wait"
    assert sum(name.startswith("large") for name in where) == PAIRS[WITHOUT] - taken
