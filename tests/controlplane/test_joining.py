"""A rented machine joins a real cluster: the shipped operator lets it in, and no other machine with its credentials.

A stand-in kubelet takes the user data that the machine was ordered with, finds the machine config in it, and goes by
that alone: into the mesh, with its bootstrap token to the real API server, to a certificate by the real signer, to a
Node that KWOK keeps alive. Others try what else could be had with the same token.
"""

import asyncio
import json
from base64 import b64decode, b64encode
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import pytest
from cryptography import x509

from tests.controlplane.fake_kubelet import IN_MESH, Denied, FakeKubelet
from tests.controlplane.providers import settings_of, written
from tests.controlplane.replica import SHORT
from tests.controlplane.replicas import Replicas
from tests.controlplane.simulators import HEADSCALE_URL, Simulators
from tests.controlplane.test_kube_client import reaching
from tests.controlplane.test_lifecycle import (
    a_device_plugin,
    a_request,
    a_secret,
    condition,
    ever_made,
    request_path,
    seen,
    status_of,
    uid_of,
)
from tgp.adapters.clock import SystemClock
from tgp.adapters.entropy import SystemEntropy
from tgp.adapters.kube.client import KubeCluster
from tgp.adapters.kube.config_files import find_target
from tgp.adapters.mesh.wireguard.record import CONF, PEERS, name_of
from tgp.api.resource import CERTIFICATE_SIGNING_REQUEST, SECRET
from tgp.app.demo.fixtures import join_secret
from tgp.controllers.joining.tokens import BootstrapTokens, ids_of
from tgp.core.model.join_record import JOIN_RECORDS
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.token import token_for
from tgp.core.requests.node_state import read_provider_id
from tgp.ports.cluster import ClusterError, Forbidden, Refused
from tgp.sim.clouds.machine import SimulatedMachine
from tgp.sim.node_bootstrap import boot_identity_of
from tgp.sim.talos_guest import TalosGuest
from tools.controlplane.certificates import Pair, signing_request
from tools.controlplane.fixtures import a_control_plane
from tools.controlplane.kubectl import Kubectl
from tools.controlplane.plane import RELEASES, ControlPlane, Wanted

T = TypeVar("T")
ROOT = Path(__file__).parents[2]
OURS = "tgp-system"
PROVIDER = "simulated"
GPU = "nvidia.com/gpu"
SERVER_KEY = b64encode(b"the public key of a tunnel's end").decode()
POOL = "10.8.0.0/24"
TALOS = {"1.36": {}, "1.28": {"image": "v1.10.9"}}  # that runs a kubelet of that release; else the operator's own
MESHES = ("tailscale", "headscale", "wireguard")  # a class of that name for each
PLAIN = "none"  # and one whose machines join by no mesh
ANSWERED_S = 3.0  # the controller manager takes milliseconds for those of its groups
GOODBYE_S = 0.25  # what closing TLS takes
FULL_LIFE_S = 240.0
NEVER_LISTED_S = 240.0  # a machine that its provider named and never listed is waited for, though not for minutes here
ORDERED_S = 180.0
STEPS = {  # and their order
    "Ordering": 0,
    "MachineLaunched": 1,
    "JoinApproved": 2,
    "Registered": 3,
    "Connected": 4,
    "Initialized": 4,
    "Ready": 5,
}
NUMBER = count(1)


def do(deed: Coroutine[Any, Any, T]) -> T:
    """Connections that were closed say so to the other side before the loop ends."""

    async def whole() -> T:
        try:
            return await deed
        finally:
            await asyncio.sleep(GOODBYE_S)

    return asyncio.run(whole())


