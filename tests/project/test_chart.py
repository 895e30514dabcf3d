"""The chart: its generated files follow their sources, Helm accepts it, and wrong values are refused by name."""

import json
import re
import subprocess
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.project.test_metrics_page import families
from tgp import __version__
from tgp.api.common import DEFAULT_KEYS
from tgp.app import settings
from tgp.core.access.certificate import AUTHORITY, AUTHORITY_CONFIG_MAP, service_names
from tgp.services.chart_settings import OPERATOR_ENABLED
from tgp.services.shipped import budget_policies, operator_rights
from tools import manifests, toolbox
from tools.controlplane.fixtures import say_past_capturing
from tools.controlplane.helm import Helm, HelmFailed
from tools.controlplane.registry import a_registry

NEWEST, OLDEST = "1.36.0", "1.28.0"
LONGEST_RELEASE = "r" * 53  # Helm takes no longer name
POLICY_KINDS = ("ValidatingAdmissionPolicy", "MutatingAdmissionPolicy")
CLUSTER_WIDE = ("ClusterRole", "ClusterRoleBinding", *POLICY_KINDS, *(f"{kind}Binding" for kind in POLICY_KINDS))
IN_OTHER_NAMESPACES = {"kube-system", "kube-node-lease"}
OPERATOR, DEPLOYMENT = "tgp-operator", "tgp-operator-controller-manager"
READERS = ("tgp-metrics-reader", "tgp-offers-reader", "tgp-viewer")

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


def test_the_installer_is_the_file_that_is_checked_in_for_another_image(helm):
    """`make build-installer IMG=…`; without IMG it is deploy/install.yaml itself."""
    image = "registry.example:5000/team/tgp-operator:1.2.3"
    before, made = by_name(manifests.INSTALL.read_text()), by_name(manifests.installer(helm, image))
    (container,) = deployment(made)["spec"]["template"]["spec"]["containers"]
    plain = by_name(manifests.installer(helm, "registry.example:5000/tgp"))
    (other,) = deployment(plain)["spec"]["template"]["spec"]["containers"]

    assert container["image"] == image
    assert other["image"] == f"registry.example:5000/tgp:{__version__}"
    assert {key for key in before if before[key] != made[key]} == {("Deployment", "tgp-system", DEPLOYMENT)}
    assert set(before) == set(made)


