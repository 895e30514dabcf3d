"""`tgp check` with a kubeconfig: everything that is missing, at once, with the command that supplies it."""

import json
from base64 import b64encode
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from tgp.adapters.clock import SystemClock
from tgp.adapters.entropy import SystemEntropy
from tgp.adapters.http.serve import listen
from tgp.api.crds import crds
from tgp.api.resource import (
    CLUSTER_ROLE,
    CONFIG_MAP,
    CUSTOM_RESOURCE_DEFINITION,
    DAEMON_SET,
    GPU_NODE_CLASS,
    LEASE,
    NAMESPACE,
    SECRET,
    SERVICE,
    Resource,
)
from tgp.core.classes.rights import missing_rights
from tgp.core.reports.manifest_verdict import verdict
from tgp.ports.http import Call, Reply, Streaming
from tgp.services.chart_settings import CHART_SETTINGS
from tgp.services.cluster_failure import REACH
from tgp.services.manifest_surroundings import surroundings
from tgp.services.preflight import (
    DEVICE_PLUGIN,
    NAME_ONE,
    OPERATOR_LEASE,
    Preflight,
    exposed_api,
    preflight,
)
from tgp.services.shipped import operator_rights
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


async def looked(folder: Path, *manifests: tuple[Resource, dict], forbidden: str = "-") -> Preflight:
    """At an API server that holds these. Paths that end with `forbidden` may not be read."""
    server = ApiServer(SystemClock(), SystemEntropy())
    server.authentication.add_token(TOKEN, ADMIN)
    for resource, manifest in manifests:
        server.local_api.create(resource, manifest)

    async def handle(call: Call) -> Reply | Streaming:
        if not call.path.endswith(forbidden):
            return await server.handle(call)
        words = f'things "x" is forbidden: User "dora" cannot get resource "things" at {call.path}'
        status = {"kind": "Status", "status": "Failure", "reason": "Forbidden", "message": words, "code": 403}
        return Reply(403, json.dumps(status).encode(), (("Content-Type", "application/json"),))

    listening = await listen(handle)
    try:
        return await preflight(a_kubeconfig(folder, listening.url), "", "", expected=True)
    finally:
        await listening.stop()


def a_lease(renewed: datetime, **more) -> tuple[Resource, dict]:
    spec = {"holderIdentity": "tgp-operator_1", "renewTime": f"{renewed:%Y-%m-%dT%H:%M:%S.%f}Z", **more}
    metadata = {"name": OPERATOR_LEASE, "namespace": "tgp-system"}
    return LEASE, {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}


@pytest.mark.parametrize(("renewed_again", "said"), [(False, "no operator runs"), (True, "is the leader")])
async def test_a_lease_that_looks_old_is_read_once_more(tmp_path, monkeypatch, renewed_again, said):
    """The clock of a demo runs so fast that every Lease looks old."""
    old = datetime.now(UTC) - timedelta(hours=1)
    server = ApiServer(SystemClock(), SystemEntropy())
    server.authentication.add_token(TOKEN, ADMIN)
    for resource, manifest in (home(), a_lease(old)):
        server.local_api.create(resource, manifest)

    async def meanwhile(_seconds: float) -> None:
        if renewed_again:
            patch = a_lease(old + timedelta(minutes=1))[1]["spec"]
            server.local_api.merge_patch(LEASE, "tgp-system", OPERATOR_LEASE, {"spec": patch})

    listening = await listen(server.handle)
    monkeypatch.setattr("tgp.services.preflight.asyncio", SimpleNamespace(sleep=meanwhile))
    try:
        found = await preflight(a_kubeconfig(tmp_path, listening.url), "", "", expected=True)
    finally:
        await listening.stop()
    assert said in next(one.words for one in found.findings if one.title == "operator")


