"""`tgp check` looks at the cluster too: would a device plugin run on a new node?"""

import json
from pathlib import Path

import pytest

from tgp.adapters.clock import SystemClock
from tgp.adapters.entropy import SystemEntropy
from tgp.adapters.http.serve import listen
from tgp.api.resource import DAEMON_SET
from tgp.app.cluster_findings import DEVICE_PLUGIN, cluster_findings
from tgp.sim.apiserver import ApiServer
from tgp.sim.apiserver.identity import ADMIN

TOKEN = "of-the-person-who-asks"


def a_kubeconfig(folder: Path, url: str) -> str:
    path = folder / "kubeconfig"
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "users": [{"name": "u", "user": {"token": TOKEN}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path.write_text(json.dumps(document))
    return str(path)


def a_plugin(tolerations: list[dict]) -> dict:
    labels = {"name": "nvidia-device-plugin"}
    container = {"name": "plugin", "image": "nvcr.io/nvidia/k8s-device-plugin:v0.17.0"}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "nvidia-device-plugin", "namespace": "kube-system"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"tolerations": tolerations, "containers": [container]},
            },
        },
    }


@pytest.mark.parametrize(
    ("plugins", "good", "said"),
    [
        ([], False, "install a GPU device plugin"),
        ([a_plugin([])], False, "does not tolerate tgp.io/ephemeral:NoSchedule"),
        ([a_plugin([{"operator": "Exists"}])], True, "would run there"),
    ],
    ids=["none", "intolerant", "tolerant"],
)
async def test_it_says_whether_a_plugin_would_run_and_what_to_change(tmp_path, plugins, good, said):
    server = ApiServer(SystemClock(), SystemEntropy())
    server.authentication.add_token(TOKEN, ADMIN)
    for plugin in plugins:
        server.backstage.create(DAEMON_SET, plugin)
    listening = await listen(server.handle)
    try:
        found = await cluster_findings(a_kubeconfig(tmp_path, listening.url), "", expected=True)
    finally:
        await listening.stop()

    assert [(one.title, one.good) for one in found] == [(DEVICE_PLUGIN, good)]
    assert said in found[0].words


async def test_a_cluster_that_was_named_and_is_not_there_is_a_finding(tmp_path):
    found = await cluster_findings(a_kubeconfig(tmp_path, "http://127.0.0.1:9"), "", expected=True)

    assert found[0].good is False
    assert "cannot be read" in found[0].words


async def test_no_cluster_at_all_is_none_unless_one_was_named(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)

    assert await cluster_findings("", "", expected=False) == ()
    assert (await cluster_findings(str(tmp_path / "nothing"), "", expected=True))[0].good is False
