"""Files of the three ancestors, as they wrote them: what comes out is valid, and what is left out is named."""

from pathlib import Path

import pytest

from tgp.core.classes.manifest_validation import problems_of
from tgp.core.migration.conversion import ImportResult, convert_files
from tgp.core.migration.field_notes import FieldOutcome
from tgp.core.migration.kind_import import ImportSettings

ANCESTORS = Path(__file__).parent / "ancestors"
SEEDS = Path(__file__).parents[3] / "deploy" / "examples" / "seeds"
FILES = sorted([*ANCESTORS.iterdir(), *SEEDS.glob("*.yaml")])
SETTINGS = ImportSettings("default", "tgp-system", containers={"runpod": "RunPod"})
TAILSCALE = ImportSettings("default", "tgp-system", to_tailscale=True)
KEY = "aGVsbG9oZWxsb2hlbGxvaGVsbG9oZWxsb2hlbGxvMTI="


def converted(*files: Path, settings: ImportSettings = SETTINGS) -> ImportResult:
    return convert_files([(file.name, file.read_text()) for file in files], settings)


def of_text(text: str, settings: ImportSettings = SETTINGS) -> ImportResult:
    return convert_files([("file", text)], settings)


def said(result: ImportResult, outcome: FieldOutcome = FieldOutcome.NOT_CONVERTED) -> dict[str, str]:
    return {note.field: note.message for note in result.all_notes if note.outcome is outcome}


def manifests(result: ImportResult) -> list[dict]:
    return [draft.manifest for draft in result.drafts if draft.written]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
@pytest.mark.parametrize("settings", [SETTINGS, TAILSCALE], ids=["keep", "tailscale"])
def test_what_comes_out_of_an_ancestor_s_file_is_accepted(file, settings):
    result = converted(file, settings=settings)

    assert result.unreadable == []
    assert manifests(result) or result.values
    assert [problems_of(manifest) for manifest in manifests(result)] == [()] * len(manifests(result))


@pytest.mark.parametrize(
    "name",
    [
        "gpu-k8s-operator-budgets.yaml",
        "gpu-k8s-operator-values.yaml",
        "k8s-gpu-autoprovision-defaults.yaml",
        "k8s-gpu-autoprovision-deployment.yaml",
        "k8s-gpu-autoprovision-docker.sh",
        "k8s-gpu-autoprovision-values.yaml",
        "k8s-gpu-autoprovision-variables.sh",
        "tgp-operator-values.yaml",
    ],
)
def test_what_the_ancestors_ship_is_converted_completely(name):
    assert converted(ANCESTORS / name).complete


def test_machines_are_the_same_from_values_variables_and_the_chart_s_own_names():
    ways = ["values.yaml", "variables.sh"]
    of_values, of_variables = (manifests(converted(ANCESTORS / f"k8s-gpu-autoprovision-{way}")) for way in ways)
    of_chart = manifests(converted(ANCESTORS / "k8s-gpu-autoprovision-deployment.yaml"))

    assert of_values == of_variables
    machines = of_values[0]["spec"]["providers"][0]["settings"]["machines"]
    assert [machine["name"] for machine in machines] == ["gpu-worker-1", "gpu-worker-2"]
    assert of_chart[0]["spec"]["providers"][0]["settings"]["machines"] == machines[:1]
    assert "annotations" not in of_values[0]["metadata"], "the operator does not keep them in step: they are a user's"


def test_a_bad_machine_does_not_lose_the_others():
    result = of_text(
        "nodeGroups:\n"
        "- {name: a, gpuCount: 4, scaleUpEndpoint: 'http://p/a', scaleDownEndpoint: 'http://p/b', rack: 7}\n"
        "- {name: b, gpuCount: many, scaleUpEndpoint: 'http://p/a', scaleDownEndpoint: 'http://p/b'}\n"
        "- {name: a, gpuCount: 1, scaleUpEndpoint: 'http://p/a', scaleDownEndpoint: 'http://p/b'}\n"
        "- 7\n"
    )

    assert [each["name"] for each in manifests(result)[0]["spec"]["providers"][0]["settings"]["machines"]] == ["a"]
    assert said(result) == {
        "nodeGroups[0].rack": "is no field of a machine.",
        "nodeGroups[1].gpuCount": "'many' is not a number of GPUs between 1 and 1024.",
        "nodeGroups[2]": "a is named twice; the first one was kept.",
        "nodeGroups[3]": "not a mapping with name, gpuCount, scaleUpEndpoint, scaleDownEndpoint.",
    }
    assert not result.complete


