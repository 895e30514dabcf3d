"""The commands about booting and joining, against the real API server: what it stores, and what it says no to."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tgp.api.crds import as_yaml
from tgp.app.demo.fixtures import join_secret
from tools.controlplane.plane import ControlPlane

BOUND_S = 180
NAMESPACE = "boot-commands"
LOOKS = ("nodes", "namespaces", "gpurequests.tgp.io", "gpunodeclasses.tgp.io", "gpunodepools.tgp.io")


@pytest.fixture
def tgp(control_plane: ControlPlane):
    def run(*words: str, kubeconfig: Path | None = None) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "tgp", *words],
            env={**os.environ, "KUBECONFIG": str(kubeconfig or control_plane.kubeconfig), "COLUMNS": "160"},
            capture_output=True,
            text=True,
            timeout=BOUND_S,
            check=False,
        )

    assert run("crds", "apply").returncode == 0
    return run


@pytest.fixture(scope="module")
def namespace(kubectl) -> Iterator[str]:
    kubectl("create", "namespace", NAMESPACE)
    yield NAMESPACE
    kubectl("delete", "namespace", NAMESPACE, "--wait=false")


def test_the_join_secret_is_made_changed_and_taken_for_a_config(tgp, kubectl, namespace, tmp_path):
    file = tmp_path / "join.yaml"
    manifest = join_secret()
    file.write_text(as_yaml({**manifest, "stringData": {**manifest["stringData"], "dns-domain": "old.arpa"}}))
    made = tgp("talos", "join-secret", str(file), "--apply", "--operator-namespace", namespace)
    assert made.returncode == 0, made.stderr
    assert f"Secret {namespace}/tgp-join was created." in made.stdout

    file.write_text(as_yaml(manifest))
    words = ("talos", "join-secret", str(file), "--apply", "--operator-namespace", namespace)
    assert tgp(*words).returncode == 1, "it was not confirmed"
    changed = tgp(*words, "--yes")
    assert changed.returncode == 0, changed.stderr
    stored = json.loads(kubectl("--namespace", namespace, "get", "secret", "tgp-join", "--output=json"))
    assert set(stored["data"]) == set(manifest["stringData"]), "what is not there any more went"


def test_who_may_not_ask_through_the_api_server_is_told_which_right_it_takes(tgp, kubectl, namespace, control_plane):
    kubectl("create", "clusterrole", "boot-look", "--verb=get,list", f"--resource={','.join(LOOKS)}")
    kubectl("create", "clusterrolebinding", "boot-look", "--clusterrole=boot-look", "--user=ada")
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "boot-node"}}
    kubectl("create", "--filename=-", stdin=json.dumps(node))
    try:
        ada = control_plane.kubeconfig_for_user("ada")
        words = ("doctor", "node/boot-node", "--operator-namespace", namespace, "--output", "json")
        mine = {link["name"]: link for link in json.loads(tgp(*words).stdout)["links"]}
        hers = {link["name"]: link for link in json.loads(tgp(*words, kubeconfig=ada).stdout)["links"]}
    finally:
        kubectl("delete", "node/boot-node", "clusterrole/boot-look", "clusterrolebinding/boot-look")

    assert "nodes/proxy" in hers["kubelet"]["message"]
    assert hers["kubelet"]["kind"] == hers["Lease"]["kind"] == "unknown"
    assert "you may not" not in mine["kubelet"]["message"]
    assert mine["Lease"]["kind"] == "broken"
