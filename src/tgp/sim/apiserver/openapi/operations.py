"""The paths of a resource and what may be done there, in OpenAPI v3.

kubectl reads three things off them: which kind lives at a path (explain), whether PATCH takes `fieldValidation`
(otherwise it would validate on its own side), and whether a kind takes strategic merge patches (apply).
"""

from typing import Any

from tgp.sim.apiserver.registry import Served, Subresource
from tgp.sim.apiserver.schemas import definition_name
from tgp.sim.apiserver.schemas.language import META, REF

JSON_PATCH, MERGE_PATCH = "application/json-patch+json", "application/merge-patch+json"
STRATEGIC_PATCH, APPLY_PATCH = "application/strategic-merge-patch+json", "application/apply-patch+yaml"

_WORDS = {
    "allowWatchBookmarks": ("boolean", "Send a bookmark now and then, so that a watch can be taken up again."),
    "continue": ("string", "Where the page before ended."),
    "dryRun": ("string", "All: go through every step but do not keep the result."),
    "fieldManager": ("string", "Under which name the fields written here are owned."),
    "fieldSelector": ("string", "Only objects with these field values."),
    "fieldValidation": ("string", "What to do about unknown or repeated fields: Ignore, Warn or Strict."),
    "force": ("boolean", "Take fields over from other managers (apply only)."),
    "gracePeriodSeconds": ("integer", "How long the object may take to end."),
    "labelSelector": ("string", "Only objects with these labels."),
    "limit": ("integer", "How many objects a page may hold."),
    "orphanDependents": ("boolean", "Deprecated: leave what it owns behind."),
    "pretty": ("string", "true: indent the answer."),
    "propagationPolicy": ("string", "What happens to what it owns: Orphan, Background or Foreground."),
    "resourceVersion": ("string", "The state to start from."),
    "resourceVersionMatch": ("string", "How exactly that state is meant: Exact or NotOlderThan."),
    "sendInitialEvents": ("boolean", "Begin a watch with the present objects, ended by a bookmark."),
    "timeoutSeconds": ("integer", "When to end the answer at the latest."),
    "watch": ("boolean", "Send changes as they happen."),
}
_LIST = (
    "allowWatchBookmarks",
    "continue",
    "fieldSelector",
    "labelSelector",
    "limit",
    "resourceVersion",
    "resourceVersionMatch",
    "sendInitialEvents",
    "timeoutSeconds",
    "watch",
)
_WRITE = ("dryRun", "fieldManager", "fieldValidation")
_DELETE = ("dryRun", "gracePeriodSeconds", "orphanDependents", "propagationPolicy")
_PARAMETERS = {
    "list": _LIST,
    "get": (),
    "post": _WRITE,
    "put": _WRITE,
    "patch": (*_WRITE, "force"),
    "delete": _DELETE,
    "deletecollection": (*_LIST, *_DELETE),
}
_METHODS = {"get": "get", "update": "put", "patch": "patch", "delete": "delete"}


def paths_of(served: Served, type_name: str) -> dict[str, Any]:
    """Every path of a resource: the collection, all namespaces, one object, its subresources."""
    root = f"/apis/{served.group}/{served.version}" if served.group else f"/api/{served.version}"
    inside = f"{root}/namespaces/{{namespace}}/{served.plural}" if served.namespaced else f"{root}/{served.plural}"
    paths = {inside: _collection(served, type_name)}
    if served.namespaced and "list" in served.verbs:
        paths[f"{root}/{served.plural}"] = _shared() | {"get": _operation(served, "list", f"{type_name}List")}
    item = {_METHODS[verb]: _operation(served, _METHODS[verb], type_name) for verb in served.verbs if verb in _METHODS}
    if item:
        paths[f"{inside}/{{name}}"] = _shared(served, name=True) | item
    for sub in served.subresources:
        paths[f"{inside}/{{name}}/{sub.name}"] = _subresource(served, sub, type_name)
    return {path: entry for path, entry in paths.items() if set(entry) - {"parameters"}}


def _collection(served: Served, type_name: str) -> dict[str, Any]:
    entry = _shared(served)
    if "list" in served.verbs:
        entry["get"] = _operation(served, "list", f"{type_name}List")
    if "create" in served.verbs:
        entry["post"] = _operation(served, "post", type_name)
    if "deletecollection" in served.verbs:
        entry["delete"] = _operation(served, "deletecollection", f"{META}.Status")
    return entry


def _subresource(served: Served, sub: Subresource, type_name: str) -> dict[str, Any]:
    own = definition_name(sub.group, sub.version, sub.kind) if sub.version else None
    body = own or (type_name if sub.kind == served.kind else definition_name("", "v1", sub.kind) or type_name)
    entry = _shared(served, name=True)
    for verb in sub.verbs:
        method = _METHODS.get(verb, "post")
        entry[method] = _operation(served, method, body, sub)
    return entry


def _operation(served: Served, action: str, body: str, sub: Subresource | None = None) -> dict[str, Any]:
    group, version = (sub.group, sub.version) if sub and sub.version else (served.group, served.version)
    kind = sub.kind if sub else served.kind
    what = f"{sub.name} of a {served.kind}" if sub else f"a {served.kind}"
    operation: dict[str, Any] = {
        "description": f"{action} {what}",
        "operationId": _operation_id(served, action, sub),
        "parameters": [_parameter(name) for name in _PARAMETERS[action]],
        "responses": {"200": {"description": "OK", "content": _content(body)}, "401": {"description": "Unauthorized"}},
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": {"group": group, "version": version, "kind": kind},
    }
    if action in {"post", "put"}:
        operation["requestBody"] = {"required": True, "content": {"*/*": {"schema": {"$ref": f"{REF}{body}"}}}}
    elif action == "patch":
        kinds = [JSON_PATCH, MERGE_PATCH, APPLY_PATCH] + ([] if served.custom else [STRATEGIC_PATCH])
        patch = {"schema": {"$ref": f"{REF}{META}.Patch"}}
        operation["requestBody"] = {"required": True, "content": dict.fromkeys(sorted(kinds), patch)}
    elif action in {"delete", "deletecollection"}:
        operation["requestBody"] = {"content": {"*/*": {"schema": {"$ref": f"{REF}{META}.DeleteOptions"}}}}
    return operation


def _operation_id(served: Served, action: str, sub: Subresource | None) -> str:
    group = served.group.partition(".")[0].capitalize() or "Core"
    scope = "Namespaced" if served.namespaced else ""
    return f"{action}{group}{served.version.capitalize()}{scope}{served.kind}{sub.name.capitalize() if sub else ''}"


def _content(body: str) -> dict[str, Any]:
    return {"application/json": {"schema": {"$ref": f"{REF}{body}"}}}


def _parameter(name: str) -> dict[str, Any]:
    kind, words = _WORDS[name]
    return {"name": name, "in": "query", "description": words, "schema": {"type": kind, "uniqueItems": True}}


def _shared(served: Served | None = None, *, name: bool = False) -> dict[str, Any]:
    listed = ["namespace"] if served and served.namespaced else []
    listed += ["name"] if name else []
    places = [
        {"name": one, "in": "path", "required": True, "schema": {"type": "string", "uniqueItems": True}}
        for one in listed
    ]
    return {"parameters": [*places, _parameter("pretty")]}
