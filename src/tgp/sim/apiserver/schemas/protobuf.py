"""Built-in objects in the protobuf form that typed Go clients, kubectl's among them, send their bodies in.

Only reading is needed: a client that sends protobuf accepts JSON in answer. The types are those of the descriptions
beside this file; the order of their fields, which is all that protobuf adds, is in `wire.txt`.
"""

import base64
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

import msgspec

from tgp.ports.http import Call
from tgp.sim.apiserver.schemas import definition_name, definitions
from tgp.sim.apiserver.schemas.language import META
from tgp.sim.apiserver.schemas.layout import numbered, target_of
from tgp.sim.apiserver.status_errors import bad_request

MAGIC = b"k8s\x00"
MEDIA_TYPE = "application/vnd.kubernetes.protobuf"
_DEFINITIONS = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1"
_MAX_VARINT_BYTES = 10
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Json: TypeAlias = dict[str, Any]


class BadProtobuf(ValueError):
    """These bytes are not an object we can read; the text says why."""


def decode(body: bytes) -> Json:
    """The object in `body`, as it would look in JSON. Raises BadProtobuf."""
    if not body.startswith(MAGIC):
        raise BadProtobuf("the body does not begin like a Kubernetes protobuf message")
    kind, version, raw = _envelope(body[len(MAGIC) :])
    group, _, short = version.rpartition("/")
    name = definition_name(group, short, kind) or f"{META}.{kind}"  # options travel under any group's name
    if name not in definitions():
        raise BadProtobuf(f"no kind {kind!r} is registered for version {version!r}")
    return {"apiVersion": version, "kind": kind, **_message(name, raw)}


def in_json(call: Call) -> Call:
    """The same request with a JSON body, if it came with a protobuf one. Raises Failure for an unreadable one."""
    if not call.body or call.header("Content-Type").partition(";")[0].strip().lower() != MEDIA_TYPE:
        return call
    try:
        body = msgspec.json.encode(decode(call.body))
    except (BadProtobuf, UnicodeDecodeError) as error:
        raise bad_request(f"error decoding request body: {error}") from None
    headers = tuple((name, value) for name, value in call.headers if name.lower() != "content-type")
    return replace(call, body=body, headers=(*headers, ("Content-Type", "application/json")))


def _envelope(body: bytes) -> tuple[str, str, bytes]:
    """Unknown: typeMeta 1 {apiVersion 1, kind 2}, raw 2."""
    kind = version = ""
    raw = b""
    for number, value in _fields(body):
        if number == 1:
            parts = dict(_fields(_as_bytes(value)))
            version, kind = (_as_bytes(parts.get(key, b"")).decode() for key in (1, 2))
        elif number == 2:
            raw = _as_bytes(value)
    return kind, version, raw


def _message(name: str, body: bytes) -> Json:
    """One message; zero values of plain fields are left out, as JSON would."""
    if name in _SPECIAL_MESSAGES:
        raise BadProtobuf(f"{name} is no object")
    layout = numbered().get(name)
    if layout is None:
        raise BadProtobuf(f"the order of fields of {name} is not known")
    found: Json = {}
    for number, value in _fields(body):
        field = layout.get(number)
        if field is None:
            continue  # of a newer release: unknown here, as it would be to an older server
        if not field.name:
            found |= _message(target_of(field.schema), _as_bytes(value))
        elif field.schema.get("type") == "array":
            found.setdefault(field.name, []).extend(_items(field.schema["items"], value))
        elif "additionalProperties" in field.schema:
            found.setdefault(field.name, {}).update(_entry(field.schema["additionalProperties"], _as_bytes(value)))
        else:
            shown = _value(field.schema, value)
            if shown is not None and (field.pointer or shown not in ("", 0, {})):
                found[field.name] = shown
    return found


def _items(schema: Mapping[str, Any], value: int | bytes) -> list[Any]:
    if isinstance(value, bytes) and schema.get("type") in {"integer", "boolean"}:  # several packed into one
        return [_value(schema, one) for one in _packed(value)]
    return [_value(schema, value)]


def _entry(schema: Mapping[str, Any], body: bytes) -> Json:
    """A map's entry: key 1, value 2. A missing half is its zero."""
    parts = dict(_fields(body))
    key = _as_bytes(parts.get(1, b"")).decode()
    if schema.get("type") == "array":  # a named list, such as the extra values of a user: items 1
        return {key: [_value(schema["items"], item) for _, item in _fields(_as_bytes(parts.get(2, b"")))]}
    return {key: _value(schema, parts.get(2, 0 if schema.get("type") in {"integer", "boolean"} else b""))}


def _value(schema: Mapping[str, Any], value: int | bytes) -> Any:
    target = target_of(schema)
    if target:
        special = _SPECIAL_MESSAGES.get(target)
        return special(_as_bytes(value)) if special else _message(target, _as_bytes(value))
    match schema.get("type"), schema.get("format"):
        case "string", "byte":
            return base64.b64encode(_as_bytes(value)).decode()
        case "string", _:
            return _as_bytes(value).decode()
        case "boolean", _:
            return bool(value)
        case "integer", _:
            return _signed(value)
        case "number", _:
            return struct.unpack("<d", _as_bytes(value))[0]
        case kind, _:
            raise BadProtobuf(f"a value of type {kind} has no protobuf form here")


