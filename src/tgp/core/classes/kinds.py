"""Are the CRDs in the cluster as new as this operator needs? What a newer one has besides does no harm."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

SHOWN = 3  # fields in one message


def fields_of(definition: Mapping[str, Any]) -> frozenset[str]:
    """Every field that a CRD knows, in the versions that it serves: `spec.limits.maxNodes`."""
    versions = (each for each in definition.get("spec", {}).get("versions", ()) if each.get("served"))
    return frozenset(
        name for each in versions for name in _fields(each.get("schema", {}).get("openAPIV3Schema", {}), "")
    )


def _fields(schema: Mapping[str, Any], prefix: str) -> Iterator[str]:
    for name, below in (schema.get("properties") or {}).items():
        yield prefix + name
        yield from _fields(below, f"{prefix}{name}.")
    for below in (schema.get("items"), schema.get("additionalProperties")):
        if isinstance(below, Mapping):
            yield from _fields(below, prefix)


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
