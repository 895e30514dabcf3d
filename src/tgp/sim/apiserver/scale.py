"""The scale subresource: how many, without the rest."""

from collections.abc import Callable
from typing import Any

from tgp.sim.apiserver.core import Write
from tgp.sim.apiserver.field_manager import own_after_update
from tgp.sim.apiserver.json_value import Json, at, copied, mapping_at
from tgp.sim.apiserver.problems import invalid_value
from tgp.sim.apiserver.registry import Served
from tgp.sim.apiserver.status_errors import bad_request, conflict, invalid
from tgp.sim.apiserver.verbs.read import get
from tgp.sim.apiserver.verbs.update import change


def _paths(served: Served) -> tuple[list[str], list[str], list[str]]:
    """Where spec.replicas, status.replicas and the selector are."""
    if served.crd is None:
        return ["spec", "replicas"], ["status", "replicas"], ["spec", "selector"]
    row = next(row for row in served.crd["spec"]["versions"] if row["name"] == served.version)
    declared = row["subresources"]["scale"]

    def parts(name: str) -> list[str]:
        return [part for part in str(declared.get(name, "")).split(".") if part]

    return parts("specReplicasPath"), parts("statusReplicasPath"), parts("labelSelectorPath")


def scale_of(served: Served, obj: Json) -> Json:
    wanted, current, selector = _paths(served)
    meta = obj["metadata"]
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    status: Json = {"replicas": at(obj, *current) or 0}
    text = _selector_text(at(obj, *selector)) if selector else ""
    if text:
        status["selector"] = text
    replicas = at(obj, *wanted)
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {name: meta[name] for name in kept if name in meta},
        "spec": {"replicas": replicas} if replicas else {},
        "status": status,
    }


def _selector_text(selector: Any) -> str:
    if isinstance(selector, str):
        return selector
    if not isinstance(selector, dict):
        return ""
    terms = [f"{key}={value}" for key, value in sorted(mapping_at(selector, "matchLabels").items())]
    for row in selector.get("matchExpressions") or ():
        values = ",".join(sorted(row.get("values") or ()))
        match row.get("operator"):
            case "In" | "NotIn" as operator:
                terms.append(f"{row['key']} {operator.lower()} ({values})")
            case "Exists":
                terms.append(row["key"])
            case "DoesNotExist":
                terms.append(f"!{row['key']}")
    return ",".join(terms)


def rescale(write: Write, written: Callable[[Json], Json]) -> Json:
    """Write `.spec.replicas` of what `written` makes of the current Scale; returns the new Scale."""
    core, served, namespace, name = write.core, write.served, write.namespace, write.name
    existing = get(core, served, namespace, name)
    before = scale_of(served, existing.obj)
    sent = written(before)
    meta = mapping_at(sent, "metadata")
    if meta.get("name", name) != name:
        raise bad_request(f"the name of the object ({meta['name']}) does not match the name on the URL ({name})")
    if meta.get("resourceVersion") not in {None, "", existing.obj["metadata"]["resourceVersion"]}:
        raise conflict(served.group, served.plural, name)
    replicas = mapping_at(sent, "spec").get("replicas", 0)
    if not isinstance(replicas, int) or isinstance(replicas, bool) or replicas < 0:
        why = invalid_value("spec.replicas", replicas, "must be greater than or equal to 0")
        raise invalid("autoscaling", "Scale", name, [why])
    path, _, _ = _paths(served)

    def make(live: Json | None) -> Json:
        obj: Json = copied(live)
        holder = obj
        for part in path[:-1]:
            holder = holder.setdefault(part, {})
        holder[path[-1]] = replicas
        own_after_update(write.through("scale"), live or {}, obj)
        return obj

    done = change(write.through(""), make)
    return scale_of(served, done.record.obj)
