"""`tgp import`: manifests on standard output, the report on standard error; and `tgp check -f`, which checks them."""

import json

import pytest
from ruamel.yaml import YAML

from tests.cli.program import answer
from tests.core.migration.test_conversion import ANCESTORS, FILES, SEEDS

POOL = "apiVersion: tgp.io/v1\nkind: GPUNodePool\nmetadata: {name: a, namespace: b}\nspec: {nodeClassRef: {name: c}}\n"
TUNNEL = (
    "apiVersion: tgp.io/v1\nkind: GPUNodeClass\nmetadata: {name: a}\nspec:\n  providers: [{name: vultr}]\n"
    "  networking: {backend: wireguard}\n  talosConfig: {wireGuardConfig: {addressPool: 10.8.0.0/24}}\n"
)


@pytest.fixture
def written(tmp_path):
    def write(text: str) -> str:
        file = tmp_path / "file.yaml"
        file.write_text(text)
        return str(file)

    return write


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_the_output_of_an_import_passes_the_check(file, written):
    imported = answer("import", str(file))
    if imported.stdout.count("kind: ") == 0:
        assert "# Helm values for deploy/charts/tgp-operator" in imported.stdout
        return
    checked = answer("check", "-f", written(imported.stdout))

    assert checked.returncode == 0, checked.stdout
    assert "all would be accepted" in checked.stdout


def test_the_report_goes_to_standard_error_and_the_code_says_whether_all_was_converted():
    whole = answer("import", str(ANCESTORS / "k8s-gpu-autoprovision-values.yaml"))
    part = answer("import", str(ANCESTORS / "tgp-operator-request-wireguard.yaml"))

    assert (whole.returncode, part.returncode) == (0, 1)
    assert "2 objects written; 4 differences in behaviour. Nothing was applied." in whole.stderr
    assert "FIELD" not in whole.stdout
    assert "not converted spec.talosConfig.wireGuardConfig.privateKey" in part.stdout, "as a comment, too"
    assert "| tgp check -f -" in whole.stderr


def test_a_class_with_a_tunnel_becomes_one_with_a_tailnet_which_passes_the_check(written):
    """As docs/migrating-from-wireguard.md does it."""
    keeps = answer("import", written(TUNNEL))
    imported = answer("import", "--mesh", "tailscale", written(TUNNEL))
    (node_class,) = YAML(typ="safe").load_all(imported.stdout)
    checked = answer("check", "-f", written(imported.stdout))

    assert (keeps.returncode, imported.returncode, checked.returncode) == (0, 0, 0), imported.stderr + checked.stdout
    assert "wireGuardConfig:" in keeps.stdout
    assert node_class["spec"]["networking"] == {"backend": "tailscale"}
    assert node_class["spec"]["tailscaleConfig"] == {"tags": ["tag:tgp-gpu"]}
    assert "docs/migrating-from-wireguard.md" in imported.stderr


def test_both_as_one_document():
    result = answer("import", str(ANCESTORS / "gpu-k8s-operator-budgets.yaml"), "-o", "json")
    document = json.loads(result.stdout)

    assert (document["apiVersion"], document["kind"]) == ("cli.tgp.io/v1", "ImportReport")
    assert [each["metadata"]["name"] for each in document["objects"]] == ["gpuworkloadbudget-sample", "bench"]
    assert {each["outcome"] for each in document["fields"]} == {"changed"}
    assert document["exitCode"] == result.returncode == 0
    assert result.stderr == ""


def test_files_that_cannot_be_read_are_named_all_and_nothing_is_written(written):
    bad = written("nodeGroups:\n\t- name: a\n")
    result = answer("import", bad, str(ANCESTORS / "gpu-k8s-operator-budgets.yaml"))

    assert result.returncode == 2
    assert result.stdout == ""
    assert f"{bad} line 2: is not valid YAML: a tab where spaces must indent. Correct this line" in result.stderr
    assert answer("import", "/nowhere.yaml").returncode == 2


def test_a_template_stays_readable():
    result = answer("import", str(SEEDS / "readme-gpunodeclass.yaml"))
    manifest = YAML(typ="safe", pure=True).load(result.stdout)

    assert "    machineConfigTemplate: |\n      version: v1alpha1\n" in result.stdout
    assert "{{.MachineToken}}" in manifest["spec"]["talosConfig"]["machineConfigTemplate"]


def test_the_check_of_a_file_names_every_problem(written):
    result = answer("check", "-f", written(POOL.replace("{name: c}", "{name: c}, wait: 5, weight: 101")))

    assert result.returncode == 1
    assert "✗ GPUNodePool b/a" in result.stdout
    assert "spec.wait: Forbidden: unknown field" in result.stdout
    assert "spec.weight: Invalid value" in result.stdout
    assert "1 object of tgp: 1 would be refused by the API server." in result.stdout


