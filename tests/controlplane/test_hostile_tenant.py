"""A hostile tenant against the real API server: the operator under its shipped rights, providers on real sockets.

`TGP_FORGERIES=500 make test T=tests/controlplane/test_hostile_tenant.py` tries more.
"""

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from tests.amounts import amount
from tests.controlplane.node_registrar import NodeRegistrar
from tests.controlplane.providers import settings_of, written
from tests.controlplane.replicas import Replicas
from tests.controlplane.simulators import Simulators
from tests.controlplane.test_lifecycle import (
    OURS,
    ROOT,
    SECRET,
    a_device_plugin,
    a_secret,
    request_path,
    seen,
    status_of,
)
from tests.sim.forging import Knowledge, forged_spec, forged_status
from tgp.adapters.http.serve import listen
from tgp.app.demo.fixtures import join_secret
from tgp.core.model.cloud_account import TABLE
from tgp.core.model.identity import cluster_id
from tgp.core.model.token import plain_uid
from tgp.core.requests.purchase import ALLOW_UNTRUSTED
from tgp.ports.http import Call, Reply
from tools.controlplane.client import AdminClient, Refused
from tools.controlplane.kubectl import Kubectl
from tools.controlplane.plane import ControlPlane

FORGERIES = amount(24, 500, "TGP_FORGERIES")
HOME = "hostile"
OPERATOR = f"system:serviceaccount:{OURS}:tgp-operator"
PAUSE_S = 0.15  # between two forgeries: time for a turn
AFTERWARDS_S = 15.0
VICTIMS = ("train", "serve")
OWN = ("h0", "h1", "h2")
NAMED = {SECRET, "tgp-join"}  # the Secrets that classes name, or mean where they name none
PROVIDERS = ("simulated", "vultr")
ASKED = {"T4", "RTX4090"}  # the GPUs that specs ask for here: whatever else is ordered, a status asked for