@pytest.mark.parametrize(
    ("lasts", "said"),
    [
        (15, "no operator runs: tgp-operator_1 renewed the Lease 10m ago"),
        (None, "no operator runs: tgp-operator_1 renewed the Lease 10m ago"),
        (900, "tgp-operator_1 is the leader"),
    ],
)
async def test_a_lease_holds_for_as_long_as_it_says(tmp_path, monkeypatch, lasts, said):
    """That of a demo is renewed every two minutes and lasts fifteen."""

    async def at_once(_seconds: float) -> None:
        pass

    monkeypatch.setattr("tgp.services.preflight.asyncio", SimpleNamespace(sleep=at_once))
    more = {"leaseDurationSeconds": lasts} if lasts is not None else {}
    found = await looked(tmp_path, home(), a_lease(datetime.now(UTC) - timedelta(seconds=630), **more))
    assert next(one.words for one in found.findings if one.title == "operator") == said


@pytest.mark.parametrize(("newer", "good"), [(True, True), (False, False)])
async def test_newer_kinds_are_fine_and_older_ones_are_updated(tmp_path, newer, good):
    stored = kinds()
    properties = stored[2][1]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    if newer:
        properties["ofTomorrow"] = {"type": "string"}
    else:
        del properties["maxLifetime"]
    found = await looked(tmp_path, *stored)
    (finding,) = (one for one in found.findings if one.title == "kinds")

    assert (finding.good, finding.command) == (good, "" if newer else "tgp crds apply")
    assert ("newer than tgp" in finding.words) is newer


def kinds() -> list[tuple[Resource, dict]]:
    return [(CUSTOM_RESOURCE_DEFINITION, definition) for definition in crds()]


def home() -> tuple[Resource, dict]:
    return NAMESPACE, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "tgp-system"}}


def a_class(name: str, **spec: object) -> tuple[Resource, dict]:
    return GPU_NODE_CLASS, {"apiVersion": "tgp.io/v1", "kind": "GPUNodeClass", "metadata": {"name": name}, "spec": spec}


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
    found = await looked(tmp_path, *((DAEMON_SET, plugin) for plugin in plugins))

    finding = next(one for one in found.findings if one.title == DEVICE_PLUGIN)
    assert finding.good is good
    assert said in finding.words


async def test_a_template_is_judged_before_there_is_a_join_secret_and_with_all_its_errors(tmp_path):
    template = """
version: v1alpha1
machine:
  token: '{{.MachineTokn}}'
cluster:
  clusterName: '{{.ClustrName}}'
"""
    talos = {"machineConfigTemplate": template}
    gpu = a_class("gpu", providers=[{"name": "vultr"}], networking={"backend": "none"}, talosConfig=talos)
    found = await looked(tmp_path, *kinds(), home(), gpu)

    said = "\n".join(one.words for one in found.findings if one.title == "class gpu")
    assert "JoinSecretMissing" in said
    assert "MachineTokn" in said
    assert "ClustrName" in said
    assert said.count("MachineTokn") == 2, "the text itself, and the sentence about it, once"


async def test_each_resource_that_its_classes_buy_needs_a_plugin(tmp_path):
    def bought(name: str, *models: str) -> tuple[Resource, dict]:
        return a_class(name, providers=[{"name": "vultr"}], instanceRequirements={"gpuTypes": list(models)})

    plugin = DAEMON_SET, a_plugin([{"operator": "Exists"}])
    amd = await looked(tmp_path, *kinds(), home(), plugin, bought("amd", "MI300X"))
    both = await looked(tmp_path, *kinds(), home(), plugin, bought("amd", "MI300X"), bought("some", "L40S"))

    def said(found: Preflight) -> list[tuple[bool | None, str]]:
        return [(one.good, one.words) for one in found.findings if one.title == DEVICE_PLUGIN]

    missing = False, "No DaemonSet provides amd.com/gpu; install a GPU device plugin"
    assert said(amd) == [missing]
    assert said(both)[1:] == [missing]
    assert said(both)[0][0] is True


