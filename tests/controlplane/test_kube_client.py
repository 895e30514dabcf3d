"""Our client against the real API server: it lets us in, and its answers mean what we take them to mean."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.contracts.kube_client.cluster_cases import CASES, Case, a_ground
from tgp.adapters.clock import SystemClock
from tgp.adapters.compute import Threads
from tgp.adapters.entropy import SystemEntropy
from tgp.adapters.exec import SystemExec
from tgp.adapters.kube.client import KubeCluster
from tgp.adapters.kube.config import ClusterTarget
from tgp.adapters.kube.config_connect import http_for
from tgp.adapters.kube.config_files import ACCOUNT, find_target, in_cluster, read_file
from tgp.adapters.kube.credentials_http import AuthenticatedHttp
from tgp.adapters.kube.events import EventRecorder
from tgp.api.resource import CONFIG_MAP, NAMESPACE, SERVICE_ACCOUNT
from tgp.core.model.facts import FactSubject
from tgp.core.model.object_key import ObjectKey
from tgp.ports.cluster import Forbidden, Unauthenticated
from tools.controlplane.kubectl import Kubectl
from tools.controlplane.plane import ControlPlane

CLOCK, ENTROPY = SystemClock(), SystemEntropy()


@asynccontextmanager
async def reaching(target: ClusterTarget, read: Callable[[str], bytes] = read_file) -> AsyncIterator[AuthenticatedHttp]:
    compute = Threads()
    http = http_for(target, CLOCK, compute, SystemExec(), read=read)
    try:
        yield http
    finally:
        await http.close()
        compute.close()


@pytest.fixture
async def cluster(control_plane: ControlPlane) -> AsyncIterator[KubeCluster]:
    """The administrator's, by client certificate."""
    async with reaching(find_target(str(control_plane.kubeconfig))) as http:
        yield KubeCluster(http, ENTROPY)


@pytest.fixture
async def home(cluster: KubeCluster) -> str:
    """A namespace of the test's own."""
    name = f"kube-client-{ENTROPY.token(4).hex()}"
    await cluster.create(NAMESPACE, {"metadata": {"name": name}})
    return name


# Who we are


def a_kubeconfig(plane: ControlPlane, where: Path, user: dict[str, Any], **cluster: Any) -> str:
    document = {
        "current-context": "here",
        "contexts": [
            {"name": "here", "context": {"cluster": "plane", "user": "me", "namespace": "team"}},
            {"name": "stranger", "context": {"cluster": "plane", "user": "absent"}},
        ],
        "clusters": [
            {"name": "plane", "cluster": {"server": plane.url, "certificate-authority": str(plane.ca_file), **cluster}}
        ],
        "users": [{"name": "me", "user": user}, {"name": "absent", "user": {"token": "not-a-token"}}],
    }
    path = where / "config"
    path.write_text(json.dumps(document))
    return str(path)


async def may_read(target: ClusterTarget) -> None:
    async with reaching(target) as http:
        assert (await KubeCluster(http, ENTROPY).read(NAMESPACE, ObjectKey("", "kube-system")))["kind"] == "Namespace"


async def test_a_token_lets_us_in(control_plane: ControlPlane, tmp_path: Path):
    await may_read(find_target(a_kubeconfig(control_plane, tmp_path, {"token": control_plane.admin_token})))


async def test_another_context_is_another_user(control_plane: ControlPlane, tmp_path: Path):
    path = a_kubeconfig(control_plane, tmp_path, {"token": control_plane.admin_token})

    with pytest.raises(Unauthenticated):
        await may_read(find_target(path, "stranger"))


async def test_a_client_certificate_in_files_lets_us_in(control_plane: ControlPlane, tmp_path: Path):
    pair = control_plane.certificate_for("ann", ("system:masters",))
    (tmp_path / "ann.crt").write_bytes(pair.certificate)
    (tmp_path / "ann.key").write_bytes(pair.key)

    await may_read(
        find_target(a_kubeconfig(control_plane, tmp_path, {"client-certificate": "ann.crt", "client-key": "ann.key"}))
    )


async def test_an_insecure_connection_is_possible_and_said(control_plane: ControlPlane, tmp_path: Path):
    user = {"token": control_plane.admin_token}
    path = a_kubeconfig(
        control_plane, tmp_path, user, **{"insecure-skip-tls-verify": True, "certificate-authority": ""}
    )

    await may_read(find_target(path))


PLUGIN = """
import json, os, sys
asked = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
assert asked["spec"]["cluster"]["server"] == os.environ["SERVER"], asked
print(json.dumps({
    "apiVersion": asked["apiVersion"], "kind": "ExecCredential",
    "status": json.load(open(os.environ["STATUS"])),
}))
"""


