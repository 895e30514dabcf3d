"""What is said about a pool: its class, its namespace, and whether any machine could satisfy it."""

from typing import Any

import pytest

from tgp.api.decoding import decode
from tgp.api.nodeclass import GPUNodeClass
from tgp.api.nodepool import GPUNodePool
from tgp.core.classes.can_buy import CANNOT_BUY
from tgp.core.model.conditions import ConditionUpdate
from tgp.core.pools.nodepool import OWNED, PoolObservation, buys_nothing, judge_pool

READY = ConditionUpdate("Ready", True, "Valid", "")


def a_class(**spec: Any) -> Any:
    spec = {"providers": [{"name": "simulated"}], **spec}
    return decode(
        GPUNodeClass, {"apiVersion": "tgp.io/v1", "kind": "GPUNodeClass", "metadata": {"name": "c"}, "spec": spec}
    )


def a_pool(requirements: list[dict[str, Any]] = (), **spec: Any) -> Any:
    template = {"spec": {"requirements": list(requirements)}}
    spec = {"nodeClassRef": {"name": "c"}, "template": template, **spec}
    return decode(
        GPUNodePool, {"apiVersion": "tgp.io/v1", "kind": "GPUNodePool", "metadata": {"name": "p"}, "spec": spec}
    )


def judged(pool: Any = None, node_class: Any = None, **changes: Any) -> dict[str, ConditionUpdate]:
    observation: dict[str, Any] = {
        "pool": pool or a_pool(),
        "node_class": node_class or a_class(),
        "class_unreadable": False,
        "class_ready": READY,
        "namespace_labels": {},
        "allowed_namespaces_required": False,
        "observing": False,
        "time_zones": frozenset({"UTC", "Europe/Berlin"}),
        **changes,
    }
    updates = judge_pool(PoolObservation(**observation))
    assert {verdict.type for verdict in updates} <= OWNED
    return {verdict.type: verdict for verdict in updates}


def needs(key: str, *values: str, operator: str = "In") -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


def test_a_pool_with_a_ready_class_is_ready():
    updates = judged()

    assert (updates["Ready"].status, updates["Ready"].reason) == (True, "Valid")
    assert updates.keys() == {"Ready"}


@pytest.mark.parametrize(
    ("changes", "status", "reason"),
    [
        ({"node_class": None, "class_ready": None}, False, "NodeClassNotFound"),
        ({"node_class": None, "class_unreadable": True, "class_ready": None}, False, "NodeClassUnreadable"),
        ({"class_ready": None}, None, "NodeClassNotSeen"),
        ({"class_ready": ConditionUpdate("Ready", False, "CredentialsMissing", "x")}, False, "NodeClassNotReady"),
        ({"class_ready": ConditionUpdate("Ready", True, "Suspended", "x")}, True, "NodeClassSuspended"),
        ({"allowed_namespaces_required": True}, False, "NamespaceNotAllowed"),
    ],
)
def test_a_pool_is_what_its_class_lets_it_be(changes, status, reason):
    observation = {
        "pool": a_pool(),
        "node_class": a_class(),
        "class_unreadable": False,
        "class_ready": READY,
        "namespace_labels": {},
        "allowed_namespaces_required": False,
        "observing": False,
        "time_zones": frozenset(),
        **changes,
    }
    verdict = judge_pool(PoolObservation(**observation))[0]

    assert (verdict.type, verdict.status, verdict.reason) == ("Ready", status, reason)


def test_a_pool_of_a_class_that_cannot_buy_names_its_own_requirements_too():
    """What would let the class buy helps the pool only if the pool allows it."""
    cannot = ConditionUpdate("Ready", False, CANNOT_BUY, "no offer. To fix: add provider acme.")
    narrow = a_pool(template={"spec": {"requirements": [needs("tgp.io/gpu-type", "RTX4090")]}})

    said = [judged(pool=pool, class_ready=cannot)["Ready"].message for pool in (a_pool(), narrow)]

    assert said[0].endswith("no offer. To fix: add provider acme.")
    assert said[1] == f"{said[0]} The requirements of this pool must allow it, too: tgp.io/gpu-type."


def test_a_class_may_choose_the_namespaces_it_serves():
    picky = a_class(
        allowedNamespaces={
            "matchLabels": {"team": "ml"},
            "matchExpressions": [{"key": "stage", "operator": "NotIn", "values": ["prod"]}],
        }
    )

    assert judged(node_class=picky)["Ready"].reason == "NamespaceNotAllowed"
    assert judged(node_class=picky, namespace_labels={"team": "ml"})["Ready"].reason == "Valid"
    assert judged(node_class=picky, namespace_labels=None)["Ready"].reason == "NamespaceNotSeen"
    assert judged(node_class=picky, namespace_labels={"team": "ml", "stage": "prod"})["Ready"].reason == (
        "NamespaceNotAllowed"
    )
    assert judged(node_class=picky, namespace_labels={"team": "ml"}, allowed_namespaces_required=True)[
        "Ready"
    ].reason == ("Valid")


