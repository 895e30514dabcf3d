"""`tgp observe` against a real API server that writes down every request: it asks, and changes nothing."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.program import BOUND_S, answer, started, tgp
from tests.contracts.kubectl.mounted import Mounted
from tgp.api.crds import crds
from tools.controlplane.fixtures import a_control_plane
from tools.controlplane.kubectl import Kubectl
from tools.controlplane.plane import APISERVER, ControlPlane, Wanted

POLICY = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [{"level": "Metadata"}]}
OBSERVER = "someone-with-every-right"
MANIFESTS = Path(__file__).parents[2] / "src" / "tgp" / "app" / "demo" / "manifests"
QUESTIONS = {"get", "list", "watch"}
VERDICTS = (
    "= class cellar: Ready (Valid)",
    "= class big-gpus: NotReady (CredentialsMissing)",
    "= pool research/sweeps: NotReady (NodeClassNotFound)",
    "= pool research/large-models: NotReady (NodeClassNotReady)",  # one verdict rests on another
)


@pytest.fixture(scope="module")
def audit_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("audit") / "audit.log"


@pytest.fixture(scope="module")
def watchful_plane(pytestconfig: pytest.Config, audit_log: Path) -> Iterator[ControlPlane]:
    """Its own, because every request is written down from the start, and no kinds of ours are installed yet."""
    policy = audit_log.with_name("policy.json")
    policy.write_text(json.dumps(POLICY))
    flags = (f"--audit-policy-file={policy}", f"--audit-log-path={audit_log}", "--audit-log-mode=blocking-strict")
    with a_control_plane(pytestconfig, Wanted(extra={APISERVER: flags})) as plane:
        yield plane


def observed(where: Path, kubeconfig: Path, *signs: str) -> tuple[int, str]:
    """Until it has shown all of these; then it is asked to end."""
    with started(where, *tgp("observe", "--kubeconfig", str(kubeconfig), "--for", f"{BOUND_S:.0f}s")) as observe:
        assert observe.stdout is not None
        told = ""
        while not all(sign in told for sign in signs) and (line := observe.stdout.readline()):
            told += line
        observe.send_signal(signal.SIGINT)
        rest, _ = observe.communicate(timeout=BOUND_S)
    return observe.returncode, told + rest


def asked_by(audit_log: Path, user: str) -> list[str]:
    entries = [json.loads(line) for line in audit_log.read_text().splitlines()]
    return [entry["verb"] for entry in entries if entry["user"]["username"] == user]


def versions(kubectl: Kubectl) -> dict[str, str]:
    """By uid; without kube-system, where the API server renews a Lease of its own every ten seconds."""
    listed = kubectl.json("get", "tgp,secrets,leases,events,namespaces", "-A")
    found = [item["metadata"] for item in listed["items"]]
    return {meta["uid"]: meta["resourceVersion"] for meta in found if meta.get("namespace") != "kube-system"}


def test_it_only_asks_even_where_it_may_do_everything(
    tmp_path: Path, watchful_plane: ControlPlane, kubectl_program: Path, audit_log: Path
):
    """First without our kinds, then with them: never one changing request, and every verdict is shown."""
    kubectl = Kubectl(kubectl_program, watchful_plane.kubeconfig, tmp_path)
    mighty = watchful_plane.kubeconfig_for_user(OBSERVER, ("system:masters",))

    bare_code, bare = observed(tmp_path, mighty, "tgp crds apply")
    kubectl.apply(*crds())
    kubectl("wait", "--for=condition=Established", "crd", "--all")
    for namespace in ("ml", "research", "web", "tgp-system"):
        kubectl("create", "namespace", namespace)
    kubectl("apply", "--filename", str(MANIFESTS / "classes.yaml"), "--filename", str(MANIFESTS / "pools.yaml"))
    before = versions(kubectl)
    code, told = observed(tmp_path, mighty, *VERDICTS)

    assert (bare_code, code) == (0, 0)
    assert "not installed: GPUNodeClass, GPUNodePool, GPURequest, GPUWorkloadBudget" in bare
    assert "tgp crds apply" in bare
    assert "observing: nothing is bought, nothing is written" in told
    assert all(verdict in told for verdict in VERDICTS), told
    assert "0 calls that change something were attempted" in told
    verbs = asked_by(audit_log, OBSERVER)
    assert len(verbs) > 10
    assert set(verbs) <= QUESTIONS
    assert versions(kubectl) == before


def test_with_few_rights_it_shows_what_it_may_and_says_the_rest(tmp_path: Path, watchful_plane: ControlPlane):
    code, told = observed(tmp_path, watchful_plane.kubeconfig_for_user("stranger"), "you may not read: ")

    assert code == 0
    assert "you may not read: " in told
    assert "nodes" in told
    assert "Traceback" not in told


def test_a_cluster_that_never_answers_is_an_error(tmp_path: Path):
    with Mounted(tmp_path) as server:
        kubeconfig = server.kubeconfig
    told = answer("observe", "--kubeconfig", str(kubeconfig), "--for", "1s")  # its port is closed by now

    assert told.returncode == 1
    assert "never answered" in told.stderr + told.stdout


def test_a_kubeconfig_that_is_none_is_refused_by_name(tmp_path: Path):
    (tmp_path / "config").write_text("clusters: 7\n")
    told = answer("observe", "--kubeconfig", str(tmp_path / "config"))

    assert told.returncode == 1
    assert "config" in told.stderr
