"""Pruning and defaulting by a structural schema, as the API server does before it validates.

Works on any CRD's `openAPIV3Schema` as plain JSON. Nothing is changed in place: each function returns a new value.
The API server's order is `unknown_fields` (which strict field validation reports), `prune`, `default`, validation.
"""

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import msgspec

from tgp.api.schema_traits import traits_of

META_FIELDS = frozenset({"apiVersion", "kind", "metadata"})  # kept at the root whatever the schema says
METADATA_FIELDS = frozenset(  # of metav1.ObjectMeta; the API server knows these and drops the rest
    {
        "name",
        "generateName",
        "namespace",
        "selfLink",
        "uid",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "labels",
        "annotations",
        "ownerReferences",
        "finalizers",
        "managedFields",
    }
)
_NOTHING: Mapping[str, Any] = {}


def child_schema(schema: Mapping[str, Any], key: str) -> Mapping[str, Any] | None:
    """The schema of one member: a named property, else the common one of all others; None: the schema knows no such."""
    properties = schema.get("properties", _NOTHING)
    if key in properties:
        found: Mapping[str, Any] = properties[key]
        return found
    others = schema.get("additionalProperties")
    if isinstance(others, Mapping):
        return others
    return _NOTHING if others is True else None


def prune(schema: Mapping[str, Any], obj: Any) -> Any:
    """The object without the fields its schema does not know; of the root's metadata, without what no object has."""
    if _knows(schema, obj):
        return msgspec.to_builtins(obj)
    kept, _ = _pruned_root(schema, obj)
    return kept


def unknown_fields(schema: Mapping[str, Any], obj: Any) -> list[str]:
    """Paths of the fields that `prune` removes, sorted; the API server reports `unknown field "spec.foo"`."""
    if _knows(schema, obj):
        return []
    _, unknown = _pruned_root(schema, obj)
    return sorted(unknown)


def default(schema: Mapping[str, Any], obj: Any) -> Any:
    """The object with the schema's defaults filled in.

    A null where none is allowed counts as absent: it takes the default, or goes away where there is none.
    """
    if b"null" not in msgspec.json.encode(obj):  # nearly always
        return _defaulted(schema, msgspec.to_builtins(obj))
    return _defaulted(schema, _without_nulls(schema, obj))


def _pruned_root(schema: Mapping[str, Any], obj: Any) -> tuple[Any, list[str]]:
    kept, unknown = _pruned({**schema, "x-kubernetes-embedded-resource": True}, obj, "")
    metadata = kept.get("metadata") if isinstance(kept, dict) else None
    if isinstance(metadata, dict):
        kept["metadata"] = {key: value for key, value in metadata.items() if key in METADATA_FIELDS}
        unknown += [f"metadata.{key}" for key in metadata if key not in METADATA_FIELDS]
    return kept, unknown


def _knows(schema: Mapping[str, Any], obj: Any) -> bool:
    """A quick yes to "is every field declared"; the slow look is for the others."""
    if not isinstance(obj, dict):
        return False
    metadata = obj.get("metadata")
    if isinstance(metadata, dict) and not METADATA_FIELDS.issuperset(metadata):
        return False
    return all(key in META_FIELDS or _known(child_schema(schema, key), member) for key, member in obj.items())


def _known(schema: Mapping[str, Any] | None, value: Any) -> bool:
    if schema is None:
        return False
    if isinstance(value, dict):
        for key, member in value.items():
            inner = child_schema(schema, key)
            if inner is None or (isinstance(member, dict | list) and not _known(inner, member)):
                return False
    elif isinstance(value, list):
        items = schema.get("items")
        return items is not None and all(_known(items, item) for item in value)
    return True


def _pruned(schema: Mapping[str, Any] | None, value: Any, path: str) -> tuple[Any, list[str]]:
    if isinstance(value, list):
        return _pruned_list(schema, value, path)
    if not isinstance(value, dict):
        return value, []
    preserves = schema is not None and schema.get("x-kubernetes-preserve-unknown-fields") is True
    embedded = schema is not None and schema.get("x-kubernetes-embedded-resource") is True
    kept: dict[str, Any] = {}
    unknown: list[str] = []
    for key, member in value.items():
        where = f"{path}.{key}" if path else key
        inner = None if schema is None else child_schema(schema, key)
        if (embedded and key in META_FIELDS) or (inner is None and preserves):
            kept[key] = member
        elif inner is None:
            unknown.append(where)
        else:
            kept[key], deeper = _pruned(inner, member, where)
            unknown += deeper
    return kept, unknown


def _pruned_list(schema: Mapping[str, Any] | None, value: list[Any], path: str) -> tuple[list[Any], list[str]]:
    items = None if schema is None else schema.get("items")
    if items is None and schema is not None and schema.get("x-kubernetes-preserve-unknown-fields") is True:
        return value, []
    kept, unknown = [], []
    for index, item in enumerate(value):
        member, deeper = _pruned(items, item, f"{path}[{index}]")
        kept.append(member)
        unknown += deeper
    return kept, unknown


def _without_nulls(schema: Mapping[str, Any] | None, value: Any) -> Any:
    if isinstance(value, list):
        items = None if schema is None else schema.get("items")
        return [_without_nulls(items, item) for item in value]
    if not isinstance(value, dict):
        return value
    kept = {}
    for key, member in value.items():
        inner = None if schema is None else child_schema(schema, key)
        if member is None and inner is not None and not inner.get("nullable") and inner.get("default") is None:
            continue
        kept[key] = _without_nulls(inner, member)
    return kept


def _defaulted(schema: Mapping[str, Any] | None, value: Any) -> Any:
    if schema is None or not traits_of(schema).defaults:
        return value
    if isinstance(value, list):
        return [_filled(schema.get("items"), item) for item in value]
    if not isinstance(value, dict):
        return value
    filled = dict(value)
    for key, inner in schema.get("properties", _NOTHING).items():
        if inner.get("default") is not None and (key not in filled or _is_bad_null(inner, filled[key])):
            filled[key] = deepcopy(inner["default"])
    return {key: _filled(child_schema(schema, key), member) for key, member in filled.items()}


def _filled(schema: Mapping[str, Any] | None, value: Any) -> Any:
    return _defaulted(schema, _or_default(schema, value))


def _or_default(schema: Mapping[str, Any] | None, value: Any) -> Any:
    return deepcopy(schema.get("default")) if schema is not None and _is_bad_null(schema, value) else value


def _is_bad_null(schema: Mapping[str, Any], value: Any) -> bool:
    return value is None and not schema.get("nullable")
