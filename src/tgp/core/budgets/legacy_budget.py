"""Legacy budgets (budget.zxuhan.dev), each with a tgp.io mirror that does the work.

Users edit the legacy object, so its spec is copied to the mirror whenever it changes. In between the mirror is not
touched: a field that the legacy kind does not have keeps its value, and a change of any other field is reported, not
reverted. The mirror's status is copied back, field by field.
"""

from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec

from tgp.api.budget import GPUWorkloadBudget, GPUWorkloadBudgetSpec, LegacyBudget, LegacyBudgetSpec
from tgp.api.common import LabelSelector
from tgp.api.resource import GPU_WORKLOAD_BUDGET, LEGACY_BUDGET
from tgp.core.model.conditions import ConditionUpdate
from tgp.core.model.kube_object import KubeObject

CARRIED = "tgp.io/carried-generation"  # on a mirror: the generation of the legacy object that its spec was copied from
DEGRADED = "Degraded"
COPIED_CONDITIONS = frozenset({"Ready", "QuotaExceeded", DEGRADED})  # the conditions that the legacy kind has
MIRRORED = ("consumedGpuHours", "remainingGpuHours", "trackedPods", "lastEnforcementAt")
OURS = f"{GPU_WORKLOAD_BUDGET.plural}.{GPU_WORKLOAD_BUDGET.group}"


class CreateMirror(msgspec.Struct, frozen=True):
    """There is no mirror yet."""

    manifest: Mapping[str, Any]


class UpdateMirror(msgspec.Struct, frozen=True):
    """The legacy spec has changed: a merge patch for the mirror."""

    change: Mapping[str, Any]


class MirrorStatus(msgspec.Struct, frozen=True):
    """The mirror is up to date: copy its status, and add these conditions."""

    shown: Mapping[str, Any]  # None for a part that the mirror does not have
    conditions: tuple[Mapping[str, Any], ...]  # the mirror's own, with the legacy object's generations
    updates: tuple[ConditionUpdate, ...]  # ours; they replace the mirror's of the same type


class LeaveMirror(msgspec.Struct, frozen=True):
    """Nothing to do before another change triggers a reconcile."""


MirrorStep: TypeAlias = CreateMirror | UpdateMirror | MirrorStatus | LeaveMirror


def next_step(legacy: KubeObject[LegacyBudget], mirror: KubeObject[GPUWorkloadBudget] | None) -> MirrorStep:
    """The next step that brings legacy object and mirror into agreement."""
    if legacy.value is None or legacy.deleting:  # the garbage collector deletes its mirror
        return LeaveMirror()
    spec = legacy.value.spec
    if mirror is None:
        return CreateMirror(_manifest(legacy, spec))
    if mirror.value is None or mirror.deleting or _of_an_earlier(legacy, mirror):
        return LeaveMirror()
    if not _is_mirror(legacy, mirror):
        return MirrorStatus(dict.fromkeys(MIRRORED), (), _name_taken(legacy))
    change = _difference(mirror.value.spec, spec)
    if mirror.annotations.get(CARRIED) != str(legacy.generation):
        carried = {"metadata": {"annotations": {CARRIED: str(legacy.generation)}}}
        return UpdateMirror({**carried, "spec": change} if change else carried)
    return _mirror(legacy, mirror, edited=tuple(_paths(change)))


def refused(why: str) -> MirrorStatus:
    """The API server rejects the mirror: no budget is enforced."""
    verdict = ConditionUpdate(
        DEGRADED, True, "MirrorRejected", f"No {OURS} of this name could be created, so no usage is counted: {why}"
    )
    return MirrorStatus(dict.fromkeys(MIRRORED), (), (verdict,))


# -- whose it is -------------------------------------------------------------------------------------------------------


def _is_mirror(legacy: KubeObject[LegacyBudget], mirror: KubeObject[GPUWorkloadBudget]) -> bool:
    return any(owner.controller and owner.uid == legacy.uid_text for owner in mirror.owners)


def _of_an_earlier(legacy: KubeObject[LegacyBudget], mirror: KubeObject[GPUWorkloadBudget]) -> bool:
    """Its owner had this name and is gone, so the garbage collector will delete it."""
    kind = (LEGACY_BUDGET.api_version, LEGACY_BUDGET.kind, legacy.key.name)
    return not _is_mirror(legacy, mirror) and any(
        owner.controller and (owner.api_version, owner.kind, owner.name) == kind for owner in mirror.owners
    )


