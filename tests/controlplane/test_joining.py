"""A token that can become one node: real API server, real signer, the shipped roles, a kubelet that reads its config.

The operator's part runs here by itself, as its ServiceAccount and nothing more.
"""

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from tests.controlplane.standin import Denied, StandIn, eventually, read_config
from tests.controlplane.test_kube_client import reaching
from tgp.adapters.clock import SystemClock
from tgp.adapters.entropy import SystemEntropy
from tgp.adapters.kube.client import KubeCluster
from tgp.adapters.kube.config_files import find_target
from tgp.adapters.kube.controller import Controller, Source
from tgp.adapters.kube.list import Subject as Listed
from tgp.adapters.kube.records.kinds import nodes, signing_requests, typed
from tgp.adapters.kube.reflector import Reflector
from tgp.adapters.kube.runtime import House, Runtime
from tgp.adapters.kube.server_clock import ServerClock, timing
from tgp.adapters.kube.store import Store
from tgp.api.request import GPURequest
from tgp.api.resource import CERTIFICATE_SIGNING_REQUEST, GPU_REQUEST, NODE, SECRET
from tgp.controllers.boot.csrs import SigningRequests
from tgp.controllers.boot.tokens import BootstrapTokens, ids_of
from tgp.controllers.request_index import INDEXES
from tgp.core.model.facts import Fact, JoinApproved, JoinApprovedByOthers, JoinDenied
from tgp.core.model.join import JoinValues
from tgp.core.model.key import Key
from tgp.core.model.secret import Secret
from tgp.core.model.talos import TalosVersion
from tgp.core.model.token import token_for
from tgp.core.rules.node_state import provider_id_of
from tgp.core.rules.talos.plan import NodePlan
from tgp.core.rules.talos.render import render
from tgp.ports.cluster import Cluster, Forbidden, NotFound, Refused
from tools.controlplane.certificates import Authority, signing_request
from tools.controlplane.fixtures import a_control_plane
from tools.controlplane.kubectl import Kubectl
from tools.controlplane.plane import ControlPlane, Wanted

HOUSE = Path(__file__).parents[2]
CLUSTER_ID = "0123456789"
FOR = timedelta(minutes=10)
ANSWERED_S = 3.0  # the controller manager takes milliseconds for those of its groups
GOODBYE_S = 0.25  # what closing TLS takes
ENTROPY = SystemEntropy()
NUMBER = count(1)


@pytest.fixture(scope="module")
def plane(pytestconfig: pytest.Config) -> Iterator[ControlPlane]:
    """Controllers to sign and to clean up, and KWOK; nobody schedules anything."""
    with a_control_plane(pytestconfig, Wanted(controllers=True, kwok=True)) as running:
        yield running


@pytest.fixture(scope="module")
def admin(plane: ControlPlane, kubectl_program: Path) -> Kubectl:
    run = Kubectl(kubectl_program, plane.kubeconfig, plane.directory)
    run("apply", "--server-side", f"--filename={HOUSE / 'deploy' / 'crds'}")
    run("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")
    run("apply", f"--filename={HOUSE / 'deploy' / 'rbac'}")
    return run


