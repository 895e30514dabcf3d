"""The harness itself: what it starts is the real thing, and what it started is gone afterwards."""

import base64
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography import x509

from tools import toolbox
from tools.controlplane import ControlPlane, ControlPlaneFailed, Wanted, plane, scratch
from tools.controlplane.certificates import signing_request
from tools.controlplane.kubectl import Kubectl, KubectlFailed
from tools.controlplane.nodes import RUNS_FOR, fake_node

ROOT = Path(__file__).parents[2]
WITHIN = "--timeout=120s"
PARENT = """
import json, time
from tools.controlplane import ControlPlane
with ControlPlane() as plane:
    print(json.dumps([*plane.pids.values(), str(plane.directory)]), flush=True)
    time.sleep(600)
"""


def a_pod(name: str, annotations: dict[str, str] | None = None, **limits: str):
    container = {"name": "main", "image": "any", "resources": {"limits": limits}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": annotations or {}},
        "spec": {"containers": [container]},
    }


@pytest.fixture(scope="module")
def node(full_control_plane):
    full_control_plane.admin.call("POST", "/api/v1/nodes", fake_node("harness-1"))
    return "harness-1"


# What it starts


def test_server_and_kubectl_are_the_releases_we_name(control_plane: ControlPlane, kubectl: Kubectl):
    """kubectl verifies the server's certificate, so this is also the proof that the kubeconfig's authority is right."""
    versions = kubectl.json("version")

    assert versions["clientVersion"]["gitVersion"] == "v1.36.3"
    assert versions["serverVersion"]["gitVersion"] == f"v{plane.RELEASES[control_plane.wanted.version]}"


def test_a_pod_is_let_in_where_no_controllers_run(kubectl: Kubectl):
    """Contract tests write pods to an API server without a controller that makes a default service account."""
    kubectl.apply(a_pod("alone"))

    assert kubectl.json("get", "pod", "alone")["status"]["phase"] == "Pending"


def test_a_node_may_not_touch_another_nor_give_itself_reserved_labels(control_plane: ControlPlane, kubectl: Kubectl):
    """NodeRestriction is on: a stolen kubelet credential is worth one node."""
    for name in ("honest", "other"):
        control_plane.admin.call("POST", "/api/v1/nodes", fake_node(name))
    as_node = kubectl.using(control_plane.kubeconfig_for_user("system:node:honest", ("system:nodes",)))

    as_node("label", "node", "honest", "mine=yes")
    with pytest.raises(KubectlFailed, match="is not allowed to modify labels"):
        as_node("label", "node", "honest", "node-restriction.kubernetes.io/trusted=yes")
    with pytest.raises(KubectlFailed, match=r"(?i)forbidden"):
        as_node("label", "node", "other", "mine=yes")


def test_a_named_user_has_exactly_the_rights_given(control_plane: ControlPlane, kubectl: Kubectl):
    visitor = kubectl.using(control_plane.kubeconfig_for_user("visitor", ("guests",)))

    control_plane.kubeconfig_for_user("visitor", ("system:masters",))  # the same name again, but not the same file
    assert visitor.json("auth", "whoami")["status"]["userInfo"]["groups"] == ["guests", "system:authenticated"]
    with pytest.raises(KubectlFailed, match=r"(?i)forbidden"):
        visitor("get", "secrets")


def test_a_service_account_is_known_by_its_token(control_plane: ControlPlane, kubectl: Kubectl):
    kubectl("create", "serviceaccount", "worker")
    worker = kubectl.using(control_plane.kubeconfig_for_service_account("default", "worker"))

    assert worker.json("auth", "whoami")["status"]["userInfo"]["username"] == "system:serviceaccount:default:worker"


def test_a_bootstrap_token_opens_the_door(kubectl: Kubectl, control_plane: ControlPlane, tmp_path: Path):
    """Joining machines authenticate so."""
    kubectl(
        "create", "secret", "generic", "bootstrap-token-abcdef", "--namespace=kube-system",
        "--type=bootstrap.kubernetes.io/token", "--from-literal=token-id=abcdef",
        "--from-literal=token-secret=0123456789abcdef", "--from-literal=usage-bootstrap-authentication=true",
    )  # fmt: skip
    config = json.loads(control_plane.kubeconfig.read_text())
    config["users"][0]["user"] = {"token": "abcdef.0123456789abcdef"}
    joining = tmp_path / "joining.kubeconfig"
    joining.write_text(json.dumps(config))

    known_as = kubectl.using(joining).json("auth", "whoami")["status"]["userInfo"]
    assert known_as["username"] == "system:bootstrap:abcdef"


def test_the_real_scheduler_calls_a_gpu_pod_unschedulable(full_kubectl: Kubectl, node: str):
    full_kubectl.apply(a_pod("wants-gpu", **{"nvidia.com/gpu": "1"}))

    full_kubectl("wait", "pod/wants-gpu", "--for=jsonpath={.status.conditions[0].reason}=Unschedulable", WITHIN)


def test_a_pod_runs_on_a_pretend_node_and_finishes_when_it_said(full_kubectl: Kubectl, node: str):
    full_kubectl.apply(a_pod("stays"), a_pod("finishes", {RUNS_FOR: "500ms"}))

    full_kubectl("wait", "pod/stays", "--for=condition=Ready", WITHIN)
    full_kubectl("wait", "pod/finishes", "--for=jsonpath={.status.phase}=Succeeded", WITHIN)
    running = full_kubectl.json("get", "pod", "stays")
    assert (running["spec"]["nodeName"], running["status"]["phase"]) == (node, "Running")


