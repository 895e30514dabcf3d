"""Fields a kind does not have, and values of the wrong type: found, reported, dropped."""

import json
import re
from collections.abc import Iterator
from typing import Any

import msgspec

from tgp.api import validation
from tgp.sim.apiserver import schemas
from tgp.sim.apiserver.core import Ask
from tgp.sim.apiserver.json_value import Json
from tgp.sim.apiserver.options import WriteOptions
from tgp.sim.apiserver.patch.fields import shown_path
from tgp.sim.apiserver.patch.typed import child_schema, item_element, item_schema, list_type, schema_of
from tgp.sim.apiserver.registry import Served
from tgp.sim.apiserver.status_errors import plain_500
from tgp.sim.apiserver.undecodable import Undecodable
from tgp.sim.apiserver.well_formed import is_closed, is_of_type, shape_of, wanted_type

GO_NAMES = {"string": "string", "integer": "int32", "number": "float64", "boolean": "bool", "array": "slice"}


def unknown_fields(served: Served, obj: Json) -> list[str]:
    """Paths of fields the schema does not declare; none where nothing is known."""
    if served.custom:
        if served.schema is None:
            return []
        return validation.unknown_fields(served.schema, obj)
    schema = schema_of(served)
    return list(_undeclared(schema, obj, "")) if schema and not shape_of(schema).fits(obj) else []


def without_unknown(served: Served, obj: Json) -> Json:
    """A custom object without what its schema does not know; a built-in one loses it when its struct is written."""
    return obj if served.schema is None else dict(validation.prune(served.schema, obj))


def _undeclared(schema: Json | None, value: Any, path: str) -> Iterator[str]:
    if schema is None:
        return
    if isinstance(value, dict):
        closed = is_closed(schema)
        for key, part in value.items():
            step = f"{path}.{key}" if path else key
            if closed and key not in schema["properties"]:
                yield step
            else:
                yield from _undeclared(child_schema(schema, key), part, step)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _undeclared(item_schema(schema), item, f"{path}[{index}]")


METADATA_ONLY: Json = {"type": "object", "properties": {"metadata": schemas.object_meta()}}


def check_types(served: Served, obj: Json) -> None:
    """A built-in object is decoded into a struct: a value of the wrong type is not decodable."""
    schema = METADATA_ONLY if served.custom else schema_of(served)
    if schema is None or shape_of(schema).fits(obj):
        return
    for path, wanted, found in _mistyped(schema, obj, ""):
        owner = path.rpartition(".")[0].rpartition(".")[2] or served.kind
        raise Undecodable(f"json: cannot unmarshal {found} into Go struct field {owner}.{path} of type {wanted}")


def _mistyped(schema: Json | None, value: Any, path: str) -> Iterator[tuple[str, str, str]]:
    if schema is None or value is None:
        return
    wanted = wanted_type(schema)
    if wanted and not is_of_type(wanted, value):
        yield path, GO_NAMES.get(wanted, "struct"), _go_word(value)
        return
    if isinstance(value, dict):
        for key, part in value.items():
            yield from _mistyped(child_schema(schema, key), part, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for item in value:
            if item is None and item_schema(schema):
                yield path, "struct", "null"
            yield from _mistyped(item_schema(schema), item, path)


def _go_word(value: Any) -> str:
    match value:
        case bool():
            return "bool"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def report(texts: list[str], options: WriteOptions, ask: Ask) -> None:
    """Warn of what a lenient reader drops; a strict one refuses (Undecodable)."""
    if options.validation == "Strict" and texts:
        raise Undecodable(f"strict decoding error: {', '.join(texts)}")
    for text in texts:
        ask.warn(text)


def report_unknown_in_patch(served: Served, obj: Json, options: WriteOptions, ask: Ask) -> None:
    """The same for what a patch makes of an object."""
    if options.validation != "Ignore":
        report([f'unknown field "{path}"' for path in unknown_fields(served, obj)], options, ask)


def check_declared(served: Served, config: Json) -> None:
    """An applied configuration may hold declared fields only, and each item of a keyed list once."""
    lines = [f".{path}: field not declared in schema" for path in unknown_fields(served, config)]
    lines += _misfit_items(schema_of(served), config, "")
    if not lines:
        return
    meta = config.get("metadata") or {}
    who = f"{meta.get('namespace', '')}/{meta.get('name', '')}; {served.group}/{served.version}, Kind={served.kind}"
    text = lines[0] if len(lines) == 1 else "errors:\n" + "\n".join(f"  {line}" for line in lines)
    raise plain_500(f"failed to create typed patch object ({who}): {text}")


def _misfit_items(schema: Json | None, value: Any, path: str) -> Iterator[str]:
    if isinstance(value, dict):
        for key, part in value.items():
            yield from _misfit_items(child_schema(schema, key), part, f"{path}.{key}")
        return
    kind = list_type(schema, value)
    if not kind:
        return
    keys = (schema or {}).get("x-kubernetes-list-map-keys") or []
    seen: set[str] = set()
    for index, item in enumerate(value):
        element = item_element(schema, item, kind)
        if element == "k:{}":
            named = " ".join(f'"{key}"' for key in keys)
            yield (
                f"{path}: element {index}: associative list with keys has an element that omits all key fields "
                f"[{named}] (and doesn't have default values for any key fields)"
            )
        elif element in seen:
            yield f"{path}: duplicate entries for key {shown_path((element,))}"
        seen.add(element)
        yield from _misfit_items(item_schema(schema), item, f"{path}{shown_path((element,))}")


MEMBER = re.compile(rb'"\s*:')


def repeated_fields(body: bytes) -> list[str]:
    """Paths of keys that stand twice in one JSON object. YAML readers refuse those themselves."""
    if body.lstrip()[:1] != b"{":
        return []
    plain = msgspec.json.decode(body)
    if len(MEMBER.findall(body)) == _members(plain):
        return []  # as many keys as colons after a quote: none was lost. The slow look is for the others
    found: list[str] = []
    _find_repeated(json.loads(body, object_pairs_hook=_Pairs), "", found)
    return found


class _Pairs(list[tuple[str, Any]]):
    """A JSON object with every member it was written with."""


def _members(value: Any) -> int:
    if isinstance(value, dict):
        return len(value) + sum(map(_members, value.values()))
    return sum(map(_members, value)) if isinstance(value, list) else 0


def _find_repeated(value: Any, path: str, found: list[str]) -> None:
    if isinstance(value, _Pairs):
        seen: set[str] = set()
        for key, part in value:
            step = f"{path}.{key}" if path else key
            if key in seen and step not in found:
                found.append(step)
            seen.add(key)
            _find_repeated(part, step, found)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            _find_repeated(item, f"{path}[{index}]", found)
