"""What is said about a class, and what keeps it from being Ready."""

from typing import Any

import pytest

from tests.core.market.offers import NOW
from tgp.api.decoding import decode
from tgp.api.nodeclass import GPUNodeClass
from tgp.core.classes.checks import conditions_of
from tgp.core.classes.nodeclass import ClassReferences
from tgp.core.classes.observation import ClassObservation
from tgp.core.joining.mesh.selection import backend_of
from tgp.core.model.class_secrets import wanted_by
from tgp.core.model.conditions import ConditionUpdate

ZONES = frozenset({"UTC", "Europe/Berlin"})
SIMULATED = [{"name": "simulated"}]
NO_MESH = {"backend": "none"}
OPERATORS = "tgp-operator-secret"


def a_class(**spec: Any) -> GPUNodeClass:
    spec = {"providers": SIMULATED, "networking": NO_MESH, **spec}
    read = decode(
        GPUNodeClass, {"apiVersion": "tgp.io/v1", "kind": "GPUNodeClass", "metadata": {"name": "c"}, "spec": spec}
    )
    assert isinstance(read, GPUNodeClass)
    return read


def judged(
    secrets: dict[str, set[str]] | None = None, default_backend: str = "", **spec: Any
) -> dict[str, ConditionUpdate]:
    present = {name: frozenset(keys) for name, keys in (secrets or {}).items()}
    references = ClassReferences(a_class(**spec), present, "tgp-system", default_backend, ZONES)
    return conditions_of(ClassObservation(references, NOW))


def test_a_class_that_needs_nothing_is_ready():
    updates = judged()

    assert updates["Ready"].reason == "Valid"
    assert updates["CredentialsValid"] == ConditionUpdate(
        "CredentialsValid", True, "NoneNeeded", "No provider of the class needs an API key."
    )
    assert "DeprecatedFields" not in updates


def test_a_suspended_class_says_so_and_stays_ready():
    verdict = judged(suspend=True)["Ready"]

    assert (verdict.status, verdict.reason) == (True, "Suspended")


def test_a_class_whose_providers_only_a_newer_version_knows_is_left_to_that_version():
    verdict = judged(providers=[{"name": "coreweave"}])["Ready"]

    assert (verdict.status, verdict.reason) == (False, "UnknownProvider")
    assert "coreweave" in verdict.message
    assert judged(providers=[{"name": "coreweave"}, *SIMULATED])["Ready"].message.endswith("providers: simulated.")


def test_a_secret_that_may_not_be_read_is_not_said_to_be_missing():
    """Who is told to create a Secret that is there looks in the wrong place."""
    references = ClassReferences(
        a_class(providers=[{"name": "runpod"}]), {}, "tgp-system", "", ZONES, frozenset({OPERATORS})
    )
    updates = conditions_of(ClassObservation(references, NOW))

    assert updates["CredentialsValid"].status is False
    assert f"may not read Secret {OPERATORS}" in updates["CredentialsValid"].message
    assert "create" not in updates["CredentialsValid"].message


def test_the_default_key_of_each_provider_is_looked_for():
    """Without a credentialsRef the operator's own Secret is meant."""
    names = ["vast.ai", "runpod", "lambda", "paperspace", "vultr", "gcp", "webhook", "simulated"]
    wanted = wanted_by(a_class(providers=[{"name": name} for name in names]), "none")

    assert [(want.secret, want.key) for want in wanted] == [
        ("tgp-operator-secret", "VAST_API_KEY"),
        ("tgp-operator-secret", "RUNPOD_API_KEY"),
        ("tgp-operator-secret", "LAMBDA_LABS_API_KEY"),
        ("tgp-operator-secret", "PAPERSPACE_API_KEY"),
        ("tgp-operator-secret", "VULTR_API_KEY"),
        ("tgp-operator-secret", "GCP_SERVICE_ACCOUNT_JSON"),
    ]