def test_make_build_installer_writes_it_into_dist(monkeypatch, tmp_path):
    said = subprocess.run(
        ("make", "--dry-run", "build-installer", "IMG=a/b:c"),
        cwd=manifests.ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    (command,) = (line for line in said.splitlines() if " -m tools.manifests " in line)
    monkeypatch.setattr(manifests, "ROOT", tmp_path)
    monkeypatch.setattr(manifests, "DIST", tmp_path / "dist")
    manifests.main(command.partition(" -m tools.manifests ")[2].split())

    written = (tmp_path / "dist" / "install.yaml").read_text()
    (container,) = deployment(by_name(written))["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "a/b:c"
    assert "kubectl apply --server-side -f dist/install.yaml" in written.splitlines()[0]


def test_the_chart_has_the_version_of_the_operator():
    chart = YAML(typ="safe", pure=True).load((manifests.CHART / "Chart.yaml").read_text())

    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)


def test_helm_finds_nothing_to_complain_about(helm):
    said = helm("lint", "--strict", str(manifests.CHART), f"--kube-version={NEWEST}")

    assert "0 chart(s) failed" in said


@pytest.mark.parametrize("chart", [manifests.CHART, manifests.KINDS_CHART], ids=lambda path: path.name)
def test_a_chart_from_an_oci_registry_renders_as_the_folder_does(helm, tmp_path, chart):
    """Packaged, pushed, and fetched by its name and version."""
    helm("package", str(chart), f"--destination={tmp_path}")
    options = ("--namespace=tgp-system", f"--kube-version={NEWEST}", "--no-hooks")
    with a_registry(tmp_path / "registry.log") as registry:
        helm("push", str(tmp_path / f"{chart.name}-{__version__}.tgz"), registry.charts, "--plain-http")
        fetched = f"{registry.charts}/{chart.name}"
        pushed = helm("template", "tgp", fetched, "--plain-http", f"--version={__version__}", *options)
        with pytest.raises(HelmFailed, match="not found"):
            helm("template", "tgp", fetched, "--plain-http", "--version=9.9.9", *options)

    assert by_name(pushed) == by_name(helm("template", "tgp", str(chart), *options))


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


def test_the_guards_outlive_everything_else(helm, usual):
    """Kept by Helm and not pruned by others; that a complete uninstall removes them is shown by a real one."""
    notes = {key: it["metadata"].get("annotations", {}) for key, it in usual.items()}
    kept = {key for key, found in notes.items() if found.get("helm.sh/resource-policy")}

    assert {name for _, _, name in kept} == {"tgp-operator-holdings", "tgp-operator-class-holdings"}
    assert {notes[key]["argocd.argoproj.io/sync-options"] for key in kept} == {"Prune=false,Delete=false"}


def test_whoever_applies_what_helm_renders_finds_each_object_once(helm, usual):
    """Argo CD keeps the last of two objects of one name: a hook of the guard's name would be applied in its place."""
    text = helm("template", "tgp", str(manifests.CHART), f"--kube-version={NEWEST}", "--namespace=tgp-system")
    every = by_name(text)  # refuses two of one name
    hooks = {key for key, it in every.items() if "helm.sh/hook" in it["metadata"].get("annotations", {})}

    assert hooks == {("ConfigMap", "tgp-system", "tgp-operator-uninstall")}
    assert set(every) - hooks == set(usual)


def test_the_policies_require_allowed_namespaces_where_the_operator_does(helm, usual):
    """A class without any serves all namespaces, or none, by one value for both."""
    key = "ValidatingAdmissionPolicy", "", "tgp-pools-of-class"
    required = rendered(helm, "--set=settings.requireAllowedNamespaces=true")

    assert ": !false)" in usual[key]["spec"]["validations"][0]["expression"]
    assert ": !true)" in required[key]["spec"]["validations"][0]["expression"]


def test_the_notes_know_every_key_of_a_provider_and_name_no_file_of_a_clone():
    """Helm cannot run them here: it looks into a cluster; the test of installing does."""
    notes = (manifests.CHART / "templates" / "NOTES.txt").read_text()

    assert [pair for pair in DEFAULT_KEYS.items() if f'"{pair[1]}" "{pair[0]}"' not in notes] == []
    assert re.findall(r"(?:deploy|docs)/[\w./-]+", notes) == []


def test_without_a_release_no_message_speaks_of_one(usual):
    """What is applied by kubectl or Argo CD is in no release that could be rolled back."""
    assert "helm rollback" not in json.dumps(list(usual.values()))
    assert "helm rollback" not in manifests.POLICIES.read_text()


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


def test_an_image_of_a_private_registry_is_pulled_by_digest_and_with_its_secret(helm):
    digest = f"sha256:{'0' * 64}"
    image = f"--set=image.repository=registry.example/tgp-operator,image.digest={digest}"
    pod = deployment(rendered(helm, image, "--set=image.pullSecrets={mirror}"))["spec"]["template"]["spec"]

    assert pod["imagePullSecrets"] == [{"name": "mirror"}]
    assert [container["image"] for container in pod["containers"]] == [f"registry.example/tgp-operator@{digest}"]


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

    assert bound == {"tgp-offers-reader": [{"kind": "ServiceAccount", "name": "tgp-viewer", "namespace": "tgp-system"}]}
    assert usual["ClusterRole", "", "tgp-offers-reader"]["rules"] == [
        {"apiGroups": ["tgp.io"], "resources": ["offers"], "verbs": ["list"]}
    ]
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
        ("nodeGroups[0].gpuCount=0", "/nodeGroups/0/gpuCount"),
        ("nodeGroups[0].scaleUpEndpoint=worker-1", "/nodeGroups/0/scaleUpEndpoint"),
        ("nodeSelector.rank=1", "/nodeSelector/rank"),
        ("podLabels.on=true", "/podLabels/on"),
        ("image.repository=", "/image/repository"),
        ("settings=null", "settings"),
        ("settings.https=null", "https"),
        ("networking=null", "networking"),
        ("networking.tailscale=null", "tailscale"),
        ("image=null", "image"),
        ("replicas=0", "/replicas"),
        ("replica=3", "replica"),
    ],
)
def test_a_wrong_value_is_refused_by_its_name(helm, option, named):
    with pytest.raises(HelmFailed) as refused:
        rendered(helm, f"--set={option}")

    assert named in refused.value.complaint
    assert "nil pointer" not in refused.value.complaint


