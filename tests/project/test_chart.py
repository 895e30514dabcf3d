"""The chart: its generated files follow their sources, Helm accepts it, and wrong values are refused by name."""

import json
import re
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.project.test_metrics_page import families
from tgp import __version__
from tgp.app import settings
from tgp.core.access.certificate import AUTHORITY, AUTHORITY_CONFIG_MAP, service_names
from tgp.services.preflight import OPERATOR_ENABLED
from tgp.services.shipped import budget_policies, operator_rights
from tools import manifests, toolbox
from tools.controlplane.fixtures import say_past_capturing
from tools.controlplane.helm import Helm, HelmFailed

NEWEST, OLDEST = "1.36.0", "1.28.0"
LONGEST_RELEASE = "r" * 53  # Helm takes no longer name
POLICY_KINDS = ("ValidatingAdmissionPolicy", "MutatingAdmissionPolicy")
CLUSTER_WIDE = ("ClusterRole", "ClusterRoleBinding", *POLICY_KINDS, *(f"{kind}Binding" for kind in POLICY_KINDS))
IN_OTHER_NAMESPACES = {"kube-system", "kube-node-lease"}
OPERATOR, DEPLOYMENT = "tgp-operator", "tgp-operator-controller-manager"
READERS = ("tgp-metrics-reader", "tgp-viewer")

Manifest = dict[str, Any]
Objects = dict[tuple[str, str, str], Manifest]  # by kind, namespace, name


@pytest.fixture(scope="module", params=[toolbox.HELM_CLIENT, toolbox.NEWER_HELM_CLIENT], ids=["helm3", "helm4"])
def helm(request, pytestconfig, tmp_path_factory) -> Helm:
    program = toolbox.find(request.param, say=lambda line: say_past_capturing(pytestconfig, line))
    return Helm(program, tmp_path_factory.mktemp("helm"))


def rendered(
    helm: Helm, *options: str, release: str = "tgp", namespace: str = "tgp-system", kubernetes: str = NEWEST
) -> Objects:
    command = ("template", release, str(manifests.CHART), f"--namespace={namespace}", f"--kube-version={kubernetes}")
    return by_name(helm(*command, "--no-hooks", *options))


def by_name(text: str) -> Objects:
    read = [document for document in YAML(typ="safe", pure=True).load_all(text) if document]
    found = {(it["kind"], it["metadata"].get("namespace", ""), it["metadata"]["name"]): it for it in read}
    assert len(found) == len(read), "two objects of one name"
    return found


def deployment(objects: Objects, namespace: str = "tgp-system") -> Manifest:
    return objects["Deployment", namespace, DEPLOYMENT]


@pytest.fixture(scope="module")
def usual(helm) -> Objects:
    return rendered(helm)


MADE = {**manifests.generated(), **manifests.carried()}


@pytest.mark.parametrize(("path", "text"), MADE.items(), ids=lambda part: getattr(part, "name", ""))
def test_generated_files_follow_their_sources(path, text):
    assert path.read_text() == text, "run make manifests"


def test_the_kinds_are_those_that_are_applied_by_hand():
    applied = {path.name: path.read_text() for path in (manifests.ROOT / "deploy" / "crds").glob("*.yaml")}

    assert {path.name: path.read_text() for path in (manifests.CHART / "crds").iterdir()} == applied


def test_what_is_applied_without_helm_is_what_the_chart_installs(helm):
    for path, made in manifests.rendered(helm).items():
        written = path.read_text()
        assert by_name(written) == by_name(made), "run make manifests"
        if helm.program == toolbox.find(toolbox.HELM_CLIENT):  # the two differ in blank lines
            assert written == made, "run make manifests"


def test_the_chart_has_the_version_of_the_operator():
    chart = YAML(typ="safe", pure=True).load((manifests.CHART / "Chart.yaml").read_text())

    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)


def test_helm_finds_nothing_to_complain_about(helm):
    said = helm("lint", "--strict", str(manifests.CHART), f"--kube-version={NEWEST}")

    assert "0 chart(s) failed" in said


def test_every_role_account_and_policy_is_in_a_file_that_is_applied_without_helm(usual):
    """Tests run the operator under these files, and the wheel carries parts of them."""
    applied = {**by_name(manifests.RIGHTS.read_text()), **by_name(manifests.POLICIES.read_text())}
    parts = {key for key in usual if "Role" in key[0] or "AdmissionPolicy" in key[0] or key[0] == "ServiceAccount"}
    carried = [*operator_rights(), *budget_policies()]

    assert set(applied) == parts | {("Namespace", "", "tgp-system")}
    assert all(it == applied[it["kind"], it["metadata"].get("namespace", ""), it["metadata"]["name"]] for it in carried)
    assert {it["metadata"]["name"] for it in carried if it["kind"] == "ClusterRole"} == {OPERATOR, "tgp-bootstrapper"}


