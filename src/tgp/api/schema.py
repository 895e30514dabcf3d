"""From a described type to its structural OpenAPI schema."""

import types
import typing
from collections.abc import Iterator
from datetime import datetime
from functools import cache
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec

from tgp.api.field import ApiStruct, Field, Rule

PLAIN = Field()
_SCALARS: dict[Any, str] = {str: "string", bool: "boolean", int: "integer", float: "number"}


def object_schema(type_: type[ApiStruct]) -> dict[str, Any]:
    """The schema of a kind as it stands in its CRD: the API server handles metadata."""
    schema = _of_struct(type_, PLAIN)
    schema["properties"] |= {
        "apiVersion": {"type": "string", "description": "The version of this kind, such as tgp.io/v1."},
        "kind": {"type": "string", "description": "The kind of this object."},
        "metadata": {"type": "object"},
        # Only the operator writes status: what is absent was not observed.
        "status": _without_defaults(schema["properties"]["status"]),
    }
    return schema


def _without_defaults(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_without_defaults(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: _without_defaults(part) for key, part in schema.items() if key != "default"}


def rules_of(type_: type[ApiStruct]) -> Iterator[Rule]:
    """Every rule of a type, its fields' and theirs; the same rule may come more than once."""
    yield from type_.object_rules
    for hint, _ in members(type_).values():
        yield from _rules_in(hint)


@cache
def members(type_: type[ApiStruct]) -> dict[str, tuple[Any, msgspec.structs.FieldInfo]]:
    """Each member's described type and its msgspec record, by its name in JSON. Do not change it: it is shared."""
    hints = typing.get_type_hints(type_, include_extras=True)
    return {info.encode_name: (hints[info.name], info) for info in msgspec.structs.fields(type_)}


@cache
def said_of(type_: type[ApiStruct]) -> tuple[tuple[str, str, Field], ...]:
    """Each member's name in JSON, its name in Python, and what was said about it."""
    return tuple((name, info.name, described(hint)[1]) for name, (hint, info) in members(type_).items())


def described(hint: Any) -> tuple[Any, Field]:
    """A type without its wrapping, and what was said about it. `X | None` is X: absence is not a value in JSON."""
    field = PLAIN
    while True:
        if get_origin(hint) is Annotated:
            inner, *notes = get_args(hint)
            said = next((note for note in reversed(notes) if isinstance(note, Field)), None)
            field = said if field is PLAIN and said is not None else field
            hint = inner
        elif get_origin(hint) in {Union, types.UnionType} and type(None) in get_args(hint):
            rest = tuple(arm for arm in get_args(hint) if arm is not type(None))
            hint = rest[0] if len(rest) == 1 else Union[rest]  # noqa: UP007 (a union built at run time)
        else:
            return hint, field


def default_of(info: msgspec.structs.FieldInfo) -> Any:
    """The CRD's default of a member as JSON; None: there is none."""
    if info.default in (msgspec.NODEFAULT, None, ()):
        return None
    if isinstance(info.default, tuple):
        return [_item_written(item) for item in info.default]
    return msgspec.to_builtins(info.default)  # of an object only {}: what is inside follows from its own defaults


def _item_written(item: Any) -> Any:
    """Items are written out: [{nodes: 10%}] says more than [{}]."""
    if not isinstance(item, ApiStruct):
        return item
    written = {name: default_of(info) for name, (_, info) in members(type(item)).items()}
    return {name: value for name, value in written.items() if value is not None}


def _of(hint: Any) -> dict[str, Any]:
    type_, field = described(hint)
    if get_origin(type_) is tuple:
        schema = _of_list(get_args(type_)[0], field)
    elif get_origin(type_) is dict:
        schema = {"type": "object", "additionalProperties": _of(get_args(type_)[1])}
    elif isinstance(type_, type) and issubclass(type_, ApiStruct):
        schema = _of_struct(type_, field)
    elif type_ is datetime:
        schema = {"type": "string", "format": "date-time"}
    elif type_ in _SCALARS:
        schema = {"type": _SCALARS[type_]}
    else:
        assert set(get_args(type_)) == {int, str}, f"no schema for {type_}"
        schema = {"x-kubernetes-int-or-string": True}
    return _with_bounds(schema, field)


def _of_list(item: Any, field: Field) -> dict[str, Any]:
    """Items carry no defaults: kubectl and GitOps tools compare lists whole, and would find ours changed for ever.

    The types supply them when the object is read.
    """
    items = _without_defaults(_of(item))
    schema = {"type": "array", "items": items, "x-kubernetes-list-type": field.list_type or "atomic"}
    if field.list_key:
        schema["x-kubernetes-list-map-keys"] = [field.list_key]
    return schema


def _of_struct(type_: type[ApiStruct], field: Field) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    required: list[str] = []
    for name, (hint, info) in members(type_).items():
        properties[name] = _of(hint)
        default = default_of(info)
        if default is not None:
            properties[name]["default"] = default
        if info.required:
            required.append(name)
    schema: dict[str, Any] = {"type": "object", "description": field.doc or _docstring(type_), "properties": properties}
    if required:
        schema["required"] = required
    if type_.object_map_type:
        schema["x-kubernetes-map-type"] = type_.object_map_type
    if type_.object_rules:
        schema["x-kubernetes-validations"] = [_written(rule) for rule in type_.object_rules]
    return schema


def _with_bounds(schema: dict[str, Any], field: Field) -> dict[str, Any]:
    bounds = {
        "description": field.doc or schema.get("description", ""),
        "enum": list(field.enum),
        "format": field.format,
        "pattern": field.pattern,
        "minimum": field.minimum,
        "maximum": field.maximum,
        "minLength": field.min_length,
        "maxLength": field.max_length,
        "minItems": field.min_items,
        "maxItems": field.max_items,
        "maxProperties": field.max_properties,
        "x-kubernetes-map-type": field.map_type,
    }
    schema |= {key: value for key, value in bounds.items() if value not in ("", None, [])}
    if field.rules:
        schema["x-kubernetes-validations"] = [
            *schema.get("x-kubernetes-validations", ()),
            *(_written(rule) for rule in field.rules),
        ]
    return schema


def _written(rule: Rule) -> dict[str, str]:
    written = {"rule": rule.cel, "message": rule.message, "fieldPath": rule.field, "reason": rule.reason}
    return {key: value for key, value in written.items() if value}


def _rules_in(hint: Any) -> Iterator[Rule]:
    type_, field = described(hint)
    yield from field.rules
    if isinstance(type_, type) and issubclass(type_, ApiStruct):
        yield from rules_of(type_)
    for inner in get_args(type_):
        if inner not in (str, int, float, ...):
            yield from _rules_in(inner)


def _docstring(type_: type) -> str:
    text = type_.__doc__ or ""
    return "\n".join(line.strip() for line in text.strip().splitlines())
