"""An OpenAPI v2 document in the protobuf form that Kubernetes clients ask for.

The messages are those of gnostic's OpenAPIv2.proto; beside each writer stand the field numbers it uses. Anything a
message has no field for, and any value of free form, is written as text, which readers take as YAML (JSON is YAML).
"""

import struct
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

_VARINT, _DOUBLE, _BYTES = 0, 1, 2  # wire types
_OPERATIONS = (("get", 2), ("put", 3), ("post", 4), ("delete", 5), ("patch", 8))
_SCHEMA_TEXTS = (("$ref", 1), ("format", 2), ("title", 3), ("description", 4), ("pattern", 13))
_SCHEMA_DOUBLES = (("multipleOf", 6), ("maximum", 7), ("minimum", 9))
_SCHEMA_NUMBERS = (
    ("maxLength", 11),
    ("minLength", 12),
    ("maxItems", 14),
    ("minItems", 15),
    ("maxProperties", 17),
    ("minProperties", 18),
)
_SCHEMA_FLAGS = (("exclusiveMaximum", 8), ("exclusiveMinimum", 10), ("uniqueItems", 16))


def encode_v2(document: Mapping[str, Any]) -> bytes:
    """Document: swagger 1, info 2, paths 8, definitions 9."""
    info = _text(1, document["info"]["title"]) + _text(2, document["info"]["version"])
    paths = b"".join(_named(2, name, _path_item(item)) for name, item in document["paths"].items())
    definitions = b"".join(_named(1, name, _schema(schema)) for name, schema in document["definitions"].items())
    return _text(1, document["swagger"]) + _message(2, info) + _message(8, paths) + _message(9, definitions)


def _path_item(item: Mapping[str, Any]) -> bytes:
    """PathItem: the methods as in `_OPERATIONS`, parameters 9."""
    operations = b"".join(_message(number, _operation(item[name])) for name, number in _OPERATIONS if name in item)
    return operations + _parameters(9, item.get("parameters") or ())


def _operation(operation: Mapping[str, Any]) -> bytes:
    """Operation: description 3, id 5, produces 6, consumes 7, parameters 8, responses 9, extensions 13."""
    return b"".join(
        (
            _text(3, operation.get("description", "")),
            _text(5, operation.get("operationId", "")),
            *(_text(6, kind) for kind in operation.get("produces") or ()),
            *(_text(7, kind) for kind in operation.get("consumes") or ()),
            _parameters(8, operation.get("parameters") or ()),
            _message(9, b"".join(_named(1, code, _response(r)) for code, r in operation["responses"].items())),
            _extensions(13, operation),
        )
    )


def _response(response: Mapping[str, Any]) -> bytes:
    """ResponseValue: response 1 {description 1, schema 2 {schema 1}}."""
    schema = _message(2, _message(1, _schema(response["schema"]))) if "schema" in response else b""
    return _message(1, _text(1, response["description"]) + schema)


def _parameters(number: int, parameters: Iterable[Mapping[str, Any]]) -> bytes:
    """ParametersItem: parameter 1."""
    return b"".join(_message(number, _message(1, _parameter(one))) for one in parameters)


def _parameter(parameter: Mapping[str, Any]) -> bytes:
    """Parameter: body 1, or non-body 2 {query 3, path 4}."""
    name, place = _text(4, parameter["name"]), _text(2, parameter["in"])
    required = _flag(1, parameter.get("required", False))
    about = _text(3, parameter.get("description", ""))
    match parameter["in"]:
        case "body":
            body = _text(2, parameter["name"]) + _text(3, "body") + _flag(4, parameter.get("required", False))
            return _message(1, body + _message(5, _schema(parameter["schema"])))
        case "path":
            rest = _text(5, parameter["type"]) + _flag(19, parameter.get("uniqueItems", False))
            return _message(2, _message(4, required + place + about + name + rest))
        case _:
            rest = _text(6, parameter["type"]) + _flag(20, parameter.get("uniqueItems", False))
            return _message(2, _message(3, required + place + about + name + rest))


def _schema(schema: Mapping[str, Any]) -> bytes:
    """Schema: scalars as in the tables above, then default 5, required 19, enum 20, the structure, extensions 31."""
    parts = [_text(number, schema[name]) for name, number in _SCHEMA_TEXTS if isinstance(schema.get(name), str)]
    parts += [_any(5, schema["default"])] if "default" in schema else []
    parts += [_double(number, schema[name]) for name, number in _SCHEMA_DOUBLES if name in schema]
    parts += [_number(number, schema[name]) for name, number in _SCHEMA_NUMBERS if name in schema]
    parts += [_flag(number, schema.get(name, False)) for name, number in _SCHEMA_FLAGS]
    parts += [_text(19, name) for name in schema.get("required") or ()]
    parts += [_any(20, value) for value in schema.get("enum") or ()]
    return b"".join(parts) + _structure(schema) + _extensions(31, schema)


def _structure(schema: Mapping[str, Any]) -> bytes:
    """Schema: additionalProperties 21 {schema 1, boolean 2}, type 22 {value 1}, items 23 {schema 1}, properties 25."""
    parts = []
    extra = schema.get("additionalProperties")
    if isinstance(extra, Mapping):
        parts.append(_message(21, _message(1, _schema(extra))))
    elif extra:
        parts.append(_message(21, _flag(2, value=True)))
    if "type" in schema:
        parts.append(_message(22, _text(1, schema["type"])))
    if "items" in schema:
        parts.append(_message(23, _message(1, _schema(schema["items"]))))
    if "properties" in schema:
        named = b"".join(_named(1, name, _schema(value)) for name, value in schema["properties"].items())
        parts.append(_message(25, named))
    return b"".join(parts)


def _extensions(number: int, thing: Mapping[str, Any]) -> bytes:
    """NamedAny: name 1, value 2."""
    return b"".join(
        _message(number, _text(1, name) + _any(2, value)) for name, value in thing.items() if name.startswith("x-")
    )


def _any(number: int, value: Any) -> bytes:
    """Any: yaml 2."""
    return _message(number, _text(2, msgspec.json.encode(value).decode() + "\n"))


def _named(number: int, name: str, value: bytes) -> bytes:
    return _message(number, _text(1, name) + _message(2, value))


def _message(number: int, content: bytes) -> bytes:
    return _varint(number << 3 | _BYTES) + _varint(len(content)) + content


def _text(number: int, text: str) -> bytes:
    return _message(number, text.encode()) if text else b""


def _flag(number: int, value: bool) -> bytes:
    return _number(number, 1) if value else b""


def _number(number: int, value: int) -> bytes:
    return _varint(number << 3 | _VARINT) + _varint(value)


def _double(number: int, value: float) -> bytes:
    return _varint(number << 3 | _DOUBLE) + struct.pack("<d", value)


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1  # negative numbers travel as their 64-bit complement
    encoded = bytearray()
    while value > 0x7F:  # at most ten rounds
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)
