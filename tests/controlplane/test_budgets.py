"""Budgets on a real API server: what its policies say is what ours say, and the operator acts under its own rights."""

import copy
import http.client
import json
import random
import re
import ssl
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest

from bench.budget import run as bench
from bench.budget.connection import Connection
from bench.budget.operators import Operator
from bench.budget.stage import Knobs, Stage
from bench.budget.truth import Truth
from tests.controlplane import budget_cases
from tests.controlplane.budget_objects import (
    EVERY_KIND,
    a_budget,
    a_pod,
    every_kind,
    owners,
    without_gpu,
)
from tests.sim.an_operator import furnish
from tgp.api.budget import GPUWorkloadBudget
from tgp.api.resource import GPU_WORKLOAD_BUDGET, JOB, LEGACY_BUDGET, NAMESPACE, POD
from tgp.app.demo.fixtures import create_object
from tgp.core.budgets.admission import GATE, LABEL, refusal
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.pod import COUNTED
from tgp.services.shipped import budget_policies
from tgp.sim.apiserver.status_errors import Failure
from tgp.sim.world import World
from tools.controlplane.fixtures import a_control_plane
from tools.controlplane.kubectl import Kubectl, KubectlFailed
from tools.controlplane.nodes import fake_node
from tools.controlplane.plane import EVERYTHING, ControlPlane

ROOT = Path(__file__).parents[2]
NAMESPACES = 20
BUDGETS = 3  # of each
WIDE_BUDGETS = 4  # over several namespaces
PODS = 1000
AT_ONCE = 4
CHANCE = 20
RARE = 20  # pods: every kind of answer was given at least to so many


@pytest.fixture(scope="module")
def plane(pytestconfig) -> Iterator[ControlPlane]:
    with a_control_plane(pytestconfig, replace(EVERYTHING, version=pytestconfig.getoption("--kubernetes"))) as running:
        yield running


@pytest.fixture(scope="module")
def policies(plane) -> None:
    """Skips what a release without admission policies cannot show."""
    if plane.wanted.version != EVERYTHING.version:
        pytest.skip(f"Kubernetes {plane.wanted.version} has no admission policies")


@pytest.fixture(scope="module")
def admin(plane, kubectl_program) -> Kubectl:
    run = Kubectl(kubectl_program, plane.kubeconfig, plane.directory)
    run("apply", "--server-side", "--recursive", f"--filename={ROOT / 'deploy' / 'crds'}")
    run("wait", "--for=condition=Established", "crd", "--all", "--timeout=120s")
    run("apply", f"--filename={ROOT / 'deploy' / 'rights.yaml'}")
    if plane.wanted.version == EVERYTHING.version:
        run("apply", f"--filename={ROOT / 'deploy' / 'policies.yaml'}")
    run.apply(fake_node("own", {"cpu": "64", "nvidia.com/gpu": "64"}))
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

    def __init__(self, plane: ControlPlane, token: str = "") -> None:
        address = urlsplit(plane.url)
        tls = ssl.create_default_context(cafile=str(plane.ca_file))
        self._line = http.client.HTTPSConnection(address.hostname, address.port, timeout=60, context=tls)
        self._token = token or plane.admin_token
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


def test_the_policies_and_the_predicate_agree_about_a_thousand_pods(plane, admin, policies, eventually):
    """By dry run: refused or not and in which words, gated or not, held by a finalizer or not."""
    chance = random.Random(CHANCE)
    namespaces = [f"team-{number}" for number in range(NAMESPACES)]
    with World("agree") as world, closing(Caller(plane)) as call:
        furnish(world)
        for policy in budget_policies():
            create_object(world.api, policy)
        for name in namespaces:
            namespace = budget_cases.namespace(chance, name)
            assert call("POST", NAMESPACE.path(), namespace)[0] == 201
            create_object(world.api, namespace)
            for number in range(BUDGETS):
                put(call, world, *budget_cases.budget(chance, f"budget-{number}", name))
        for number in range(WIDE_BUDGETS):
            put(call, world, *budget_cases.budget(chance, f"wide-{number}", budget_cases.OPERATORS))
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
        admin("delete", "gpuworkloadbudgets.tgp.io", "--all", "--all-namespaces", "--wait=false")
    assert min(seen.values()) >= RARE, seen
    assert len(seen) == len(("refused", "as it is", "gated", "counted", "both"))