async def test_an_empty_cluster_lists_every_gap_with_its_command(tmp_path):
    found = await looked(tmp_path)

    gaps = {one.title: one.command for one in found.findings if one.good is False}
    assert gaps == {
        "kinds": "tgp crds apply",
        "namespace": "kubectl create namespace tgp-system",
        DEVICE_PLUGIN: "",
    }


async def test_without_a_class_the_next_command_needs_no_clone(tmp_path):
    found = await looked(tmp_path, *kinds(), home())

    assert [one.command for one in found.findings if one.title == "GPUNodeClass"] == ["tgp init"]


async def test_a_class_lists_all_that_it_misses_at_once(tmp_path):
    """Keys of two providers, the mesh's client, the join Secret and a setting: one look, not five."""
    found = await looked(
        tmp_path,
        *kinds(),
        home(),
        a_class(
            "gpu",
            providers=[{"name": "vultr"}, {"name": "lambda"}],
            tailscaleConfig={"tags": ["tag:gpu"]},
        ),
    )

    gaps = [f"{one.words} | {one.command}" for one in found.findings if one.title == "class gpu"]
    said = "\n".join(gaps)
    assert all(one.good is False for one in found.findings if one.title == "class gpu")
    assert "--from-literal=VULTR_API_KEY=… --from-literal=LAMBDA_LABS_API_KEY=…" in said
    assert "--from-literal=client-id=… --from-literal=client-secret=…" in said
    assert "Secret tgp-join (keys " in said
    assert "settings.sshKeyName is not set" in said
    assert "MeshRefused" not in said, "the mesh cannot be asked before its client is there"


@pytest.mark.parametrize(
    ("path", "title"),
    [
        ("/version", "Kubernetes"),
        ("/customresourcedefinitions/gpurequests.tgp.io", "kinds"),
        ("/namespaces/tgp-system", "namespace"),
        ("/configmaps/tgp-operator-settings", "settings"),
        ("/gpunodeclasses", "classes"),
        ("/nodes", "nodes"),
        ("/clusterroles/tgp-operator", "rights"),
        ("/leases/tgp-operator", "operator"),
        ("/services/kubernetes", "tailnet"),
        ("/daemonsets", DEVICE_PLUGIN),
    ],
)
async def test_what_may_not_be_read_hides_no_other_gap(tmp_path, path, title):
    meshed = a_class("gpu", providers=[{"name": "vultr"}], tailscaleConfig={"tags": ["tag:gpu"]})
    whole = await looked(tmp_path, *kinds(), home(), meshed)
    found = await looked(tmp_path, *kinds(), home(), meshed, forbidden=path)

    (unknown,) = (one for one in found.findings if one.title == title and one.good is None)
    assert unknown.command == "kubectl auth can-i --list" or title == "rights"
    gaps = [one for one in whole.findings if one.good is False and one.title != title]
    about_version = [one for one in gaps if "tgp-join" in one.words] if title == "Kubernetes" else []
    about_classes = [one for one in gaps if one.title == "class gpu"] if title == "classes" else []
    lost = [one for one in gaps if one not in found.findings]
    assert lost == about_version + about_classes, "another gap is not told"
    assert title == "classes" or [row.provider for row in found.rows] == ["vultr"]


async def test_rights_of_an_older_release_are_named_one_by_one(tmp_path):
    """An operator under an older role buys nothing, and only its log would say why."""
    roles = [document for document in operator_rights() if document["kind"] == "ClusterRole"]
    for role in roles:
        role["rules"] = [rule for rule in role["rules"] if "nodes" not in (rule.get("resources") or ())]
    found = await looked(tmp_path, home(), *((CLUSTER_ROLE, role) for role in roles))

    finding = next(one for one in found.findings if one.title == "rights")
    assert finding.good is False
    assert "patch nodes" in finding.words
    assert finding.command == "kubectl apply -f deploy/rights.yaml"


