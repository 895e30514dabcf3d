"""Namespaces, Nodes, Leases, Events, PodDisruptionBudgets and PriorityClasses."""

import re
from datetime import UTC, datetime

from tgp.sim.apiserver.core import Write
from tgp.sim.apiserver.json_value import Json, at, list_at, mapping_at, same
from tgp.sim.apiserver.kinds.strategy import Strategy
from tgp.sim.apiserver.names import is_qualified_name
from tgp.sim.apiserver.problems import forbidden_field, invalid_value, not_supported, required
from tgp.sim.apiserver.quantities import check_amounts
from tgp.sim.apiserver.registry import Served
from tgp.sim.apiserver.status_errors import Cause
from tgp.sim.apiserver.undecodable import Undecodable

NAME_LABEL = "kubernetes.io/metadata.name"
NOT_READY = "node.kubernetes.io/not-ready"
TAINT_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


class NamespaceStrategy(Strategy):
    def default(self, served: Served, obj: Json) -> None:
        name = obj["metadata"].get("name")
        if name:
            obj["metadata"].setdefault("labels", {})[NAME_LABEL] = name

    def prepare_create(self, write: Write, obj: Json) -> None:
        self.default(write.served, obj)
        finalizers = list_at(obj, "spec", "finalizers")
        if "kubernetes" not in finalizers:
            finalizers = [*finalizers, "kubernetes"]
        obj["spec"] = {"finalizers": finalizers}
        obj["status"] = {"phase": "Active"}

    def prepare_update(self, write: Write, obj: Json, old: Json) -> None:
        if write.subresource == "finalize":
            obj["status"] = old.get("status", {})
            return
        if "spec" in old:
            obj["spec"] = old["spec"]
        else:
            obj.pop("spec", None)

    def update_problems(self, write: Write, obj: Json, old: Json) -> list[Cause]:
        if write.subresource == "status":
            phase, ending = at(obj, "status", "phase"), "deletionTimestamp" in obj["metadata"]
            if ending and phase != "Terminating":
                return [
                    invalid_value(
                        "status.phase", phase, "may only be 'Terminating' if `deletionTimestamp` is not empty"
                    )
                ]
            if not ending and phase != "Active":
                return [invalid_value("status.phase", phase, "may only be 'Active' if `deletionTimestamp` is empty")]
        return []


class NodeStrategy(Strategy):
    def default(self, served: Served, obj: Json) -> None:
        """The old single range and the new list say the same; what is not said to be reserved is allocatable."""
        spec = mapping_at(obj, "spec")
        if spec.get("podCIDR") and not spec.get("podCIDRs"):
            spec["podCIDRs"] = [spec["podCIDR"]]
        status = mapping_at(obj, "status")
        for name in ("capacity", "allocatable"):
            check_amounts(status.get(name))
        if status.get("capacity") and not status.get("allocatable"):
            status["allocatable"] = dict(status["capacity"])

    def prepare_create(self, write: Write, obj: Json) -> None:
        """A client that registers a node may set its status at once; nothing runs there before it is Ready."""
        spec = obj.setdefault("spec", {})
        taints = list(spec.get("taints") or [])
        if not any(taint.get("key") == NOT_READY and taint.get("effect") == "NoSchedule" for taint in taints):
            spec["taints"] = [*taints, {"key": NOT_READY, "effect": "NoSchedule"}]

    def problems(self, write: Write, obj: Json) -> list[Cause]:
        return _taint_problems(list_at(obj, "spec", "taints"))

    def update_problems(self, write: Write, obj: Json, old: Json) -> list[Cause]:
        found = 2 * _taint_problems(list_at(obj, "spec", "taints"))
        before, after = at(old, "spec", "providerID") or "", at(obj, "spec", "providerID") or ""
        if before and before != after:
            why = 'node updates may not change providerID except from "" to valid'
            found.append(forbidden_field("spec.providerID", why))
        return found


def _taint_problems(taints: list[Json]) -> list[Cause]:
    found: list[Cause] = []
    seen: list[tuple[str, str]] = []
    for index, taint in enumerate(taints):
        path = f"metadata.taints[{index}]"
        key, effect = taint.get("key", ""), taint.get("effect", "")
        found += [invalid_value(f"{path}.key", key, why) for why in is_qualified_name(key)]
        if effect not in TAINT_EFFECTS:
            found.append(
                not_supported(f"{path}.effect", effect, TAINT_EFFECTS) if effect else required(f"{path}.effect")
            )
        if (key, effect) in seen:
            found.append(invalid_value(path, taint, "taints must be unique by key and effect pair"))
        seen.append((key, effect))
    return found


MICRO_PARTS = (
    (r"\d{4}", "2006"),
    (r"-", "-"),
    (r"\d\d", "01"),
    (r"-", "-"),
    (r"\d\d", "02"),
    (r"T", "T"),
    (r"\d\d", "15"),
    (r":", ":"),
    (r"\d\d", "04"),
    (r":", ":"),
    (r"\d\d", "05"),
    (r"\.\d{6}", ".000000"),
    (r"(Z|[+-]\d\d:\d\d)\Z", "Z07:00"),
)
MICRO_LAYOUT = "".join(shown for _, shown in MICRO_PARTS)
MICRO_TIME = re.compile("".join(pattern for pattern, _ in MICRO_PARTS))


