"""The HTTPS side on a real API server: whose token opens what, rotation, and the way of a command through its proxy.

Pods are played by this machine: a Service leads to a Pod whose address is this machine's own.
"""

import base64
import json
import socket
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.program import environment
from tests.documents import compare
from tgp.core.access.certificate import AUTHORITY_CONFIG_MAP, CERTIFICATE, OUR_SECRET
from tgp.core.access.token import AUDIENCE, TOKEN_HEADER
from tgp.interfaces.web.api_pages import ENTRIES
from tools.controlplane.client import AdminClient
from tools.controlplane.kubectl import Kubectl
from tools.controlplane.nodes import fake_node
from tools.controlplane.plane import ControlPlane
from tools.controlplane.ports import free_port

ROOT = Path(__file__).parents[2]
NAMESPACE = "tgp-system"
NAME = f"tgp-operator.{NAMESPACE}.svc"
CLASS = """
apiVersion: tgp.io/v1
kind: GPUNodeClass
metadata: {name: gpus}
spec:
  providers: [{name: simulated}]
  networking: {backend: none}
"""


@pytest.fixture(scope="module")
def plane(full_control_plane) -> ControlPlane:
    """Not of this file alone: the others that use it know objects of other names, and no operator of theirs runs."""
    return full_control_plane


@pytest.fixture(scope="module")
def admin(plane, kubectl_program) -> Kubectl:
    run = Kubectl(kubectl_program, plane.kubeconfig, plane.directory)
    run("apply", "--server-side", f"--filename={ROOT / 'deploy' / 'crds'}")
    run("wait", "--for=condition=Established", "crd", "--all", "--timeout=120s")
    run("apply", f"--filename={ROOT / 'deploy' / 'rights.yaml'}")
    run("create", "serviceaccount", "prometheus", "-n", "default")
    return run


@pytest.fixture(scope="module")
def port(plane, admin, tmp_path_factory) -> Iterator[int]:
    """Of an operator that runs under the shipped ServiceAccount."""
    chosen, log = free_port(), tmp_path_factory.mktemp("operator") / "log"
    kubeconfig = plane.kubeconfig_for_service_account(NAMESPACE, "tgp-operator")
    command = [sys.executable, "-m", "tgp", "operator", f"--kubeconfig={kubeconfig}", "--listen="]
    with log.open("wb") as file:
        process = subprocess.Popen([*command, f"--https-listen=0.0.0.0:{chosen}"], stdout=file, stderr=file)
    try:
        yield chosen
        assert "forbidden" not in log.read_text()
    finally:
        process.terminate()
        process.wait(60)


def authority(admin: Kubectl) -> str:
    path = r"jsonpath={.data.ca\.crt}"
    return admin("get", f"configmap/{AUTHORITY_CONFIG_MAP}", "-n", NAMESPACE, "--ignore-not-found", "-o", path)


def get(admin: Kubectl, port: int, path: str = "/metrics", token: str = "", header: str = "") -> tuple[int, bytes]:
    """As a scraper does that has the authority from the ConfigMap, and the name from the ServiceMonitor."""
    trust = ssl.create_default_context(cadata=authority(admin))
    headers = {header: token} if header else {"Authorization": f"Bearer {token}"} if token else {}
    request = urllib.request.Request(f"https://localhost:{port}{path}", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=10, context=trust) as reply:  # noqa: S310 - on loopback
            return reply.status, reply.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


@pytest.fixture(scope="module")
def served(admin, port, eventually) -> int:
    def answers() -> bool:
        try:
            return bool(authority(admin)) and get(admin, port)[0] == 401
        except OSError:
            return False

    eventually(answers)
    return port


def a_token(admin: Kubectl, *flags: str, name: str = "prometheus", namespace: str = "default") -> str:
    return admin("create", "token", name, "-n", namespace, *flags).strip()