# -- the environment ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class JoinEnv:
    plane: ControlPlane
    simulators: Simulators
    replicas: Replicas
    admin: Kubectl

    def asks(self, name: str, node_class: str = PLAIN) -> None:
        self.admin.apply(a_request(name, PROVIDER, node_class))

    def machine_of(self, name: str) -> SimulatedMachine:
        """Of a request of that name, as soon as it was ordered."""
        uid = uid_of(self.plane, name)
        self.replicas.until(
            lambda: bool(ever_made(self.simulators, uid)),
            lambda: f"{name} is ordered: {status_of(self.plane, name)}",
            ORDERED_S,
        )
        (machine,) = ever_made(self.simulators, uid)
        return machine

    def kubelet_of(self, name: str) -> FakeKubelet:
        """What runs there is told no more than its user data."""
        plate = boot_identity_of(PROVIDER, self.machine_of(name))
        assert plate is not None
        assert plate.guest is not None, "it was given a machine config"
        return FakeKubelet(plate.guest)

    @contextmanager
    def kubelet(self, node_class: str = PLAIN) -> Iterator[FakeKubelet]:
        """Of a request of its own, which is deleted afterwards, without waiting."""
        name = f"joins-{next(NUMBER)}"
        self.asks(name, node_class)
        try:
            kubelet = self.kubelet_of(name)
            yield kubelet
            # A machine that is ended takes its kubelet along. KWOK would keep the Node Ready, and a Ready Node speaks
            # for an hour against a provider that does not list its machine.
            self.admin("delete", "node", kubelet.told.node, "--wait=false", "--ignore-not-found")
        finally:
            self.admin("delete", "gr", name, "--namespace=default", "--wait=false", "--ignore-not-found")

    def comes(self, name: str) -> "Arrived":
        """The whole way, as an honest machine goes it."""
        kubelet = self.kubelet_of(name)
        address = self.simulators.joins(kubelet.told)
        capacity = {GPU: str(self.machine_of(name).product.gpu_count)}

        async def bootstraps_and_registers() -> tuple[Pair, int, Any]:
            pair = await kubelet.bootstraps()
            async with kubelet.certified(pair) as line:
                return pair, *await kubelet.registers(line, capacity, address)

        pair, status, node = do(bootstraps_and_registers())
        assert status == 201, node
        return Arrived(name, kubelet, pair, address, node)

    def token_secret(self, told: TalosGuest) -> dict[str, Any] | None:
        name = f"bootstrap-token-{told.token.partition('.')[0]}"
        return seen(self.plane, f"/api/v1/namespaces/kube-system/secrets/{name}")

    def token_secrets(self) -> list[str]:
        found = self.plane.admin.call("GET", "/api/v1/namespaces/kube-system/secrets")["items"]
        return [each["metadata"]["name"] for each in found if each["type"] == "bootstrap.kubernetes.io/token"]

    def book(self) -> list[str]:
        """Its lines: the launch tokens of machines for which something was made."""
        found = seen(self.plane, f"/api/v1/namespaces/{OURS}/configmaps/{JOIN_RECORDS}") or {}
        return [str(json.loads(line)["token"]) for line in (found.get("data") or {}).values()]

    def peers(self) -> dict[str, Any]:
        """By host name: whom the tunnel's server is told of."""
        return json.loads(self._tunnel(PEERS) or '{"peers": {}}')["peers"]

    def wg_conf(self) -> str:
        return self._tunnel(CONF)

    def _tunnel(self, key: str) -> str:
        found = seen(self.plane, f"/api/v1/namespaces/{OURS}/secrets/{name_of(SERVER_KEY)}") or {}
        return b64decode((found.get("data") or {}).get(key, "")).decode()

    def events(self, kind: str, name: str) -> list[dict[str, Any]]:
        """The first first."""
        found = self.plane.admin.call("GET", "/api/v1/namespaces/default/events")["items"]
        about = [
            each for each in found if (each["involvedObject"]["kind"], each["involvedObject"]["name"]) == (kind, name)
        ]
        return sorted(about, key=lambda each: (each["firstTimestamp"], int(each["metadata"]["resourceVersion"])))


@dataclass(frozen=True)
class Arrived:
    """A machine that became a Node."""

    request: str
    kubelet: FakeKubelet
    pair: Pair
    address: str
    node: dict[str, Any]  # as the API server took it


