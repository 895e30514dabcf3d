"""The built-in kinds, described: fields, types, list and merge keys, short documentation.

The field lists are those of Kubernetes 1.36 and complete, so a field that is not in them is an unknown field on a real
API server too: it may be warned about, refused under `fieldValidation=Strict`, and dropped. A test compares every type
with what a real API server publishes. Documentation is ours and covers the fields users ask about.

`schema_for` gives one kind with its references followed, for walking along with an object. The schemas are shared and
some are cyclic (a CRD's schema describes schemas): read them, never change or print them whole.
"""

from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any

from tgp.sim.apiserver.schemas.language import META, REF, SIMPLE_TYPES, Library, references

_FILES = (
    "meta",
    "volumes",
    "pod",
    "node",
    "core",
    "apps",
    "batch",
    "policy",
    "access",
    "admission",
    "extension",
)


@cache
def library() -> Library:
    """All descriptions, read once."""
    here = resources.files(__package__)
    loaded = Library(definitions=dict(SIMPLE_TYPES))
    for name in _FILES:
        loaded.read((here / f"{name}.txt").read_text("utf-8"))
    loaded.check()
    return loaded


def definitions() -> Mapping[str, dict[str, Any]]:
    """Every type by its full name (`io.k8s.api.core.v1.Pod`), references as `$ref`. Shared: copy before changing."""
    return library().definitions


def definition_name(group: str, version: str, kind: str) -> str | None:
    """The full name of a built-in kind's type; None: no such kind is described."""
    return library().kinds.get((group, version, kind))


@cache
def schema_for(group: str, version: str, kind: str) -> dict[str, Any] | None:
    """A built-in kind with its references followed; None: no such kind is described. Shared and read-only."""
    name = definition_name(group, version, kind)
    return None if name is None else resolved(name)


def object_meta() -> dict[str, Any]:
    """What `metadata` of any object looks like, custom resources included. Shared and read-only."""
    return resolved(f"{META}.ObjectMeta")


def reachable(names: list[str]) -> dict[str, dict[str, Any]]:
    """The named types and all they lead to, in name order: what one OpenAPI document has to carry."""
    found: set[str] = set()
    waiting = list(names)
    while waiting:  # ends: every type is expanded once
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += references(definitions()[name])
    return {name: definitions()[name] for name in sorted(found)}


def resolved(name: str) -> dict[str, Any]:
    """One type with references followed. A cycle leads back to the same dictionary."""
    return _graph()[name]


@cache
def _graph() -> dict[str, dict[str, Any]]:
    graph: dict[str, dict[str, Any]] = {name: {} for name in definitions()}
    borrowed: list[tuple[dict[str, Any], str]] = []  # a field that adds its own words to a type it refers to
    for name, schema in definitions().items():
        graph[name].update({key: _follow(value, graph, borrowed) for key, value in schema.items()})
    for schema, target in borrowed:
        schema.update(graph[target] | schema)
    return graph


def _follow(schema: Any, graph: dict[str, dict[str, Any]], borrowed: list[tuple[dict[str, Any], str]]) -> Any:
    if isinstance(schema, list):
        return [_follow(item, graph, borrowed) for item in schema]
    if not isinstance(schema, dict):
        return schema
    if isinstance(schema.get("$ref"), str):
        return graph[schema["$ref"].removeprefix(REF)]
    copy = {key: _follow(value, graph, borrowed) for key, value in schema.items() if key != "allOf"}
    if "allOf" in schema and isinstance(schema["allOf"], list):
        borrowed.append((copy, schema["allOf"][0]["$ref"].removeprefix(REF)))
    return copy