@pytest.mark.parametrize(
    "leaf",
    ["nodeGroups", "resources", "tolerations", "affinity", "commonLabels", "podAnnotations", "priorityClassName"],
)
def test_a_value_without_content_is_as_if_it_was_empty(helm, leaf):
    assert deployment(rendered(helm, f"--set={leaf}=null"))


def test_labels_and_annotations_of_a_user_are_added_and_never_replace_ours(helm, usual):
    """The selector of a Deployment cannot be changed, and two keys of one name are no YAML."""
    common = {"team": "ml", "app.kubernetes.io/name": "mine", "app.kubernetes.io/part-of": "mine"}
    pod = {"team": "pods", "app.kubernetes.io/instance": "mine"}
    known = ("--api-versions=monitoring.coreos.com/v1/ServiceMonitor",)
    objects = rendered(
        helm,
        *known,
        f"--set-json=commonLabels={json.dumps(common)}",
        f"--set-json=podLabels={json.dumps(pod)}",
        f"--set-json=serviceMonitor.labels={json.dumps({'team': 'monitoring'})}",
        "--set=podAnnotations.tgp\\.io/settings-checksum=mine,podAnnotations.note=x",
    )
    made, before = deployment(objects), deployment(usual)["spec"]["template"]["metadata"]
    template = made["spec"]["template"]["metadata"]
    monitor = objects["ServiceMonitor", "tgp-system", OPERATOR]

    assert {it["metadata"]["labels"]["team"] for it in objects.values() if it is not monitor} == {"ml"}
    assert monitor["metadata"]["labels"]["team"] == "monitoring"
    assert {it["metadata"]["labels"]["app.kubernetes.io/part-of"] for it in objects.values()} == {"tgp"}
    assert made["spec"]["selector"] == deployment(usual)["spec"]["selector"]
    assert template["labels"] == {
        **before["labels"],
        "team": "pods",
        "app.kubernetes.io/part-of": "mine",  # of a pod, only what selects it is ours
    }
    assert template["annotations"] == {**before["annotations"], "note": "x"}


def test_no_affinity_of_a_user_lets_it_run_on_a_rented_machine(helm):
    """Terms are alternatives, so each of them must say so."""
    zone = {"key": "topology.kubernetes.io/zone", "operator": "In", "values": ["a"]}
    fields = {"key": "metadata.name", "operator": "In", "values": ["n"]}
    terms = [{"matchExpressions": [zone]}, {"matchFields": [fields]}]
    wished = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms},
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": terms[0]}],
        },
        "podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []},
    }
    affinity = deployment(rendered(helm, f"--set-json=affinity={json.dumps(wished)}"))["spec"]["template"]["spec"][
        "affinity"
    ]
    required = affinity["nodeAffinity"].pop("requiredDuringSchedulingIgnoredDuringExecution")
    ours = {"key": "tgp.io/provisioned", "operator": "DoesNotExist"}

    assert required["nodeSelectorTerms"] == [
        {"matchExpressions": [zone, ours]},
        {"matchFields": [fields], "matchExpressions": [ours]},
    ]
    assert affinity["podAntiAffinity"] == wished["podAntiAffinity"]
    assert affinity["nodeAffinity"] == {
        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": terms[0]}]
    }


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


