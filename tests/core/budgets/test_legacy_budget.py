"""The legacy budgets and their mirrors: what is carried over, what is left alone, what is shown."""

from typing import Any

import msgspec
import pytest

from tgp.api.budget import GPUWorkloadBudget, LegacyBudget
from tgp.api.decoding import decode
from tgp.core.budgets.legacy_budget import (
    CARRIED,
    MIRRORED,
    CreateMirror,
    LeaveMirror,
    MirrorStatus,
    UpdateMirror,
    next_step,
    refused,
)
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.pod import OwnerRef

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


def a_legacy_budget(spec: dict[str, Any] | None = None, generation: int = 1, **plate: Any) -> KubeObject[LegacyBudget]:
    document = {"apiVersion": "budget.zxuhan.dev/v1alpha1", "kind": "GPUWorkloadBudget", "spec": spec or SPEC}
    budget = decode(LegacyBudget, document)
    assert isinstance(budget, LegacyBudget), budget
    return KubeObject(key=ObjectKey("default", "team-a"), uid=UID, generation=generation, value=budget, **plate)


def a_mirror(spec: dict[str, Any] | None = None, status: dict[str, Any] | None = None, **plate: Any) -> Any:
    budget = decode(GPUWorkloadBudget, {"apiVersion": "tgp.io/v1", "kind": "GPUWorkloadBudget", "spec": spec or SPEC})
    assert isinstance(budget, GPUWorkloadBudget), budget
    owner = OwnerRef("GPUWorkloadBudget", "team-a", UID, "budget.zxuhan.dev/v1alpha1", controller=True)
    plate = {"generation": 4, "owners": (owner,), "annotations": {CARRIED: "1"}, "value": budget, **plate}
    return KubeObject(key=ObjectKey("default", "team-a"), status_document=msgspec.json.encode(status or {}), **plate)


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
def test_a_mirror_has_the_spec_of_the_legacy_budget(spec):
    step = next_step(a_legacy_budget(spec, generation=3), None)

    assert isinstance(step, CreateMirror)
    assert as_json(step.manifest["spec"]) == spec, "nothing is lost, and nothing comes in another form"
    meta = step.manifest["metadata"]
    assert (meta["namespace"], meta["name"], meta["annotations"]) == ("default", "team-a", {CARRIED: "3"})
    (owner,) = meta["ownerReferences"]
    assert (owner["uid"], owner["controller"], owner["apiVersion"]) == (UID, True, "budget.zxuhan.dev/v1alpha1")


@pytest.mark.parametrize(("held", "wanted"), [(SPEC, FULL), (FULL, SPEC), (SPEC, SPEC | {"gpuResourceName": "cpu"})])
def test_a_change_of_the_legacy_budget_is_carried_over(held, wanted):
    step = next_step(a_legacy_budget(wanted, generation=2), a_mirror(held))

    assert isinstance(step, UpdateMirror)
    became = merged({"metadata": {}, "spec": held}, as_json(step.change))
    assert became["metadata"]["annotations"] == {CARRIED: "2"}
    after = next_step(a_legacy_budget(wanted, generation=2), a_mirror(became["spec"], annotations={CARRIED: "2"}))
    assert isinstance(after, MirrorStatus)
    assert {verdict.reason for verdict in after.updates} == {"Mirrored"}


def test_what_only_the_mirrors_kind_has_stays_as_people_set_it():
    richer = SPEC | {"accounting": "Exact", "alerts": [50], "quota": SPEC["quota"] | {"usd": "250"}}
    step = next_step(a_legacy_budget(FULL, generation=2), a_mirror(richer))

    assert isinstance(step, UpdateMirror)
    became = merged(richer, step.change["spec"])
    assert (became["accounting"], became["alerts"], became["quota"]["usd"]) == ("Exact", [50], "250")


def test_an_edited_mirror_is_reported_and_not_reverted():
    edited = SPEC | {"quota": {"gpuHours": "500", "windowHours": 24}}
    step = next_step(a_legacy_budget(), a_mirror(edited))

    assert isinstance(step, MirrorStatus)
    (verdict,) = step.updates
    assert (verdict.type, verdict.status, verdict.reason) == ("Degraded", True, "MirrorEdited")
    assert "spec.quota.gpuHours of" in verdict.message


@pytest.mark.parametrize(
    "owners",
    [
        (),
        (OwnerRef("Deployment", "team-a", "1", "apps/v1", controller=True),),
        (OwnerRef("GPUWorkloadBudget", "x", UID),),
    ],
    ids=["unowned", "another's", "ours, but not managed"],
)
def test_a_foreign_object_of_that_name_is_left_alone(owners):
    step = next_step(a_legacy_budget(generation=2), a_mirror(FULL, {"consumedGpuHours": "5"}, owners=owners))

    assert isinstance(step, MirrorStatus)
    assert {(verdict.type, verdict.status, verdict.reason) for verdict in step.updates} == {
        ("Degraded", True, "NameTaken"),
        ("Ready", False, "NameTaken"),
    }
    assert step.shown == dict.fromkeys(MIRRORED), "nothing of a foreign budget is shown as ours"


def test_the_mirror_of_an_earlier_object_is_left_to_the_garbage_collector():
    earlier = OwnerRef("GPUWorkloadBudget", "team-a", "another-uid", "budget.zxuhan.dev/v1alpha1", controller=True)

    assert next_step(a_legacy_budget(), a_mirror(owners=(earlier,))) == LeaveMirror()


@pytest.mark.parametrize("mirror", [a_mirror(deletion_requested_at="soon"), a_mirror(value=None, unreadable="newer")])
def test_a_mirror_that_goes_or_cannot_be_read_is_waited_for(mirror):
    assert next_step(a_legacy_budget(generation=2), mirror) == LeaveMirror()


@pytest.mark.parametrize(
    "legacy",
    [a_legacy_budget(deletion_requested_at="soon"), KubeObject(key=ObjectKey("default", "team-a"), unreadable="newer")],
)
def test_a_legacy_budget_that_goes_or_cannot_be_read_gets_nothing(legacy):
    assert next_step(legacy, None) == LeaveMirror()


def test_the_mirrors_status_is_shown_field_by_field_under_the_legacy_generation():
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
    step = next_step(a_legacy_budget(generation=7), a_mirror(status=status, annotations={CARRIED: "7"}))

    assert isinstance(step, MirrorStatus)
    assert step.shown == {
        "consumedGpuHours": "12.5",
        "remainingGpuHours": "87.5",
        "trackedPods": 3,
        "lastEnforcementAt": None,
        "observedGeneration": 7,
    }
    assert [row["type"] for row in step.conditions] == ["Ready", "QuotaExceeded", "Degraded"]
    assert [row.get("observedGeneration") for row in step.conditions] == [7, None, None], "an older one is not claimed"
    assert step.updates == (), "the twin says itself whether something is wrong"


def test_a_mirror_that_the_api_server_refuses_is_said():
    (verdict,) = refused("admission webhook says no").updates

    assert (verdict.reason, verdict.status) == ("MirrorRejected", True)
    assert verdict.message.endswith("admission webhook says no")