def test_money_among_the_resources_is_refused_and_its_field_named():
    verdict = judged(limits={"resources": {"usd": 4}})["Ready"]

    assert (verdict.status, verdict.reason) == (False, "InvalidSpec")
    assert "spec.limits.resources[usd]" in verdict.message
    assert "spec.limits.maxHourlyCost" in verdict.message


def test_a_resource_that_no_limit_counts_is_refused_with_the_nearest_that_one_does():
    ready = judged(limits={"resources": {"nvidia.com/gpus": 1, "gpu": 1, "node": 1, "cpu": 4}})["Ready"]

    assert (ready.status, ready.reason) == (False, "InvalidSpec")
    for said in (
        "spec.limits.resources[nvidia.com/gpus]: Forbidden: is not counted; did you mean nvidia.com/gpu?",
        "spec.limits.resources[gpu]: Forbidden: is not counted; did you mean nvidia.com/gpu, amd.com/gpu?",
        "spec.limits.resources[node]: Forbidden: is not counted; did you mean nodes?",
    ):
        assert said in ready.message
    assert "[cpu]" not in ready.message
    far = judged(limits={"resources": {"hugepages-2Mi": 1}})["Ready"].message
    assert "is not counted; these are: nvidia.com/gpu, amd.com/gpu, cpu, memory, nodes" in far


def test_everything_that_is_missing_is_said_at_once():
    """Close one gap, wait, read of the next: five rounds where one would do."""
    verdict = judged(
        providers=[{"name": "runpod"}, {"name": "vultr"}],
        tailscaleConfig={"tags": ["tag:gpu"], "oauthCredentialsSecretRef": {"name": "mesh"}},
        instanceRequirements={"gpuTypes": ["RTX9999"]},
    )["Ready"]

    assert (verdict.status, verdict.reason) == (False, "InvalidSpec")
    assert verdict.message.startswith("3 problems: (1) ")
    assert "RTX9999" in verdict.message
    assert "--from-literal=RUNPOD_API_KEY=… --from-literal=VULTR_API_KEY=…" in verdict.message
    assert "create secret generic mesh --from-literal=client-id=… --from-literal=client-secret=…" in verdict.message


def test_a_missing_secret_is_named_with_the_command_that_makes_it():
    updates = judged(providers=[{"name": "runpod", "credentialsRef": {"name": "keys", "key": "pod"}}])

    assert (updates["Ready"].status, updates["Ready"].reason) == (False, "CredentialsMissing")
    said = updates["CredentialsValid"].message
    assert "spec.providers[0].credentialsRef: Secret keys does not exist in namespace tgp-system" in said
    assert "kubectl -n tgp-system create secret generic keys --from-literal=pod=…" in said


def test_a_secret_without_the_key_is_told_apart_from_no_secret():
    updates = judged(
        {"keys": {"other"}}, providers=[{"name": "runpod", "credentialsRef": {"name": "keys", "key": "pod"}}]
    )

    assert "Secret keys has no key pod" in updates["CredentialsValid"].message
    assert "patch secret keys" in updates["CredentialsValid"].message


def test_one_provider_with_its_key_is_enough_to_be_ready():
    """A provider with a key can sell; the message names what the other one is missing."""
    updates = judged(
        {"tgp-operator-secret": {"RUNPOD_API_KEY"}}, providers=[{"name": "runpod"}, {"name": "lambdalabs"}]
    )

    assert (updates["Ready"].reason, "runpod" in updates["Ready"].message) == ("Valid", True)
    assert (updates["CredentialsValid"].status, updates["CredentialsValid"].reason) == (False, "CredentialsMissing")


def test_a_disabled_provider_needs_no_key():
    providers = [{"name": "simulated"}, {"name": "runpod", "enabled": False}]

    assert judged(providers=providers)["CredentialsValid"].reason == "NoneNeeded"


def test_keys_that_are_there_are_not_called_valid_before_they_were_checked():
    verdict = judged({"tgp-operator-secret": {"RUNPOD_API_KEY"}}, providers=[{"name": "runpod"}])["CredentialsValid"]

    assert (verdict.status, verdict.reason) == (None, "NotTried")