LATER = "tests-add-a-label"  # a policy; which comes first is not said, and changes
ORDERS = 5  # times that they are put into some order
RULES = [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]
ADDS = {
    "kind": "MutatingAdmissionPolicy",
    "spec": {
        "reinvocationPolicy": "Never",
        "matchConstraints": {"resourceRules": RULES},
        "matchConditions": [
            {"name": "asked", "expression": "has(object.metadata.annotations) && 'late' in object.metadata.annotations"}
        ],
        "mutations": [
            {
                "patchType": "ApplyConfiguration",
                "applyConfiguration": {"expression": 'Object{metadata: Object.metadata{labels: {"late": "yes"}}}'},
            }
        ],
    },
}
BINDS = {"kind": "MutatingAdmissionPolicyBinding", "spec": {"policyName": LATER}}


def test_a_label_that_a_later_policy_adds_is_met_too(plane, admin, policies, eventually):
    """Another policy or a webhook writes the team into a pod: both of ours look again."""
    made, status = sentinel("Gate")
    made["metadata"] |= {"name": "late", "labels": {LABEL: "Gate-Exact"}}
    made["spec"] |= {"selector": {"matchLabels": {"late": "yes"}}, "accounting": "Exact"}
    pod = a_pod_of("no")
    labelled, annotated = copy.deepcopy(pod), copy.deepcopy(pod)
    labelled["metadata"]["labels"] = {"late": "yes"}
    annotated["metadata"]["annotations"] = {"late": "yes"}
    with closing(Caller(plane)) as call:
        assert call("POST", GPU_WORKLOAD_BUDGET.path("default"), made)[0] == 201
        assert call("PATCH", GPU_WORKLOAD_BUDGET.path("default", "late", "status"), {"status": status})[0] == 200
        eventually(lambda: verdict(call.dry_run(labelled)[1]) == (True, True))
        assert verdict(call.dry_run(annotated)[1]) == (False, False)
        common = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": LATER}}
        for _ in range(ORDERS):
            admin.apply(*(common | each for each in (ADDS, BINDS)))
            eventually(lambda: "late" in call.dry_run(annotated)[1]["metadata"]["labels"])
            assert verdict(call.dry_run(annotated)[1]) == (True, True)
            admin("delete", "mutatingadmissionpolicybinding,mutatingadmissionpolicy", LATER)
            eventually(lambda: "late" not in call.dry_run(annotated)[1]["metadata"]["labels"])
        admin("delete", "gpuworkloadbudgets.tgp.io", "late", "--wait=false")


# -- the operator under its shipped rights -----------------------------------------------------------------------------