def _name_taken(legacy: KubeObject[LegacyBudget]) -> tuple[ConditionUpdate, ...]:
    name, namespace = legacy.key.name, legacy.key.namespace
    why = (
        f"Another {OURS} has the name {name}, so this budget counts no usage: rename one of the two, or "
        f"kubectl delete {OURS} {name} -n {namespace}"
    )
    return ConditionUpdate("Ready", False, "NameTaken", why), ConditionUpdate(DEGRADED, True, "NameTaken", why)


# -- from legacy object to mirror --------------------------------------------------------------------------------------


def _manifest(legacy: KubeObject[LegacyBudget], spec: LegacyBudgetSpec) -> dict[str, Any]:
    owner = {
        "apiVersion": LEGACY_BUDGET.api_version,
        "kind": LEGACY_BUDGET.kind,
        "name": legacy.key.name,
        "uid": legacy.uid_text,
        "controller": True,
    }
    return {
        "metadata": {
            "name": legacy.key.name,
            "namespace": legacy.key.namespace,
            "annotations": {CARRIED: str(legacy.generation)},
            "ownerReferences": [owner],
        },
        "spec": _words(spec) | {"selector": msgspec.to_builtins(spec.selector)},
    }


def _words(spec: LegacyBudgetSpec | GPUWorkloadBudgetSpec) -> dict[str, Any]:
    """The fields that both kinds have; all but the selector."""
    return {
        "quota": {"gpuHours": spec.quota.gpu_hours, "windowHours": spec.quota.window_hours},
        "enforcement": {
            "action": spec.enforcement.action,
            "gracePeriodSeconds": spec.enforcement.grace_period_seconds,
        },
        "gpuResourceName": spec.gpu_resource_name,
    }


def _difference(held: GPUWorkloadBudgetSpec, wanted: LegacyBudgetSpec) -> dict[str, Any]:
    """The merge patch from `held` to `wanted`; empty: they agree."""
    before, after = _words(held), _words(wanted)
    change: dict[str, Any] = {}
    for name, value in after.items():
        if isinstance(value, dict):
            if inner := {key: each for key, each in value.items() if before[name][key] != each}:
                change[name] = inner
        elif before[name] != value:
            change[name] = value
    if held.selector != wanted.selector:
        change["selector"] = _selecting(held.selector, wanted.selector)
    return change


def _selecting(held: LabelSelector, wanted: LabelSelector) -> dict[str, Any]:
    """A merge patch adds to a map: removed keys are set to null."""
    labels: dict[str, Any] = {**dict.fromkeys(held.match_labels), **wanted.match_labels}
    expressions = msgspec.to_builtins(wanted.match_expressions)
    return {"matchLabels": labels or None, "matchExpressions": expressions or None}


def _paths(change: Mapping[str, Any]) -> list[str]:
    parts = {
        name: list(inner) if isinstance(inner, dict) and name != "selector" else [] for name, inner in change.items()
    }
    return [path for name, inner in parts.items() for path in ([f"{name}.{each}" for each in inner] or [name])]


# -- and back ----------------------------------------------------------------------------------------------------------


def _mirror(
    legacy: KubeObject[LegacyBudget], mirror: KubeObject[GPUWorkloadBudget], edited: tuple[str, ...]
) -> MirrorStatus:
    status = mirror.status
    shown = {name: status.get(name) for name in MIRRORED}
    if status.get("observedGeneration") == mirror.generation:
        shown["observedGeneration"] = legacy.generation
    rows = status.get("conditions")
    held = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    conditions = tuple(
        _translated(row, legacy.generation, mirror.generation) for row in held if row.get("type") in COPIED_CONDITIONS
    )
    return MirrorStatus(shown, conditions, tuple(_ours(legacy, edited, {row.get("type") for row in conditions})))


def _ours(legacy: KubeObject[LegacyBudget], edited: tuple[str, ...], held: set[Any]) -> list[ConditionUpdate]:
    name, namespace = legacy.key.name, legacy.key.namespace
    if edited:
        parts = ", ".join(f"spec.{path}" for path in edited)
        why = (
            f"Field {parts} of {OURS} {name} was edited directly; the edit stays until the spec of this object "
            f"changes. To undo the edit, run: kubectl delete {OURS} {name} -n {namespace} (the operator creates it "
            f"again from this object; hours already used stay)."
        )
        return [ConditionUpdate(DEGRADED, True, "MirrorEdited", why)]
    if DEGRADED in held:
        return []
    return [ConditionUpdate(DEGRADED, False, "Mirrored", f"Budget {OURS} {name} enforces this one.")]


def _translated(row: Mapping[str, Any], legacy: int, mirror: int) -> dict[str, Any]:
    """Generations count changes of one object: the mirror's mean nothing here."""
    plain = {name: value for name, value in row.items() if name != "observedGeneration"}
    return plain | {"observedGeneration": legacy} if row.get("observedGeneration") == mirror else plain