def test_every_field_of_a_bad_machine_is_named_at_once():
    wrong = {"A_GPU_COUNT": "four", "A_SCALE_UP_ENDPOINT": "ftp://p/up"}
    variables = {"A_NAME": "a", "A_SCALE_DOWN_ENDPOINT": "http://p/down", **wrong}
    by_variable = of_text("".join(f"{name}={value}\n" for name, value in variables.items()))
    row = "{name: a, gpuCount: four, scaleUpEndpoint: 'ftp://p/up', scaleDownEndpoint: 'http://p/down'}"
    by_row = of_text(f"nodeGroups:\n- {row}\n")

    assert set(said(by_variable)) == set(wrong)
    assert "'four' is not a number of GPUs" in said(by_variable)["A_GPU_COUNT"]
    assert set(said(by_row)) == {"nodeGroups[0].gpuCount", "nodeGroups[0].scaleUpEndpoint"}


def test_half_a_machine_and_an_api_key_among_variables_are_named_without_their_values():
    result = of_text("A_NAME=a\nA_GPU_COUNT=2\nVULTR_API_KEY=hunter2\nOTHER=x\n")

    assert manifests(result) == []
    assert "missing: A_SCALE_UP_ENDPOINT, A_SCALE_DOWN_ENDPOINT" in said(result)["A_NAME"]
    assert "tgp init asks for it" in said(result)["VULTR_API_KEY"]
    assert set(said(result)) == {"A_NAME", "VULTR_API_KEY", "OTHER"}
    assert "hunter2" not in str(result)


def test_mesh_settings_of_a_request_become_a_class():
    result = converted(ANCESTORS / "tgp-operator-request-wireguard-secrets.yaml")
    node_class, request = manifests(result)

    assert node_class["kind"] == "GPUNodeClass"
    assert node_class["spec"]["talosConfig"]["wireGuardConfig"]["addressSecretRef"]["key"] == "address"
    assert request["spec"]["nodeClassRef"] == {"name": node_class["metadata"]["name"]}
    assert "talosConfig" not in request["spec"]
    assert "namespace tgp-system" in said(result)[""], "the Secret has to be where tgp reads it"


def test_a_tunnel_is_replaced_by_a_tailnet_on_request():
    result = converted(ANCESTORS / "tgp-operator-request-wireguard.yaml", settings=TAILSCALE)
    node_class, _ = manifests(result)

    assert node_class["spec"]["tailscaleConfig"] == {"tags": ["tag:tgp-gpu"]}
    assert "wireGuardConfig" not in str(node_class)
    assert set(said(result)) == {"spec.talosConfig.image"}


def test_a_class_that_names_its_tunnel_names_the_tailnet_then():
    text = (
        "apiVersion: tgp.io/v1\nkind: GPUNodeClass\nmetadata: {name: a}\nspec:\n  providers: [{name: vultr}]\n"
        "  networking: {backend: wireguard}\n  talosConfig: {wireGuardConfig: {addressPool: 10.8.0.0/24}}\n"
    )

    assert of_text(text).complete
    result = of_text(text, TAILSCALE)
    assert result.complete
    assert manifests(result)[0]["spec"] == {
        "providers": [{"name": "vultr"}],
        "networking": {"backend": "tailscale"},
        "tailscaleConfig": {"tags": ["tag:tgp-gpu"]},
    }


def test_of_a_tailnet_a_request_keeps_its_name_and_tags():
    node_class, request = manifests(converted(ANCESTORS / "tgp-operator-request-tailscale.yaml"))

    assert request["spec"]["talosConfig"]["tailscaleConfig"] == {
        "hostname": "secure-gpu-node",
        "tags": ["tag:k8s", "tag:gpu"],
    }
    assert node_class["spec"]["tailscaleConfig"]["acceptRoutes"] is True
    assert "hostname" not in node_class["spec"]["tailscaleConfig"]


def test_early_names_get_today_s():
    result = converted(ANCESTORS / "tgp-operator-request-early.yaml")
    by_name = {each["metadata"]["name"]: each for each in manifests(result) if each["kind"] == "GPURequest"}

    assert by_name["my-gpu-workload-vast"]["spec"]["provider"] == "vast"
    assert by_name["my-gpu-workload-price"]["spec"]["maxHourlyPrice"] == "2"
    assert by_name["spot-training-job"]["spec"]["spot"] is True
    assert by_name["region-aware-job"]["spec"]["regions"] == ["us-west-1", "us-east-1", "eu-west-1"]
    assert by_name["region-aware-job"]["apiVersion"] == "tgp.io/v1"
    assert "spec.maxSpotPrice" in said(result)