@pytest.mark.parametrize(
    ("held", "missing"),
    [
        ([], ("get pods", "list pods")),
        ([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}], ("list pods",)),
        ([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}], ()),
        (
            [{"apiGroups": [""], "resources": ["pods"], "verbs": ["*"], "resourceNames": ["x"]}],
            ("get pods", "list pods"),
        ),
        ([{"apiGroups": ["apps"], "resources": ["pods"], "verbs": ["*"]}], ("get pods", "list pods")),
    ],
)
def test_a_right_is_held_when_one_rule_grants_all_of_it(held, missing):
    assert missing_rights(held, [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list"]}]) == missing


def test_an_api_server_in_the_tailnet_is_named_with_its_port():
    """The join Secret's endpoint usually has 6443, and the proxy of the Tailscale operator does not listen there."""
    service = {"metadata": {"annotations": {"tailscale.com/expose": "true"}}, "spec": {"ports": [{"port": 443}]}}
    (found,) = exposed_api(service, "")

    assert found.good is None
    assert "on port 443" in found.words
    assert "MagicDNS" in found.words
    assert "certSANs" in found.words
    assert exposed_api({"metadata": {}, "spec": service["spec"]}, "") == exposed_api({}, "") == []


@pytest.mark.parametrize(
    ("endpoint", "good"),
    [
        ("https://100.101.102.103:443", True),
        ("https://100.101.102.103", True),
        ("https://[fd7a:115c:a1e0::1]", True),
        ("https://100.101.102.103:6443", None),
        ("https://k8s-api.tail1234.ts.net:443", None),
        ("https://10.0.0.1:443", None),
        ("https://100.101.102.103:none", None),
    ],
)
def test_an_endpoint_that_goes_through_the_tailnet_is_well(endpoint, good):
    service = {"metadata": {"annotations": {"tailscale.com/expose": "true"}}, "spec": {"ports": [{"port": 443}]}}
    (found,) = exposed_api(service, endpoint)

    assert found.good is good
    assert endpoint in found.words


async def test_the_endpoint_is_that_of_the_join_secret(tmp_path):
    annotations = {"tailscale.com/expose": "true"}
    metadata = {"name": "kubernetes", "namespace": "default", "annotations": annotations}
    spec = {"ports": [{"port": 443, "targetPort": 6443}]}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}
    join = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "tgp-join", "namespace": "tgp-system"},
        "data": {"endpoint": b64encode(b"https://100.101.102.103:443").decode()},
    }
    there = [home(), chart_settings(), tailscale_kind(), (SERVICE, service), (SECRET, join)]
    found = await looked(tmp_path, *there)

    assert [one.good for one in found.findings if one.title == "tailnet"] == [True]


def chart_settings() -> tuple[Resource, dict]:
    """As the chart writes them with networking.tailscale.operatorEnabled."""
    annotations = {"tgp.io/tailscale-operator": "true"}
    name = {"name": "tgp-operator-settings", "namespace": "tgp-system", "annotations": annotations}
    return CONFIG_MAP, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": name}


def tailscale_kind() -> tuple[Resource, dict]:
    """By which the Tailscale operator is known."""
    names = {"plural": "connectors", "singular": "connector", "kind": "Connector", "listKind": "ConnectorList"}
    schema = {"openAPIV3Schema": {"type": "object"}}
    version = {"name": "v1alpha1", "served": True, "storage": True, "schema": schema}
    spec = {"group": "tailscale.com", "scope": "Cluster", "names": names, "versions": [version]}
    metadata = {"name": "connectors.tailscale.com"}
    return CUSTOM_RESOURCE_DEFINITION, {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": metadata,
        "spec": spec,
    }


@pytest.mark.parametrize("text", ["", "[", "- a\n- b", "networking: kubespan", "---\n---\n"])
async def test_settings_that_were_edited_into_something_else_are_the_usual_ones(tmp_path, text):
    metadata = {"name": CHART_SETTINGS, "namespace": "tgp-system"}
    settings = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"settings.yaml": text}}
    found = await looked(
        tmp_path, *kinds(), home(), a_class("gpu", providers=[{"name": "vultr"}]), (CONFIG_MAP, settings)
    )

    assert any("NoNetworking" in one.words for one in found.findings)


