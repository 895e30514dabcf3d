"""What there is to look for below a schema, worked out once: most of an object has no default, no rule and no key."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

Schema: TypeAlias = Mapping[str, Any]
MOST_KNOWN = 20_000  # schemas; a few dozen CRDs. Beyond that the cache is emptied


@dataclass(frozen=True, slots=True)
class SchemaTraits:
    """Of a schema and everything inside it."""

    schema: Schema  # held, so that its id stays its own
    defaults: bool
    rules: bool
    unique_lists: bool  # of type set or map


_KNOWN: dict[int, SchemaTraits] = {}


def traits_of(schema: Schema) -> SchemaTraits:
    found = _KNOWN.get(id(schema))
    if found is None:
        if len(_KNOWN) > MOST_KNOWN:
            _KNOWN.clear()
        found = _KNOWN[id(schema)] = _worked_out(schema)
    return found


def _worked_out(schema: Schema) -> SchemaTraits:
    inner = [traits_of(each) for each in _parts(schema)]
    return SchemaTraits(
        schema,
        defaults=schema.get("default") is not None or any(each.defaults for each in inner),
        rules=bool(schema.get("x-kubernetes-validations")) or any(each.rules for each in inner),
        unique_lists=schema.get("x-kubernetes-list-type") in {"set", "map"} or any(each.unique_lists for each in inner),
    )


def _parts(schema: Schema) -> Iterator[Schema]:
    yield from schema.get("properties", {}).values()
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), Mapping):
            yield schema[key]