def test_a_job_completes_on_a_pretend_node(full_kubectl: Kubectl, node: str):
    """Scheduler, job controller and pretend kubelet together."""
    full_kubectl("create", "job", "adds-up", "--image=any")

    full_kubectl("wait", "job/adds-up", "--for=condition=Complete", WITHIN)


@pytest.mark.parametrize(
    ("signer", "usages", "names"),
    [
        ("kubernetes.io/kubelet-serving", ["digital signature", "server auth"], ("joining-1",)),
        ("kubernetes.io/kube-apiserver-client-kubelet", ["digital signature", "client auth"], ()),
    ],
)
def test_a_kubelets_certificate_is_signed_once_approved(
    full_control_plane: ControlPlane, full_kubectl: Kubectl, signer: str, usages: list[str], names: tuple[str, ...]
):
    """By the cluster's own authority, for the name asked for."""
    user, groups = "system:node:joining-1", ("system:nodes",)
    kubelet = full_kubectl.using(full_control_plane.kubeconfig_for_user(user, groups))
    request = signing_request(user, groups, names)
    csr = f"joining-1-{signer.rpartition('/')[2]}"
    spec = {"request": request.certificate_data, "signerName": signer, "usages": usages}
    document = {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": csr},
        "spec": spec,
    }
    kubelet("create", "--filename=-", stdin=json.dumps(document))

    full_kubectl("certificate", "approve", csr)
    full_kubectl("wait", f"csr/{csr}", "--for=jsonpath={.status.certificate}", WITHIN)
    issued = x509.load_pem_x509_certificate(
        base64.b64decode(full_kubectl.json("get", "csr", csr)["status"]["certificate"])
    )
    authority = x509.load_pem_x509_certificate(full_control_plane.ca_file.read_bytes())
    issued.verify_directly_issued_by(authority)
    assert user in issued.subject.rfc4514_string()


# How it ends, and how it fails


def test_a_port_taken_at_the_last_moment_is_no_error_and_nothing_is_left_after_stop(
    monkeypatch: pytest.MonkeyPatch, runs
):
    """The port is chosen before the API server binds it; if another process takes it, that costs one more try."""
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        busy = stranger.getsockname()[1]
        really_free = plane.free_port
        monkeypatch.setattr(plane, "free_port", lambda first=0: busy if first == 0 else really_free(first))
        started = ControlPlane().start()
        try:
            pids = started.pids
            assert started.url != f"https://127.0.0.1:{busy}"
            assert started.admin.ask("GET", "/readyz") == (200, b"ok")
            assert all(map(runs, pids.values()))
            started.admin.call("POST", "/api/v1/namespaces", {"metadata": {"name": "kept"}})
            started.restart_apiserver()
            assert started.admin.call("GET", "/api/v1/namespaces/kept")["metadata"]["name"] == "kept"
            pids |= {"the restarted one": started.pids["kube-apiserver"]}
        finally:
            started.stop()

    assert sorted(pids) == ["etcd", "kube-apiserver", "the restarted one"]
    assert [name for name, pid in pids.items() if runs(pid)] == []
    assert not started.directory.exists()
    started.stop()  # once more does no harm


def test_a_busy_port_is_passed_over_for_the_next():
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        busy = stranger.getsockname()[1]

        assert plane.free_port(busy) > busy


def test_nothing_outlives_a_parent_killed_with_no_warning(eventually, runs, monkeypatch: pytest.MonkeyPatch):
    """kill -9 leaves no process; the directory goes when the next one is started."""
    parent = subprocess.Popen([sys.executable, "-c", PARENT], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert parent.stdout
        *pids, directory = json.loads(parent.stdout.readline())
        assert all(map(runs, pids))
    finally:
        os.kill(parent.pid, signal.SIGKILL)
        parent.communicate()

    eventually(lambda: not any(map(runs, pids)))
    monkeypatch.setattr(scratch, "YOUNG_S", 0)
    scratch.sweep()
    assert not Path(directory).exists()


def test_a_living_cluster_is_not_swept_away(control_plane: ControlPlane, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(scratch, "YOUNG_S", 0)
    scratch.sweep()

    assert control_plane.kubeconfig.exists()


def test_a_part_that_dies_at_its_start_is_named_and_its_log_shown(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    broken = tmp_path / "etcd"
    broken.write_text("#!/bin/sh\necho the disk of etcd is on fire >&2\nexit 3\n")
    broken.chmod(0o755)
    monkeypatch.setenv("TGP_ETCD", str(broken))
    doomed = ControlPlane(Wanted())

    with pytest.raises(ControlPlaneFailed, match=r"etcd ended with 3(.|\n)*the disk of etcd is on fire"):
        doomed.start()

    assert doomed.pids == {}
    assert "on fire" in (doomed.directory / "etcd.log").read_text()  # kept for people
    assert not (doomed.directory / "ca.key").exists()


def test_a_wrong_path_to_a_tool_is_said_plainly(tmp_path: Path):
    """No traceback: which tool, which variable, what to do."""
    ended = subprocess.run(
        [sys.executable, "-m", "tools.controlplane", "--bare", "--for=0"],
        cwd=ROOT,
        env={**os.environ, toolbox.KUBE_APISERVER.variable: str(tmp_path / "nothing")},
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.returncode == 1
    assert "kube-apiserver 1.36.3 is not available: TGP_KUBE_APISERVER says" in ended.stderr
    assert "Traceback" not in ended.stderr