class Office:
    """What the operator does about joins, and no more of it."""

    def __init__(self, plane: ControlPlane, cluster: Cluster, tokens: BootstrapTokens, admin: Cluster) -> None:
        self._plane = plane
        self.cluster = cluster
        self.tokens = tokens
        self.admin = admin
        self.facts: list[Fact] = []

    def note(self, fact: Fact) -> None:
        self.facts.append(fact)

    def of(self, kind: type[Fact]) -> list[Any]:
        return [fact for fact in self.facts if isinstance(fact, kind)]

    async def orders(self, lasts: timedelta = FOR) -> StandIn:
        """A request with an open attempt, and the machine that was handed the config rendered for it."""
        number = next(NUMBER)
        name = f"train-{number}"
        made = await self.admin.create(
            GPU_REQUEST, {"metadata": {"namespace": "default", "name": name}, "spec": {"gpuType": "A100"}}
        )
        token, node = token_for(CLUSTER_ID, made.uid, 1), f"{name}-0a1b2c3d"
        status = {"phase": "Booting", "nodeName": node, "attempts": [{"number": 1, "token": token}]}
        await self.admin.write_status(GPU_REQUEST, Key("default", name), uid=made.uid, seen={}, status=status)
        bootstrap = await self.tokens.mint(token, node, datetime.now(UTC) + lasts)
        plan = NodePlan(
            TalosVersion(13, 0),
            node,
            provider_id_of("vultr", token),
            "ghcr.io/siderolabs/kubelet:v1.36.3",
            bootstrap,
        )
        return StandIn(read_config(render(plan, self._join(), None).text), token)

    def _join(self) -> JoinValues:
        """Of this cluster; Talos's own part is anybody's."""
        authority = b64encode(self._plane.ca_file.read_bytes()).decode()
        return JoinValues(
            machine_token=Secret("abcdef.0123456789abcdef"),
            machine_ca=b64encode(Authority().pair.certificate).decode(),
            cluster_ca=authority,
            cluster_id=Secret(b64encode(b"i" * 32).decode()),
            cluster_secret=Secret(b64encode(b"s" * 32).decode()),
            endpoint=self._plane.url,
            cluster_name="plane",
        )


@asynccontextmanager
async def an_office(plane: ControlPlane) -> AsyncIterator[Office]:
    account = find_target(str(plane.kubeconfig_for_service_account("tgp-system", "tgp-operator")))
    async with reaching(account) as own, reaching(find_target(str(plane.kubeconfig))) as theirs:
        clock = ServerClock(SystemClock())
        http = timing(own, clock)
        cluster = KubeCluster(http, ENTROPY)
        tokens = BootstrapTokens(cluster, ENTROPY, clock)
        office = Office(plane, cluster, tokens, KubeCluster(theirs, ENTROPY))
        asked, machines = Store(CERTIFICATE_SIGNING_REQUEST), Store(NODE)
        requests: Store[Any] = Store(GPU_REQUEST, INDEXES)
        reflectors = [
            Reflector(http, Listed(projection), store, ENTROPY, office)
            for projection, store in (
                (signing_requests(), asked),
                (nodes(), machines),
                (typed(GPU_REQUEST, GPURequest), requests),
            )
        ]
        judge = SigningRequests(
            asked=asked,
            requests=requests,
            nodes=machines,
            tokens=tokens,
            cluster=cluster,
            journal=office,
            clock=clock,
        )
        sources = (Source(asked),)
        controller = Controller("signing-requests", judge, sources=sources, also_reads=(requests, machines))
        runtime = Runtime(reflectors, [controller], House(clock, ENTROPY, office))
        running = asyncio.ensure_future(runtime.run(asyncio.sleep(0)))
        try:
            yield office
        finally:
            runtime.stop()
            await running


@pytest.fixture
async def goodbye() -> AsyncIterator[None]:
    """Connections that were closed say so to the other side before the loop ends."""
    yield
    await asyncio.sleep(GOODBYE_S)


@pytest.fixture
async def office(plane: ControlPlane, admin: Kubectl, goodbye: None) -> AsyncIterator[Office]:
    async with an_office(plane) as open_now:
        yield open_now


# Becoming a node


async def test_a_machine_becomes_the_node_it_was_made_for_and_lives(office: Office):
    kubelet = await office.orders()

    pair = await kubelet.bootstraps()

    assert (
        f"system:node:{kubelet.told.name}" in x509.load_pem_x509_certificate(pair.certificate).subject.rfc4514_string()
    )
    async with kubelet.certified(pair) as line:
        status, made = await kubelet.registers(line)
        assert status == 201, made

        async def is_ready() -> bool:
            _, node = await line.call("GET", NODE.path("", kubelet.told.name))
            return any(
                row["type"] == "Ready" and row["status"] == "True" for row in node["status"].get("conditions", ())
            )

        await eventually(is_ready, "KWOK keeps it alive")
    (fact,) = office.of(JoinApproved)
    assert fact.node == kubelet.told.name
    assert made["spec"]["providerID"] == provider_id_of("vultr", kubelet.token)


