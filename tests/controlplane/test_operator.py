"""The operator as it is shipped: its own process, its own ServiceAccount, a real API server."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tgp.app.demo.fixtures import join_secret
from tools.controlplane.fixtures import a_control_plane
from tools.controlplane.kubectl import Kubectl
from tools.controlplane.plane import ControlPlane, Wanted

ROOT = Path(__file__).parents[2]
LEASE_LOST = 75
LAST_RESORT = 14  # the timer behind the watchdog, which needs no interpreter
TAKEOVER_S = 20  # what users are promised: 15 s of Lease, then a try every 2 s
PATIENCE_S = 180

AUDIT_POLICY = """
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: Metadata
    verbs: [get]
    resources: [{group: coordination.k8s.io, resources: [leases]}]
  - level: None
    verbs: [get, list, watch]
  - level: Metadata
"""

NODE_CLASS = """
apiVersion: tgp.io/v1
kind: GPUNodeClass
metadata: {{name: {name}}}
spec:
  providers: [{{name: simulated}}]
  networking: {{backend: none}}
"""


@pytest.fixture(scope="module")
def plane(pytestconfig, tmp_path_factory) -> Iterator[ControlPlane]:
    """With an audit log, to see who wrote what when."""
    folder = tmp_path_factory.mktemp("audit")
    policy = folder / "policy.yaml"
    policy.write_text(AUDIT_POLICY)
    extra = {"kube-apiserver": (f"--audit-policy-file={policy}",)}
    with a_control_plane(pytestconfig, Wanted(extra=extra)) as running:
        yield running


@pytest.fixture(scope="module")
def admin(plane, kubectl_program) -> Kubectl:
    run = Kubectl(kubectl_program, plane.kubeconfig, plane.directory)
    run("apply", "--server-side", f"--filename={ROOT / 'deploy' / 'crds'}")
    run("wait", "--for=condition=Established", "crd", "--all", "--timeout=120s")
    run("apply", f"--filename={ROOT / 'deploy' / 'rights.yaml'}")
    return run


@pytest.fixture
def start(plane, admin, tmp_path) -> Iterator[Callable[..., subprocess.Popen]]:
    """Starts replicas under the shipped ServiceAccount, each with a token of its own; ends those left over."""
    started = []

    def begin(name: str, *flags: str) -> subprocess.Popen:
        kubeconfig = plane.kubeconfig_for_service_account("tgp-system", "tgp-operator")
        command = [sys.executable, "-m", "tgp", "operator", "--kubeconfig", str(kubeconfig), "--identity", name]
        with (tmp_path / f"{name}.log").open("wb") as log:
            process = subprocess.Popen([*command, "--listen", "", *flags], stderr=log, stdout=log)
        process.log = tmp_path / f"{name}.log"
        started.append(process)
        return process

    yield begin
    for process in started:
        if process.poll() is None:
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()


def until(true_now: Callable[[], bool], within: float = PATIENCE_S) -> float:
    began = time.monotonic()
    while not true_now():
        assert time.monotonic() - began < within, f"not within {within} s"
        time.sleep(0.1)
    return time.monotonic() - began


def holder(admin: Kubectl) -> str:
    query = [
        "get",
        "lease",
        "tgp-operator",
        "-n",
        "tgp-system",
        "--ignore-not-found",
        "-o",
        "jsonpath={.spec.holderIdentity}",
    ]
    return admin(*query).strip()


def apply(admin: Kubectl, manifest: str) -> None:
    admin("apply", "--filename=-", stdin=manifest)


def ready(admin: Kubectl, what: str) -> str:
    return admin("get", what, "-o", 'jsonpath={.status.conditions[?(@.type=="Ready")].reason}').strip()


def acts(admin: Kubectl, name: str) -> None:
    """Wait until a new class has conditions."""
    apply(admin, NODE_CLASS.format(name=name))
    until(lambda: ready(admin, f"gpunodeclass/{name}") == "Valid")


def test_it_judges_classes_and_pools_and_leaves_gracefully(admin, start):
    """From a missing Secret to Ready, with the reason on the object; SIGTERM gives the Lease back."""
    operator = start("solo")
    apply(
        admin,
        """
