"""What budgets say about new pods, and what is said where the API server cannot say it."""

from datetime import UTC, datetime

import pytest
from msgspec import structs

from tgp.api.budget import (
    CountedWeight,
    Enforcement,
    GPUWorkloadBudget,
    GPUWorkloadBudgetSpec,
    GPUWorkloadBudgetStatus,
    Quota,
)
from tgp.api.common import Condition, LabelSelector, ObjectMeta
from tgp.core.budgets.admission import (
    Admission,
    NewPod,
    PolicyState,
    admit,
    label_key,
    label_of,
    minor_of,
    unavailable,
)
from tgp.core.model.object_key import ObjectKey

KEY = ObjectKey("ml", "team-a")
NOW = datetime(2026, 11, 17, 20, tzinfo=UTC)
TEAM = {"team": "a"}
GPU = {"nvidia.com/gpu": 1000}


def a_spec(admission: str = "Deny", **more) -> GPUWorkloadBudgetSpec:
    return GPUWorkloadBudgetSpec(
        selector=LabelSelector(match_labels=TEAM),
        quota=Quota(gpu_hours=10, window_hours=24),
        enforcement=Enforcement(action="Evict", admission=admission),
        **more,
    )


def a_budget(admission: str = "Deny", *, exceeded: bool = True, label: str = "", **more) -> GPUWorkloadBudget:
    row = Condition(
        type="QuotaExceeded", status=str(exceeded), reason="QuotaReached", message="", last_transition_time=NOW
    )
    spec = a_spec(admission, **more)
    said = label or label_of(spec, exceeded=exceeded, exact=spec.accounting == "Exact")
    return GPUWorkloadBudget(
        metadata=ObjectMeta(labels={label_key(spec): said} if said else {}),
        spec=spec,
        status=GPUWorkloadBudgetStatus(consumed_gpu_hours="10.5", next_change_at=NOW, conditions=(row,)),
    )


def a_pod(labels=TEAM, milli=GPU, **more) -> NewPod:
    return NewPod("ml", labels, milli, **more)


def said(pod: NewPod, *budgets: GPUWorkloadBudget) -> Admission:
    return admit(pod, [(KEY, budget) for budget in budgets])


@pytest.mark.parametrize(
    ("admission", "exceeded", "exact", "label"),
    [
        ("Off", True, False, None),
        ("Off", True, True, "Exact"),
        ("Gate", False, False, None),
        ("Gate", True, False, "Gate"),
        ("Gate", True, True, "Gate-Exact"),
        ("Deny", False, True, "Exact"),
        ("Deny", True, False, "Deny"),
        ("Deny", True, True, "Deny-Exact"),
    ],
)
def test_a_budget_is_labelled_only_while_it_has_something_to_say(admission, exceeded, exact, label):
    assert label_of(a_spec(admission), exceeded=exceeded, exact=exact) == label


def test_a_refusal_names_the_budget_the_amounts_the_moment_and_the_next_command():
    (text,) = said(a_pod(), a_budget()).refusals
    assert text == (
        "budget ml/team-a is used up (10.5 of 10 GPU-hours): GPU-hours become available at 2026-11-17T20:00:00Z. "
        "Next: tgp why budget/ml/team-a"
    )


def test_a_refusal_names_dollars_where_they_are_limited_and_hours_on_top():
    budget = a_budget()
    budget = structs.replace(
        budget,
        spec=structs.replace(budget.spec, quota=Quota(gpu_hours=10, window_hours=24, usd="250")),
        status=structs.replace(budget.status, quota_gpu_hours="12.5", consumed_usd="251.5"),
    )
    (text,) = said(a_pod(), budget).refusals
    assert "ml/team-a is used up (10.5 of 12.5 GPU-hours, $251.5 of $250): GPU-hours become available at" in text


@pytest.mark.parametrize(
    ("pod", "why"),
    [
        (a_pod({}, GPU), "it has no labels"),
        (a_pod({"team": "b"}, GPU), "it belongs to another team"),
        (a_pod(TEAM, {}), "it asks for no GPU"),
        (a_pod(TEAM, {"nvidia.com/gpu": 0}), "it asks for none of them"),
        (a_pod(TEAM, {"cpu": 1000}), "it asks for something else"),
    ],
)
def test_only_pods_that_match_and_ask_for_the_resource_are_met(pod, why):
    exact = a_budget("Gate", accounting="Exact")
    assert said(pod, a_budget(), exact) == Admission(), why


def test_an_open_budget_and_one_without_its_label_say_nothing():
    pod = a_pod()
    assert said(pod, a_budget(exceeded=False), a_budget("Gate", exceeded=False)) == Admission()
    assert said(pod, a_budget(label="Gate"), a_budget("Gate", label="Deny")) == Admission()


def test_a_pod_that_names_its_node_cannot_be_gated():
    assert said(a_pod(), a_budget("Gate")).gated
    assert not said(a_pod(placed=True), a_budget("Gate")).gated


def test_resources_that_count_by_weight_are_met_too():
    slices = a_pod(milli={"nvidia.com/mig-1g.10gb": 1000})
    weights = (
        CountedWeight(weight="0.125", resource="nvidia.com/mig-1g.10gb"),
        CountedWeight(weight=2, gpu_type="H100"),
    )
    assert said(slices, a_budget("Gate", weights=weights)).gated
    assert not said(slices, a_budget("Gate")).gated


def test_a_budget_over_several_namespaces_meets_pods_of_those_that_it_selects():
    wide = a_budget(namespace_selector=LabelSelector(match_labels={"org": "research"}))
    assert wide.metadata.labels == {"tgp.io/admission-of-namespaces": "Deny"}
    assert said(a_pod(namespace_labels={"org": "research"}), wide).refusals
    assert not said(a_pod(namespace_labels={"org": "sales"}), wide).refusals
    assert not said(a_pod(), wide).refusals
    every = a_budget(namespace_selector=LabelSelector())
    assert said(a_pod(), every).refusals


def test_exact_counting_holds_pods_whether_or_not_the_budget_is_closed():
    for exceeded in (True, False):
        assert said(a_pod(), a_budget("Off", exceeded=exceeded, accounting="Exact")) == Admission(counted=True)


@pytest.mark.parametrize(
    ("admission", "version", "words"),
    [
        ("Deny", "v1.29.4", ["needs Kubernetes 1.30", "this cluster runs v1.29.4", "use admission Off"]),
        ("Gate", "v1.35.1", ["needs Kubernetes 1.36", "this cluster runs v1.35.1", "use admission Deny, or Off"]),
        ("Gate", "v1.29.4", ["needs Kubernetes 1.36", "Next: use admission Off"]),
        ("Gate", "v1.36.3", ["is not installed", "kubectl apply -f deploy/policies.yaml"]),
        ("Deny", "unreadable", ["is not installed"]),
    ],
)
def test_what_cannot_work_is_said_with_what_it_takes(admission, version, words):
    told = unavailable(admission, PolicyState(missing="Policy x", version=version))
    assert all(word in told for word in words), told


def test_a_role_that_is_too_old_is_said():
    assert "deploy/rights.yaml" in unavailable("Deny", PolicyState(forbidden="Policy x"))
    assert unavailable("Deny", PolicyState()) == ""


def test_versions_are_read_as_providers_write_them():
    assert minor_of("v1.30.5-gke.1014001") == (1, 30)
    assert minor_of("1.29+") == (1, 29)