def test_both_ends_of_what_is_supported_are_served(helm, usual):
    oldest = rendered(helm, kubernetes=OLDEST)
    only_new = {key for key in usual if "AdmissionPolicy" in key[0]}
    newest = {key for key in usual if key[0].startswith("MutatingAdmissionPolicy")}

    assert only_new == set(by_name(manifests.POLICIES.read_text()))
    assert set(oldest) == set(usual) - only_new
    assert set(rendered(helm, kubernetes="1.35.0")) == set(usual) - newest
    with pytest.raises(HelmFailed, match=r"kubeVersion: >=1\.28"):
        rendered(helm, kubernetes="1.27.0")


def test_the_guards_outlive_everything_else_and_go_with_a_complete_uninstall(helm, usual):
    """Kept by Helm; its last hooks replace each by one that does nothing, and remove that."""
    kept = {key for key, it in usual.items() if it["metadata"].get("annotations", {}).get("helm.sh/resource-policy")}
    text = helm("template", "tgp", str(manifests.CHART), f"--kube-version={NEWEST}", "--namespace=tgp-system")
    every = [document for document in YAML(typ="safe", pure=True).load_all(text) if document]
    hooks = {}
    for it in every:
        when = it["metadata"].get("annotations", {}).get("helm.sh/hook", "")
        if when:
            hooks.setdefault(when, set()).add((it["kind"], it["metadata"].get("namespace", ""), it["metadata"]["name"]))

    assert {name for _, _, name in kept} == {"tgp-operator-holdings", "tgp-operator-class-holdings"}
    assert hooks == {"pre-delete": {("ConfigMap", "tgp-system", "tgp-operator-uninstall")}, "post-delete": kept}


def test_the_guards_cover_every_role_kind_and_account(usual):
    """Names are listed in the policy: a new role or kind has to be added there. Readers' are not: see the policy."""
    written = (manifests.CHART / "templates" / "policy" / "holdings.yaml").read_text()
    roles = {name for kind, _, name in usual if "Role" in kind or kind in ("ServiceAccount", "Deployment")}
    kinds = {path.stem.partition("_")[2] + ".tgp.io" for path in (manifests.CHART / "crds").iterdir()}

    assert [name for name in sorted(roles | kinds) if f'"{name}"' not in written] == sorted(READERS)


def test_a_pod_is_restricted_and_never_on_a_rented_machine(usual):
    """Everything that Pod Security `restricted` asks for; the API server itself says so in the test of installing."""
    pod = deployment(usual)["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    (term,) = pod["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]

    assert term["matchExpressions"] == [{"key": "tgp.io/provisioned", "operator": "DoesNotExist"}]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] == 65532
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["resources"]["limits"]["memory"]
    assert deployment(usual)["spec"]["replicas"] == 2


def test_the_operator_reads_what_the_chart_writes(helm):
    """The settings file is accepted as it is, and probes ask where it says."""
    options = ("--set=settings.listen=[::]:9000", "--set=settings.lease.name=other", "--set=settings.workers=8")
    objects = rendered(helm, *options, '--set-json=settings.schedulerNames=["a","b"]')
    written = objects["ConfigMap", "tgp-system", "tgp-operator-settings"]["data"]["settings.yaml"]
    read = settings.load({}, {}, YAML(typ="safe", pure=True).load(written))
    (container,) = deployment(objects)["spec"]["template"]["spec"]["containers"]
    lease_rights = objects["Role", "tgp-system", "tgp-operator"]["rules"][-1]

    assert (read.listen, read.lease_name, read.workers, read.scheduler_names) == ("[::]:9000", "other", 8, ("a", "b"))
    assert container["ports"] == [
        {"name": "probes", "containerPort": 9000},
        {"name": "https", "containerPort": 8443},
    ]
    assert lease_rights["resourceNames"] == ["other"]


def test_values_of_other_charts_reach_the_operator(helm):
    """Named as in the charts that people come from; a changed one rolls the pods as any other setting does."""
    group = {"name": "gpu-worker-1", "gpuCount": 4, "scaleUpEndpoint": "http://power-api/gpu-worker-1/start"}
    group["scaleDownEndpoint"] = "http://power-api/gpu-worker-1/stop"
    plain = rendered(helm)
    objects = rendered(
        helm,
        "--set=networking.backend=tailscale,networking.tailscale.operatorEnabled=true",
        "--set=settings.networking.tailscaleUrl=http://tailnet.example",
        f"--set-json=nodeGroups={json.dumps([group])}",
    )
    stored = objects["ConfigMap", "tgp-system", "tgp-operator-settings"]
    written = stored["data"]["settings.yaml"]
    read = settings.load({}, {}, YAML(typ="safe", pure=True).load(written))

    assert stored["metadata"]["annotations"] == {OPERATOR_ENABLED: "true"}
    assert (read.networking_backend, read.tailscale_url) == ("tailscale", "http://tailnet.example")
    assert [each.name for each in read.node_groups] == ["gpu-worker-1"]
    assert deployment(objects)["spec"]["template"] != deployment(plain)["spec"]["template"]


