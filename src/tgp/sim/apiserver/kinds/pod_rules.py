"""What a pod's spec must be like, and what may still change about it later."""

from typing import Any

from tgp.sim.apiserver.json_value import Json, copied, list_at, mapping_at, same
from tgp.sim.apiserver.names import is_dns_label, is_label_value, is_qualified_name
from tgp.sim.apiserver.problems import duplicate, forbidden_field, invalid_value, not_supported, required
from tgp.sim.apiserver.quantities import amount_of
from tgp.sim.apiserver.status_errors import Cause

RESTART_POLICIES = ("Always", "OnFailure", "Never")
UNCHANGEABLE = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def pod_spec_problems(spec: Any, path: str) -> list[Cause]:
    if not isinstance(spec, dict) or not list_at(spec, "containers"):
        return [required(f"{path}.containers")]
    found: list[Cause] = []
    seen: set[str] = set()
    for name in ("initContainers", "containers"):
        for index, container in enumerate(list_at(spec, name)):
            found += _container_problems(container, f"{path}.{name}[{index}]", seen)
    if spec.get("restartPolicy") not in RESTART_POLICIES:
        found.append(not_supported(f"{path}.restartPolicy", spec.get("restartPolicy"), RESTART_POLICIES))
    grace = spec.get("terminationGracePeriodSeconds")
    if isinstance(grace, int) and grace < 0:
        found.append(
            invalid_value(f"{path}.terminationGracePeriodSeconds", grace, "must be greater than or equal to 0")
        )
    deadline = spec.get("activeDeadlineSeconds")
    if isinstance(deadline, int) and deadline < 1:
        why = "must be between 1 and 2147483647, inclusive"
        found.append(invalid_value(f"{path}.activeDeadlineSeconds", deadline, why))
    for key, value in mapping_at(spec, "nodeSelector").items():
        found += [invalid_value(f"{path}.nodeSelector", key, why) for why in is_qualified_name(key)]
        found += [invalid_value(f"{path}.nodeSelector", value, why) for why in is_label_value(str(value))]
    return found + _volume_problems(spec, path) + _toleration_problems(spec, path)


def _container_problems(container: Json, path: str, seen: set[str]) -> list[Cause]:
    found: list[Cause] = []
    name = container.get("name", "")
    if not name:
        found.append(required(f"{path}.name"))
    elif name in seen:
        found.append(duplicate(f"{path}.name", name))
    else:
        found += [invalid_value(f"{path}.name", name, why) for why in is_dns_label(name)]
    seen.add(name)
    if not container.get("image"):
        found.append(required(f"{path}.image"))
    return found + _resource_problems(container, f"{path}.resources")


def is_extended(resource: str) -> bool:
    """Resources a device plugin counts, such as nvidia.com/gpu: whole, and never overcommitted."""
    return "/" in resource and not resource.startswith("requests.") and "kubernetes.io/" not in resource


def _resource_problems(container: Json, path: str) -> list[Cause]:
    limits, requests = mapping_at(container, "resources", "limits"), mapping_at(container, "resources", "requests")
    found: list[Cause] = []
    for where, amounts in (("limits", limits), ("requests", requests)):
        for name, text in amounts.items():
            amount = amount_of(str(text))
            if amount < 0:
                found.append(invalid_value(f"{path}.{where}[{name}]", text, "must be greater than or equal to 0"))
            if is_extended(name) and amount != amount.to_integral_value():
                found.append(invalid_value(f"{path}.{where}[{name}]", text, "must be an integer"))
    for name, text in requests.items():
        if name not in limits:
            if is_extended(name):
                found.append(required(f"{path}.limits", "Limit must be set for non overcommitable resources"))
            continue
        asked, limit = amount_of(str(text)), amount_of(str(limits[name]))
        if is_extended(name) and asked != limit:
            found.append(invalid_value(f"{path}.requests", text, f"must be equal to {name} limit of {limits[name]}"))
        elif asked > limit:
            why = f"must be less than or equal to {name} limit of {limits[name]}"
            found.append(invalid_value(f"{path}.requests", text, why))
    return found


def _volume_problems(spec: Json, path: str) -> list[Cause]:
    found: list[Cause] = []
    volumes: list[str] = []
    for index, volume in enumerate(list_at(spec, "volumes")):
        name = volume.get("name", "")
        if not name:
            found.append(required(f"{path}.volumes[{index}].name"))
        elif name in volumes:
            found.append(duplicate(f"{path}.volumes[{index}].name", name))
        volumes.append(name)
    for part in ("initContainers", "containers"):
        for index, container in enumerate(list_at(spec, part)):
            for place, mount in enumerate(list_at(container, "volumeMounts")):
                if mount.get("name") not in volumes:
                    where = f"{path}.{part}[{index}].volumeMounts[{place}].name"
                    found.append(Cause("FieldValueNotFound", f'Not found: "{mount.get("name", "")}"', where))
    return found


def _toleration_problems(spec: Json, path: str) -> list[Cause]:
    found: list[Cause] = []
    for index, toleration in enumerate(list_at(spec, "tolerations")):
        where = f"{path}.tolerations[{index}]"
        if toleration.get("operator", "Equal") not in {"Equal", "Exists"}:
            found.append(not_supported(f"{where}.operator", toleration["operator"], ("Equal", "Exists")))
        if toleration.get("operator") == "Exists" and toleration.get("value"):
            found.append(
                invalid_value(
                    f"{where}.operator", toleration["value"], "value must be empty when `operator` is 'Exists'"
                )
            )
        if not toleration.get("key") and toleration.get("operator", "Equal") != "Exists":
            why = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            found.append(invalid_value(f"{where}.operator", toleration.get("operator", ""), why))
        if toleration.get("effect") not in {None, "", "NoSchedule", "PreferNoSchedule", "NoExecute"}:
            allowed = ("NoExecute", "NoSchedule", "PreferNoSchedule")
            found.append(not_supported(f"{where}.effect", toleration["effect"], allowed))
    return found


def pod_change_problems(old: Json, new: Json) -> list[Cause]:
    """Of a running pod's spec only images, the deadline, tolerations (added) and gates (removed) change."""
    before, after = mapping_at(old, "spec"), mapping_at(new, "spec")
    if same(before, after):
        return []
    if not same(list_at(before, "tolerations"), list_at(after, "tolerations")):
        kept = list_at(after, "tolerations")
        if any(toleration not in kept for toleration in list_at(before, "tolerations")):
            return [
                forbidden_field(
                    "spec.tolerations", "existing toleration can not be modified except its tolerationSeconds"
                )
            ]
    if same(_comparable(before, before), _comparable(after, before)):
        return []
    return [forbidden_field("spec", UNCHANGEABLE)]


def _comparable(spec: Json, reference: Json) -> Json:
    plain: Json = copied(spec)
    for name in ("initContainers", "containers"):
        for index, container in enumerate(list_at(plain, name)):
            originals = list_at(reference, name)
            if index < len(originals):
                container["image"] = originals[index].get("image")
                container["resources"] = originals[index].get("resources")
    for name in ("activeDeadlineSeconds", "tolerations", "schedulingGates"):
        plain.pop(name, None)
    if list_at(reference, "schedulingGates"):
        plain.pop("nodeSelector", None)
        plain.pop("affinity", None)
    return plain