def test_a_reference_into_another_namespace_is_refused():
    """Secrets are only ever read from the operator's own namespace."""
    there = {"name": "keys", "key": "pod", "namespace": "elsewhere"}
    here = {**there, "namespace": "tgp-system"}

    assert judged({"keys": {"pod"}}, providers=[{"name": "runpod", "credentialsRef": there}])["Ready"].reason == (
        "ForeignNamespace"
    )
    assert judged({"keys": {"pod"}}, providers=[{"name": "runpod", "credentialsRef": here}])["Ready"].reason == "Valid"


@pytest.mark.parametrize(
    ("spec", "default", "backend"),
    [
        ({"networking": {"backend": "kubespan"}}, "none", "kubespan"),
        ({"networking": None, "tailscaleConfig": {"tags": ["tag:gpu"]}}, "none", "tailscale"),
        ({"networking": None, "tailscaleConfig": {"loginServer": "https://hs.example"}}, "none", "headscale"),
        ({"networking": None, "talosConfig": {"wireGuardConfig": {"addressPool": "10.9.0.0/24"}}}, "none", "wireguard"),
        ({"networking": None}, "kubespan", "kubespan"),
        ({"networking": None}, "", ""),
    ],
)
def test_the_mesh_is_the_chosen_one_else_the_configured_one_else_the_operators(spec, default, backend):
    spec = {name: value for name, value in {"networking": NO_MESH, **spec}.items() if value is not None}
    read = decode(
        GPUNodeClass,
        {
            "apiVersion": "tgp.io/v1",
            "kind": "GPUNodeClass",
            "metadata": {"name": "c"},
            "spec": {"providers": SIMULATED, **spec},
        },
    )

    assert backend_of(read, default) == backend


def test_without_any_mesh_nothing_could_join():
    assert judged(networking={})["Ready"].reason == "NoNetworking"
    assert judged(default_backend="kubespan", networking={})["Ready"].reason == "Valid"


def test_tailscale_without_credentials_of_its_own_wants_the_operators_oauth_client():
    spec = {"networking": {"backend": "tailscale"}, "tailscaleConfig": {"tags": ["tag:gpu"]}}
    oauth = {"tgp-operator-secret": {"client-id", "client-secret"}}

    assert judged(**spec)["Ready"].reason == "SecretMissing"
    assert judged(oauth, **spec)["Ready"].reason == "Valid"


def test_deprecated_fields_are_listed_with_the_release_that_drops_them():
    talos = {"wireGuardConfig": {"addressPool": "10.9.0.0/24"}}
    verdict = judged(networking={"backend": "wireguard"}, talosConfig=talos)["DeprecatedFields"]

    assert verdict.status is True
    assert "spec.talosConfig.wireGuardConfig" in verdict.message
    assert "Dropped in" in verdict.message


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"instanceRequirements": {"gpuTypes": ["RTX409"]}}, "did you mean RTX4090"),
        ({"talosConfig": {"machineConfigTemplate": "a: {{.ClusterNam}}"}}, "did you mean {{.ClusterName}}"),
        ({"talosConfig": {"image": "v1.2.0"}}, "v1.10 to v1.14"),
    ],
)
def test_what_the_crd_cannot_refuse_keeps_the_class_from_being_ready(spec, words):
    verdict = judged(**spec)["Ready"]

    assert verdict.reason == "InvalidSpec"
    assert words in verdict.message


def test_an_unknown_time_zone_is_refused_where_this_system_knows_any():
    machine = {
        "name": "box",
        "gpuCount": 1,
        "scaleUpEndpoint": "http://power/on",
        "scaleDownEndpoint": "http://power/off",
        "keepOn": {"schedule": "0 9 * * *", "duration": "8h", "timeZone": "Europe/Berlinn"},
    }
    verdict = judged(providers=[{"name": "webhook", "settings": {"machines": [machine]}}])["Ready"]

    assert verdict.reason == "InvalidSpec"
    assert "did you mean Europe/Berlin" in verdict.message
