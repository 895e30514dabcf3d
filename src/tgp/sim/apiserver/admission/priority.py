"""A pod's priority, from its class or the default one."""

from tgp.sim.apiserver.core import Core
from tgp.sim.apiserver.json_value import Json
from tgp.sim.apiserver.status_errors import forbidden

SYSTEM_CLASSES = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


def settle_priority(core: Core, pod: Json) -> None:
    spec = pod["spec"]
    name = spec.get("priorityClassName", "")
    value, policy = 0, "PreemptLowerPriority"
    found = core.store.get("priorityclasses.scheduling.k8s.io", "", name) if name else None
    if name in SYSTEM_CLASSES:
        value = SYSTEM_CLASSES[name]
    elif found is not None:
        value, policy = found.obj.get("value", 0), found.obj.get("preemptionPolicy", policy)
    elif name:
        why = f"no PriorityClass with name {name} was found"
        raise forbidden("", "pods", pod["metadata"].get("name", ""), why)
    else:
        chosen = _default_class(core)
        if chosen is not None:
            spec["priorityClassName"] = chosen["metadata"]["name"]
            value, policy = chosen.get("value", 0), chosen.get("preemptionPolicy", policy)
    sent = spec.get("priority")
    if sent is not None and sent != value:
        why = (
            f"the integer value of priority ({sent}) must not be provided in pod spec; priority admission controller "
            f"computed {value} from the given PriorityClass name"
        )
        raise forbidden("", "pods", pod["metadata"].get("name", ""), why)
    spec["priority"] = value
    spec.setdefault("preemptionPolicy", policy)


def _default_class(core: Core) -> Json | None:
    """The lowest of those that call themselves the default; there should be one."""
    marked = [
        record.obj
        for _, record in core.store.kind_storage("priorityclasses.scheduling.k8s.io").range("")
        if record.obj.get("globalDefault")
    ]
    return min(marked, key=lambda obj: (obj.get("value", 0), obj["metadata"]["name"]), default=None)