@pytest.mark.parametrize(
    ("there", "said", "command"),
    [
        ([], None, ""),
        ([chart_settings()], "the Tailscale operator is not installed", ""),
        ([chart_settings(), tailscale_kind()], "is not exposed in the tailnet", "kubectl annotate service kubernetes"),
    ],
    ids=["not wanted", "no operator", "not exposed"],
)
async def test_it_looks_for_the_tailscale_operator_where_the_chart_was_told_of_it(tmp_path, there, said, command):
    found = await looked(tmp_path, home(), *there)

    findings = [one for one in found.findings if one.title == "tailnet"]
    assert [one.good for one in findings] == ([] if said is None else [False])
    assert all(said in one.words and one.command.startswith(command) for one in findings)


async def test_a_class_without_a_mesh_has_the_one_of_the_charts_value(tmp_path):
    """networking.backend: the operator buys for it, so a gap would be a false one."""
    metadata = {"name": CHART_SETTINGS, "namespace": "tgp-system"}
    data = {"settings.yaml": "networking:\n  backend: kubespan\n"}
    settings = CONFIG_MAP, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
    meshless = a_class("gpu", providers=[{"name": "vultr"}])

    without = await looked(tmp_path, *kinds(), home(), meshless)
    found = await looked(tmp_path, *kinds(), home(), meshless, settings)

    assert any("NoNetworking" in one.words for one in without.findings)
    assert not any("NoNetworking" in one.words for one in found.findings)


async def test_a_cluster_that_was_named_and_is_not_there_is_a_finding(tmp_path):
    found = await preflight(a_kubeconfig(tmp_path, "http://127.0.0.1:9"), "", "", expected=True)

    assert found.findings[0].good is False
    assert "cannot be read" in found.findings[0].words
    assert found.findings[0].command == REACH


async def test_no_cluster_at_all_is_none_unless_one_was_named(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("KUBECONFIG", raising=False)

    assert await preflight("", "", "", expected=False) == Preflight()
    (named,) = (await preflight(str(tmp_path / "nothing"), "", "", expected=True)).findings
    assert (named.good, named.command) == (False, NAME_ONE)


async def test_manifests_are_compared_with_what_the_cluster_has(tmp_path):
    """`tgp check -f FILE --kubeconfig …`: its classes, Namespaces and version, and the chart's setting."""
    settings = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": CHART_SETTINGS, "namespace": "tgp-system"},
        "data": {"settings.yaml": "requireAllowedNamespaces: true\n"},
    }
    server = ApiServer(SystemClock(), SystemEntropy())
    server.authentication.add_token(TOKEN, ADMIN)
    rented = a_class("rented", providers=[{"name": "vultr"}], instanceRequirements={"gpuTypes": ["A100"]})
    for resource, manifest in (*kinds(), home(), (CONFIG_MAP, settings), rented):
        server.local_api.create(resource, manifest)
    listening = await listen(server.handle)
    try:
        found = await surroundings(a_kubeconfig(tmp_path, listening.url), "", "")
    finally:
        await listening.stop()

    def told(name: str, namespace: str) -> list[str]:
        spec = {"gpuType": "H100", "nodeClassRef": {"name": name}}
        meta = {"name": "r", "namespace": namespace}
        manifest = {"apiVersion": "tgp.io/v1", "kind": "GPURequest", "metadata": meta, "spec": spec}
        return [each.path for each in verdict(manifest, found)]

    assert told("rented", "tgp-system") == ["spec.nodeClassRef.name", "spec.gpuType"]
    assert told("missing", "tgp-system") == ["spec.nodeClassRef.name"]
    assert found.server is not None
    assert found.operators == "tgp-system"