def test_a_key_in_a_tunnel_goes_into_a_secret_and_is_never_quoted():
    result = of_text(
        "apiVersion: tgp.io/v1\nkind: GPUNodeClass\nmetadata: {name: a}\nspec:\n  providers: [{name: vultr}]\n"
        f"  talosConfig: {{wireGuardConfig: {{privateKey: {KEY}, publicKey: {KEY}, serverEndpoint: 'h:1'}}}}\n"
    )

    secret, node_class = manifests(result)
    tunnel = node_class["spec"]["talosConfig"]["wireGuardConfig"]
    assert "privateKey" not in tunnel
    assert tunnel["privateKeySecretRef"] == {"name": "a-wireguard", "key": "privateKey"}
    assert (secret["kind"], secret["metadata"]) == ("Secret", {"namespace": "tgp-system", "name": "a-wireguard"})
    assert secret["stringData"] == {"privateKey": KEY}
    assert result.complete
    assert not [note for note in result.all_notes if KEY in note.message]


def test_the_key_of_a_request_goes_into_a_secret_too_before_its_class():
    result = of_text(
        "apiVersion: tgp.io/v1\nkind: GPURequest\nmetadata: {name: a, namespace: b}\nspec:\n  gpuType: A100\n"
        "  provider: vultr\n"
        f"  talosConfig: {{wireGuardConfig: {{privateKey: {KEY}, publicKey: {KEY}, serverEndpoint: 'h:1'}}}}\n"
    )

    kinds = [each["kind"] for each in manifests(result)]
    assert kinds == ["Secret", "GPUNodeClass", "GPURequest"]
    assert KEY not in str(manifests(result)[2])
    assert str(manifests(result)[1]).count(KEY) == 1, "the public key, which is the same here"


def test_an_unknown_field_is_left_out_and_named_with_the_nearest():
    result = of_text(
        "apiVersion: tgp.io/v1\nkind: GPUNodePool\nmetadata: {name: a, namespace: b}\n"
        "spec: {nodeClassRef: {kind: GPUNodeClass, name: c}, maxHourlyPrise: '2', disruption: {consolidationPolicy: "
        "WhenIdle}}\n"
    )

    assert said(result) == {"spec.maxHourlyPrise": "unknown field; did you mean maxHourlyPrice? It was left out."}
    assert manifests(result)[0]["spec"]["disruption"] == {"consolidationPolicy": "WhenEmpty"}


def test_a_budget_that_cannot_be_one_of_ours_is_left_out_and_said():
    result = of_text(
        "apiVersion: budget.zxuhan.dev/v1alpha1\nkind: GPUWorkloadBudget\nmetadata: {name: a}\nspec:\n"
        "  selector: {matchLabels: {a: b}}\n  quota: {gpuHours: 1, windowHours: 9000}\n"
        "  enforcement: {action: Evict, gracePeriodSeconds: 5}\n"
    )

    assert manifests(result) == []
    assert len(result.drafts) == 1
    assert "spec.quota.windowHours" in said(result)
    assert "podGracePeriodSeconds: 5" in said(result, FieldOutcome.CHANGED)["spec.enforcement.gracePeriodSeconds"]


def test_an_object_as_kubectl_prints_it_loses_what_the_server_wrote():
    result = of_text(
        "apiVersion: v1\nkind: List\nitems:\n- apiVersion: tgp.io/v1\n  kind: GPURequest\n"
        "  metadata: {name: a, namespace: b, uid: x, resourceVersion: '7', finalizers: [tgp.io/finalizer], "
        "annotations: {kubectl.kubernetes.io/last-applied-configuration: '{}'}}\n"
        "  spec: {gpuType: A100, ttl: 4h}\n  status: {phase: Ready}\n"
    )

    assert manifests(result) == [
        {
            "apiVersion": "tgp.io/v1",
            "kind": "GPURequest",
            "metadata": {"name": "a", "namespace": "b"},
            "spec": {"gpuType": "A100", "maxLifetime": "4h"},
        }
    ]
    assert result.complete