class Listener:
    """The tenant's own address, which waits for a key."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.url = ""
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True).start()
        asyncio.run_coroutine_threadsafe(self._open(), self._loop).result(30)

    async def _open(self) -> None:
        self.url = (await listen(self._answer)).url

    async def _answer(self, call: Call) -> Reply:
        self.heard.append(f"{call.method} {call.path}")
        return Reply(200, b"[]")


@pytest.fixture(scope="module")
def simulators() -> Iterator[Simulators]:
    with Simulators("hostile") as open_now:
        yield open_now


@pytest.fixture(scope="module")
def replicas(plane, simulators, kubectl_program, tmp_path_factory) -> Iterator[Replicas]:
    with NodeRegistrar(simulators, plane.admin):
        run = Kubectl(kubectl_program, plane.kubeconfig, plane.directory)
        run("apply", "--server-side", f"--filename={ROOT / 'deploy' / 'crds'}")
        run("wait", "--for=condition=Established", "crd", "--all", "--timeout=120s")
        run("apply", f"--filename={ROOT / 'deploy' / 'rights.yaml'}")
        run("create", "namespace", HOME)
        run("label", "namespace", "default", f"{ALLOW_UNTRUSTED}=true", "team=ours")
        run.apply(a_secret(simulators), join_secret(), a_device_plugin(), *the_classes(simulators), *the_tenant())
        aboard = Replicas(plane, simulators.signposts(), tmp_path_factory.mktemp("replicas"))
        aboard.start("first")
        yield aboard
        aboard.leave()


def the_classes(simulators: Simulators) -> Iterator[dict[str, Any]]:
    urls = simulators.urls()
    both = [{"name": name, "settings": written(settings_of(name, urls[name]))} for name in PROVIDERS]
    for name, providers, allowed in (
        ("rented", both[:1], {}),
        ("closed", both, {"matchLabels": {"team": "ours"}}),
    ):
        spec = {"providers": providers, "bootPolicy": "Any", "networking": {"backend": "none"}}
        meta = {"apiVersion": "tgp.io/v1", "kind": "GPUNodeClass", "metadata": {"name": name}}
        yield {**meta, "spec": {**spec, "allowedNamespaces": allowed} if allowed else spec}


def the_tenant() -> Iterator[dict[str, Any]]:
    """Every right in the own namespace; and a Secret of the operator's that no class names."""
    meta = {"namespace": HOME, "name": "tenant"}
    rules = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]
    group = "rbac.authorization.k8s.io"
    yield {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": meta}
    yield {"apiVersion": f"{group}/v1", "kind": "Role", "metadata": meta, "rules": rules}
    yield {
        "apiVersion": f"{group}/v1",
        "kind": "RoleBinding",
        "metadata": meta,
        "roleRef": {"apiGroup": group, "kind": "Role", "name": "tenant"},
        "subjects": [{"kind": "ServiceAccount", "namespace": HOME, "name": "tenant"}],
    }
    crown = {"namespace": OURS, "name": "crown-jewels"}
    yield {"apiVersion": "v1", "kind": "Secret", "metadata": crown, "stringData": {"token": "the-crown"}}


def a_request(name: str, namespace: str, **spec: Any) -> dict[str, Any]:
    lasting = {"gpuType": "T4", "nodeClassRef": {"name": "rented"}, "idleTimeout": "Never", "maxLifetime": "Never"}
    meta = {"name": name, "namespace": namespace}
    return {"apiVersion": "tgp.io/v1", "kind": "GPURequest", "metadata": meta, "spec": lasting | spec}


def path(name: str = "", sub: str = "") -> str:
    at = f"/apis/tgp.io/v1/namespaces/{HOME}/gpurequests"
    return at + (f"/{name}" if name else "") + (f"/{sub}" if sub else "")


def knowledge(plane: ControlPlane, simulators: Simulators, endpoint: str, name: str) -> Knowledge:
    own = seen(plane, path(name)) or {"metadata": {"uid": "0" * 32}}
    table = seen(plane, f"/api/v1/namespaces/{OURS}/configmaps/{TABLE}") or {}
    attempts = [row for victim in VICTIMS for row in status_of(plane, victim).get("attempts", ())]
    system = seen(plane, "/api/v1/namespaces/kube-system")
    assert system is not None
    skus = simulators.look(
        lambda api: tuple(
            (provider, stand.product.sku, stand.product.place)
            for provider in PROVIDERS
            for stand in api.simulators[provider].fleet.stands.values()
            if stand.product.gpu not in ASKED
        )
    )
    return Knowledge(
        uid=plain_uid(own["metadata"]["uid"]),
        cluster=cluster_id(system["metadata"]["uid"]),
        endpoint=endpoint,
        tokens=tuple(row["token"] for row in attempts),
        instances=tuple(machine.id for _, machine in simulators.machines()),
        names=tuple(machine.name for _, machine in simulators.machines() if machine.foreign),
        accounts=tuple(table.get("data") or ()),
        secrets=("crown-jewels/token", f"{SECRET}/VULTR_API_KEY"),
        nodes=tuple(status_of(plane, victim)["nodeName"] for victim in VICTIMS),
        classes=("rented", "closed"),
        epochs=tuple({row["epoch"] for row in attempts}),
        skus=skus,
    )


def test_whatever_a_tenant_forges_concerns_no_other_tenant(plane, simulators, replicas):
    """0 calls to the tenant's address, 0 Secrets read beyond those that classes name, 0 machines of others touched."""
    listener, luck = Listener(), Random("hostile")
    simulators.look(
        lambda api: [
            each.fleet.add_foreign(next(iter(each.fleet.accounts)), 2) for each in map(api.simulators.get, PROVIDERS)
        ]
    )
    for name in VICTIMS:
        plane.admin.call("POST", request_path(""), a_request(name, "default"))
    replicas.until(lambda: all(status_of(plane, name).get("phase") == "Ready" for name in VICTIMS), "the victims work")
    before = untouched(plane, simulators)
    tenant = AdminClient(plane.url, plane.ca_file, plane.service_account_token(HOME, "tenant"))
    sent = taken = 0
    while sent < FORGERIES:
        name = luck.choice(OWN)
        attempt(tenant, "POST", path(), a_request(name, HOME))
        time.sleep(PAUSE_S)
        knows = knowledge(plane, simulators, listener.url, name)
        taken += attempt(tenant, "PATCH", path(name, "status"), {"status": forged_status(luck, knows)})
        sent += 1
        if sent % 4 == 0:
            spec = forged_spec(luck, knows)
            taken += attempt(tenant, "POST", path(), a_request(f"s{sent}", HOME) | {"spec": spec})
            sent += 1
        if sent % 7 == 0:
            attempt(tenant, "DELETE", path(name))
        replicas.tend()
        time.sleep(PAUSE_S)
    time.sleep(AFTERWARDS_S)

    assert taken > FORGERIES // 2, "the API server refused nearly all of them: nothing was tried"
    assert listener.heard == []
    assert secrets_read(plane) <= NAMED
    assert untouched(plane, simulators) == before
    assert all(status_of(plane, name)["phase"] == "Ready" for name in VICTIMS)
    assert strange(simulators) == []
    assert listener.url not in json.dumps(seen(plane, f"/api/v1/namespaces/{OURS}/configmaps/{TABLE}"))
    assert "Traceback" not in replicas.said("first")


def attempt(tenant: AdminClient, method: str, where: str, body: dict[str, Any] | None = None) -> bool:
    """Whether the API server took it."""
    try:
        tenant.call(method, where, body)
    except Refused:
        return False
    return True


def untouched(plane: ControlPlane, simulators: Simulators) -> Any:
    """What no forgery may change: machines of others, and the Nodes of the victims."""
    tokens = {row["token"] for name in VICTIMS for row in status_of(plane, name)["attempts"]}
    living = [machine for _, machine in simulators.machines() if machine.ended_at is None]
    nodes = [seen(plane, f"/api/v1/nodes/{status_of(plane, name)['nodeName']}") or {} for name in VICTIMS]
    dress = [(node["metadata"]["uid"], node["spec"].get("taints"), node["metadata"]["labels"]) for node in nodes]
    return sorted(each.id for each in living if each.foreign or each.name in tokens), dress


def secrets_read(plane: ControlPlane) -> set[str]:
    rows = [json.loads(line) for line in plane.audit_log.read_text().splitlines()]
    ours = [row["objectRef"] for row in rows if row["user"]["username"] == OPERATOR]
    return {ref.get("name", "(all of them)") for ref in ours if ref["namespace"] == OURS}


def strange(simulators: Simulators) -> list[str]:
    """Machines that no class would have ordered for these requests."""
    return [
        f"{where} {each.product.sku}"
        for where, each in simulators.machines()
        if not each.foreign and each.product.gpu not in ASKED
    ]
