"""The policies of budgets, where they are installed. Expressions are not evaluated: core decides."""

from collections.abc import Mapping

import msgspec

from tgp.api.budget import GPUWorkloadBudget
from tgp.api.quantity import milli
from tgp.api.resource import GPU_WORKLOAD_BUDGET, POD
from tgp.core.budgets.admission import (
    DENY_POLICY,
    EXACT_POLICY,
    GATE,
    GATE_POLICY,
    LABEL,
    LABEL_OF_SEVERAL,
    Admission,
    NewPod,
    admit,
    binding_of,
)
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.pod import COUNTED
from tgp.sim.apiserver.core import Core, Write
from tgp.sim.apiserver.json_value import Json
from tgp.sim.apiserver.status_errors import forbidden, qualified

HOME = "tgp-system"  # the operator's namespace, as the shipped policies name it
GROUP = "admissionregistration.k8s.io"


def admit_pod(write: Write, obj: Json) -> None:
    """Gates a new pod, gives it a finalizer, or refuses it."""
    if write.served.resource != POD or write.subresource:
        return
    core, namespace = write.core, obj["metadata"]["namespace"]
    storage = qualified(GPU_WORKLOAD_BUDGET.group, GPU_WORKLOAD_BUDGET.plural)
    found = core.store.kind_storage(storage)
    for label in (LABEL, LABEL_OF_SEVERAL):
        several = label == LABEL_OF_SEVERAL
        budgets = [
            (ObjectKey(meta["namespace"], meta["name"]), msgspec.convert(record.obj, GPUWorkloadBudget))
            for _, record in found.range(HOME if several else namespace)
            if label in (meta := record.obj["metadata"]).get("labels", {})
        ]
        if budgets:
            _apply(write, obj, admit(new_pod(obj, _labels(core, namespace)), budgets), several=several)


def _apply(write: Write, obj: Json, said: Admission, *, several: bool) -> None:
    """`several`: of budgets over several namespaces, which have bindings of their own."""
    core = write.core
    if said.gated and _installed(core, "mutatingadmissionpolicies", GATE_POLICY, several=several):
        gates = obj["spec"].get("schedulingGates") or []
        if not any(gate["name"] == GATE for gate in gates):
            obj["spec"]["schedulingGates"] = [*gates, {"name": GATE}]
    if said.counted and _installed(core, "mutatingadmissionpolicies", EXACT_POLICY, several=several):
        held = obj["metadata"].get("finalizers") or []
        obj["metadata"]["finalizers"] = held if COUNTED in held else [*held, COUNTED]
    if said.refusals and _installed(core, "validatingadmissionpolicies", DENY_POLICY, several=several):
        policy = f"ValidatingAdmissionPolicy '{DENY_POLICY}' with binding '{binding_of(DENY_POLICY, several=several)}'"
        name = obj["metadata"].get("name", "")
        raise forbidden("", "pods", name, f"{policy} denied request: {said.refusals[0]}")


def _labels(core: Core, namespace: str) -> dict[str, str]:
    held = core.store.get(qualified("", "namespaces"), "", namespace)
    return held.obj["metadata"].get("labels") or {} if held is not None else {}


def new_pod(obj: Json, namespace_labels: Mapping[str, str]) -> NewPod:
    spec = obj["spec"]
    parts = [*spec.get("containers", ()), *(spec.get("initContainers") or ()), spec]
    written = [(part.get("resources") or {}).get("requests") or {} for part in parts]
    amounts: dict[str, int] = {}
    for requests in (*written, spec.get("overhead") or {}):
        for name, amount in requests.items():
            amounts[name] = max(amounts.get(name, 0), milli(amount))
    meta = obj["metadata"]
    return NewPod(
        meta["namespace"], meta.get("labels") or {}, amounts, namespace_labels, placed=bool(spec.get("nodeName"))
    )


def _installed(core: Core, plural: str, name: str, *, several: bool) -> bool:
    bindings = plural.replace("policies", "policybindings")
    parts = ((plural, name), (bindings, binding_of(name, several=several)))
    return all(core.store.get(qualified(GROUP, each), "", named) is not None for each, named in parts)