apiVersion: tgp.io/v1
kind: GPUNodeClass
metadata: {name: rented}
spec:
  providers: [{name: vultr}]
  networking: {backend: none}
---
apiVersion: tgp.io/v1
kind: GPUNodePool
metadata: {name: workers, namespace: default}
spec: {nodeClassRef: {name: rented}}
---
apiVersion: tgp.io/v1
kind: GPUNodePool
metadata: {name: lost, namespace: default}
spec: {nodeClassRef: {name: nowhere}}
""",
    )
    until(lambda: ready(admin, "gpunodeclass/rented") == "CredentialsMissing")
    until(lambda: ready(admin, "gpunodepool/workers") == "NodeClassNotReady")
    until(lambda: ready(admin, "gpunodepool/lost") == "NodeClassNotFound")
    admin(
        "create",
        "secret",
        "generic",
        "tgp-operator-secret",
        "-n",
        "tgp-system",
        "--from-literal=VULTR_API_KEY=never-to-be-seen",
    )
    until(lambda: ready(admin, "gpunodeclass/rented") == "JoinSecretMissing")
    apply(admin, json.dumps(join_secret()))
    until(lambda: ready(admin, "gpunodeclass/rented") == "Valid")
    until(lambda: ready(admin, "gpunodepool/workers") == "Valid")
    assert "CredentialsMissing" in admin("get", "events", "--field-selector=involvedObject.name=rented")

    operator.terminate()

    assert operator.wait(PATIENCE_S) == 0
    assert holder(admin) == ""
    assert b"never-to-be-seen" not in operator.log.read_bytes()


@pytest.mark.parametrize("blow", [signal.SIGKILL, signal.SIGSTOP])
def test_another_replica_acts_within_twenty_seconds_and_no_two_write_at_once(plane, admin, start, blow):
    """A leader that dies, or stops and wakes up later believing it leads, never writes beside the next one."""
    first = start(f"first-{blow.name.lower()}")
    until(lambda: holder(admin).startswith(f"first-{blow.name.lower()}_"))
    acts(admin, f"before-{blow.name.lower()}")
    known = {call.who for call in _calls(plane.audit_log)}
    second = start(f"second-{blow.name.lower()}")
    # It counts from its first look at the Lease, and a replica that stood by for long has had that.
    until(lambda: {call.who for call in _calls(plane.audit_log) if call.resource == "leases"} - known != set())

    struck_at = datetime.now(UTC)
    first.send_signal(blow)
    acts(admin, f"after-{blow.name.lower()}")

    # By the API server's own notes: how long a kubectl takes to start on a busy machine is not the operator's affair.
    acted_at = next(write.at for write in _writes(plane.audit_log) if write.who not in known)
    assert (acted_at - struck_at).total_seconds() < TAKEOVER_S
    if blow == signal.SIGSTOP:
        first.send_signal(signal.SIGCONT)
        # The watchdog's thread and the timer behind it are both overdue when the process goes on: either may be first.
        assert first.wait(PATIENCE_S) in (LEASE_LOST, LAST_RESORT), first.log.read_text()
    acts(admin, f"later-{blow.name.lower()}")
    second.terminate()
    assert second.wait(PATIENCE_S) == 0
    writers = [write.who for write in _writes(plane.audit_log)]
    assert len(_runs(writers)) == len(set(writers)), f"replicas wrote in turns: {_runs(writers)}"


@dataclass(frozen=True, slots=True, order=True)
class Called:
    at: datetime
    who: str  # the credential of one replica
    verb: str
    resource: str


def _calls(log: Path) -> list[Called]:
    """What the operator asked for and was given, in order: changes, and looks at the Lease."""
    found = []
    for line in log.read_text().splitlines(keepends=True):
        if not line.endswith("\n"):
            break  # it is being written
        event = json.loads(line)
        ours = event["user"]["username"] == "system:serviceaccount:tgp-system:tgp-operator"
        if ours and event["responseStatus"]["code"] < 300:
            who = event["user"]["extra"]["authentication.kubernetes.io/credential-id"][0]
            at = datetime.fromisoformat(event["stageTimestamp"])
            found.append(Called(at, who, event["verb"], event.get("objectRef", {}).get("resource", "")))
    return sorted(found)


def _writes(log: Path) -> list[Called]:
    """Changes but for Leases and Events."""
    return [call for call in _calls(log) if call.verb != "get" and call.resource not in {"leases", "events"}]


def _runs(names: list[str]) -> list[str]:
    return [name for place, name in enumerate(names) if place == 0 or names[place - 1] != name]


@pytest.mark.parametrize(
    ("verdict", "question"),
    [
        ("yes", "get secrets -n tgp-system"),
        ("no", "get secrets -n default"),
        ("no", "list secrets -A"),
        ("no", "create pods -n default"),
        ("no", "delete gpunodepools.tgp.io -n default"),
        ("yes", "patch gpunodepools.tgp.io -n default"),  # the finalizer
        ("no", "update gpunodepools.tgp.io -n default"),
        ("yes", "patch gpunodepools.tgp.io --subresource=status -n default"),
        ("yes", "create gpurequests.tgp.io -n default"),
        ("yes", "patch pods --subresource=status -n default"),  # nominatedNodeName
        ("yes", "patch pods -n default"),  # annotations, gate and finalizer of budgets; a policy allows no other change
        ("no", "update pods -n default"),
        ("yes", "patch jobs.batch -n default"),  # suspended by a budget
        ("no", "create jobs.batch -n default"),
        ("no", "delete jobs.batch -n default"),
        ("yes", "get mutatingadmissionpolicies.admissionregistration.k8s.io/tgp-budgets-gate"),
        ("yes", "get mutatingadmissionpolicybindings.admissionregistration.k8s.io/tgp-budgets-gate-namespaces"),
        ("no", "get mutatingadmissionpolicies.admissionregistration.k8s.io/another"),
        ("no", "list validatingadmissionpolicies.admissionregistration.k8s.io"),
        ("yes", "watch persistentvolumeclaims -n default"),
        ("yes", "list persistentvolumes"),
        ("yes", "watch storageclasses.storage.k8s.io"),
        ("no", "patch persistentvolumeclaims -n default"),
        ("no", "update leases -n default"),
        ("no", "create clusterrolebindings"),
    ],
)
def test_the_shipped_role_allows_this_and_no_more(admin, verdict, question):
    asked = admin.run("auth", "can-i", *question.split(), "--as=system:serviceaccount:tgp-system:tgp-operator")

    assert asked.stdout.strip() == verdict


def test_with_rights_to_pods_only_it_ends_with_what_is_missing_and_the_commands_that_grant_it(plane, admin, tmp_path):
    """The commands are followed, by which it can run."""
    admin("create", "namespace", "seed")
    admin("create", "serviceaccount", "scaler", "--namespace=seed")
    admin("create", "clusterrole", "pods-only", "--verb=get,list,watch", "--resource=pods")
    admin("create", "clusterrolebinding", "pods-only", "--clusterrole=pods-only", "--serviceaccount=seed:scaler")
    kubeconfig = plane.kubeconfig_for_service_account("seed", "scaler")
    command = [sys.executable, "-m", "tgp", "operator", "--kubeconfig", str(kubeconfig), "--listen", ""]
    ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=PATIENCE_S, cwd=tmp_path)

    assert ended.returncode == 3, ended.stderr
    assert "system:serviceaccount:seed:scaler may not:" in ended.stderr
    assert "list gpurequests.tgp.io in every namespace" in ended.stderr
    assert "list pods in every" not in ended.stderr
    commands = [line.split()[1:] for line in ended.stderr.partition("Grant it:")[2].splitlines() if "kubectl" in line]
    assert [words[0] for words in commands] == ["apply", "create", "create", "create", "create"]
    for words in commands[1:]:
        admin(*words)
    said = []
    with subprocess.Popen([*command, "--leader-elect=false"], stderr=subprocess.PIPE, text=True) as process:
        try:
            for line in process.stderr:
                said.append(line)
                if "OperatorStarted" in line:
                    break
        finally:
            process.kill()
    assert "OperatorStarted" in said[-1], said
    assert not [line for line in said if "RightsMissing" in line]
