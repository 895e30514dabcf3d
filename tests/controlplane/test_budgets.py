"""Budgets on a real API server: what its policies say is what ours say, and the operator acts under its own rights."""

import http.client
import json
import random
import ssl
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest

from tests.controlplane import budget_cases
from tests.sim.an_operator import furnish
from tgp.api.budget import GPUWorkloadBudget
from tgp.api.resource import GPU_WORKLOAD_BUDGET, NAMESPACE, POD
from tgp.app.demo.fixtures import create_object
from tgp.core.budgets.admission import COUNTED, GATE, LABEL, refusal
from tgp.core.model.object_key import ObjectKey
from tgp.services.shipped import budget_policies
from tgp.sim.apiserver.status_errors import Failure
from tgp.sim.world import World
from tools.controlplane.kubectl import Kubectl
from tools.controlplane.plane import ControlPlane

ROOT = Path(__file__).parents[2]
NAMESPACES = 20
BUDGETS = 4  # of each
PODS = 1000
AT_ONCE = 4
SEED = 20
RARE = 20  # pods: every kind of answer was given at least to so many


@pytest.fixture(scope="module")
def admin(plane, kubectl_program) -> Kubectl:
    run = Kubectl(kubectl_program, plane.kubeconfig, plane.directory)
    run("apply", "--server-side", f"--filename={ROOT / 'deploy' / 'crds'}")
    run("wait", "--for=condition=Established", "crd", "--all", "--timeout=120s")
    run("apply", f"--filename={ROOT / 'deploy' / 'rbac'}")
    run("apply", f"--filename={ROOT / 'deploy' / 'policy'}")
    return run


def sentinel(admission: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Written last: once it is seen at admission, all before it are."""
    made, status = budget_cases.budget(random.Random(1), f"last-{admission.lower()}", "default")
    made["metadata"]["labels"] = {LABEL: admission}
    made["spec"]["selector"] = {"matchLabels": {"last": admission}}
    made["spec"]["enforcement"]["admission"], made["spec"]["gpuResourceName"] = admission, "cpu"
    status["conditions"][1]["status"] = "True"
    return made, status


def a_pod_of(last: str) -> dict[str, Any]:
    container = {"name": "main", "image": "example.org/main:1", "resources": {"requests": {"cpu": "1"}}}
    return {
        "metadata": {"name": "last", "namespace": "default", "labels": {"last": last}},
        "spec": {"containers": [container]},
    }


class Caller:
    """One connection for many calls: opening one takes longer than a dry run."""

    def __init__(self, plane: ControlPlane) -> None:
        address = urlsplit(plane.url)
        tls = ssl.create_default_context(cafile=str(plane.ca_file))
        self._line = http.client.HTTPSConnection(address.hostname, address.port, timeout=60, context=tls)
        self._token = plane.admin_token
        self.close = self._line.close

    def __call__(self, method: str, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        kind = "merge-patch+json" if method == "PATCH" else "json"
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": f"application/{kind}"}
        self._line.request(method, path, json.dumps(body), headers)
        reply = self._line.getresponse()
        return reply.status, json.loads(reply.read())

    def dry_run(self, pod: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        return self("POST", f"{POD.path(pod['metadata']['namespace'])}?dryRun=All", pod)


def dry_runs(plane: ControlPlane, pods: list[dict[str, Any]]) -> list[tuple[int, dict[str, Any]]]:
    with closing(Caller(plane)) as call:
        return [call.dry_run(pod) for pod in pods]


def verdict(obj: dict[str, Any]) -> tuple[bool, bool]:
    gates = [gate["name"] for gate in obj["spec"].get("schedulingGates", ())]
    finalizers = obj["metadata"].get("finalizers", ())
    assert gates.count(GATE) <= 1
    assert list(finalizers).count(COUNTED) <= 1
    return GATE in gates, COUNTED in finalizers


def put(call: Caller, world: World, made: dict[str, Any], status: dict[str, Any]) -> None:
    namespace, name = made["metadata"]["namespace"], made["metadata"]["name"]
    assert call("POST", GPU_WORKLOAD_BUDGET.path(namespace), made)[0] == 201
    assert call("PATCH", GPU_WORKLOAD_BUDGET.path(namespace, name, "status"), {"status": status})[0] == 200
    create_object(world.api, made)
    world.api.local_api.merge_patch(GPU_WORKLOAD_BUDGET, namespace, name, {"status": status}, "status")


def in_memory(world: World, pod: dict[str, Any]) -> tuple[int, Any]:
    try:
        return 201, verdict(world.api.local_api.create(POD, pod))
    except Failure as failure:
        return failure.code, failure.message


def words(world: World, message: str) -> str:
    """How our own predicate refuses for the budget that the message names; the first of several is up to the server."""
    namespace, _, name = message.partition("tgp why budget/")[2].partition("/")
    found = world.api.local_api.get(GPU_WORKLOAD_BUDGET, namespace, name)
    return refusal(ObjectKey(namespace, name), msgspec.convert(found, GPUWorkloadBudget))


def test_the_policies_and_the_predicate_agree_about_a_thousand_pods(plane, admin, eventually):
    """By dry run: refused or not and in which words, gated or not, held by a finalizer or not."""
    chance = random.Random(SEED)
    namespaces = [f"team-{number}" for number in range(NAMESPACES)]
    with World("agree") as world, closing(Caller(plane)) as call:
        furnish(world)
        for policy in budget_policies():
            create_object(world.api, policy)
        for name in namespaces:
            namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            assert call("POST", NAMESPACE.path(), namespace)[0] == 201
            create_object(world.api, namespace)
            for number in range(BUDGETS):
                put(call, world, *budget_cases.budget(chance, f"budget-{number}", name))
        put(call, world, *sentinel("Deny"))
        put(call, world, *sentinel("Gate"))
        eventually(lambda: call.dry_run(a_pod_of("Deny"))[0] == 403)
        eventually(lambda: verdict(call.dry_run(a_pod_of("Gate"))[1])[0])
        eventually(lambda: len(plane.admin.call("GET", "/api/v1/serviceaccounts")["items"]) >= NAMESPACES)
        pods = [budget_cases.pod(chance, f"pod-{number}", chance.choice(namespaces)) for number in range(PODS)]
        with ThreadPoolExecutor(AT_ONCE) as threads:
            parts = threads.map(lambda part: dry_runs(plane, pods[part::AT_ONCE]), range(AT_ONCE))
        pods = [pod for part in range(AT_ONCE) for pod in pods[part::AT_ONCE]]
        seen: Counter[Any] = Counter()
        for pod, (status, real) in zip(pods, chain.from_iterable(parts), strict=True):
            code, said = in_memory(world, pod)
            assert code == status, (pod, said, real)
            seen[said if status == 201 else status] += 1
            if status == 201:
                assert said == verdict(real), pod
            else:
                assert real["message"].endswith(f"denied request: {words(world, real['message'])}"), pod
    assert min(seen.values()) >= RARE, seen
    assert len(seen) == len(("refused", "as it is", "gated", "counted", "both"))
