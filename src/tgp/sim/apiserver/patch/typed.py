"""Walking an object along its schema: which fields it has, what differs, how two merge, what a removal leaves.

Lists are atomic unless the schema says `map` (items known by keys) or `set`; mappings merge field by field unless the
schema says atomic. Where the schema is silent (preserved unknown fields) mappings merge and lists are atomic.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tgp.sim.apiserver import schemas
from tgp.sim.apiserver.json_value import Json, same
from tgp.sim.apiserver.patch.fields import Fields, Path
from tgp.sim.apiserver.registry import Served

MISSING = object()
KEY_DEFAULTS = {"protocol": "TCP"}  # the one list key with a default that API schemas leave to code
# Go structs that are written even when empty: a new object has them already, so no manager adds them
ALWAYS_THERE = frozenset({"metadata", "spec", "status", "template", "strategy", "updateStrategy", "containers"})


def schema_of(served: Served) -> Json | None:
    """The schema to walk along; None: nothing is known, so everything is deduced from the values."""
    if not served.custom:
        return schemas.schema_for(served.group, served.version, served.kind)
    if served.schema is None:
        return None
    properties = {**(served.schema.get("properties") or {}), "metadata": schemas.object_meta()}
    return {**served.schema, "properties": properties}


def child_schema(schema: Json | None, key: str) -> Json | None:
    if schema is None:
        return None
    found = (schema.get("properties") or {}).get(key)
    if found is not None:
        return found if isinstance(found, dict) else None
    extra = schema.get("additionalProperties")
    return extra if isinstance(extra, dict) else None


def is_declared(schema: Json | None, key: str) -> bool:
    return schema is not None and key in (schema.get("properties") or {})


def item_schema(schema: Json | None) -> Json | None:
    items = (schema or {}).get("items")
    return items if isinstance(items, dict) else None


def is_granular_map(schema: Json | None, value: Any) -> bool:
    return isinstance(value, dict) and (schema or {}).get("x-kubernetes-map-type") != "atomic"


def list_type(schema: Json | None, value: Any) -> str:
    """`map` or `set`; empty for atomic lists and for what is no list."""
    if not isinstance(value, list):
        return ""
    kind = (schema or {}).get("x-kubernetes-list-type", "")
    if kind == "map" and all(isinstance(item, dict) for item in value):
        return "map"
    return "set" if kind == "set" else ""


def item_element(schema: Json | None, item: Any, kind: str) -> str:
    if kind == "set":
        return "v:" + msgspec.json.encode(item).decode()
    keys = {}
    for name in sorted((schema or {}).get("x-kubernetes-list-map-keys") or ()):
        value = item.get(name, _key_default(schema, name))
        if value is not None:
            keys[name] = value
    return "k:" + msgspec.json.encode(keys).decode()


def _key_default(schema: Json | None, name: str) -> Any:
    declared = child_schema(item_schema(schema), name) or {}
    return declared.get("default", KEY_DEFAULTS.get(name))


def _kind(schema: Json | None, value: Any) -> str:
    if is_granular_map(schema, value):
        return "fields"
    return list_type(schema, value)


def children(schema: Json | None, value: Any) -> Iterator[tuple[str, Json | None, Any]]:
    """The parts of a value that are owned one by one: element, schema, part. Nothing for a leaf."""
    kind = _kind(schema, value)
    if kind == "fields":
        for key, part in value.items():
            yield f"f:{key}", child_schema(schema, key), part
    elif kind:
        items = item_schema(schema)
        for item in value:
            yield item_element(schema, item, kind), items, item


def fields_of(schema: Json | None, value: Any, path: Path = ()) -> Fields:
    """What an applied configuration owns: its leaves, its list items, and entries of free-form maps."""
    found: Fields = set()
    kind = _kind(schema, value)
    if kind in {"map", "set"} and not value:
        return found  # an empty list holds nothing to own
    if not kind or not value:
        return {path} if path else found
    for element, part_schema, part in children(schema, value):
        step = (*path, element)
        if kind != "fields" or not is_declared(schema, element[2:]):
            found.add(step)
        if kind == "set":
            continue
        found |= fields_of(part_schema, part, step)
    return found


@dataclass(slots=True)
class Difference:
    added: Fields = field(default_factory=set)
    modified: Fields = field(default_factory=set)
    removed: Fields = field(default_factory=set)
    builtin: bool = False  # structs a new built-in object always has are not counted as added

    def without(self, ignored: "Ignored") -> "Difference":
        return Difference(ignored.strip(self.added), ignored.strip(self.modified), ignored.strip(self.removed))


@dataclass(frozen=True, slots=True)
class Ignored:
    """Fields without an owner: exact paths, and whole branches."""

    exact: frozenset[Path]
    branches: tuple[Path, ...] = ()

    def strip(self, fields: Fields) -> Fields:
        kept = fields - self.exact
        if not self.branches:
            return kept
        return {path for path in kept if not any(path[: len(branch)] == branch for branch in self.branches)}


def differ(schema: Json | None, old: Any, new: Any, *, builtin: bool = False) -> Difference:
    found = Difference(builtin=builtin)
    _differ(schema, old, new, (), found)
    return found


def _differ(schema: Json | None, old: Any, new: Any, path: Path, found: Difference) -> None:
    if old is new:
        return
    if isinstance(old, dict) and is_granular_map(schema, new) and (old or new):
        _differ_fields(schema, old, new, path, found)
        return
    old_kind, new_kind = _kind(schema, old), _kind(schema, new)
    kind = new_kind or old_kind
    if not kind or (not old and not new) or (old_kind and new_kind and old_kind != new_kind):
        _differ_leaf(old, new, path, found)
        return
    if (old is not MISSING and not old_kind) or (new is not MISSING and not new_kind):
        _differ_leaf(old, new, path, found)  # a mapping became something else, or the other way round
        return
    before = {element: (part_schema, part) for element, part_schema, part in children(schema, old)} if old_kind else {}
    after = {element: (part_schema, part) for element, part_schema, part in children(schema, new)} if new_kind else {}
    for element, (part_schema, part) in after.items():
        known = before.get(element)
        _differ(part_schema, known[1] if known else MISSING, part, (*path, element), found)
    for element, (part_schema, part) in before.items():
        if element not in after:
            _differ(part_schema, part, MISSING, (*path, element), found)
    if path and old is MISSING and not (found.builtin and _is_always_there(path)):
        found.added.add(path)
    elif path and new is MISSING:
        found.removed.add(path)


def _differ_fields(schema: Json | None, old: Json, new: Json, path: Path, found: Difference) -> None:
    """Most of every comparison: one mapping, before and after, with most of its fields as they were."""
    for key, part in new.items():
        known = old.get(key, MISSING)
        if known is not part and not (isinstance(part, str) and known == part):
            _differ(child_schema(schema, key), known, part, (*path, f"f:{key}"), found)
    for key, part in old.items():
        if key not in new:
            _differ(child_schema(schema, key), part, MISSING, (*path, f"f:{key}"), found)


def _is_always_there(path: Path) -> bool:
    return path[-1][2:] in ALWAYS_THERE and all(element.startswith("f:") for element in path)


def _differ_leaf(old: Any, new: Any, path: Path, found: Difference) -> None:
    if old is MISSING:
        found.added.add(path)
    elif new is MISSING:
        found.removed.add(path)
    elif not same(old, new):
        found.modified.add(path)


def merged(schema: Json | None, live: Any, applied: Any) -> Any:
    """`live` with what `applied` says laid over it."""
    kind = _kind(schema, applied)
    if not kind or _kind(schema, live) != kind:
        return applied
    if kind == "fields":
        result = dict(live)
        for key, part in applied.items():
            result[key] = merged(child_schema(schema, key), live[key], part) if key in live else part
        return result
    return _merged_list(schema, live, applied, kind)


def _merged_list(schema: Json | None, live: list[Any], applied: list[Any], kind: str) -> list[Any]:
    """Shared items come in the applied order; items only the live list has stay where they stood among them."""
    items = item_schema(schema)
    have = {item_element(schema, item, kind): item for item in live}
    asked = {item_element(schema, item, kind): item for item in applied}
    result: list[Any] = []
    waiting = iter(asked.items())
    placed: set[str] = set()
    for element, item in have.items():
        if element not in asked:
            result.append(item)
            continue
        while element not in placed:
            following, wanted = next(waiting)
            placed.add(following)
            result.append(merged(items, have[following], wanted) if following in have else wanted)
    result += [wanted for _, wanted in waiting]
    return result


def pruned(schema: Json | None, value: Any, gone: Fields, path: Path = (), *, nulls: bool = False) -> Any:
    """`value` without every part whose path is in `gone`.

    A container that loses its last part stays, empty; or, with `nulls`, leaves a null, as the real server has it in
    what it reads without a Go type (custom kinds outside their metadata).
    """
    kind = _kind(schema, value)
    emptied: Any = None if nulls and value and path[:1] != ("f:metadata",) else type(value)()
    if kind == "fields":
        kept: Any = {
            key: pruned(child_schema(schema, key), part, gone, step, nulls=nulls)
            for key, part in value.items()
            if (step := (*path, f"f:{key}")) not in gone
        }
        return kept or emptied
    if kind:
        items = item_schema(schema)
        kept = [
            pruned(items, item, gone, step, nulls=nulls)
            for item in value
            if (step := (*path, item_element(schema, item, kind))) not in gone
        ]
        return kept or emptied
    return value
