"""How Kubernetes' own structs hold each type: field numbers, which fields are pointers, which are always written.

OpenAPI does not say; it decides what a protobuf body means and what an object looks like once a server has read and
written it. The facts stand in `wire.txt`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from tgp.sim.apiserver.schemas import definitions, library
from tgp.sim.apiserver.schemas.language import REF, BadDescription


@dataclass(frozen=True, slots=True)
class LayoutField:
    name: str  # empty: an inlined type, whose fields are this one's
    pointer: bool  # absent and zero differ
    always: bool  # written whatever its value
    schema: Mapping[str, Any]  # of an inlined type: its `$ref`

    @property
    def target(self) -> str:
        return target_of(self.schema)


def target_of(schema: Mapping[str, Any]) -> str:
    """The full name of the type a schema refers to; empty: it is none that has a name."""
    ref = schema.get("$ref") or (schema["allOf"][0]["$ref"] if "allOf" in schema else "")
    return str(ref).removeprefix(REF)


@cache
def numbered() -> dict[str, dict[int, LayoutField]]:
    """Full name → number → field."""
    order = _order((resources.files("tgp.sim.apiserver.schemas") / "wire.txt").read_text("utf-8"))
    owners = {inner: outer for outer, words in order.items() for inner in _inlined(outer, words)}
    return {name: _numbered(name, words, owners) for name, words in order.items()}


@cache
def fields_of(name: str) -> tuple[LayoutField, ...] | None:
    """The fields of a type in order, those of inlined types among them; None: the type has no known structure."""
    own = numbered().get(name)
    return None if own is None else tuple(_flat(own.values()))


def _flat(fields: "Iterator[LayoutField] | Any") -> Iterator[LayoutField]:
    for field in fields:
        if field.name:
            yield field
        else:
            yield from fields_of(field.target) or ()


def _order(text: str) -> dict[str, list[str]]:
    package, order = "", {}
    for line in text.splitlines():
        if line.startswith("package "):
            package = library().packages[line.split()[1]]
        elif line and not line.startswith("#"):
            name, *words = line.split()
            order[f"{package}.{name}"] = words
    return order


def _inlined(outer: str, words: list[str]) -> list[str]:
    return [_qualified(word[1:], outer.rpartition(".")[0]) for word in words if word.startswith("=")]


def _numbered(name: str, words: list[str], owners: Mapping[str, str]) -> dict[int, LayoutField]:
    fields: dict[int, LayoutField] = {}
    number = 1
    for word in words:
        if word.isdigit():
            number = int(word)
            continue
        fields[number] = _field(name, word, owners)
        number += 1
    return fields


def _field(name: str, word: str, owners: Mapping[str, str]) -> LayoutField:
    if word.startswith("="):
        target = _qualified(word[1:], name.rpartition(".")[0])
        return LayoutField("", pointer=False, always=False, schema={"$ref": REF + target})
    plain = word.rstrip("?!")
    return LayoutField(plain, "?" in word, "!" in word, _property(name, plain, owners))


def _qualified(word: str, package: str) -> str:
    short, dot, name = word.partition(".")
    return f"{library().packages[short]}.{name}" if dot else f"{package}.{word}"


def _property(name: str, field: str, owners: Mapping[str, str]) -> Mapping[str, Any]:
    """A field's schema: its own type's, or that of a type it is inlined into."""
    known: Mapping[str, Any] = definitions().get(name, {}).get("properties", {})
    if field in known:
        found: Mapping[str, Any] = known[field]
        return found
    if name in owners:
        return _property(owners[name], field, owners)
    raise BadDescription(f"{field!r} of {name} has no description")
