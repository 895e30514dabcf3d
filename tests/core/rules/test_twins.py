"""The ancestor's budgets and their twins: what is carried over, what is left alone, what is shown."""

from typing import Any

import msgspec
import pytest

from tgp.api.budget import AncestorBudget, GPUWorkloadBudget
from tgp.api.decoding import decode
from tgp.core.model.key import Key
from tgp.core.model.pod import Owner
from tgp.core.model.typed import Typed
from tgp.core.rules.twins import CARRIED, MIRRORED, Carry, Leave, Make, Mirror, next_step, refused

UID = "6f0b1c1e-2d57-4c2b-8b6b-3a1f8f1f2a10"
SPEC = {
    "selector": {"matchLabels": {"team": "a"}},
    "quota": {"gpuHours": "100", "windowHours": 24},
    "enforcement": {"action": "AlertOnly", "gracePeriodSeconds": 60},
    "gpuResourceName": "nvidia.com/gpu",
}
FULL = SPEC | {
    "selector": {
        "matchLabels": {"team": "a", "tier": "batch"},
        "matchExpressions": [{"key": "stage", "operator": "NotIn", "values": ["prod"]}],
    },
    "quota": {"gpuHours": 7, "windowHours": 168},
    "gpuResourceName": "cpu",
}


def an_ancestor(spec: dict[str, Any] | None = None, generation: int = 1, **plate: Any) -> Typed[AncestorBudget]:
    document = {"apiVersion": "budget.zxuhan.dev/v1alpha1", "kind": "GPUWorkloadBudget", "spec": spec or SPEC}
    budget = decode(AncestorBudget, document)
    assert isinstance(budget, AncestorBudget), budget
    return Typed(key=Key("default", "team-a"), uid=UID, generation=generation, object=budget, **plate)


def a_twin(spec: dict[str, Any] | None = None, status: dict[str, Any] | None = None, **plate: Any) -> Any:
    budget = decode(GPUWorkloadBudget, {"apiVersion": "tgp.io/v1", "kind": "GPUWorkloadBudget", "spec": spec or SPEC})
    assert isinstance(budget, GPUWorkloadBudget), budget
    owner = Owner("GPUWorkloadBudget", "team-a", UID, "budget.zxuhan.dev/v1alpha1", controller=True)
    plate = {"generation": 4, "owners": (owner,), "annotations": {CARRIED: "1"}, "object": budget, **plate}
    return Typed(key=Key("default", "team-a"), status_document=msgspec.json.encode(status or {}), **plate)


def as_json(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))


def merged(held: Any, change: Any) -> Any:
    """RFC 7386, as the API server does it."""
    if not isinstance(change, dict):
        return change
    result = dict(held) if isinstance(held, dict) else {}
    for name, value in change.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), value)
    return result


@pytest.mark.parametrize("spec", [SPEC, FULL], ids=["readme", "full"])
def test_a_twin_says_what_the_ancestor_says(spec):
    step = next_step(an_ancestor(spec, generation=3), None)

    assert isinstance(step, Make)
    assert as_json(step.manifest["spec"]) == spec, "nothing is lost, and nothing comes in another form"
    meta = step.manifest["metadata"]
    assert (meta["namespace"], meta["name"], meta["annotations"]) == ("default", "team-a", {CARRIED: "3"})
    (owner,) = meta["ownerReferences"]
    assert (owner["uid"], owner["controller"], owner["apiVersion"]) == (UID, True, "budget.zxuhan.dev/v1alpha1")


@pytest.mark.parametrize(("held", "wanted"), [(SPEC, FULL), (FULL, SPEC), (SPEC, SPEC | {"gpuResourceName": "cpu"})])
def test_a_change_of_the_ancestor_is_carried_over(held, wanted):
    step = next_step(an_ancestor(wanted, generation=2), a_twin(held))

    assert isinstance(step, Carry)
    became = merged({"metadata": {}, "spec": held}, as_json(step.change))
    assert became["metadata"]["annotations"] == {CARRIED: "2"}
    after = next_step(an_ancestor(wanted, generation=2), a_twin(became["spec"], annotations={CARRIED: "2"}))
    assert isinstance(after, Mirror)
    assert {verdict.reason for verdict in after.verdicts} == {"Twinned"}