@pytest.fixture(scope="module")
def plane(pytestconfig: pytest.Config) -> Iterator[ControlPlane]:
    """Controllers to sign and to clean up, and KWOK; no scheduler."""
    wanted = Wanted(version=pytestconfig.getoption("--kubernetes"), controllers=True, kwok=True)
    with a_control_plane(pytestconfig, wanted) as running:
        yield running


@pytest.fixture(scope="module")
def env(plane: ControlPlane, kubectl_program: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JoinEnv]:
    """A cluster whose join Secret tells the truth, with a class for each mesh; the operator under the shipped roles."""
    admin = Kubectl(kubectl_program, plane.kubeconfig, plane.directory)
    admin("apply", "--server-side", f"--filename={ROOT / 'deploy' / 'crds'}")
    admin("wait", "--for=condition=Established", "crd", "--all", "--timeout=120s")
    admin("apply", f"--filename={ROOT / 'deploy' / 'rights.yaml'}")
    if narrowed(plane):
        admin("apply", f"--filename={ROOT / 'deploy' / 'policies.yaml'}")
    with Simulators("joining") as simulators:
        classes = [a_class(simulators, name, TALOS[plane.wanted.version]) for name in (PLAIN, *MESHES)]
        admin.apply(a_secret(simulators), true_join_secret(plane), a_device_plugin(), *classes)
        replicas = Replicas(plane, simulators.signposts(), tmp_path_factory.mktemp("replicas"), shortened=SHORT)
        replicas.start("first")
        try:
            admin("wait", "--for=condition=Ready", "gnc", "--all", "--timeout=150s")  # else requests say that they wait
            yield JoinEnv(plane, simulators, replicas, admin)
        finally:
            replicas.leave()


def narrowed(plane: ControlPlane) -> bool:
    """Whether this release has the kind of policy that we offer."""
    return not RELEASES[plane.wanted.version].startswith("1.28.")


def true_join_secret(plane: ControlPlane) -> dict[str, Any]:
    """Of this cluster; Talos's own part is not secret."""
    secret = join_secret()
    secret["stringData"] |= {
        "cluster-ca.crt": b64encode(plane.ca_file.read_bytes()).decode(),
        "endpoint": f"https://{IN_MESH}:{urlsplit(plane.url).port}",  # the loopback address would be refused
    }
    return secret


def a_class(simulators: Simulators, mesh: str, talos: dict[str, str]) -> dict[str, Any]:
    settings = written(settings_of(PROVIDER, simulators.urls()[PROVIDER]))
    spec: dict[str, Any] = {
        "providers": [{"name": PROVIDER, "settings": settings}],
        "networking": {"backend": mesh},
        "talosConfig": dict(talos),
    }
    match mesh:
        case "tailscale":
            spec["tailscaleConfig"] = {"tags": ["tag:tgp-gpu"]}
        case "headscale":
            key = {"name": "tgp-operator-secret", "key": "headscale"}
            spec["tailscaleConfig"] = {"tags": ["tag:gpu"], "loginServer": HEADSCALE_URL, "apiKeySecretRef": key}
        case "wireguard":
            tunnel = {"publicKey": SERVER_KEY, "serverEndpoint": "203.0.113.7:51820", "addressPool": POOL}
            spec["talosConfig"]["wireGuardConfig"] = tunnel
    return {"apiVersion": "tgp.io/v1", "kind": "GPUNodeClass", "metadata": {"name": mesh}, "spec": spec}


# -- becoming a node, over every mesh ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def arrived(env: JoinEnv) -> dict[str, Arrived]:
    """One machine for each mesh, all of them asked for at once."""
    for mesh in MESHES:
        env.asks(mesh, mesh)
    return {mesh: env.comes(mesh) for mesh in MESHES}


def is_ready(env: JoinEnv, name: str) -> None:
    env.replicas.until(
        lambda: status_of(env.plane, name).get("phase") == "Ready",
        lambda: f"{name} is Ready: {status_of(env.plane, name)}",
    )