async def test_it_cannot_become_itself_twice(office: Office):
    kubelet = await office.orders()
    await kubelet.bootstraps()

    with pytest.raises(Denied, match="TokenUsed"):
        await kubelet.bootstraps()
    assert len(office.of(JoinApproved)) == 1


@pytest.mark.parametrize(
    ("reason", "wish"),
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
async def test_with_its_token_it_cannot_become_anybody_else(office: Office, reason: str, wish: dict[str, Any]):
    kubelet = await office.orders()

    with pytest.raises(Denied, match=reason):
        await kubelet.bootstraps(**wish)

    assert not office.of(JoinApproved)
    assert [fact.reason for fact in office.of(JoinDenied)] == [reason]
    assert await kubelet.bootstraps(), "and its own node can still join"


async def test_of_many_at_once_one_is_let_in(office: Office):
    kubelet = await office.orders()

    answers = await asyncio.gather(*(kubelet.bootstraps() for _ in range(6)), return_exceptions=True)

    assert sorted(type(answer).__name__ for answer in answers) == ["Denied"] * 5 + ["Pair"]


async def test_one_that_was_let_in_stays_the_only_one_after_a_change_of_leaders(
    plane: ControlPlane, admin: Kubectl, goodbye: None
):
    async with an_office(plane) as first:
        kubelet = await first.orders()
        await kubelet.bootstraps()
    async with an_office(plane) as second:
        with pytest.raises(Denied, match="TokenUsed"):
            await kubelet.bootstraps()
        assert not second.of(JoinApproved)


# What a token is good for


async def test_a_token_opens_certificate_requests_and_nothing_else(office: Office):
    kubelet = await office.orders()
    await kubelet.bootstraps()
    token_id = ids_of(kubelet.token)[0]
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
    async with kubelet.bearing_the_token() as line:
        for method, path in closed:
            status, answer = await line.call(method, path, None if method in ("GET", "DELETE") else {})
            assert status == 403, (method, path, answer)


async def test_nobody_else_answers_for_us(plane: ControlPlane, admin: Kubectl, goodbye: None):
    """The controller manager approves for its own groups only: while the operator is away, a request waits for it."""
    async with an_office(plane) as first:
        kubelet = await first.orders()
    joining = asyncio.ensure_future(kubelet.bootstraps())
    await asyncio.sleep(ANSWERED_S)
    assert not joining.done()
    async with an_office(plane) as second:
        assert await joining
        assert len(second.of(JoinApproved)) == 1


async def test_an_approval_by_others_is_noticed(office: Office, admin: Kubectl):
    """A binding for every bootstrap token, as some clusters have it: then no rule of ours holds, and it is said."""
    kubelet = await office.orders()
    role = "--clusterrole=system:certificates.k8s.io:certificatesigningrequests:nodeclient"
    admin("create", "clusterrolebinding", "too-wide", role, "--group=system:bootstrappers")
    try:
        for attempt in range(10):  # who is faster is luck: somebody else's name is not for us to approve
            try:
                await kubelet.bootstraps(user=f"system:node:somebody-else-{attempt}")
                break
            except Denied:
                continue

        async def is_noticed() -> bool:
            return bool(office.of(JoinApprovedByOthers))

        await eventually(is_noticed, "an approval by somebody else is noticed")
    finally:
        admin("delete", "clusterrolebinding", "too-wide")


async def test_an_expired_token_is_refused_and_cleaned_away(office: Office):
    kubelet = await office.orders(lasts=timedelta(seconds=1))
    await asyncio.sleep(2)

    with pytest.raises(PermissionError, match="401"):
        await kubelet.bootstraps()

    async def is_gone() -> bool:
        try:
            await office.admin.read(SECRET, Key("kube-system", f"bootstrap-token-{ids_of(kubelet.token)[0]}"))
        except NotFound:
            return True
        return False

    await eventually(is_gone, "the cluster's own cleaner removes it")


async def test_an_extended_token_is_good_for_longer(office: Office):
    kubelet = await office.orders(lasts=timedelta(seconds=3))
    assert await office.tokens.extend(kubelet.token, datetime.now(UTC) + FOR)
    await asyncio.sleep(4)

    assert await kubelet.bootstraps()


async def test_a_removed_token_is_refused(office: Office):
    kubelet = await office.orders()
    await office.tokens.remove(kubelet.token)
    await office.tokens.remove(kubelet.token)

    with pytest.raises((PermissionError, Denied)):  # the API server remembers a token for some seconds
        await kubelet.bootstraps()
    assert not office.of(JoinApproved)


async def test_a_machine_that_nobody_waits_for_any_more_is_not_let_in(office: Office):
    kubelet = await office.orders()
    name = kubelet.told.name.rpartition("-")[0]
    found = await office.admin.read(GPU_REQUEST, Key("default", name))
    status = {**found["status"], "phase": "Terminating"}
    await office.admin.write_status(
        GPU_REQUEST, Key("default", name), uid=found["metadata"]["uid"], seen=found["status"], status=status
    )
    await asyncio.sleep(1)  # our view shows it: a machine takes minutes

    with pytest.raises(Denied, match="NotExpected"):
        await kubelet.bootstraps()


async def test_the_name_of_another_node_is_not_given_away(office: Office):
    kubelet = await office.orders()
    await office.admin.create(NODE, {"metadata": {"name": kubelet.told.name}})
    await asyncio.sleep(1)

    with pytest.raises(Denied, match="NameTaken"):
        await kubelet.bootstraps()


# What a node is good for


async def test_a_node_cannot_give_itself_labels_that_are_not_its_own(office: Office):
    """NodeRestriction: of a taken machine the attacker has one node, and can pretend to be no other kind of it."""
    kubelet = await office.orders()
    pair = await kubelet.bootstraps()
    own, other = kubelet.told.name, "control-plane-1"
    async with kubelet.certified(pair) as line:
        refused = await kubelet.registers(line, **{"node-restriction.kubernetes.io/trusted": "yes"})
        assert refused[0] == 403, refused[1]
        refused = await kubelet.registers(line, **{"node-role.kubernetes.io/control-plane": ""})
        assert refused[0] == 403, refused[1]
        assert (await kubelet.registers(line))[0] == 201
        for label in ("node-restriction.kubernetes.io/trusted", "node-role.kubernetes.io/control-plane"):
            change = {"metadata": {"labels": {label: "yes"}}}
            status, answer = await line.call("PATCH", NODE.path("", own), change)
            assert status == 403, answer
        status, answer = await line.call("PATCH", NODE.path("", own), {"metadata": {"labels": {"mine": "yes"}}})
        assert status == 200, answer
        await office.admin.create(NODE, {"metadata": {"name": other}})
        status, answer = await line.call("PATCH", NODE.path("", other), {"metadata": {"labels": {"mine": "yes"}}})
        assert status == 403, answer
        status, answer = await line.call("DELETE", NODE.path("", own))
        assert status == 403, answer


# What the operator may


async def test_the_operator_may_not_do_more_than_that(office: Office):
    """Other signers' requests, Secrets elsewhere, a list of Secrets: under the shipped role."""
    spec = {
        "request": b64encode(signing_request("somebody", ()).certificate).decode(),
        "signerName": "kubernetes.io/kube-apiserver-client",
        "usages": ["digital signature", "client auth"],
    }
    name = f"client-{next(NUMBER)}"
    made = await office.admin.create(CERTIFICATE_SIGNING_REQUEST, {"metadata": {"name": name}, "spec": spec})

    with pytest.raises(Refused, match="not permitted to approve requests with signerName"):
        await office.cluster.approve(
            name, uid=made.uid, resource_version=made.resource_version, approved=True, reason="Eve", message="eve"
        )
    with pytest.raises(Forbidden):
        await office.cluster.read(SECRET, Key("default", "any"))
    assert (await office.cluster.version()).startswith("v1.")
