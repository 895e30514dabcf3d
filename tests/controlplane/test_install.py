"""The chart on a real control plane: install, act, upgrade, uninstall.

KWOK plays the pods. The operator itself runs beside them as a process of this repository, under the ServiceAccount and
with the settings file that the chart made.
"""

import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tools.controlplane.fixtures import a_control_plane
from tools.controlplane.helm import HelmFailed
from tools.controlplane.kubectl import Kubectl
from tools.controlplane.nodes import fake_node
from tools.controlplane.plane import EVERYTHING, ControlPlane
from tools.manifests import CHART, INSTALL, KINDS_CHART, ROOT

NAMESPACE = "tgp-system"
DEPLOYMENT = "deployment/tgp-operator-controller-manager"
WAIT = ("--wait", "--timeout=90s")
PATIENCE_S = 60
NODE_CLASS = """
apiVersion: tgp.io/v1
kind: GPUNodeClass
metadata: {name: gpus}
spec:
  providers: [{name: simulated}]
  networking: {backend: none}
"""


@pytest.fixture(scope="module")
def plane(pytestconfig) -> Iterator[ControlPlane]:
    """Of its own: cluster roles and kinds come and go here."""
    with a_control_plane(pytestconfig, EVERYTHING) as running:
        yield running


@pytest.fixture(scope="module")
def admin(plane, kubectl_program) -> Kubectl:
    """With two machines of the cluster's own and a rented one, and a namespace that takes restricted pods only."""
    run = Kubectl(kubectl_program, plane.kubeconfig, plane.directory)
    rented = fake_node("rented", labels={"tgp.io/provisioned": "true"})
    namespace = {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": NAMESPACE, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}},
    }
    run.apply(fake_node("own-1"), fake_node("own-2"), rented, namespace)
    run("apply", "--server-side", f"--filename={ROOT / 'deploy' / 'crds'}")  # by hand, before Helm is used
    run("wait", "--for=condition=Established", "crd", "--all", "--timeout=120s")
    return run


@contextmanager
def operator(plane: ControlPlane, admin: Kubectl, folder: Path) -> Iterator[str]:
    """As the pods would run it, until the end of the `with`, when it leaves gracefully; gives the URL of its probes."""
    path = r"jsonpath={.data.settings\.yaml}"
    settings = folder / "settings.yaml"
    settings.write_text(admin("get", "configmap/tgp-operator-settings", "-n", NAMESPACE, "-o", path))
    with closing(socket.socket()) as line:
        line.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{line.getsockname()[1]}"
    kubeconfig = plane.kubeconfig_for_service_account(NAMESPACE, "tgp-operator")
    command = (sys.executable, "-m", "tgp", "operator", "--config", str(settings), "--kubeconfig", str(kubeconfig))
    with (folder / "operator.log").open("wb") as log:
        process = subprocess.Popen((*command, "--listen", address), stdout=log, stderr=log)
    try:
        yield f"http://{address}"
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0, (folder / "operator.log").read_text()
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


def until(true_now: Callable[[], bool], otherwise: Callable[[], str]) -> None:
    give_up_at = time.monotonic() + PATIENCE_S
    while not true_now():
        assert time.monotonic() < give_up_at, otherwise()
        time.sleep(0.1)


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as reply:  # noqa: S310 - on loopback
            return reply.status == 200
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return False


def pods(admin: Kubectl) -> list[dict]:
    listed = admin.json("get", "pods", "-n", NAMESPACE, "-l", "app.kubernetes.io/name=tgp-operator")["items"]
    return [pod for pod in listed if "deletionTimestamp" not in pod["metadata"]]


def hash_of(admin: Kubectl) -> set[str]:
    return {pod["metadata"]["labels"]["pod-template-hash"] for pod in pods(admin)}


def holder(admin: Kubectl) -> str:
    path = "jsonpath={.spec.holderIdentity}"
    return admin("get", "lease/tgp-operator", "-n", NAMESPACE, "--ignore-not-found", "-o", path).strip()


def reason(admin: Kubectl) -> str:
    """Why the class is ready or not; empty: the operator has not looked at it."""
    return admin("get", "gpunodeclass/gpus", "-o", 'jsonpath={.status.conditions[?(@.type=="Ready")].reason}').strip()


def disown_kinds(admin: Kubectl) -> None:
    """As they are after a first install, when they belong to no release."""
    crds = admin("get", "crd", "-o", "name").split()
    admin("annotate", *crds, "meta.helm.sh/release-name-", "meta.helm.sh/release-namespace-")


