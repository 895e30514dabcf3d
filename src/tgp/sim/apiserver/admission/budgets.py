"""The policies of deploy/policy/budgets.yaml, where they are installed. Expressions are not evaluated: core decides."""

import msgspec

from tgp.api.budget import GPUWorkloadBudget
from tgp.api.quantity import milli
from tgp.api.resource import GPU_WORKLOAD_BUDGET, POD
from tgp.core.budgets.admission import DENY_POLICY, EXACT_POLICY, GATE, GATE_POLICY, LABEL, NewPod, admit
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.pod import COUNTED
from tgp.sim.apiserver.core import Core, Write
from tgp.sim.apiserver.json_value import Json
from tgp.sim.apiserver.status_errors import forbidden, qualified

GROUP = "admissionregistration.k8s.io"


def admit_pod(write: Write, obj: Json) -> None:
    """Gates a new pod, gives it a finalizer, or refuses it."""
    if write.served.resource != POD or write.subresource:
        return
    core, namespace = write.core, obj["metadata"]["namespace"]
    storage = qualified(GPU_WORKLOAD_BUDGET.group, GPU_WORKLOAD_BUDGET.plural)
    budgets = [
        (ObjectKey(namespace, record.obj["metadata"]["name"]), msgspec.convert(record.obj, GPUWorkloadBudget))
        for _, record in core.store.kind_storage(storage).range(namespace)
        if LABEL in record.obj["metadata"].get("labels", {})
    ]
    if not budgets:
        return
    said = admit(new_pod(obj), budgets)
    if said.gated and _installed(core, "mutatingadmissionpolicies", GATE_POLICY):
        gates = obj["spec"].get("schedulingGates") or []
        if not any(gate["name"] == GATE for gate in gates):
            obj["spec"]["schedulingGates"] = [*gates, {"name": GATE}]
    if said.counted and _installed(core, "mutatingadmissionpolicies", EXACT_POLICY):
        held = obj["metadata"].get("finalizers") or []
        obj["metadata"]["finalizers"] = held if COUNTED in held else [*held, COUNTED]
    if said.refusals and _installed(core, "validatingadmissionpolicies", DENY_POLICY):
        policy = f"ValidatingAdmissionPolicy '{DENY_POLICY}' with binding '{DENY_POLICY}'"
        name = obj["metadata"].get("name", "")
        raise forbidden("", "pods", name, f"{policy} denied request: {said.refusals[0]}")


def new_pod(obj: Json) -> NewPod:
    spec = obj["spec"]
    parts = [*spec.get("containers", ()), *(spec.get("initContainers") or ()), spec]
    written = [(part.get("resources") or {}).get("requests") or {} for part in parts]
    amounts: dict[str, int] = {}
    for requests in (*written, spec.get("overhead") or {}):
        for name, amount in requests.items():
            amounts[name] = max(amounts.get(name, 0), milli(amount))
    return NewPod(obj["metadata"].get("labels") or {}, amounts, placed=bool(spec.get("nodeName")))


def _installed(core: Core, plural: str, name: str) -> bool:
    bindings = plural.replace("policies", "policybindings")
    return all(core.store.get(qualified(GROUP, each), "", name) is not None for each in (plural, bindings))
