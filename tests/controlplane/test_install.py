"""The charts on a real control plane, from an OCI registry: install, act, upgrade, uninstall.

KWOK plays the pods. The operator itself runs beside them as a process of this repository, under the ServiceAccount and
with the settings file that the chart made.
"""

import shutil
import signal
import socket
import subprocess
import sys
import textwrap
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from tgp import __version__
from tgp.api.crds import NUMBER, NUMBER_LABEL
from tools import toolbox
from tools.controlplane.fixtures import a_control_plane, say_past_capturing
from tools.controlplane.helm import Helm, HelmFailed
from tools.controlplane.kubectl import Kubectl
from tools.controlplane.nodes import fake_node
from tools.controlplane.plane import EVERYTHING, ControlPlane
from tools.controlplane.registry import Registry, a_registry
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

RENTING_CLASS = """
apiVersion: tgp.io/v1
kind: GPUNodeClass
metadata: {name: rented}
spec:
  providers: [{name: vultr}]
  networking: {backend: none}
"""

TAILSCALE = "--set=networking.tailscale.operatorEnabled=true"
TAILSCALE_KIND = {  # one of those that the Tailscale operator brings
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "connectors.tailscale.com"},
    "spec": {
        "group": "tailscale.com",
        "scope": "Cluster",
        "names": {"kind": "Connector", "plural": "connectors"},
        "versions": [
            {
                "name": "v1alpha1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}


NOT_IN_THE_TAILNET = (
    "Missing: the Tailscale operator.",
    "Missing: Service default/kubernetes in the tailnet",
    "kubectl annotate service kubernetes -n default tailscale.com/expose=true",
)
IN_THE_TAILNET = (
    "Service default/kubernetes is exposed in the tailnet on port 443:",
    "Talos does not resolve MagicDNS names",
    "cluster.apiServer.certSANs",
)


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


@pytest.fixture(scope="module")
def registry(pytestconfig, tmp_path_factory) -> Iterator[Registry]:
    log = tmp_path_factory.mktemp("registry") / "registry.log"
    with a_registry(log, lambda line: say_past_capturing(pytestconfig, line)) as running:
        yield running


def pushed(helm: Helm, registry: Registry, chart: Path, folder: Path) -> tuple[str, ...]:
    """Packages a chart and pushes it; gives what names it to Helm from then on."""
    helm("package", str(chart), f"--destination={folder}")
    helm("push", str(folder / f"{chart.name}-{__version__}.tgz"), registry.charts, "--plain-http")
    return f"{registry.charts}/{chart.name}", f"--version={__version__}", "--plain-http"


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


def expose(admin: Kubectl) -> None:
    """As the Tailscale operator is installed, and the API server is in the tailnet."""
    admin.apply(TAILSCALE_KIND)
    admin("wait", "--for=condition=Established", "crd/connectors.tailscale.com", "--timeout=60s")
    admin("annotate", "service/kubernetes", "-n", "default", "tailscale.com/expose=true", "--overwrite")


def withdraw(admin: Kubectl) -> None:
    admin("delete", "crd/connectors.tailscale.com")
    admin("annotate", "service/kubernetes", "-n", "default", "tailscale.com/expose-")


def disown_kinds(admin: Kubectl) -> None:
    """As they are after a first install, when they belong to no release."""
    crds = admin("get", "crd", "-o", "name").split()
    admin("annotate", *crds, "meta.helm.sh/release-name-", "meta.helm.sh/release-namespace-")


def keys_are_asked_for(admin: Kubectl, notes: Callable[[], str]) -> None:
    """By the notes of an upgrade, where a class needs one."""
    assert "Missing: Secret" not in notes(), "the only class is of the simulated provider"
    admin("apply", "--filename=-", stdin=RENTING_CLASS)
    assert "Missing: Secret tgp-operator-secret" in notes()
    admin("create", "secret", "generic", "tgp-operator-secret", "-n", NAMESPACE)
    told = notes()
    assert [words for words in NOT_IN_THE_TAILNET if words not in told] == []
    assert "Secret tgp-operator-secret has none." in told
    assert f"kubectl -n {NAMESPACE} patch secret tgp-operator-secret" in told
    mesh = '{"stringData":{"client-id":"none"}}'
    admin("patch", "secret", "tgp-operator-secret", "-n", NAMESPACE, "-p", mesh)
    assert "Missing: API keys of your providers. None of those keys is a provider's" in notes()


def a_class_is_suggested(admin: Kubectl, notes: Callable[[], str]) -> None:
    """That can be applied as it is shown: the chart came from a registry, and there is no clone."""
    admin("delete", "gpunodeclasses", "--all")
    told = notes()
    shown = told.partition("kubectl apply -f - <<EOF\n")[2].partition("  EOF\n")[0]
    admin("apply", "--filename=-", "--dry-run=server", stdin=textwrap.dedent(shown))
    admin("apply", "--filename=-", stdin=NODE_CLASS)
    assert "name: vultr" in shown
    assert "deploy/" not in told


def test_the_life_of_an_installation(plane, admin, helm, registry, tmp_path):
    """One after the other, as an administrator does it."""
    admin("apply", "--server-side", "--dry-run=server", f"--filename={INSTALL}")
    chart, kinds_chart = (pushed(helm, registry, each, tmp_path) for each in (CHART, KINDS_CHART))

    told = helm("install", "tgp", *chart, f"--namespace={NAMESPACE}", *WAIT)
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
        helm("install", "second", *chart, "--namespace=elsewhere", "--create-namespace")

    def dry() -> str:
        return helm("upgrade", "tgp", *chart, f"--namespace={NAMESPACE}", "--dry-run=server", TAILSCALE)

    keys_are_asked_for(admin, dry)
    key = '{"stringData":{"VULTR_API_KEY":"none"}}'
    admin("patch", "secret", "tgp-operator-secret", "-n", NAMESPACE, "-p", key)
    expose(admin)
    told = helm("upgrade", "tgp", *chart, f"--namespace={NAMESPACE}", "--set=settings.workers=8", TAILSCALE, *WAIT)
    assert [words for words in IN_THE_TAILNET if words not in told] == []
    assert NOT_IN_THE_TAILNET[0] not in told
    assert "has the keys: VULTR_API_KEY, client-id." in told
    assert "Missing: API keys" not in told
    assert "GPUNodeClasses: 2." in told
    a_class_is_suggested(admin, dry)
    assert not first & hash_of(admin), "other settings: other pods"

    kinds = ("upgrade", "--install", "kinds", *kinds_chart, f"--namespace={NAMESPACE}")
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
    withdraw(admin)
    disown_kinds(admin)
    admin("delete", "gpunodeclass/gpus")
    admin("delete", "secret/tgp-operator-secret", "-n", NAMESPACE)


def a_later_kinds_chart(folder: Path) -> Path:
    """As of the next release: a larger number, and a field more."""
    chart = folder / "later"
    shutil.copytree(KINDS_CHART, chart)
    for path in (chart / "templates").iterdir():
        text = path.read_text().replace(f"{NUMBER_LABEL}: '{NUMBER}'", f"{NUMBER_LABEL}: '{NUMBER + 1}'", 1)
        path.write_text(text.replace("              maxLifetime:\n", f"{LATER_FIELD}              maxLifetime:\n", 1))
    return chart


LATER_FIELD = "              ofTomorrow:\n                type: string\n"


def test_the_kinds_do_not_go_back_to_older_ones(admin, helm, tmp_path):
    """They would remove what live requests have in newer fields. A user who wants that says so on the kind."""
    where = f"--namespace={NAMESPACE}"
    numbers = ("get", "crd/gpurequests.tgp.io", "-o", r"jsonpath={.metadata.labels.tgp\.io/kinds}")
    relabel = ("label", "crd/gpurequests.tgp.io", f"{NUMBER_LABEL}-", "--dry-run=server")
    helm("install", "tgp", str(CHART), where)
    helm("upgrade", "--install", "kinds", str(KINDS_CHART), where, "--take-ownership")
    later = ("upgrade", "kinds", str(a_later_kinds_chart(tmp_path)), where)
    if helm.program == toolbox.find(toolbox.NEWER_HELM_CLIENT):  # docs/install.md says so
        with pytest.raises(HelmFailed, match='conflicts with "kubectl"'):
            helm(*later)
        later = (*later, "--force-conflicts")
    helm(*later)
    assert admin(*numbers) == str(NUMBER + 1)
    until(lambda: admin.run(*relabel).returncode != 0, lambda: "the policy is not in force")

    with pytest.raises(HelmFailed, match="replace the kinds of a newer tgp") as refused:
        helm("rollback", "kinds", "1", where)
    assert "kubectl annotate crd gp" in str(refused.value)
    assert admin(*numbers) == str(NUMBER + 1)
    assert "ofTomorrow" in admin("get", "crd/gpurequests.tgp.io", "-o", "json")
    helm("rollback", "tgp", "1", where)  # the operator's own release goes back as it likes

    kinds = [each for each in admin("get", "crd", "-o", "name").split() if each.endswith(".tgp.io")]
    admin("annotate", *kinds, "tgp.io/allow-older=true")
    helm("rollback", "kinds", "1", where)
    assert admin(*numbers) == str(NUMBER)
    notes = ("upgrade", "tgp", str(CHART), where, "--dry-run=server")
    assert "tgp crds apply" not in helm(*notes)
    admin("label", "crd/gpurequests.tgp.io", f"{NUMBER_LABEL}-")
    assert "They are older than this version: `tgp crds apply`" in helm(*notes)
    admin("annotate", *kinds, "tgp.io/allow-older-")
    helm("uninstall", "kinds", where)
    helm("uninstall", "tgp", where)
    disown_kinds(admin)


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
    bound = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "deployer"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "deployer"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "deployer"}],
    }
    admin.apply(everything_else, bound)
    deployer = replace(helm, kubeconfig=plane.kubeconfig_for_user("deployer"))
    with pytest.raises(HelmFailed, match=r'"(mutating|validating)admissionpolicies"'):
        deployer("install", "tgp", str(CHART), f"--namespace={NAMESPACE}")
    assert admin("get", DEPLOYMENT, "-n", NAMESPACE, "--ignore-not-found") == ""

    told = deployer("install", "tgp", str(CHART), f"--namespace={NAMESPACE}", "--set=policies.enabled=false")
    assert "nothing\nhere refuses to uninstall" in told
    deployer("uninstall", "tgp", f"--namespace={NAMESPACE}")