def test_what_only_the_twins_kind_has_stays_as_people_set_it():
    richer = SPEC | {"accounting": "Exact", "alerts": [50], "quota": SPEC["quota"] | {"usd": "250"}}
    step = next_step(an_ancestor(FULL, generation=2), a_twin(richer))

    assert isinstance(step, Carry)
    became = merged(richer, step.change["spec"])
    assert (became["accounting"], became["alerts"], became["quota"]["usd"]) == ("Exact", [50], "250")


def test_a_twin_that_somebody_changed_is_not_fought_but_told_of():
    edited = SPEC | {"quota": {"gpuHours": "500", "windowHours": 24}}
    step = next_step(an_ancestor(), a_twin(edited))

    assert isinstance(step, Mirror)
    (verdict,) = step.verdicts
    assert (verdict.type, verdict.status, verdict.reason) == ("Degraded", True, "TwinChanged")
    assert "spec.quota.gpuHours of" in verdict.message


@pytest.mark.parametrize(
    "owners",
    [(), (Owner("Deployment", "team-a", "1", "apps/v1", controller=True),), (Owner("GPUWorkloadBudget", "x", UID),)],
    ids=["nobody's", "another's", "ours, but not managed"],
)
def test_somebodys_own_object_of_that_name_is_left_alone(owners):
    step = next_step(an_ancestor(generation=2), a_twin(FULL, {"consumedGpuHours": "5"}, owners=owners))

    assert isinstance(step, Mirror)
    assert {(verdict.type, verdict.status, verdict.reason) for verdict in step.verdicts} == {
        ("Degraded", True, "NameTaken"),
        ("Ready", False, "NameTaken"),
    }
    assert step.shown == dict.fromkeys(MIRRORED), "nothing of somebody else's budget is shown as ours"


def test_the_twin_of_an_earlier_object_is_left_to_the_garbage_collector():
    earlier = Owner("GPUWorkloadBudget", "team-a", "another-uid", "budget.zxuhan.dev/v1alpha1", controller=True)

    assert next_step(an_ancestor(), a_twin(owners=(earlier,))) == Leave()


@pytest.mark.parametrize("twin", [a_twin(deletion_requested_at="soon"), a_twin(object=None, unreadable="newer")])
def test_a_twin_that_goes_or_cannot_be_read_is_waited_for(twin):
    assert next_step(an_ancestor(generation=2), twin) == Leave()


@pytest.mark.parametrize(
    "ancestor", [an_ancestor(deletion_requested_at="soon"), Typed(key=Key("default", "team-a"), unreadable="newer")]
)
def test_an_ancestor_that_goes_or_cannot_be_read_gets_nothing(ancestor):
    assert next_step(ancestor, None) == Leave()


def test_the_twins_status_is_shown_field_by_field_under_the_ancestors_generation():
    ready = {"type": "Ready", "status": "True", "reason": "Valid", "message": "m", "lastTransitionTime": "t"}
    status = {
        "consumedGpuHours": "12.5",
        "remainingGpuHours": "87.5",
        "trackedPods": 3,
        "observedGeneration": 4,
        "ledger": "packed",
        "conditions": [
            ready | {"observedGeneration": 4},
            ready | {"type": "QuotaExceeded", "observedGeneration": 3},
            ready | {"type": "Forecast"},
            ready | {"type": "Degraded", "status": "False"},
        ],
    }
    step = next_step(an_ancestor(generation=7), a_twin(status=status, annotations={CARRIED: "7"}))

    assert isinstance(step, Mirror)
    assert step.shown == {
        "consumedGpuHours": "12.5",
        "remainingGpuHours": "87.5",
        "trackedPods": 3,
        "lastEnforcementAt": None,
        "observedGeneration": 7,
    }
    assert [row["type"] for row in step.conditions] == ["Ready", "QuotaExceeded", "Degraded"]
    assert [row.get("observedGeneration") for row in step.conditions] == [7, None, None], "an older one is not claimed"
    assert step.verdicts == (), "the twin says itself whether something is wrong"


def test_a_twin_that_the_api_server_refuses_is_said():
    (verdict,) = refused("admission webhook says no").verdicts

    assert (verdict.reason, verdict.status) == ("TwinRefused", True)
    assert verdict.message.endswith("admission webhook says no")