@pytest.mark.parametrize("mesh", MESHES)
def test_a_machine_becomes_the_node_it_was_made_for_and_lives(env: JoinEnv, arrived: dict[str, Arrived], mesh: str):
    came = arrived[mesh]
    is_ready(env, mesh)

    status, told = status_of(env.plane, mesh), came.kubelet.told
    node = seen(env.plane, f"/api/v1/nodes/{told.node}")
    assert node is not None
    assert status["nodeName"] == told.node
    subject = x509.load_pem_x509_certificate(came.pair.certificate).subject.rfc4514_string()
    assert f"system:node:{told.node}" in subject
    marked = read_provider_id(node["spec"]["providerID"])
    assert marked is not None
    assert str(marked[1]) == status["attempts"][-1]["token"]
    assert came.node["spec"]["taints"], "it has its taints from its first moment on"
    assert told.labels.items() <= node["metadata"]["labels"].items()
    assert came.address in [each["address"] for each in node["status"]["addresses"]]
    assert condition(status, "Connected")["status"] == "True"
    assert came.address in condition(status, "Connected")["message"]


@pytest.mark.parametrize("mesh", MESHES)
def test_kubectl_describe_tells_every_step_once_and_in_its_order(env: JoinEnv, arrived: dict[str, Arrived], mesh: str):
    is_ready(env, mesh)
    env.replicas.until(lambda: "Ready" in reasons(env, mesh), lambda: f"it is told: {reasons(env, mesh)}")

    told = reasons(env, mesh)
    assert sorted(told) == sorted(STEPS)
    assert [STEPS[step] for step in told] == sorted(STEPS.values()), told
    events = env.admin("describe", "gr", mesh, "--namespace=default").partition("Events:")[2]
    assert all(step in events for step in STEPS)
    assert "Warning" not in events


def reasons(env: JoinEnv, name: str) -> list[str]:
    return [each["reason"] for each in env.events("GPURequest", name)]


@pytest.mark.parametrize("mesh", MESHES)
def test_its_token_is_gone_once_it_has_joined(env: JoinEnv, arrived: dict[str, Arrived], mesh: str):
    kubelet = arrived[mesh].kubelet
    env.replicas.until(lambda: env.token_secret(kubelet.told) is None, f"the bootstrap token of {mesh} is gone")

    with pytest.raises((PermissionError, Denied)):  # the API server remembers a token for some seconds
        do(kubelet.bootstraps())


def test_the_server_of_a_tunnel_is_told_of_the_node(env: JoinEnv, arrived: dict[str, Arrived]):
    came = arrived["wireguard"]

    assert env.peers()[came.kubelet.told.node]["address"] == came.address
    assert f"AllowedIPs = {came.address}/32" in env.wg_conf()


@pytest.fixture(scope="module")
def terminated(env: JoinEnv, arrived: dict[str, Arrived]) -> dict[str, str]:
    """Does not wait for the end. Returns the launch tokens."""
    tokens = {mesh: str(status_of(env.plane, mesh)["attempts"][-1]["token"]) for mesh in MESHES}
    for mesh in MESHES:
        is_ready(env, mesh)
    env.admin("delete", "gr", "--namespace=default", "--wait=false", *MESHES)
    return tokens


# -- what else could be had with its token -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def suspect(env: JoinEnv) -> Iterator[FakeKubelet]:
    """A machine that could join and tries everything else first."""
    with env.kubelet() as kubelet:
        yield kubelet


@pytest.mark.parametrize(
    ("reason", "query"),
    [
        ("WrongName", {"user": "system:node:control-plane-1"}),
        ("WrongName", {"user": "admin", "groups": ("system:masters",)}),
        ("WrongName", {"groups": ("system:masters",)}),
        ("WrongName", {"groups": ("system:nodes", "system:masters")}),
        ("WrongName", {"user": "system:masters"}),
        ("WrongName", {"user": "system:kube-controller-manager", "groups": ()}),
        ("ExtraNames", {"names": ("kubernetes.default.svc",)}),
        ("WrongUsages", {"usages": ("digital signature", "server auth")}),
        ("WrongUsages", {"usages": ("digital signature", "client auth", "cert sign")}),
    ],
    ids=lambda value: "-".join(map(str, value.values())) if isinstance(value, dict) else value,
)
def test_with_its_token_it_cannot_become_another_node(
    env: JoinEnv, terminated: dict[str, str], suspect: FakeKubelet, reason: str, query: dict[str, Any]
):
    with pytest.raises(Denied, match=reason):
        do(suspect.bootstraps(**query))


