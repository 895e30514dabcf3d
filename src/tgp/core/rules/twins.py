"""Budgets of the ancestor's kind, each with a twin of ours that does the work: what the twin says, and what it shows.

The ancestor's object is its users' word, so its spec is carried over whenever it changes. In between the twin is left
as it is: who sets a field there that the ancestor's kind never had keeps it, and who changes another one is not fought
but told of. The twin's status goes the other way, field by field.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import msgspec

from tgp.api.budget import AncestorBudget, AncestorBudgetSpec, GPUWorkloadBudget, GPUWorkloadBudgetSpec
from tgp.api.common import LabelSelector
from tgp.api.resource import ANCESTOR_BUDGET, GPU_WORKLOAD_BUDGET
from tgp.core.model.conditions import Verdict
from tgp.core.model.typed import Typed

CARRIED = "tgp.io/carried-generation"  # on a twin: the generation of the ancestor's object that its spec was taken from
DEGRADED = "Degraded"
TOLD = frozenset({"Ready", "QuotaExceeded", DEGRADED})  # the conditions that the ancestor's kind has
MIRRORED = ("consumedGpuHours", "remainingGpuHours", "trackedPods", "lastEnforcementAt")
OURS = f"{GPU_WORKLOAD_BUDGET.plural}.{GPU_WORKLOAD_BUDGET.group}"


@dataclass(frozen=True, slots=True)
class Make:
    """There is no twin yet."""

    manifest: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Carry:
    """The ancestor's spec has changed: a merge patch for the twin."""

    change: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Mirror:
    """The twin is as it should be: show its status, and say this besides."""

    shown: Mapping[str, Any]  # None for a part that the twin does not tell
    conditions: tuple[Mapping[str, Any], ...]  # the twin's own, with the ancestor's generations
    verdicts: tuple[Verdict, ...]  # ours; they go before the twin's of the same type


@dataclass(frozen=True, slots=True)
class Leave:
    """Nothing can be said or done before something else happens, which wakes us."""


Step: TypeAlias = Make | Carry | Mirror | Leave


def next_step(ancestor: Typed[AncestorBudget], twin: Typed[GPUWorkloadBudget] | None) -> Step:
    """Take a pair one step closer to being twins."""
    if ancestor.object is None or ancestor.deleting:  # the garbage collector sees to its twin
        return Leave()
    spec = ancestor.object.spec
    if twin is None:
        return Make(_manifest(ancestor, spec))
    if twin.object is None or twin.deleting or _of_an_earlier(ancestor, twin):
        return Leave()
    if not _is_twin(ancestor, twin):
        return Mirror(dict.fromkeys(MIRRORED), (), _name_taken(ancestor))
    change = _difference(twin.object.spec, spec)
    if twin.annotations.get(CARRIED) != str(ancestor.generation):
        carried = {"metadata": {"annotations": {CARRIED: str(ancestor.generation)}}}
        return Carry({**carried, "spec": change} if change else carried)
    return _mirror(ancestor, twin, edited=tuple(_paths(change)))


def refused(why: str) -> Mirror:
    """The API server does not take the twin: nobody does the work."""
    verdict = Verdict(
        DEGRADED, True, "TwinRefused", f"no {OURS} of this name could be written, so nothing counts: {why}"
    )
    return Mirror(dict.fromkeys(MIRRORED), (), (verdict,))


# -- whose it is -------------------------------------------------------------------------------------------------------


def _is_twin(ancestor: Typed[AncestorBudget], twin: Typed[GPUWorkloadBudget]) -> bool:
    return any(owner.controller and owner.uid == ancestor.uid_text for owner in twin.owners)


def _of_an_earlier(ancestor: Typed[AncestorBudget], twin: Typed[GPUWorkloadBudget]) -> bool:
    """Its owner had this name and is gone, so the garbage collector is on its way."""
    kind = (ANCESTOR_BUDGET.api_version, ANCESTOR_BUDGET.kind, ancestor.key.name)
    return not _is_twin(ancestor, twin) and any(
        owner.controller and (owner.api_version, owner.kind, owner.name) == kind for owner in twin.owners
    )