def a_plugin(plane: ControlPlane, where: Path, version: str) -> dict[str, Any]:
    (where / "plugin.py").write_text(PLUGIN)
    env = {"STATUS": str(where / "status.json"), "SERVER": plane.url}
    return {
        "apiVersion": f"client.authentication.k8s.io/{version}",
        "command": sys.executable,
        "args": [str(where / "plugin.py")],
        "env": [{"name": name, "value": value} for name, value in env.items()],
        "provideClusterInfo": True,
        "interactiveMode": "Never",
    }


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
async def test_an_exec_plugin_lets_us_in_by_token(control_plane: ControlPlane, tmp_path: Path, version: str):
    (tmp_path / "status.json").write_text(json.dumps({"token": control_plane.admin_token}))

    await may_read(
        find_target(a_kubeconfig(control_plane, tmp_path, {"exec": a_plugin(control_plane, tmp_path, version)}))
    )


async def test_an_exec_plugin_lets_us_in_by_certificate(control_plane: ControlPlane, tmp_path: Path):
    pair = control_plane.certificate_for("ann", ("system:masters",))
    status = {"clientCertificateData": pair.certificate.decode(), "clientKeyData": pair.key.decode()}
    (tmp_path / "status.json").write_text(json.dumps(status))

    await may_read(
        find_target(a_kubeconfig(control_plane, tmp_path, {"exec": a_plugin(control_plane, tmp_path, "v1")}))
    )


async def test_a_service_account_from_inside_a_pod(control_plane: ControlPlane, cluster: KubeCluster, home: str):
    """Its files, its environment, and its rights: none, until they are granted. A rotated token is read again."""
    await cluster.create(SERVICE_ACCOUNT, {"metadata": {"namespace": home, "name": "operator"}})
    mounted = {
        f"{ACCOUNT}/token": b"a token that is not valid any more".replace(b" ", b"-"),
        f"{ACCOUNT}/namespace": home.encode(),
        f"{ACCOUNT}/ca.crt": control_plane.ca_file.read_bytes(),
    }
    host, port = control_plane.url.removeprefix("https://").rsplit(":", 1)
    target = in_cluster({"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}, mounted.__getitem__)
    assert target is not None
    assert target.namespace == home

    async with reaching(target, mounted.__getitem__) as http:
        inside = KubeCluster(http, ENTROPY)
        with pytest.raises(Unauthenticated):
            await inside.read(CONFIG_MAP, ObjectKey(home, "x"))
        mounted[f"{ACCOUNT}/token"] = control_plane.service_account_token(home, "operator").encode() + b"\n"
        with pytest.raises(Forbidden, match=f"system:serviceaccount:{home}:operator"):
            await inside.read(CONFIG_MAP, ObjectKey(home, "x"))


async def test_impersonation_takes_rights_away(control_plane: ControlPlane, tmp_path: Path):
    path = a_kubeconfig(control_plane, tmp_path, {"token": control_plane.admin_token, "as": "bob", "as-groups": ["g"]})

    with pytest.raises(Forbidden, match='User "bob"'):
        await may_read(find_target(path))


# What it does for us


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
async def test_the_real_api_server_keeps_the_contract(case: Case, control_plane: ControlPlane):
    """The same cases as on the in-memory one."""
    async with reaching(find_target(str(control_plane.kubeconfig))) as http:
        await case(await a_ground(http, CLOCK, ENTROPY))


async def test_who_may_not_is_told_so(control_plane: ControlPlane):
    async with reaching(find_target(str(control_plane.kubeconfig_for_user("visitor")))) as http:
        with pytest.raises(Forbidden, match='User "visitor" cannot get'):
            await KubeCluster(http, ENTROPY).read(CONFIG_MAP, ObjectKey("default", "x"))


async def test_events_are_seen_where_people_look(cluster: KubeCluster, home: str, kubectl: Kubectl):
    made = await cluster.create(CONFIG_MAP, {"metadata": {"namespace": home, "name": "note"}})
    events = EventRecorder(cluster, CLOCK, "pod-1")
    running = asyncio.create_task(events.run())
    subject = FactSubject(CONFIG_MAP, ObjectKey(home, "note"), made.uid)
    for _ in range(3):
        events.emit(subject, warning=True, reason="SoldOut", message="no a100 left at acme")
        async with asyncio.timeout(10):
            await events.flushed()
    running.cancel()
    described = await asyncio.to_thread(kubectl, "-n", home, "describe", "configmap", "note")
    listed = await asyncio.to_thread(kubectl, "-n", home, "get", "events", "--sort-by=.lastTimestamp", "-o", "wide")

    assert events.dropped == 0
    assert "SoldOut" in described
    assert "(x3 over" in described
    assert "tgp-operator" in described
    assert "no a100 left at acme" in listed
    assert "<unknown>" not in listed
