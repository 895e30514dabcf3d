"""One group and version as an OpenAPI v3 document."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tgp.sim.apiserver.openapi.operations import paths_of
from tgp.sim.apiserver.registry import Served
from tgp.sim.apiserver.schemas import definition_name, reachable
from tgp.sim.apiserver.schemas.language import META, REF, references

_ALWAYS = (f"{META}.DeleteOptions", f"{META}.Status", f"{META}.ObjectMeta", f"{META}.ListMeta", f"{META}.Patch")


def document_v3(served: Sequence[Served]) -> dict[str, Any]:
    """Paths and every type they lead to, for resources of one group and version."""
    paths: dict[str, Any] = {}
    for one in served:
        paths |= paths_of(one, type_name(one))
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "v1.36.3"},
        "paths": dict(sorted(paths.items())),
        "components": {"schemas": schemas_of(served)},
    }


def schemas_of(served: Iterable[Served]) -> dict[str, dict[str, Any]]:
    """Every type these resources speak of, by full name and in name order."""
    own: dict[str, dict[str, Any]] = {}
    wanted = list(_ALWAYS)
    for one in served:
        name = type_name(one)
        own[f"{name}List"] = _list_type(one, name)
        for sub in one.subresources:
            other = definition_name(sub.group, sub.version, sub.kind) if sub.version else None
            wanted += [other] if other else []
        if one.custom:
            own[name] = _custom_type(one)
        elif definition_name(one.group, one.version, one.kind):
            wanted.append(name)
        else:
            own[name] = _undescribed_type(one)
    for schema in own.values():
        wanted += [target for target in references(schema) if target not in own]
    return dict(sorted((own | reachable(wanted)).items()))


def type_name(served: Served) -> str:
    """The full name of a resource's type; a custom one is named by its group in reverse, as the API server does."""
    known = definition_name(served.group, served.version, served.kind)
    if known and not served.custom:
        return known
    reverse = ".".join(reversed(served.group.split(".")))
    return f"{reverse}.{served.version}.{served.kind}"


def _identity(served: Served, kind: str) -> list[dict[str, str]]:
    return [{"group": served.group, "version": served.version, "kind": kind}]


def _type_meta(metadata: str) -> dict[str, Any]:
    return {
        "apiVersion": {"type": "string", "description": "The group and version this object is written in."},
        "kind": {"type": "string", "description": "What this object is."},
        "metadata": {
            "allOf": [{"$ref": f"{REF}{META}.{metadata}"}],
            "description": "What every object carries." if metadata == "ObjectMeta" else "What every list carries.",
        },
    }


def _list_type(served: Served, name: str) -> dict[str, Any]:
    items = {"type": "array", "items": {"$ref": f"{REF}{name}"}, "description": f"{served.kind} objects."}
    return {
        "type": "object",
        "description": f"A list of {served.kind}.",
        "required": ["items"],
        "properties": {**_type_meta("ListMeta"), "items": items},
        "x-kubernetes-group-version-kind": _identity(served, served.list_kind or f"{served.kind}List"),
    }


def _custom_type(served: Served) -> dict[str, Any]:
    schema: Mapping[str, Any] = served.schema or {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    properties = {**(schema.get("properties") or {}), **_type_meta("ObjectMeta")}
    return {
        **schema,
        "properties": dict(sorted(properties.items())),
        "x-kubernetes-group-version-kind": _identity(served, served.kind),
    }


def _undescribed_type(served: Served) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": _type_meta("ObjectMeta"),
        "x-kubernetes-preserve-unknown-fields": True,
        "x-kubernetes-group-version-kind": _identity(served, served.kind),
    }