def _name_taken(ancestor: Typed[AncestorBudget]) -> tuple[Verdict, ...]:
    name, namespace = ancestor.key.name, ancestor.key.namespace
    why = (
        f"somebody else's {OURS} has the name {name}, so this budget counts nothing: rename one of the two, or "
        f"kubectl delete {OURS} {name} -n {namespace}"
    )
    return Verdict("Ready", False, "NameTaken", why), Verdict(DEGRADED, True, "NameTaken", why)


# -- from the ancestor to the twin -------------------------------------------------------------------------------------


def _manifest(ancestor: Typed[AncestorBudget], spec: AncestorBudgetSpec) -> dict[str, Any]:
    owner = {
        "apiVersion": ANCESTOR_BUDGET.api_version,
        "kind": ANCESTOR_BUDGET.kind,
        "name": ancestor.key.name,
        "uid": ancestor.uid_text,
        "controller": True,
    }
    return {
        "metadata": {
            "name": ancestor.key.name,
            "namespace": ancestor.key.namespace,
            "annotations": {CARRIED: str(ancestor.generation)},
            "ownerReferences": [owner],
        },
        "spec": _words(spec) | {"selector": msgspec.to_builtins(spec.selector)},
    }


def _words(spec: AncestorBudgetSpec | GPUWorkloadBudgetSpec) -> dict[str, Any]:
    """What both kinds say, in the same words; all but the selector."""
    return {
        "quota": {"gpuHours": spec.quota.gpu_hours, "windowHours": spec.quota.window_hours},
        "enforcement": {
            "action": spec.enforcement.action,
            "gracePeriodSeconds": spec.enforcement.grace_period_seconds,
        },
        "gpuResourceName": spec.gpu_resource_name,
    }


def _difference(held: GPUWorkloadBudgetSpec, wanted: AncestorBudgetSpec) -> dict[str, Any]:
    """The merge patch that makes `held` say what `wanted` says; empty: it does."""
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
    """A merge patch adds to a map: what shall go is named, too."""
    labels: dict[str, Any] = {**dict.fromkeys(held.match_labels), **wanted.match_labels}
    expressions = msgspec.to_builtins(wanted.match_expressions)
    return {"matchLabels": labels or None, "matchExpressions": expressions or None}


def _paths(change: Mapping[str, Any]) -> list[str]:
    parts = {
        name: list(inner) if isinstance(inner, dict) and name != "selector" else [] for name, inner in change.items()
    }
    return [path for name, inner in parts.items() for path in ([f"{name}.{each}" for each in inner] or [name])]


# -- and back ----------------------------------------------------------------------------------------------------------


def _mirror(ancestor: Typed[AncestorBudget], twin: Typed[GPUWorkloadBudget], edited: tuple[str, ...]) -> Mirror:
    status = twin.status
    shown = {name: status.get(name) for name in MIRRORED}
    if status.get("observedGeneration") == twin.generation:
        shown["observedGeneration"] = ancestor.generation
    rows = status.get("conditions")
    told = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    conditions = tuple(
        _translated(row, ancestor.generation, twin.generation) for row in told if row.get("type") in TOLD
    )
    return Mirror(shown, conditions, tuple(_ours(ancestor, edited, {row.get("type") for row in conditions})))


def _ours(ancestor: Typed[AncestorBudget], edited: tuple[str, ...], told: set[Any]) -> list[Verdict]:
    name, namespace = ancestor.key.name, ancestor.key.namespace
    if edited:
        parts = ", ".join(f"spec.{path}" for path in edited)
        why = (
            f"{parts} of {OURS} {name} was changed there, and that counts until this object's spec changes: to end "
            f"it, kubectl delete {OURS} {name} -n {namespace}: it is made anew from here, and what it counted is lost"
        )
        return [Verdict(DEGRADED, True, "TwinChanged", why)]
    if DEGRADED in told:
        return []
    return [Verdict(DEGRADED, False, "Twinned", f"{OURS} {name} does the work")]


def _translated(row: Mapping[str, Any], ancestor: int, twin: int) -> dict[str, Any]:
    """Generations count changes of one object: the twin's mean nothing here."""
    plain = {name: value for name, value in row.items() if name != "observedGeneration"}
    return plain | {"observedGeneration": ancestor} if row.get("observedGeneration") == twin else plain