def test_a_token_opens_certificate_requests_and_nothing_else(suspect: FakeKubelet):
    token_id = suspect.told.token.partition(".")[0]
    closed = [
        ("GET", "/api/v1/nodes"),
        ("POST", "/api/v1/nodes"),
        ("GET", "/api/v1/namespaces/kube-system/secrets"),
        ("GET", f"/api/v1/namespaces/kube-system/secrets/bootstrap-token-{token_id}"),
        ("GET", "/api/v1/namespaces/default/pods"),
        ("GET", "/api/v1/namespaces/kube-system/configmaps"),
        ("GET", "/apis/tgp.io/v1/gpurequests"),
        ("GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles"),
        ("POST", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"),
        ("PATCH", "/apis/certificates.k8s.io/v1/certificatesigningrequests/any/approval"),
        ("DELETE", "/apis/certificates.k8s.io/v1/certificatesigningrequests/any"),
    ]

    async def answers() -> list[tuple[str, str, int]]:
        async with suspect.bearing_the_token() as line:
            return [
                (method, path, (await line.call(method, path, None if method in ("GET", "DELETE") else {}))[0])
                for method, path in closed
            ]

    assert do(answers()) == [(method, path, 403) for method, path in closed]


def test_after_all_that_it_can_become_itself_once(env: JoinEnv, suspect: FakeKubelet):
    """Not twice, and not after a change of leaders either."""
    assert do(suspect.bootstraps())

    with pytest.raises(Denied, match="TokenUsed"):
        do(suspect.bootstraps())
    env.replicas.kill("first")
    env.replicas.start("first")
    with pytest.raises(Denied, match="TokenUsed"):
        do(suspect.bootstraps())


def test_of_many_at_once_one_is_let_in(env: JoinEnv):
    async def all_of_them(kubelet: FakeKubelet) -> list[Any]:
        return await asyncio.gather(*(kubelet.bootstraps() for _ in range(6)), return_exceptions=True)

    with env.kubelet() as kubelet:
        answers = do(all_of_them(kubelet))

    assert sorted(type(answer).__name__ for answer in answers) == ["Denied"] * 5 + ["Pair"]


def test_no_other_server_answers_for_us(env: JoinEnv):
    """The controller manager approves for its own groups only: while the operator is away, a request waits for it."""

    async def waits(kubelet: FakeKubelet) -> Pair:
        joining = asyncio.ensure_future(kubelet.bootstraps())
        await asyncio.sleep(ANSWERED_S)
        assert not joining.done()
        env.replicas.start("first")
        return await joining

    with env.kubelet() as kubelet:
        assert env.replicas.stop("first") == 0
        assert do(waits(kubelet))


def test_an_approval_by_others_is_noticed(env: JoinEnv):
    """A binding for every bootstrap token, as some clusters have it: then no rule of ours holds, and it is said."""
    role = "--clusterrole=system:certificates.k8s.io:certificatesigningrequests:nodeclient"
    env.admin("create", "clusterrolebinding", "too-wide", role, "--group=system:bootstrappers")

    def is_noticed() -> bool:
        found = env.plane.admin.call("GET", "/api/v1/namespaces/default/events")["items"]
        return any(each["reason"] == "ApprovedByOthers" for each in found)

    try:
        with env.kubelet() as kubelet:
            for attempt in range(10):  # who is faster is luck: we do not approve another name
                try:
                    do(kubelet.bootstraps(user=f"system:node:another-tenant-{attempt}"))
                    break
                except Denied:
                    continue
            env.replicas.until(is_noticed, "an approval by another approver is noticed")
    finally:
        env.admin("delete", "clusterrolebinding", "too-wide")


def test_the_name_of_another_node_is_not_given_away(env: JoinEnv):
    with env.kubelet() as kubelet:
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": kubelet.told.node}}
        env.plane.admin.call("POST", "/api/v1/nodes", node)
        try:
            # Or that Node was taken for ours, and its token ended with that.
            with pytest.raises(Denied, match=r"NameTaken|UnknownToken"):
                do(kubelet.bootstraps())
        finally:
            env.plane.admin.call("DELETE", f"/api/v1/nodes/{kubelet.told.node}")


def test_a_machine_whose_request_is_gone_is_not_let_in(env: JoinEnv):
    with env.kubelet() as kubelet:
        pass
    with pytest.raises((PermissionError, Denied), match=r"401|NotExpected|TokenUnknown"):
        do(kubelet.bootstraps())


# -- what a token is, for the API server -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Mint:
    """As the operator's ServiceAccount makes tokens, for machines that were not ordered."""

    plane: ControlPlane

    async def opens(self, lasts: timedelta, then: str = "", sleeps_s: float = 0.0) -> int:
        """What the API server answers to such a token: 403 to one that is good, and 401."""
        token = token_for("0123456789", f"00000000-0000-4000-8000-{next(NUMBER):012}", 1)
        account = find_target(str(self.plane.kubeconfig_for_service_account(OURS, "tgp-operator")))
        async with reaching(account) as http:
            tokens = BootstrapTokens(KubeCluster(http, SystemEntropy()), SystemEntropy(), SystemClock())
            shown = await tokens.mint(token, "any-node", datetime.now(UTC) + lasts)
            try:
                match then:
                    case "extend":
                        assert await tokens.extend(token, datetime.now(UTC) + timedelta(minutes=10))
                    case "remove":
                        await tokens.remove(token)
                        await tokens.remove(token)
                await asyncio.sleep(sleeps_s)
                told = TalosGuest(
                    "any-node",
                    token=shown.reveal(),
                    endpoint=self.plane.url,
                    authority=self.plane.ca_file.read_bytes(),
                )
                async with FakeKubelet(told).bearing_the_token() as line:
                    status = (await line.call("GET", "/api/v1/nodes"))[0]
                if then == "lapse":
                    await self._is_cleaned_away(ids_of(token)[0])
                return status
            finally:
                await tokens.remove(token)

    async def _is_cleaned_away(self, token_id: str) -> None:
        for _ in range(200):
            if seen(self.plane, f"/api/v1/namespaces/kube-system/secrets/bootstrap-token-{token_id}") is None:
                return
            await asyncio.sleep(0.1)
        raise AssertionError("the cluster's own cleaner did not remove it")


@pytest.mark.parametrize(
    ("answer", "lasts_s", "then", "sleeps_s"),
    [(403, 600, "", 1), (401, 1, "lapse", 2), (403, 3, "extend", 4), (401, 600, "remove", 0)],
    ids=["good", "expired", "extended", "removed"],
)
def test_a_token_is_good_until_it_ends(env: JoinEnv, answer: int, lasts_s: int, then: str, sleeps_s: float):
    assert do(Mint(env.plane).opens(timedelta(seconds=lasts_s), then, sleeps_s)) == answer


# -- what a node is good for -------------------------------------------------------------------------------------------


def test_a_node_cannot_give_itself_labels_that_are_not_its_own(env: JoinEnv):
    """NodeRestriction: of a taken machine the attacker has one node, and can pretend to be no other kind of it."""
    other = "control-plane-1"
    env.plane.admin.call("POST", "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": other}})
    foreign = ("node-restriction.kubernetes.io/trusted", "node-role.kubernetes.io/control-plane")

    async def tries(kubelet: FakeKubelet) -> None:
        own = f"/api/v1/nodes/{kubelet.told.node}"
        mine = {"metadata": {"labels": {"mine": "yes"}}}
        async with kubelet.certified(await kubelet.bootstraps()) as line:
            for label in foreign:
                assert (await kubelet.registers(line, **{label: "yes"}))[0] == 403, label
            assert (await kubelet.registers(line))[0] == 201
            for label in foreign:
                assert (await line.call("PATCH", own, {"metadata": {"labels": {label: "yes"}}}))[0] == 403, label
            assert (await line.call("PATCH", own, mine))[0] == 200
            assert (await line.call("PATCH", f"/api/v1/nodes/{other}", mine))[0] == 403
            assert (await line.call("DELETE", own))[0] == 403

    with env.kubelet() as kubelet:
        do(tries(kubelet))