def test_probes_are_alone_on_their_port(helm, usual):
    (container,) = deployment(usual)["spec"]["template"]["spec"]["containers"]
    (port,) = usual["Service", "tgp-system", "tgp-operator"]["spec"]["ports"]
    without = rendered(helm, "--set=settings.https.listen=")

    assert container["livenessProbe"]["httpGet"]["port"] == container["readinessProbe"]["httpGet"]["port"] == "probes"
    assert (port["name"], port["port"], port["targetPort"]) == ("https", 8443, "https")
    assert set(usual) - set(without) == {("Service", "tgp-system", "tgp-operator")}


def test_a_scraper_verifies_the_certificate_and_shows_a_token(helm):
    known = "--api-versions=monitoring.coreos.com/v1/ServiceMonitor"
    key = "ServiceMonitor", "elsewhere", "tgp-operator"
    (usual,) = rendered(helm, known, namespace="elsewhere")[key]["spec"]["endpoints"]
    chosen = (
        "--set=serviceMonitor.tokenSecret.name=t,serviceMonitor.tokenSecret.key=k",
        "--set=serviceMonitor.tlsConfig.serverName=x",
    )
    (other,) = rendered(helm, known, *chosen, namespace="elsewhere")[key]["spec"]["endpoints"]

    assert (usual["scheme"], usual["port"]) == ("https", "https")
    assert usual["bearerTokenFile"] == "/var/run/secrets/kubernetes.io/serviceaccount/token"
    assert usual["tlsConfig"]["serverName"] in service_names("elsewhere")
    assert usual["tlsConfig"]["ca"] == {"configMap": {"name": AUTHORITY_CONFIG_MAP, "key": AUTHORITY}}
    assert other["authorization"] == {"credentials": {"name": "t", "key": "k"}}
    assert "bearerTokenFile" not in other
    assert other["tlsConfig"] == {"serverName": "x"}


def test_no_certificate_goes_unverified_anywhere():
    shipped = [path for path in (manifests.ROOT / "deploy").rglob("*") if path.is_file()]

    assert [path for path in shipped if "insecureSkipVerify" in path.read_text()] == []


def test_no_person_and_no_group_is_bound_to_a_role_of_readers(usual):
    bindings = [it for (kind, _, _), it in usual.items() if kind.endswith("Binding") and "roleRef" in it]
    bound = {it["roleRef"]["name"]: it["subjects"] for it in bindings if it["roleRef"]["name"] in READERS}

    assert bound == {"tgp-viewer": [{"kind": "ServiceAccount", "name": "tgp-viewer", "namespace": "tgp-system"}]}
    assert {("ClusterRole", "", name) for name in READERS} <= set(usual)


def test_every_setting_is_a_value_but_those_that_a_pod_decides():
    known = manifests.schema()["properties"]["settings"]

    def keys(schema: Manifest, prefix: str = "") -> set[str]:
        found = set()
        for name, inner in schema["properties"].items():
            found |= keys(inner, f"{prefix}{name}.") if "properties" in inner else {prefix + name}
        return found

    assert keys(known) == {row.key for row in settings.TABLE} - manifests.NOT_IN_A_POD - manifests.ELSEWHERE


def test_other_settings_roll_the_pods(helm, usual):
    other = rendered(helm, "--set=settings.workers=8")

    assert deployment(other)["spec"]["template"] != deployment(usual)["spec"]["template"]


@pytest.mark.parametrize(
    ("option", "named"),
    [
        ("settings.lese.duration=30s", "lese"),
        ("settings.workers=many", "/settings/workers"),
        ("settings.keepFinished=sometimes", "/settings/keepFinished"),
        ("networking.backend=tailscal", "/networking/backend"),
        ("settings.leaderElect=false", "leaderElect"),
        ("settings.listen=", "/settings/listen"),
        ("settings.metrics.listen=0.0.0.0:8080", "/settings/metrics/listen"),
        ("settings.networking.backend=none", "backend"),
        ("nodeGroups[0].nme=a", "/nodeGroups/0"),
        ("replicas=0", "/replicas"),
        ("replica=3", "replica"),
    ],
)
def test_a_wrong_value_is_refused_by_its_name(helm, option, named):
    with pytest.raises(HelmFailed) as refused:
        rendered(helm, f"--set={option}")

    assert named in refused.value.complaint


