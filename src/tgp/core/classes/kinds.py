"""Are the CRDs in the cluster as new as this operator needs? What a newer one has besides does no harm."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

SHOWN = 3  # fields in one message
OF_EVERY_KIND = frozenset({"apiVersion", "kind", "metadata"})  # the API server knows them by itself


def fields_of(definition: Mapping[str, Any]) -> frozenset[str]:
    """Every field of ours that a CRD knows, in the versions that it serves: `spec.limits.maxNodes`."""
    return frozenset(name for schema in _schemas(definition) for name in _fields(schema, "")) - OF_EVERY_KIND


def lacking(wanted: Collection[str], definition: Mapping[str, Any]) -> frozenset[str]:
    """Of these fields, those that the CRD does not keep. An object that keeps unknown fields lacks none below it."""
    open_ = tuple(place for schema in _schemas(definition) for place in _open(schema, ""))
    return frozenset(name for name in set(wanted) - fields_of(definition) if not name.startswith(open_))


def _schemas(definition: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for version in definition.get("spec", {}).get("versions", ()):
        if version.get("served"):
            yield version.get("schema", {}).get("openAPIV3Schema", {})


def _fields(schema: Mapping[str, Any], prefix: str) -> Iterator[str]:
    for name, below in (schema.get("properties") or {}).items():
        yield prefix + name
        yield from _fields(below, f"{prefix}{name}.")
    for below in _inside(schema):
        yield from _fields(below, prefix)


def _open(schema: Mapping[str, Any], prefix: str) -> Iterator[str]:
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        yield prefix
    for name, below in (schema.get("properties") or {}).items():
        yield from _open(below, f"{prefix}{name}.")
    for below in _inside(schema):
        yield from _open(below, prefix)


def _inside(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """What a list or a map holds."""
    for below in (schema.get("items"), schema.get("additionalProperties")):
        if isinstance(below, Mapping):
            yield below


def outdated(missing: Mapping[str, Sequence[str]], version: str) -> str:
    """`missing`: by the name of a CRD, the fields that this operator needs and that it does not have; empty: none."""
    parts = []
    for name, fields in sorted(missing.items()):
        rest = f" and {len(fields) - SHOWN} more" if len(fields) > SHOWN else ""
        parts.append(f"CRD {name} does not have {', '.join(sorted(fields)[:SHOWN])}{rest}")
    if not parts:
        return ""
    why = f"The CRDs are older than operator {version} needs: {'; '.join(parts)}. Nothing is launched"
    return f"{why}; machines are still terminated when due. Update the CRDs: tgp crds apply"