# -- what the operator may ---------------------------------------------------------------------------------------------

TOKEN_OF_ANOTHER = {
    "metadata": {
        "namespace": "kube-system",
        "name": "eve",
        "annotations": {"kubernetes.io/service-account.name": "namespace-controller"},
    },
    "type": "kubernetes.io/service-account-token",
}


def test_the_operator_may_not_do_more_than_that(env: JoinEnv):
    """Other signers' requests, Secrets elsewhere: under the shipped role."""
    asked = {
        "apiVersion": CERTIFICATE_SIGNING_REQUEST.api_version,
        "kind": CERTIFICATE_SIGNING_REQUEST.kind,
        "metadata": {"name": "somebodys-client"},
        "spec": {
            "request": b64encode(signing_request("stranger", ()).certificate).decode(),
            "signerName": "kubernetes.io/kube-apiserver-client",
            "usages": ["digital signature", "client auth"],
        },
    }
    made = env.plane.admin.call("POST", CERTIFICATE_SIGNING_REQUEST.path(), asked)["metadata"]

    async def tries() -> None:
        account = find_target(str(env.plane.kubeconfig_for_service_account(OURS, "tgp-operator")))
        async with reaching(account) as http:
            cluster = KubeCluster(http, SystemEntropy())
            with pytest.raises(Refused, match="not permitted to approve requests with signerName"):
                await cluster.approve(
                    made["name"],
                    uid=made["uid"],
                    resource_version=made["resourceVersion"],
                    approved=True,
                    reason="Eve",
                    message="eve",
                )
            with pytest.raises(Forbidden):
                await cluster.read(SECRET, ObjectKey("default", "any"))
            if narrowed(env.plane):
                with pytest.raises(ClusterError, match="bootstrap tokens here, and no other Secrets"):
                    await cluster.create(SECRET, TOKEN_OF_ANOTHER)
            assert (await cluster.version()).startswith(f"v{RELEASES[env.plane.wanted.version]}")

    do(tries())