def _time(body: bytes) -> str | None:
    """Time: seconds 1. What is not after the epoch is no time: that is how a zero one travels."""
    seconds = _signed(dict(_fields(body)).get(1, 0))
    return (_EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ") if seconds > 0 else None


def _micro_time(body: bytes) -> str | None:
    """As Time, with nanos 2, of which microseconds are kept."""
    text = _time(body)
    nanos = _signed(dict(_fields(body)).get(2, 0))
    return None if text is None else text.replace("Z", f".{nanos // 1000:06d}Z")


def _quantity(body: bytes) -> str:
    """Quantity: string 1."""
    return _as_bytes(dict(_fields(body)).get(1, b"0")).decode()


def _int_or_string(body: bytes) -> int | str:
    """IntOrString: type 1 (0: a number), intVal 2, strVal 3."""
    parts = dict(_fields(body))
    return _as_bytes(parts.get(3, b"")).decode() if parts.get(1) else _signed(parts.get(2, 0))


def _raw_json(body: bytes) -> Any:
    """RawExtension, FieldsV1 and JSON: raw 1, which holds JSON."""
    raw = _as_bytes(dict(_fields(body)).get(1, b""))
    try:
        return msgspec.json.decode(raw) if raw else {}
    except msgspec.DecodeError as error:
        raise BadProtobuf("an embedded object is not JSON") from error


def _schema_or_bool(body: bytes) -> Any:
    """JSONSchemaPropsOrBool: allows 1, schema 2."""
    parts = dict(_fields(body))
    return _message(f"{_DEFINITIONS}.JSONSchemaProps", _as_bytes(parts[2])) if 2 in parts else bool(parts.get(1))


def _schema_or_array(body: bytes) -> Any:
    """JSONSchemaPropsOrArray: schema 1, schemas 2."""
    listed = [_message(f"{_DEFINITIONS}.JSONSchemaProps", _as_bytes(v)) for number, v in _fields(body) if number == 2]
    parts = dict(_fields(body))
    return _message(f"{_DEFINITIONS}.JSONSchemaProps", _as_bytes(parts[1])) if 1 in parts else listed


def _schema_or_strings(body: bytes) -> Any:
    """JSONSchemaPropsOrStringArray: schema 1, property 2."""
    parts = dict(_fields(body))
    if 1 in parts:
        return _message(f"{_DEFINITIONS}.JSONSchemaProps", _as_bytes(parts[1]))
    return [_as_bytes(value).decode() for number, value in _fields(body) if number == 2]


_SPECIAL_MESSAGES: Mapping[str, Callable[[bytes], Any]] = {
    f"{META}.Time": _time,
    f"{META}.MicroTime": _micro_time,
    f"{META}.FieldsV1": _raw_json,
    "io.k8s.apimachinery.pkg.api.resource.Quantity": _quantity,
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": _int_or_string,
    "io.k8s.apimachinery.pkg.runtime.RawExtension": _raw_json,
    f"{_DEFINITIONS}.JSON": _raw_json,
    f"{_DEFINITIONS}.JSONSchemaPropsOrBool": _schema_or_bool,
    f"{_DEFINITIONS}.JSONSchemaPropsOrArray": _schema_or_array,
    f"{_DEFINITIONS}.JSONSchemaPropsOrStringArray": _schema_or_strings,
    f"{_DEFINITIONS}.CustomResourceSubresourceStatus": lambda _: {},
}


def _fields(body: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Numbers and values of one message: an int for a varint, bytes for everything else."""
    position = 0
    while position < len(body):  # every round consumes at least one byte or raises
        key, position = _varint(body, position)
        match key & 7:
            case 0:
                value, position = _varint(body, position)
                yield key >> 3, value
                continue
            case 2:
                size, position = _varint(body, position)
            case 1:
                size = 8
            case 5:
                size = 4
            case kind:
                raise BadProtobuf(f"wire type {kind} is not used by Kubernetes")
        if position + size > len(body):
            raise BadProtobuf("the message ends in the middle of a field")
        yield key >> 3, body[position : position + size]
        position += size


def _packed(body: bytes) -> Iterator[int]:
    position = 0
    while position < len(body):
        value, position = _varint(body, position)
        yield value


def _varint(body: bytes, position: int) -> tuple[int, int]:
    value = 0
    for shift in range(_MAX_VARINT_BYTES):
        if position >= len(body):
            raise BadProtobuf("the message ends in the middle of a number")
        byte = body[position]
        position += 1
        value |= (byte & 0x7F) << (7 * shift)
        if byte < 0x80:
            return value, position
    raise BadProtobuf("a number is too long")


def _signed(value: int | bytes) -> int:
    """Negative numbers travel as their 64-bit complement."""
    if isinstance(value, bytes):
        raise BadProtobuf("a number was expected")
    return value - (1 << 64) if value >> 63 else value


def _as_bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise BadProtobuf("a text or a message was expected")
    return value
