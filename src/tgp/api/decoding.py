"""From JSON to a kind's value, in two modes.

`decode` reads what the API server holds: unknown fields are ignored, unknown values of an enum stay as they are, and
an object that cannot be read becomes an `UnreadableObject` that still has a name and a uid: it may own machines.
`strict` reads what a user wrote: every unknown field is named together with the nearest known one, and every broken
rule is reported, not only the first.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import cache
from typing import Any, TypeVar

import msgspec

from tgp.api.common import ObjectMeta
from tgp.api.field import ApiStruct
from tgp.api.field_error import FieldError, Invalid, Reason
from tgp.api.kinds import KINDS, Kind
from tgp.api.metadata import metadata_problems
from tgp.api.schema import object_schema
from tgp.api.structural import child_schema
from tgp.api.unicode import whole
from tgp.api.validation import default, prune, rounded, unknown_fields, validate

W = TypeVar("W", bound=ApiStruct)


@dataclass(frozen=True, slots=True)
class UnreadableObject:
    """An object of one of our kinds that this release cannot read: perhaps a newer release wrote it."""

    metadata: ObjectMeta
    why: str
    raw: Mapping[str, Any] = field(
        default_factory=dict, repr=False
    )  # for the controllers that must still find its machines


def decode(type_: type[W], data: bytes | Mapping[str, Any]) -> W | UnreadableObject:
    """One object as the API server gave it. Never raises for anything inside the object."""
    try:
        return msgspec.json.decode(data, type=type_) if isinstance(data, bytes) else msgspec.convert(data, type_)
    except msgspec.MsgspecError as error:
        return _decoded_rounded(type_, data) or _unreadable(data, str(error))


def _decoded_rounded(type_: type[W], data: bytes | Mapping[str, Any]) -> W | None:
    """Read again as the API server reads numbers: 1.0000000000000002 is an integer to it.

    None: number formats are not the cause.
    """
    try:
        return msgspec.convert(rounded(msgspec.json.decode(data) if isinstance(data, bytes) else data), type_)
    except msgspec.MsgspecError:
        return None


def strict(manifest: Mapping[str, Any]) -> ApiStruct:
    """What a user wrote, defaults filled in; raises Invalid with everything that is wrong with it.

    As the API server takes it on creation: a status is looked at for unknown fields and otherwise left out. Only where
    a text holds half a character we refuse what the server would change in silence.
    """
    written, halves = _whole(manifest, "")
    if halves:
        raise Invalid(halves)
    kind = kind_of(written)
    problems = [_unknown(kind, path) for path in unknown_fields(schema_of(kind), written)]
    created = {key: value for key, value in written.items() if key != "status"}
    if isinstance(metadata := created.get("metadata"), dict):
        created["metadata"] = {key: value for key, value in metadata.items() if value is not None}
    filled = default(schema_of(kind), prune(schema_of(kind), created))
    problems += [*metadata_problems(written.get("metadata")), *validate(schema_of(kind), filled)]
    if problems:
        raise Invalid(problems)
    try:
        return msgspec.convert(rounded(filled), kind.type)
    except msgspec.ValidationError as error:  # metadata, which the schema leaves to the API server
        raise Invalid([FieldError("metadata", Reason.INVALID, str(error))]) from error


def _whole(value: Any, path: str) -> tuple[Any, list[FieldError]]:
    """The same with whole characters, and where there are halves of some."""
    if isinstance(value, str):
        text = whole(value)
        problem = FieldError(
            path, Reason.INVALID, "contains half of a surrogate pair, which cannot be written as UTF-8"
        )
        return (text, []) if text is not None else ("", [problem])
    if isinstance(value, list):
        items = [_whole(item, f"{path}[{index}]") for index, item in enumerate(value)]
        return [item for item, _ in items], [problem for _, problems in items for problem in problems]
    if not isinstance(value, Mapping):
        return value, []
    made: dict[Any, Any] = {}
    problems: list[FieldError] = []
    for key, member in value.items():
        name, wrong = _whole(key, path)
        made[name], below = _whole(member, f"{path}.{name}" if path else str(name))
        problems += wrong + below
    return made, problems


def kind_of(manifest: Mapping[str, Any]) -> Kind:
    """The kind a manifest names; raises Invalid where tgp has no such kind."""
    said = (manifest.get("apiVersion"), manifest.get("kind"))
    for kind in KINDS:
        if said == (kind.resource.api_version, kind.resource.kind):
            return kind
    known = ", ".join(f"{kind.resource.api_version} {kind.resource.kind}" for kind in KINDS)
    raise Invalid([FieldError("kind", Reason.UNSUPPORTED, f"known kinds are {known}", f'"{said[0]} {said[1]}"')])


@cache
def schema_of(kind: Kind) -> dict[str, Any]:
    """A kind's schema, made once."""
    return object_schema(kind.type)


def _unknown(kind: Kind, path: str) -> FieldError:
    parent, _, name = path.rpartition(".")
    nearest = get_close_matches(name, _known_below(schema_of(kind), parent), n=1, cutoff=0.6)
    hint = f"; did you mean {nearest[0]}?" if nearest else ""
    return FieldError(path, Reason.FORBIDDEN, f"unknown field{hint}")


def _known_below(schema: Mapping[str, Any], path: str) -> list[str]:
    """The fields an object at this path may have. `spec.providers[3]` walks through lists as well."""
    here: Mapping[str, Any] = schema
    for step in filter(None, path.split(".")):
        name, *indexes = step.split("[")
        here = child_schema(here, name) or {}
        for _ in indexes:
            here = here.get("items", {})
    return list(here.get("properties", {}))


def _unreadable(data: bytes | Mapping[str, Any], why: str) -> UnreadableObject:
    try:
        raw = msgspec.json.decode(data) if isinstance(data, bytes) else dict(data)
    except msgspec.DecodeError as error:
        return UnreadableObject(ObjectMeta(), str(error))
    if not isinstance(raw, dict):
        return UnreadableObject(ObjectMeta(), why)
    return UnreadableObject(_metadata(raw.get("metadata")), why, raw)


def _metadata(raw: Any) -> ObjectMeta:
    """As much of the metadata as can be read: each part that cannot is left out."""
    if not isinstance(raw, dict):
        return ObjectMeta()
    readable: dict[str, Any] = {}
    for name, value in raw.items():
        try:
            msgspec.convert({**readable, name: value}, ObjectMeta)
        except msgspec.ValidationError:
            continue
        readable[name] = value
    return msgspec.convert(readable, ObjectMeta)