def micro_time(text: str) -> str:
    """A metav1.MicroTime, which has exactly six digits after the second; shown in UTC."""
    if MICRO_TIME.match(text) is None:
        raise _no_micro_time(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise Undecodable(f'parsing time "{text}": out of range') from None
    return text if text[-1] == "Z" else moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _no_micro_time(text: str) -> Undecodable:
    """It says where the reader stumbled, as Go does."""
    rest = text
    for pattern, shown in MICRO_PARTS:
        match = re.match(pattern, rest)
        if match is None:
            return Undecodable(f'parsing time "{text}" as "{MICRO_LAYOUT}": cannot parse "{rest}" as "{shown}"')
        rest = rest[match.end() :]
    raise AssertionError(f"{text!r} has every part of a time, one after the other")


class LeaseStrategy(Strategy):
    def default(self, served: Served, obj: Json) -> None:
        spec = obj.setdefault("spec", {})
        for name in ("acquireTime", "renewTime"):
            if isinstance(spec.get(name), str):
                spec[name] = micro_time(spec[name])

    def problems(self, write: Write, obj: Json) -> list[Cause]:
        spec = mapping_at(obj, "spec")
        found: list[Cause] = []
        seconds, moves = spec.get("leaseDurationSeconds"), spec.get("leaseTransitions")
        if seconds is not None and seconds <= 0:
            found.append(invalid_value("spec.leaseDurationSeconds", seconds, "must be greater than 0"))
        if moves is not None and moves < 0:
            found.append(invalid_value("spec.leaseTransitions", moves, "must be greater than or equal to 0"))
        return found

    def update_problems(self, write: Write, obj: Json, old: Json) -> list[Cause]:
        return self.problems(write, obj)


class EventStrategy(Strategy):
    """Stored as core/v1, for every endpoint."""

    def default(self, served: Served, obj: Json) -> None:
        if isinstance(obj.get("eventTime"), str):
            obj["eventTime"] = micro_time(obj["eventTime"])
        obj.setdefault("eventTime", None)
        obj.setdefault("source", {})
        obj.setdefault("involvedObject", {})
        obj.setdefault("reportingComponent", "")
        obj.setdefault("reportingInstance", "")

    def problems(self, write: Write, obj: Json) -> list[Cause]:
        namespace = obj["metadata"].get("namespace", "")
        about = at(obj, "involvedObject", "namespace") or ""
        found: list[Cause] = []
        if (about or "default") != namespace and not (not about and namespace in {"default", "kube-system"}):
            found.append(invalid_value("involvedObject.namespace", about, "does not match event.namespace"))
        return found + (_new_event_problems(obj) if write.served.group else [])

    def update_problems(self, write: Write, obj: Json, old: Json) -> list[Cause]:
        if not write.served.group:
            return []
        found = []
        for name in ("involvedObject", "reason", "message", "type", "eventTime", "action", "reportingComponent"):
            if not same(old.get(name), obj.get(name)):
                found += 2 * [invalid_value(name, obj.get(name), "field is immutable")]
        return found


MAX_NOTE = 1024


def _new_event_problems(obj: Json) -> list[Cause]:
    found: list[Cause] = []
    if not obj.get("eventTime"):
        found.append(required("eventTime"))
    controller = obj.get("reportingComponent") or ""
    if not controller:
        found.append(required("reportingController"))
    found += [invalid_value("reportingController", controller, why) for why in is_qualified_name(controller)]
    found += [required(name) for name in ("reportingInstance", "action", "reason") if not obj.get(name)]
    if obj.get("type") not in {"Normal", "Warning"}:
        found.append(invalid_value("type", "", f"has invalid value: {obj.get('type', '')}"))
    if len(obj.get("message") or "") > MAX_NOTE:
        found.append(invalid_value("message", "", f"can have at most {MAX_NOTE} characters"))
    return found


class DisruptionBudgetStrategy(Strategy):
    def prepare_create(self, write: Write, obj: Json) -> None:
        obj["status"] = {"currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0}

    def problems(self, write: Write, obj: Json) -> list[Cause]:
        spec = mapping_at(obj, "spec")
        found: list[Cause] = []
        if "minAvailable" in spec and "maxUnavailable" in spec:
            found.append(invalid_value("spec", spec, "minAvailable and maxUnavailable cannot be both set"))
        for name in ("minAvailable", "maxUnavailable"):
            found += _amount_problems(f"spec.{name}", spec.get(name))
        policy = spec.get("unhealthyPodEvictionPolicy")
        if policy is not None and policy not in {"AlwaysAllow", "IfHealthyBudget"}:
            allowed = ("AlwaysAllow", "IfHealthyBudget")
            found.append(not_supported("spec.unhealthyPodEvictionPolicy", policy, allowed))
        return found

    def update_problems(self, write: Write, obj: Json, old: Json) -> list[Cause]:
        return self.problems(write, obj)


def _amount_problems(field: str, value: object) -> list[Cause]:
    if isinstance(value, int) and value < 0:
        return [invalid_value(field, value, "must be greater than or equal to 0")]
    if isinstance(value, str) and not re.match(r"\d+%\Z", value):
        why = (
            "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex "
            "used for validation is '[0-9]+%')"
        )
        return [invalid_value(field, value, why)]
    return []


class PriorityClassStrategy(Strategy):
    def default(self, served: Served, obj: Json) -> None:
        obj.setdefault("preemptionPolicy", "PreemptLowerPriority")
        obj.setdefault("value", 0)

    def update_problems(self, write: Write, obj: Json, old: Json) -> list[Cause]:
        if obj.get("value") != old.get("value"):
            return [forbidden_field("value", "may not be changed in an update.")]
        return []