def test_an_operator_s_config_becomes_the_default_class():
    text = (ANCESTORS / "tgp-operator-values.yaml").read_text().replace("enabled: false", "enabled: true", 1)
    result = of_text(text)
    (node_class,) = manifests(result)

    assert node_class["metadata"]["annotations"] == {"tgp.io/is-default-class": "true"}
    assert [each["name"] for each in node_class["spec"]["providers"]] == ["vultr"]
    assert node_class["spec"]["tailscaleConfig"]["oauthCredentialsSecretRef"]["name"] == "tgp-operator-secret"
    assert result.complete


def test_values_that_have_no_place_are_named():
    result = of_text("replicaCount: 2\npodLabels: {team: a}\naffinity: {}\nmetrics: {extra: {deep: 1}}\n")

    assert result.values == {"replicas": 2}
    assert set(said(result)) == {"podLabels.team", "metrics.extra.deep"}


def test_anchors_are_written_out():
    result = of_text(
        "nodeGroups:\n- &first {name: a, gpuCount: 4, scaleUpEndpoint: 'http://p/a', scaleDownEndpoint: 'http://p/b'}\n"
        "- {<<: *first, name: b}\n"
    )

    machines = manifests(result)[0]["spec"]["providers"][0]["settings"]["machines"]
    assert [(machine["name"], machine["gpuCount"]) for machine in machines] == [("a", 4), ("b", 4)]


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("nodeGroups:\n\t- name: a\n", 2, "a tab where spaces must indent"),
        ("nodeGroups: *nothing\n", 1, "refers to an anchor that is not defined before it"),
        ("a: 1\na: 2\n", 2, "is a duplicate key: keep one of the two"),
        ("kind: [\n", 2, "is not valid YAML"),
        ("- 1\n- 2\n", 1, "is not a mapping"),
        ("colour: red\n", 1, "none of its keys (colour)"),
        ("just some words\nover two lines\n", 1, "is not a mapping"),
        ("", 0, "is empty"),
        ("a: &a [*a]\n", 1, "refers to an anchor"),
    ],
)
def test_what_cannot_be_read_is_said_with_its_line_and_what_to_do(text, line, words):
    (problem,) = of_text(text).unreadable

    assert problem.line == line
    assert words in problem.why


@pytest.mark.parametrize(
    ("kind", "outcome"),
    [
        ("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {x: y}\n", FieldOutcome.NOT_CONVERTED),
        ("apiVersion: tgp.io/v1\nkind: GPUThing\nmetadata: {name: a}\n", FieldOutcome.NOT_CONVERTED),
        ("apiVersion: tailscale.com/v1\nkind: TailscaleDevice\nmetadata: {name: a}\n", FieldOutcome.UNNEEDED),
        ("kind: 7\n", FieldOutcome.NOT_CONVERTED),
        ("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec: {}\n", FieldOutcome.NOT_CONVERTED),
    ],
)
def test_a_kind_that_tgp_does_not_have_is_named_and_the_rest_goes_on(kind, outcome):
    result = of_text(
        f"{kind}---\napiVersion: tgp.io/v1\nkind: GPURequest\nmetadata: {{name: a}}\nspec: {{gpuType: A100}}\n"
    )

    assert len(manifests(result)) == 1
    assert result.notes[0].outcome is outcome
    assert result.notes[0].line == 1


def test_two_objects_of_one_name_do_not_replace_each_other():
    one = "apiVersion: tgp.io/v1\nkind: GPURequest\nmetadata: {name: a}\nspec: {gpuType: A100, maxLifetime: 1h}\n"
    other = one.replace("1h", "2h")

    assert of_text(f"{one}---\n{one}").complete
    twice = of_text(f"{one}---\n{other}")
    assert len(manifests(twice)) == 1
    assert "rename one of the two" in said(twice)["metadata.name"]


def test_a_secret_of_another_namespace_must_be_copied():
    result = of_text(
        "apiVersion: tgp.io/v1\nkind: GPUNodeClass\nmetadata: {name: a, namespace: x}\nspec:\n  providers:\n"
        "  - {name: lambda, credentialsRef: {name: keys, key: k, namespace: other}}\n"
        "  - {name: vultr, credentialsRef: {name: keys, key: k, namespace: tgp-system}}\n"
    )

    assert said(result) == {
        "spec.providers[0].credentialsRef.namespace": "Secrets are only read in namespace tgp-system: copy Secret keys "
        "from other there."
    }
    assert manifests(result)[0]["spec"]["providers"][0]["name"] == "lambdalabs"