def test_401_403_and_200_are_what_the_api_server_says(plane, admin, served, eventually):
    token = a_token(admin)
    assert get(admin, served, token="nonsense")[0] == 401
    assert get(admin, served, token=a_token(admin, "--audience=vault"))[0] == 401
    assert get(admin, served, token=token)[0] == 403

    admin(
        "create",
        "clusterrolebinding",
        "scraper",
        "--clusterrole=tgp-metrics-reader",
        "--serviceaccount=default:prometheus",
    )
    eventually(lambda: get(admin, served, token=token)[0] == 200)
    assert b"tgp_leader 1.0" in get(admin, served, token=token)[1]
    assert get(admin, served, "/api/v1/offers", token)[0] == 403
    viewer = a_token(admin, f"--audience={AUDIENCE}", "--duration=10m", name="tgp-viewer", namespace=NAMESPACE)
    status, content = get(admin, served, "/api/v1/offers", viewer, TOKEN_HEADER)
    assert (status, json.loads(content)["kind"]) == (200, "OfferList")
    others = [each.about.path for each in ENTRIES if "{" not in each.about.path and each.about.path != "/api/v1/offers"]
    others += ["/api/v1/why/request/default/nothing", "/openapi.json"]
    assert {path: get(admin, served, path, viewer, TOKEN_HEADER)[0] for path in others} == dict.fromkeys(others, 403)
    admin("create", "serviceaccount", "reader", "-n", NAMESPACE)
    bound = ("--clusterrole=tgp-viewer", f"--serviceaccount={NAMESPACE}:reader")
    admin("create", "clusterrolebinding", "reader", *bound)
    viewer = a_token(admin, f"--audience={AUDIENCE}", "--duration=10m", name="reader", namespace=NAMESPACE)
    eventually(lambda: get(admin, served, "/openapi.json", viewer, TOKEN_HEADER)[0] == 200)
    for entry in ENTRIES:
        if "{" in entry.about.path:
            continue
        status, content = get(admin, served, entry.about.path, viewer, TOKEN_HEADER)
        assert (status, json.loads(content).get("kind")) == (200, entry.about.kinds[0]), content
        compare(json.loads(content))
    assert get(admin, served, "/api/v1/why/request/default/nothing", viewer, TOKEN_HEADER)[0] == 404
    assert get(admin, served, token=viewer)[0] == 403, "prices are no metrics"
    elsewhere = AdminClient(plane.url, plane.ca_file, viewer)
    assert elsewhere.ask("GET", "/api")[0] == 401, "the token opens nothing at the API server"


def leaf(admin: Kubectl) -> str:
    path = r"jsonpath={.data.tls\.crt}"
    return base64.b64decode(admin("get", f"secret/{OUR_SECRET}", "-n", NAMESPACE, "-o", path)).decode()


def test_a_new_certificate_is_served_under_the_same_authority_without_a_restart(admin, served, eventually):
    before, trusted = leaf(admin), authority(admin)
    shown = ssl.get_server_certificate(("localhost", served))
    assert shown == before
    patch = json.dumps({"data": {CERTIFICATE: ""}})
    admin("patch", f"secret/{OUR_SECRET}", "-n", NAMESPACE, "--type=merge", "-p", patch)

    eventually(lambda: ssl.get_server_certificate(("localhost", served)) not in ("", before))
    assert authority(admin) == trusted
    assert get(admin, served)[0] == 401


def own_address() -> str:
    """Of this machine on its network: the proxy does not go to loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as line:
        line.connect(("192.0.2.1", 9))  # nothing is sent
        return str(line.getsockname()[0])


@pytest.fixture(scope="module")
def service(plane, admin, served) -> Iterator[None]:
    """The Service of the chart, and a Pod behind it whose address is this machine's."""
    labels = {"app": "stand-in"}
    meta = {"namespace": NAMESPACE, "name": "tgp-operator"}
    ports = [{"name": "https", "port": 8443, "targetPort": served}]
    container = {"name": "x", "image": "x", "ports": [{"name": "https", "containerPort": served}]}
    node: dict[str, Any] = fake_node("stand-in")
    del node["metadata"]["annotations"]  # KWOK leaves it alone
    admin.apply(
        node,
        {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": {"selector": labels, "ports": ports}},
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {**meta, "labels": labels},
            "spec": {"nodeName": "stand-in", "containers": [container], "tolerations": [{"operator": "Exists"}]},
        },
    )
    address = own_address()
    status = {
        "phase": "Running",
        "podIP": address,
        "podIPs": [{"ip": address}],
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    plane.admin.call("PATCH", f"/api/v1/namespaces/{NAMESPACE}/pods/tgp-operator/status", {"status": status})
    yield
    admin("delete", "node/stand-in")  # pods of other tests would be placed on it


def offers(plane: ControlPlane, kubeconfig: Path) -> dict[str, Any]:
    command = [
        sys.executable,
        "-m",
        "tgp",
        "offers",
        "-o",
        "json",
        f"--kubeconfig={kubeconfig}",
        "--provider=simulated",
    ]
    said = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=120, check=False)
    assert said.returncode in (0, 1), said.stderr
    document: dict[str, Any] = json.loads(said.stdout)
    return document


def test_a_command_reads_the_operators_book_through_the_proxy_if_its_user_may(
    plane, admin, service, eventually: Callable[..., None]
):
    kubeconfig = plane.kubeconfig_for_user("engineer", ("ml-engineers",))
    refused = offers(plane, kubeconfig)
    assert "cannot create resource" in refused["advice"][-1] or "forbidden" in refused["advice"][-1].lower()

    admin("create", "rolebinding", "viewers", "-n", NAMESPACE, "--role=tgp-viewer", "--group=ml-engineers")
    admin("apply", "--filename=-", stdin=CLASS)
    found: list[dict[str, Any]] = []

    def read() -> bool:
        found.append(offers(plane, kubeconfig))
        return "operator's own price book." in found[-1]["advice"][-1]

    eventually(read)
    assert found[-1]["kind"] == "OfferList"
    assert found[-1]["withoutKey"] == []