def test_the_network_policy_allows_the_endpoints_of_node_groups(helm):
    """The seed's are on port 80; they were cut without a word."""
    ends = ("http://power-api/a/start", "https://power-api:8443/a/stop", "http://[fd00::1]/on", "https://10.0.0.1/off")
    names = ("scaleUpEndpoint", "scaleDownEndpoint")
    groups = [
        {"name": f"gpu-{number}", "gpuCount": 1, **dict(zip(names, ends[number : number + 2], strict=True))}
        for number in (0, 2)
    ]
    asked = ("--set=networkPolicy.enabled=true", f"--set-json=nodeGroups={json.dumps(groups)}")
    made = rendered(helm, *asked)["NetworkPolicy", "tgp-system", OPERATOR]

    assert [port["port"] for port in made["spec"]["egress"][1]["ports"]] == [443, 6443, 80, 8443]


def test_the_network_policy_allows_what_its_values_say_and_nothing_else(helm):
    """Default deny both ways: DNS, the API server, providers; probes, and HTTPS for those that may scrape."""
    key, asked = ("NetworkPolicy", "tgp-system", OPERATOR), "--set=networkPolicy.enabled=true"
    peer = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}
    rule = {"to": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]}
    usual = rendered(helm, asked)
    chosen = rendered(
        helm,
        asked,
        f"--set-json=networkPolicy.scrapeFrom={json.dumps([peer])}",
        f"--set-json=networkPolicy.egress={json.dumps([rule])}",
        "--set-json=networkPolicy.ports=[8443]",
    )[key]["spec"]
    without = rendered(helm, asked, "--set=settings.https.listen=")[key]["spec"]
    dns = {"ports": [{"port": 53, "protocol": "UDP"}, {"port": 53, "protocol": "TCP"}]}

    assert usual[key]["spec"] == {
        "podSelector": deployment(usual)["spec"]["selector"],
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [{"ports": [{"port": "probes"}]}, {"ports": [{"port": "https"}]}],
        "egress": [dns, {"ports": [{"port": 443}, {"port": 6443}]}],
    }
    assert chosen["ingress"] == [{"ports": [{"port": "probes"}]}, {"ports": [{"port": "https"}], "from": [peer]}]
    assert chosen["egress"] == [dns, {"ports": [{"port": 8443}]}, rule]
    assert without["ingress"] == [{"ports": [{"port": "probes"}]}]


def test_a_drain_leaves_a_replica_and_they_are_spread_over_hosts(usual):
    """The selectors are the Deployment's own: one that misses its pods would protect nothing."""
    selector = deployment(usual)["spec"]["selector"]
    budget = usual["PodDisruptionBudget", "tgp-system", DEPLOYMENT]["spec"]
    (spread,) = deployment(usual)["spec"]["template"]["spec"]["topologySpreadConstraints"]

    assert budget == {"maxUnavailable": 1, "unhealthyPodEvictionPolicy": "AlwaysAllow", "selector": selector}
    assert (spread["topologyKey"], spread["maxSkew"]) == ("kubernetes.io/hostname", 1)
    assert (spread["labelSelector"], spread["matchLabelKeys"]) == (selector, ["pod-template-hash"])
    assert spread["whenUnsatisfiable"] == "ScheduleAnyway", "a cluster of one node runs it, too"


def test_it_is_critical_for_the_cluster_unless_the_cluster_refuses_that(helm, usual):
    without = deployment(rendered(helm, "--set=priorityClassName="))["spec"]["template"]["spec"]

    assert deployment(usual)["spec"]["template"]["spec"]["priorityClassName"] == "system-cluster-critical"
    assert "priorityClassName" not in without


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