# -- and back ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mesh", MESHES)
def test_of_a_machine_that_was_given_back_nothing_is_left_to_join_by(
    env: JoinEnv, arrived: dict[str, Arrived], terminated: dict[str, str], mesh: str
):
    told = arrived[mesh].kubelet.told
    env.replicas.until(lambda: seen(env.plane, request_path(mesh)) is None, f"{mesh} is gone", FULL_LIFE_S)

    env.replicas.until(lambda: terminated[mesh] not in env.book(), "its line in the book is gone")
    assert seen(env.plane, f"/api/v1/nodes/{told.node}") is None
    assert env.token_secret(told) is None
    assert told.node not in env.simulators.devices()
    assert told.node not in env.peers()
    assert told.node not in env.wg_conf()


def test_in_the_end_no_way_in_is_left(env: JoinEnv, terminated: dict[str, str]):
    """Also of those that asked for another name, or never came."""
    env.admin("delete", "gr", "--namespace=default", "--all", "--wait=false")

    def left() -> dict[str, list[str]]:
        return {
            "requests": [
                each["metadata"]["name"] for each in env.plane.admin.call("GET", "/apis/tgp.io/v1/gpurequests")["items"]
            ],
            "machines": [
                machine.id for _, machine in env.simulators.machines() if machine.alive and not machine.foreign
            ],
            "tokens": env.token_secrets(),
            "book": env.book(),
            "devices": env.simulators.devices(),
            "keys": env.simulators.open_keys(),
            "peers": list(env.peers()),
        }

    env.replicas.until(lambda: not any(left().values()), lambda: f"nothing is left: {left()}", NEVER_LISTED_S)