def test_the_check_of_a_file_tells_what_is_refused_from_what_would_not_work(written):
    """The API server creates the second one, and the controller marks it."""
    never = "disruption: {budgets: [{nodes: '1', schedule: '0 0 30 2 *', duration: 1h}]}"
    base = POOL.replace("{name: c}", f"{{name: c}}, {never}")
    file = written(f"{POOL.replace('{name: c}', '{name: c}, weight: 101')}\n---\n{base}\n---\n{POOL}")
    result = answer("check", "-f", file)
    summary = (
        "3 objects of tgp: 1 would be refused by the API server; 1 would be accepted, but would not work (Ready=False)."
    )

    assert result.returncode == 1
    assert summary in " ".join(result.stdout.split())
    assert "): refused by the API server" in result.stdout
    assert "): accepted, but would not work (Ready=False)" in " ".join(result.stdout.split())
    document = json.loads(answer("check", "-f", file, "-o", "json").stdout)
    assert [each["verdict"] for each in document["objects"]] == ["Refused", "NotReady", "Accepted"]


def test_the_check_of_a_file_passes_over_what_is_not_ours(written):
    file = written(f"apiVersion: v1\nkind: Secret\nmetadata: {{name: s}}\n---\n{POOL}")
    result = answer("check", "-f", file)

    assert result.returncode == 0
    assert "Secret s" in result.stdout
    assert "not looked at" in result.stdout
    assert f"next: tgp kubectl apply -f {file}" not in result.stdout
    assert f"kubectl apply -f {file}" in result.stdout
    document = json.loads(answer("check", "-f", file, "-o", "json").stdout)
    assert document["kind"] == "ManifestReport"
    assert [each["checked"] for each in document["objects"]] == [False, True]
    assert [each["verdict"] for each in document["objects"]] == [None, "Accepted"]


def test_the_check_of_a_file_without_our_objects_or_without_yaml_is_no_success(written):
    assert answer("check", "-f", written("apiVersion: v1\nkind: Secret\n")).returncode == 1
    broken = answer("check", "-f", written("a: [\n"))
    assert broken.returncode == 2
    assert "Correct this line" in broken.stderr


def test_a_request_is_held_to_a_class_of_the_same_files(written):
    mesh = "tailscaleConfig: {tags: ['tag:b']}"
    text = (
        "apiVersion: tgp.io/v1\nkind: GPUNodeClass\nmetadata: {name: c}\nspec:\n  providers: [{name: vultr}]\n"
        "  tailscaleConfig: {tags: ['tag:a']}\n---\n"
        "apiVersion: tgp.io/v1\nkind: GPURequest\nmetadata: {name: r, namespace: ml}\n"
        f"spec: {{gpuType: A100, nodeClassRef: {{name: c}}, talosConfig: {{{mesh}}}}}\n"
    )
    result = answer("check", "-f", written(text))

    assert result.returncode == 1
    assert "tag:b is not among the class's tags: tag:a" in " ".join(result.stdout.split())
    assert answer("check", "-f", written(text.replace("tag:b", "tag:a"))).returncode == 0


def test_a_file_is_judged_as_the_controllers_would(written):
    """Namespaces and classes of the same file, time zones; the table of each rule is in tests/core/reports."""
    text = (
        "apiVersion: v1\nkind: Namespace\nmetadata: {name: ml, labels: {team: y}}\n---\n"
        "apiVersion: tgp.io/v1\nkind: GPUNodeClass\nmetadata: {name: c}\nspec:\n  providers: [{name: vultr}]\n"
        "  instanceRequirements: {gpuTypes: [A100]}\n  allowedNamespaces: {matchLabels: {team: x}}\n---\n"
        "apiVersion: tgp.io/v1\nkind: GPUNodePool\nmetadata: {name: p, namespace: ml}\nspec:\n"
        "  nodeClassRef: {name: c}\n  template: {spec: {requirements: "
        "[{key: tgp.io/gpu-type, operator: In, values: [H100]}]}}\n"
        '  disruption: {budgets: [{nodes: "1", schedule: "0 0 * * *", duration: 1h, timeZone: Mars/Olympus}]}\n'
    )
    result = answer("check", "-f", written(text))
    said = " ".join(result.stdout.split())

    assert result.returncode == 1
    assert '"Mars/Olympus": is not an IANA time zone' in said
    assert "GPUNodeClass c does not allow this namespace" in said
    assert "tgp.io/gpu-type: the class has only A100-" in said