def test_the_life_of_an_installation(plane, admin, helm, tmp_path):
    """One after the other, as an administrator does it."""
    admin("apply", "--server-side", "--dry-run=server", f"--filename={INSTALL}")

    told = helm("install", "tgp", str(CHART), f"--namespace={NAMESPACE}", *WAIT)
    assert "Missing: Secret tgp-operator-secret" in told
    assert "Missing: a GPUNodeClass" in told
    assert "Missing: a GPU device plugin" in told
    assert "The kinds were created on 20" in told
    assert f"kubectl -n {NAMESPACE} create secret generic tgp-operator-secret" in told
    assert {pod["spec"]["nodeName"] for pod in pods(admin)} == {"own-1", "own-2"}
    first = hash_of(admin)

    with operator(plane, admin, tmp_path) as url:
        log = tmp_path / "operator.log"
        until(lambda: answers(f"{url}/readyz") and bool(holder(admin)), log.read_text)
        admin("apply", "--filename=-", stdin=NODE_CLASS)
        until(lambda: bool(reason(admin)), log.read_text)
    assert not holder(admin), "released"
    assert "forbidden" not in log.read_text()

    with pytest.raises(HelmFailed, match=f"installed already, as release tgp in namespace {NAMESPACE}"):
        helm("install", "second", str(CHART), "--namespace=elsewhere", "--create-namespace")

    admin("create", "secret", "generic", "tgp-operator-secret", "-n", NAMESPACE)
    told = helm("upgrade", "tgp", str(CHART), f"--namespace={NAMESPACE}", "--dry-run=server")
    assert "Secret tgp-operator-secret has none." in told
    assert f"kubectl -n {NAMESPACE} patch secret tgp-operator-secret" in told
    key = '{"stringData":{"VULTR_API_KEY":"none"}}'
    admin("patch", "secret", "tgp-operator-secret", "-n", NAMESPACE, "-p", key)
    told = helm("upgrade", "tgp", str(CHART), f"--namespace={NAMESPACE}", "--set=settings.workers=8", *WAIT)
    assert "has the keys: VULTR_API_KEY." in told
    assert "GPUNodeClasses: 1." in told
    assert not first & hash_of(admin), "other settings: other pods"

    kinds = ("upgrade", "--install", "kinds", str(KINDS_CHART), f"--namespace={NAMESPACE}")
    with pytest.raises(HelmFailed, match="cannot be imported into the current release"):
        helm(*kinds)
    helm(*kinds, "--take-ownership")
    helm("uninstall", "kinds", f"--namespace={NAMESPACE}")

    helm("rollback", "tgp", "1", f"--namespace={NAMESPACE}", *WAIT)
    assert hash_of(admin) == first
    helm("uninstall", "tgp", f"--namespace={NAMESPACE}", *WAIT)
    assert admin("get", DEPLOYMENT, "-n", NAMESPACE, "--ignore-not-found") == ""
    assert admin("get", "clusterrole/tgp-operator", "--ignore-not-found") == ""
    assert admin("get", "gpunodeclass/gpus", "-o", "name").strip() == "gpunodeclass.tgp.io/gpus", "the kinds stay"
    assert admin("get", "secret/tgp-operator-secret", "-n", NAMESPACE, "-o", "name").strip()
    disown_kinds(admin)
    admin("delete", "gpunodeclass/gpus")
    admin("delete", "secret/tgp-operator-secret", "-n", NAMESPACE)


def test_the_longest_name_and_another_namespace_are_accepted_by_the_api_server(admin, helm):
    admin.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "elsewhere"}})
    options = ("--namespace=elsewhere", "--no-hooks", "--kube-version=1.36.0")
    manifest = helm("template", "r" * 53, str(CHART), *options)

    admin("apply", "--server-side", "--dry-run=server", "--filename=-", stdin=manifest)


def test_who_may_not_create_policies_is_told_so_and_can_install_without_them(plane, admin, helm):
    everything_else = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "deployer"},
        "rules": [
            {"apiGroups": [group], "resources": ["*"], "verbs": ["*"]}
            for group in ("", "apps", "policy", "rbac.authorization.k8s.io", "apiextensions.k8s.io", "tgp.io")
        ],
    }
    admin.apply(everything_else)
    admin("create", "clusterrolebinding", "deployer", "--clusterrole=deployer", "--user=deployer")
    deployer = replace(helm, kubeconfig=plane.kubeconfig_for_user("deployer"))
    with pytest.raises(HelmFailed, match=r'"(mutating|validating)admissionpolicies"'):
        deployer("install", "tgp", str(CHART), f"--namespace={NAMESPACE}")
    assert admin("get", DEPLOYMENT, "-n", NAMESPACE, "--ignore-not-found") == ""

    told = deployer("install", "tgp", str(CHART), f"--namespace={NAMESPACE}", "--set=policies.enabled=false")
    assert "nothing\nhere refuses to uninstall" in told
    deployer("uninstall", "tgp", f"--namespace={NAMESPACE}")