USED_UP_IN = {"deny": "Deny", "gate": "Gate", "evict": "Off"}  # namespaces, and the admission of their budgets
TOLERATED = [  # what every pod has
    {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    for key in ("not-ready", "unreachable")
]
BLOCKS = "tests-block-finalizers"  # a policy of a test
SEED = ROOT / "deploy" / "examples" / "seeds" / "readme-legacy-budget.yaml"


@pytest.fixture(scope="module")
def operator(plane, admin, tmp_path_factory) -> Iterator[Operator]:
    made = Operator(plane, tmp_path_factory.mktemp("operator") / "operator.log")
    made.start()
    yield made
    assert made.stop() == 0, made.log.read_text()
    refused = [line for line in made.log.read_text().splitlines() if "orbidden" in line and BLOCKS not in line]
    assert not refused, "a right is missing"


@pytest.fixture(scope="module")
def used_up(plane, admin, operator, eventually) -> None:
    """In each namespace a budget of four GPU-seconds an hour, which a pod has used."""
    for namespace, admission in USED_UP_IN.items():
        admin("create", "namespace", namespace)
        spec = {
            "quota": {"gpuHours": "0.001", "windowHours": 1},
            "enforcement": {"action": "Evict", "gracePeriodSeconds": 0, "admission": admission},
        }
        admin.apply(a_budget(namespace, **spec))
        eventually(lambda name=namespace: "account" in budget_status(plane, name))
        admin.apply(a_pod("first", namespace))
    for namespace in USED_UP_IN:
        eventually(lambda name=namespace: holds(plane, name, "QuotaExceeded"))


def running(plane: ControlPlane, namespace: str) -> set[str]:
    """Names of what its running pods belong to: of a pod without owner its own."""
    return {
        re.match(r"[a-z]+", pod["metadata"]["name"]).group()
        for pod in pods(plane, namespace)
        if pod["status"].get("phase") == "Running"
    }


def budget_status(plane: ControlPlane, namespace: str, name: str = "team-a") -> dict[str, Any]:
    found = plane.admin.call("GET", GPU_WORKLOAD_BUDGET.path(namespace, name))
    return dict(found.get("status", {}))


def holds(plane: ControlPlane, namespace: str, kind: str) -> bool:
    rows = budget_status(plane, namespace).get("conditions", ())
    return any(row["type"] == kind and row["status"] == "True" for row in rows)


def pods(plane: ControlPlane, namespace: str) -> list[dict[str, Any]]:
    items = plane.admin.call("GET", POD.path(namespace))["items"]
    return [pod for pod in items if "deletionTimestamp" not in pod["metadata"]]


def test_a_budget_that_is_used_up_evicts_what_runs(plane, used_up, eventually):
    for namespace in USED_UP_IN:
        eventually(lambda name=namespace: pods(plane, name) == [])
        assert "lastEnforcementAt" in budget_status(plane, namespace)
        eventually(lambda name=namespace: budget_status(plane, name)["gpusInUse"] == "0", within_s=30)
        assert "nextChangeAt" in budget_status(plane, namespace)
        if plane.wanted.version == EVERYTHING.version:
            assert not holds(plane, namespace, "Degraded"), budget_status(plane, namespace)["conditions"]


def test_a_bare_pod_and_the_pods_of_every_owner_are_denied_and_say_why(plane, admin, used_up, policies, eventually):
    refused = r"budget deny/team-a is used up .* GPU-hours\): .*Next: tgp why budget/deny/team-a"
    eventually(lambda: "tgp.io/admission" in str(plane.admin.call("GET", GPU_WORKLOAD_BUDGET.path("deny", "team-a"))))
    eventually(
        lambda: admin.run("create", "--dry-run=server", "-f", "-", stdin=json.dumps(a_pod("x", "deny"))).returncode
    )
    with pytest.raises(KubectlFailed, match=refused):
        admin.apply(a_pod("bare", "deny"))
    admin.apply(*owners("deny"))

    def told() -> set[str]:
        events = plane.admin.call("GET", "/api/v1/namespaces/deny/events")["items"]
        return {it["involvedObject"]["kind"] for it in events if re.search(refused, it.get("message", ""))}

    eventually(lambda: told() >= {"Job", "ReplicaSet", "StatefulSet"})
    assert pods(plane, "deny") == []
    admin("create", "--dry-run=server", "-f", "-", stdin=json.dumps(without_gpu(a_pod("free", "deny"))))


def test_a_bare_pod_and_the_pods_of_every_owner_wait_behind_the_gate_and_are_let_go(
    plane, admin, used_up, policies, eventually
):
    gate_of_a_sentinel = json.dumps(a_pod("x", "gate"))
    eventually(lambda: GATE in admin("create", "--dry-run=server", "-o", "json", "-f", "-", stdin=gate_of_a_sentinel))
    admin.apply(*every_kind("gate"))
    eventually(lambda: len(pods(plane, "gate")) == len(EVERY_KIND))
    for pod in pods(plane, "gate"):
        assert pod["spec"]["schedulingGates"] == [{"name": GATE}]
        assert pod["status"]["conditions"][0]["reason"] == "SchedulingGated"
    eventually(lambda: budget_status(plane, "gate").get("gatedPods") == len(EVERY_KIND))
    change = {"spec": {"quota": {"gpuHours": 100}}}
    plane.admin.call("PATCH", GPU_WORKLOAD_BUDGET.path("gate", "team-a"), change)
    eventually(lambda: all(pod["status"]["phase"] == "Running" for pod in pods(plane, "gate")))
    eventually(lambda: "gatedPods" not in budget_status(plane, "gate"))
    assert running(plane, "gate") == EVERY_KIND


def test_a_job_is_paused_and_goes_on_and_what_cannot_be_paused_says_so(plane, admin, operator, eventually):
    admin("create", "namespace", "pause")
    admin.apply(a_budget("pause", quota={"gpuHours": 100, "windowHours": 1}, enforcement={"action": "Pause"}))
    eventually(lambda: "account" in budget_status(plane, "pause"))
    urgent, *others = every_kind("pause")
    urgent["spec"]["priorityClassName"] = "system-cluster-critical"
    admin.apply(urgent, *others)
    eventually(lambda: running(plane, "pause") == EVERY_KIND)
    path, job = GPU_WORKLOAD_BUDGET.path("pause", "team-a"), JOB.path("pause", "train")
    small = {"quota": {"gpuHours": "0.001"}, "enforcement": {"action": "Pause", "gracePeriodSeconds": 0}}
    plane.admin.call("PATCH", path, {"spec": small})
    eventually(lambda: plane.admin.call("GET", job)["spec"].get("suspend") is True)
    eventually(lambda: running(plane, "pause") == EVERY_KIND - {"train"})

    def annotated() -> int:
        return sum("tgp.io/paused-by" in pod["metadata"].get("annotations", {}) for pod in pods(plane, "pause"))

    eventually(lambda: annotated() == len(EVERY_KIND) - 1)

    def trouble() -> tuple[str, str]:
        rows = [each for each in budget_status(plane, "pause")["conditions"] if each["type"] == "Degraded"]
        return rows[0]["reason"], rows[0]["message"]

    # The pods become known one after another, and the message follows.
    eventually(
        lambda: re.search(r"cannot be paused: bare, keep-0 \(StatefulSet keep\), serve-.* \(ReplicaSet", trouble()[1])
    )
    assert trouble()[0] == "PauseUnavailable"
    plane.admin.call("PATCH", path, {"spec": {"quota": {"gpuHours": 100}}})
    eventually(lambda: running(plane, "pause") == EVERY_KIND)
    eventually(lambda: annotated() == 0)
    assert "tgp.io/paused-by" not in plane.admin.call("GET", job)["metadata"].get("annotations", {})


def counted(plane: ControlPlane) -> set[str]:
    """Names of what the pods belong to that the finalizer holds, those that are being deleted, too."""
    items = plane.admin.call("GET", POD.path("exact"))["items"]
    held = [pod["metadata"] for pod in items if COUNTED in pod["metadata"].get("finalizers", ())]
    return {re.match(r"[a-z]+", meta["name"]).group() for meta in held}


@pytest.fixture(scope="module")
def exact(plane, admin, operator, eventually) -> None:
    """One of each kind runs, and is held until it is counted."""
    admin("create", "namespace", "exact")
    quota = {"gpuHours": 100, "windowHours": 1}
    admin.apply(a_budget("exact", quota=quota, enforcement={"action": "AlertOnly"}, accounting="Exact"))
    eventually(lambda: "account" in budget_status(plane, "exact"))
    admin.apply(*every_kind("exact"))
    eventually(lambda: counted(plane) == EVERY_KIND == running(plane, "exact"))


def test_exact_counts_each_pod_before_it_goes_and_its_owner_goes_on(plane, admin, exact, eventually):
    before = {pod["metadata"]["uid"] for pod in pods(plane, "exact")}
    for pod in pods(plane, "exact"):
        plane.admin.call("DELETE", POD.path("exact", pod["metadata"]["name"]))
    eventually(
        lambda: not before & {pod["metadata"]["uid"] for pod in plane.admin.call("GET", POD.path("exact"))["items"]}
    )
    assert float(budget_status(plane, "exact")["consumedGpuHours"]) > 0
    eventually(lambda: running(plane, "exact") == EVERY_KIND - {"bare"})
    eventually(lambda: counted(plane) == EVERY_KIND - {"bare"})


def blocking() -> list[dict[str, Any]]:
    """A policy by which no finalizer of ours can be taken off."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"], "resources": ["pods"]}
    kept = "!has(oldObject.metadata.finalizers) || has(object.metadata.finalizers)"
    policy = {"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": kept}]}
    api, meta = "admissionregistration.k8s.io/v1", {"name": BLOCKS}
    bound = {"policyName": BLOCKS, "validationActions": ["Deny"]}
    return [
        {"apiVersion": api, "kind": "ValidatingAdmissionPolicy", "metadata": meta, "spec": policy},
        {"apiVersion": api, "kind": "ValidatingAdmissionPolicyBinding", "metadata": meta, "spec": bound},
    ]


@pytest.mark.usefixtures("policies", "exact")
def test_killed_between_the_accounts_write_and_the_finalizer_a_pod_counts_once(plane, admin, operator, eventually):
    admin.apply(a_pod("last", "exact"), *blocking())
    eventually(lambda: "last" in counted(plane) and "last" in running(plane, "exact"))
    path, free = POD.path("exact", "last"), {"metadata": {"finalizers": None}}
    with closing(Caller(plane)) as call:
        eventually(lambda: call("PATCH", f"{path}?dryRun=All", free)[0] == 422)
    eventually(lambda: budget_status(plane, "exact")["gpusInUse"] == str(len(EVERY_KIND)))
    plane.admin.call("DELETE", path)
    eventually(lambda: budget_status(plane, "exact")["gpusInUse"] == str(len(EVERY_KIND) - 1))
    assert "last" in counted(plane), "its end is written, and the finalizer still there"
    for owner in ("jobs/train", "deployments/serve", "statefulsets/keep"):
        admin("delete", "--namespace=exact", owner, "--wait=false", "--cascade=background")
    eventually(lambda: float(budget_status(plane, "exact")["gpusInUse"]) == 0)
    written = budget_status(plane, "exact")["consumedGpuHours"]
    operator.kill()
    for made in reversed(blocking()):
        admin("delete", made["kind"], BLOCKS)
    operator.start()
    eventually(lambda: plane.admin.call("GET", POD.path("exact"))["items"] == [])
    assert budget_status(plane, "exact")["consumedGpuHours"] == written


def test_a_small_bench_shows_nothing_below_the_truth_and_no_refund(plane, admin, operator, tmp_path, capsys):
    """`python -m bench budget` with less of everything: pods that end, are deleted, and a killed operator."""
    knobs = Knobs(count=8, rate=10, runtime=4, gpus="100m", observe=9)
    with Connection(plane) as lists, Truth(lists, knobs.units, every_s=0.25) as truth:
        made = Stage(plane, knobs, truth, [operator])
        with made.calls:
            bench.measure(made, tmp_path, moments=(3.0, 6.0), away_s=5.0)
    line = capsys.readouterr().out.splitlines()[-1]
    said = dict(part.split("=") for part in line.split()[1:])
    assert (said["tracked"], said["below_truth"]) == ("8/8", "0"), line
    assert abs(float(said["asof_error"])) <= 0.005, line
    assert abs(float(said["refund"])) <= 0.005, line
    assert 0 <= float(said["away"]) <= float(said["away_bound"]), line
    assert next(tmp_path.rglob("SUMMARY.md")).read_text().count(line) == 1
    assert next(tmp_path.rglob("metrics.prom")).read_text().count("gwb_accounting_accuracy_ratio{") == 3, "of each run"


def test_the_seeds_budget_counts_under_both_groups(plane, admin, operator, eventually):
    """As it is written; and the same in our own group, in another namespace."""
    written = SEED.read_text()
    ours = written.replace("budget.zxuhan.dev/v1alpha1", "tgp.io/v1").replace("namespace: default", "namespace: ours")
    admin("create", "namespace", "ours")
    admin("apply", "--filename=-", stdin=written)
    admin("apply", "--filename=-", stdin=ours)
    for namespace in ("default", "ours"):
        eventually(lambda name=namespace: admin.run("get", "gwb", "team-a", "-n", name).returncode == 0)
        eventually(lambda name=namespace: "account" in budget_status(plane, name))
        admin.apply(a_pod("one", namespace))
        eventually(lambda name=namespace: float(budget_status(plane, name)["gpusInUse"]) == 1)
        plane.admin.call("DELETE", POD.path(namespace, "one"))
        eventually(lambda name=namespace: float(budget_status(plane, name)["consumedGpuHours"]) > 0)
        eventually(lambda name=namespace: float(budget_status(plane, name)["gpusInUse"]) == 0)
    path = LEGACY_BUDGET.path("default", "team-a")

    def shown() -> Any:
        return plane.admin.call("GET", path).get("status", {}).get("consumedGpuHours")

    eventually(lambda: shown() == budget_status(plane, "default")["consumedGpuHours"])
    mirror = plane.admin.call("GET", GPU_WORKLOAD_BUDGET.path("default", "team-a"))
    assert mirror["metadata"]["ownerReferences"][0]["apiVersion"] == "budget.zxuhan.dev/v1alpha1"


@pytest.mark.parametrize(
    ("change", "refused"),
    [
        ({"spec": {"schedulingGates": [{"name": "example.org/mine"}]}}, ""),
        ({"spec": {"schedulingGates": []}}, "scheduling gates"),
        ({"metadata": {"annotations": {"tgp.io/paused-at": "2026-11-17T20:00:00Z"}}}, ""),
        ({"metadata": {"annotations": {"tgp.io/paused-by": "team-a", "other": "no"}}}, "annotations"),
        ({"metadata": {"annotations": {"kept": None}}}, "annotations"),
        ({"metadata": {"finalizers": ["tgp.io/counted"]}}, ""),
        ({"metadata": {"finalizers": ["example.org/other"]}}, "finalizers"),
        ({"metadata": {"labels": {"team": "b"}}}, "labels"),
        ({"spec": {"containers": [{"name": "main", "image": "example.org/other:1"}]}}, "spec"),
        ({"spec": {"activeDeadlineSeconds": 1}}, "spec"),
        ({"spec": {"tolerations": [*TOLERATED, {"operator": "Exists"}]}}, "spec"),
        ({"spec": {"nodeSelector": {"a": "b"}}}, "spec"),
        ({"status": {"nominatedNodeName": "node-1"}}, ""),
        ({"status": {"phase": "Succeeded"}}, "nominatedNodeName"),
        ({"status": {"conditions": []}}, "nominatedNodeName"),
        ({"status": {"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}]}}, "nominatedNodeName"),
        ({"status": {"nominatedNodeName": "node-1"}, "metadata": {"labels": {"team": "b"}}}, "labels"),
        ({"status": {"nominatedNodeName": "node-1"}, "metadata": {"finalizers": ["example.org/other"]}}, "finalizers"),
    ],
)
def test_the_operator_may_change_of_a_pod_what_budgets_need_and_nothing_else(plane, admin, policies, change, refused):
    name, path = "guarded", POD.path("default", "guarded")
    if admin.run("get", "pod", name).returncode:
        pod = without_gpu(a_pod(name, "default"))
        pod["metadata"] = {"name": name, "namespace": "default", "annotations": {"kept": "yes"}}
        pod["spec"] |= {"automountServiceAccountToken": False, "tolerations": TOLERATED}
        pod["spec"]["schedulingGates"] = [{"name": "example.org/mine"}, {"name": GATE}]
        admin.apply(pod)
    token = plane.service_account_token("tgp-system", "tgp-operator")
    with closing(Caller(plane, token)) as call:
        status, answer = call("PATCH", f"{path}{'/status' if 'status' in change else ''}?dryRun=All", change)
    if not refused:
        assert status == 200, answer
    else:
        assert status in (403, 422), answer
        assert "ValidatingAdmissionPolicy 'tgp-operator-pods'" in answer["message"]
        assert refused in answer["message"]
