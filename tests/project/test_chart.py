"""The chart: its generated files follow their sources, Helm accepts it, and wrong values are refused by name."""

import json
from typing import Any

import pytest
from ruamel.yaml import YAML

from tgp import __version__
from tgp.app import settings
from tools import manifests, toolbox
from tools.controlplane.fixtures import say_past_capturing
from tools.controlplane.helm import Helm, HelmFailed

NEWEST, OLDEST = "1.36.0", "1.28.0"
LONGEST_RELEASE = "r" * 53  # Helm takes no longer name
POLICY_KINDS = ("ValidatingAdmissionPolicy", "MutatingAdmissionPolicy")
CLUSTER_WIDE = ("ClusterRole", "ClusterRoleBinding", *POLICY_KINDS, *(f"{kind}Binding" for kind in POLICY_KINDS))
IN_OTHER_NAMESPACES = {"kube-system", "kube-node-lease"}
DEPLOYMENT = "tgp-operator-controller-manager"

Manifest = dict[str, Any]
Objects = dict[tuple[str, str, str], Manifest]  # by kind, namespace, name


@pytest.fixture(scope="module")
def helm(pytestconfig, tmp_path_factory) -> Helm:
    program = toolbox.find(toolbox.HELM_CLIENT, say=lambda line: say_past_capturing(pytestconfig, line))
    return Helm(program, tmp_path_factory.mktemp("helm"))


def rendered(
    helm: Helm, *options: str, release: str = "tgp", namespace: str = "tgp-system", kubernetes: str = NEWEST
) -> Objects:
    command = ("template", release, str(manifests.CHART), f"--namespace={namespace}", f"--kube-version={kubernetes}")
    return by_name(helm(*command, *options))


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


@pytest.mark.parametrize(("path", "text"), manifests.generated().items(), ids=lambda part: getattr(part, "name", ""))
def test_generated_files_follow_their_sources(path, text):
    assert path.read_text() == text, "run make manifests"


def test_the_kinds_are_those_that_are_applied_by_hand():
    applied = {path.name: path.read_text() for path in (manifests.ROOT / "deploy" / "crds").glob("*.yaml")}

    assert {path.name: path.read_text() for path in (manifests.CHART / "crds").iterdir()} == applied


def test_one_file_installs_what_the_chart_does(helm):
    assert manifests.INSTALL.read_text() == manifests.install(helm), "run make manifests"


def test_the_chart_has_the_version_of_the_operator():
    chart = YAML(typ="safe", pure=True).load((manifests.CHART / "Chart.yaml").read_text())

    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)


def test_helm_finds_nothing_to_complain_about(helm):
    said = helm("lint", "--strict", str(manifests.CHART), f"--kube-version={NEWEST}")

    assert "0 chart(s) failed" in said


def test_the_roles_are_those_that_tests_run_the_operator_under(usual):
    for path in (manifests.ROOT / "deploy" / "rbac").glob("*.yaml"):
        for key, wanted in by_name(path.read_text()).items():
            if key[0] == "Namespace":  # --create-namespace makes it
                continue
            made = usual[key]
            labels = made["metadata"].pop("labels")
            assert made["metadata"] == {name: it for name, it in wanted["metadata"].items() if name != "labels"}
            assert wanted["metadata"].get("labels", {}).items() <= labels.items()
            assert {**made, "metadata": wanted["metadata"]} == wanted


def test_both_ends_of_what_is_supported_are_served(helm, usual):
    oldest = rendered(helm, kubernetes=OLDEST)
    only_new = {key for key in usual if "AdmissionPolicy" in key[0]}
    newest = {key for key in usual if key[0].startswith("MutatingAdmissionPolicy")}
    written = [by_name(path.read_text()) for path in (manifests.ROOT / "deploy" / "policy").glob("*.yaml")]

    assert only_new == {key for each in written for key in each}
    assert set(oldest) == set(usual) - only_new
    assert set(rendered(helm, kubernetes="1.35.0")) == set(usual) - newest
    with pytest.raises(HelmFailed, match=r"kubeVersion: >=1\.28"):
        rendered(helm, kubernetes="1.27.0")


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
    assert container["ports"] == [{"name": "http", "containerPort": 9000}]
    assert lease_rights["resourceNames"] == ["other"]


def test_every_setting_is_a_value_but_those_that_a_pod_decides():
    known = manifests.schema()["properties"]["settings"]

    def keys(schema: Manifest, prefix: str = "") -> set[str]:
        found = set()
        for name, inner in schema["properties"].items():
            found |= keys(inner, f"{prefix}{name}.") if "properties" in inner else {prefix + name}
        return found

    assert keys(known) == {row.key for row in settings.TABLE} - manifests.NOT_IN_A_POD


def test_other_settings_roll_the_pods(helm, usual):
    other = rendered(helm, "--set=settings.workers=8")

    assert deployment(other)["spec"]["template"] != deployment(usual)["spec"]["template"]


@pytest.mark.parametrize(
    ("option", "named"),
    [
        ("settings.lese.duration=30s", "lese"),
        ("settings.workers=many", "/settings/workers"),
        ("settings.keepFinished=sometimes", "/settings/keepFinished"),
        ("settings.networking.backend=tailscal", "/settings/networking/backend"),
        ("settings.leaderElect=false", "leaderElect"),
        ("settings.listen=", "/settings/listen"),
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
    objects = by_name(helm("template", "tgp", str(tmp_path), "--namespace=tgp-system"))

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
    monitored = rendered(
        helm, "--api-versions=monitoring.coreos.com/v1/ServiceMonitor", "--set=networkPolicy.enabled=true"
    )

    assert {kind for kind, _, _ in set(monitored) - set(usual)} == {"ServiceMonitor", "NetworkPolicy"}
    assert not set(usual) - set(monitored)


def test_no_secret_is_made_from_values(usual):
    assert not [key for key in usual if key[0] == "Secret"]


def test_the_image_copies_what_is_there_and_runs_as_the_chart_says(usual):
    """It is not built here: that takes an engine and a registry."""
    lines = (manifests.ROOT / "Dockerfile").read_text().splitlines()
    copied = [line.split()[1:-1] for line in lines if line.startswith("COPY ") and "--from" not in line]
    sent = (manifests.ROOT / ".dockerignore").read_text().splitlines()
    user = deployment(usual)["spec"]["template"]["spec"]["securityContext"]

    assert f"USER {user['runAsUser']}:{user['runAsGroup']}" in lines
    assert lines[-2:] == ['ENTRYPOINT ["tgp"]', 'CMD ["operator"]']
    for source in (source for sources in copied for source in sources):
        assert (manifests.ROOT / source).exists(), source
        assert any(source == kept[1:] or source.startswith(f"{kept[1:]}/") for kept in sent if kept[0] == "!"), source