@pytest.mark.parametrize(
    ("requirements", "class_spec", "words"),
    [
        ([needs("tgp.io/gpu-type", "RTX4090"), needs("tgp.io/gpu-type", "RTX3090")], {}, "contradict each other"),
        ([needs("tgp.io/gpu-type", "RTX4090")], {"instanceRequirements": {"gpuTypes": ["RTX3090"]}}, "only RTX3090"),
        ([needs("tgp.io/region", "us-west")], {"instanceRequirements": {"regions": ["eu-west"]}}, "only eu-west"),
        ([needs("tgp.io/capacity-type", "spot")], {}, "only on-demand"),
        ([needs("tgp.io/spot", "true")], {}, "only false"),
        ([needs("tgp.io/provider", "runpod")], {}, "only simulated"),
        (
            [needs("tgp.io/gpu-memory", "24", operator="Lt")],
            {"instanceRequirements": {"minGPUMemoryGiB": 48}},
            "at least 48",
        ),
    ],
)
def test_what_no_machine_could_satisfy_is_said(requirements, class_spec, words):
    verdicts = judged(a_pool(requirements), a_class(**class_spec))

    assert (verdicts["Unsatisfiable"].status, verdicts["Unsatisfiable"].reason) == (True, "NoSuchMachine")
    assert words in verdicts["Unsatisfiable"].message
    assert (verdicts["Ready"].status, verdicts["Ready"].reason) == (False, "Unsatisfiable")
    assert verdicts["Ready"].message == verdicts["Unsatisfiable"].message
    assert buys_nothing(verdicts["Ready"])


@pytest.mark.parametrize(
    ("requirements", "class_spec"),
    [
        ([needs("tgp.io/gpu-type", "A100-80GB-SXM")], {"instanceRequirements": {"gpuTypes": ["A100"]}}),
        ([needs("tgp.io/gpu-type", "A100")], {"instanceRequirements": {"gpuTypes": ["A100-80GB-SXM"]}}),
        ([needs("tgp.io/gpu-type", "rtx 4090")], {"instanceRequirements": {"gpuTypes": ["RTX4090"]}}),
        ([needs("tgp.io/spot", "true")], {"instanceRequirements": {"spotAllowed": True}}),
        ([needs("tgp.io/gpu-type", "RTX3090", operator="NotIn")], {}),
        ([needs("tgp.io/region", "us-west")], {"instanceRequirements": {"regions": ["US"]}}),  # a country
        ([needs("tgp.io/region", "us-west")], {"instanceRequirements": {"regions": ["US-CA-2"]}}),  # a provider's name
    ],
)
def test_a_family_a_spelling_and_a_permission_are_no_contradiction(requirements, class_spec):
    assert "Unsatisfiable" not in judged(a_pool(requirements), a_class(**class_spec))


def test_a_ceiling_of_nothing_is_for_owned_machines_only():
    machine = {
        "name": "box",
        "gpuCount": 1,
        "scaleUpEndpoint": "http://power/on",
        "scaleDownEndpoint": "http://power/off",
    }
    owned = a_class(providers=[{"name": "webhook", "settings": {"machines": [machine]}}])

    assert "maxHourlyPrice" in judged(a_pool(maxHourlyPrice="0"))["Unsatisfiable"].message
    assert "Unsatisfiable" not in judged(a_pool(maxHourlyPrice="0"), owned)


def test_a_pool_that_observes_says_so():
    assert judged(a_pool(mode="Observe"))["Observing"].status is True
    assert judged(observing=True)["Observing"].status is True
    assert "Observing" not in judged()


def test_an_unknown_gpu_keeps_the_pool_from_being_ready():
    verdict = judged(a_pool([needs("tgp.io/gpu-type", "RTX409")]))["Ready"]

    assert verdict.reason == "InvalidSpec"
    assert "RTX4090" in verdict.message


@pytest.mark.parametrize("operator", ["In", "NotIn"])
def test_an_unknown_region_keeps_the_pool_from_being_ready(operator):
    verdict = judged(a_pool([needs("tgp.io/region", "us-wst", operator=operator)]))["Ready"]

    assert (verdict.status, verdict.reason) == (False, "InvalidSpec")
    assert 'requirements[0].values[0]: Invalid value: "us-wst": is an unknown region; did you mean us-west' in (
        verdict.message
    )
    assert judged(a_pool([needs("topology.kubernetes.io/region", "homelab")]))["Ready"].reason == "Valid"


def test_money_among_the_resources_keeps_the_pool_from_being_ready():
    verdict = judged(a_pool(limits={"resources": {"usd": 4, "nodes": 2}}))["Ready"]

    assert verdict.reason == "InvalidSpec"
    assert "spec.limits.resources[usd]: Forbidden: is not counted" in verdict.message
    assert "limits.maxHourlyCost" in verdict.message


def test_a_resource_that_no_limit_counts_keeps_the_pool_from_being_ready():
    verdict = judged(a_pool(limits={"resources": {"gpu": 1, "amd.com/gpu": 2, "memory": "1Ti"}}))["Ready"]

    assert verdict.reason == "InvalidSpec"
    assert verdict.message.startswith("spec.limits.resources[gpu]: Forbidden: is not counted; did you mean nvidia.com/")


def test_an_unknown_time_zone_keeps_the_pool_from_being_ready():
    budget = {"nodes": 0, "schedule": "0 9 * * 1-5", "duration": "8h", "timeZone": "Mars/Olympus"}
    verdict = judged(a_pool(disruption={"budgets": [budget]}))["Ready"]

    assert verdict.reason == "InvalidSpec"
    assert "timeZone" in verdict.message