def test_it_can_be_part_of_another_chart(helm, tmp_path):
    """Helm hands `global` down to every chart."""
    (tmp_path / "Chart.yaml").write_text("apiVersion: v2\nname: umbrella\nversion: 1.0.0\n")
    (tmp_path / "values.yaml").write_text("global: {region: eu}\ntgp-operator: {replicas: 3}\n")
    (tmp_path / "charts").mkdir()
    (tmp_path / "charts" / "tgp-operator").symlink_to(manifests.CHART)
    objects = by_name(helm("template", "tgp", str(tmp_path), "--namespace=tgp-system", "--no-hooks"))

    assert deployment(objects)["spec"]["replicas"] == 3


def test_any_name_and_namespace_will_do(helm):
    """Objects are named alike under every release name: two operators in one cluster would share one Lease and bill."""
    objects = rendered(helm, release=LONGEST_RELEASE, namespace="elsewhere")
    places = {namespace for kind, namespace, _ in objects if kind not in CLUSTER_WIDE}
    values = [value for it in objects.values() for value in it["metadata"]["labels"].values()]

    assert places == {"elsewhere", *IN_OTHER_NAMESPACES}
    assert "tgp-system" not in json.dumps(objects[("ClusterRoleBinding", "", "tgp-operator")])
    assert max(len(value) for value in values) <= 63
    assert deployment(objects, "elsewhere")
    with pytest.raises(HelmFailed, match="needs a namespace of its own"):
        rendered(helm, namespace="kube-system")


def test_what_depends_on_the_cluster_is_there_when_asked_for(helm, usual):
    known = ("--api-versions=monitoring.coreos.com/v1/ServiceMonitor,monitoring.coreos.com/v1/PrometheusRule",)
    monitored = rendered(helm, *known, "--set=networkPolicy.enabled=true,dashboards.enabled=true")
    added = {"ServiceMonitor", "NetworkPolicy", "PrometheusRule", "ConfigMap"}

    assert {kind for kind, _, _ in set(monitored) - set(usual)} == added
    assert not set(usual) - set(monitored)


def test_alerts_and_dashboard_ask_for_metrics_that_exist(helm):
    files = manifests.CHART / "files"
    rules = YAML(typ="safe", pure=True).load((files / "rules.yaml").read_text())
    panels = json.loads((files / "dashboard.json").read_text())["panels"]
    asked = [rule["expr"] for group in rules["groups"] for rule in group["rules"]]
    asked += [target["expr"] for panel in panels for target in panel["targets"]]

    assert {name for query in asked for name in re.findall(r"\b(?:tgp|gwb)_\w+", query)} <= set(families())


def test_the_kinds_have_a_chart_of_their_own_for_upgrades(helm):
    """It holds what crds/ of the other chart does, and Helm keeps it on uninstall."""
    text = helm("template", "kinds", str(manifests.KINDS_CHART), f"--kube-version={OLDEST}")
    ours = {
        path.name: YAML(typ="safe", pure=True).load(path.read_text()) for path in (manifests.CHART / "crds").iterdir()
    }
    chart = YAML(typ="safe", pure=True).load((manifests.KINDS_CHART / "Chart.yaml").read_text())
    made = by_name(text)

    assert "0 chart(s) failed" in helm("lint", "--strict", str(manifests.KINDS_CHART))
    assert {it["metadata"].pop("annotations")["helm.sh/resource-policy"] for it in made.values()} == {"keep"}
    assert sorted(made.values(), key=str) == sorted(ours.values(), key=str)
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)
    with pytest.raises(HelmFailed, match="replicas"):
        helm("template", "kinds", str(manifests.KINDS_CHART), "--set=replicas=2")


def test_no_secret_is_made_from_values(usual):
    assert not [key for key in usual if key[0] == "Secret"]


def test_the_image_copies_what_is_there_and_runs_as_the_chart_says(usual):
    """tests/controlplane/test_installed.py builds it, with a wheelhouse of its own."""
    lines = (manifests.ROOT / "Dockerfile").read_text().splitlines()
    copied = [line.split()[1:-1] for line in lines if line.startswith("COPY ") and "--from" not in line]
    sent = (manifests.ROOT / ".dockerignore").read_text().splitlines()
    user = deployment(usual)["spec"]["template"]["spec"]["securityContext"]

    assert f"USER {user['runAsUser']}:{user['runAsGroup']}" in lines
    assert lines[-2:] == ['ENTRYPOINT ["tgp"]', 'CMD ["operator"]']
    for source in (source for sources in copied for source in sources):
        assert source == "build/wheelhouse" or (manifests.ROOT / source).exists(), source
        assert any(source == kept[1:] or source.startswith(f"{kept[1:]}/") for kept in sent if kept[0] == "!"), source
