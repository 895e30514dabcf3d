"""The reference of our kinds for readers: every field with its type, default and doc. Made from the types.

`python -m tools.reference FILE` writes it; `leaves` is also what the table of tests per field is checked against.
"""

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tgp.api.kinds import KINDS, Kind
from tgp.api.schema import object_schema

HEAD = """# The kinds, field by field

Made from the types by `python -m tools.reference docs/fields.md`; do not edit. The same texts are in
`kubectl explain`, for example `kubectl explain gpunodepool.spec.disruption.budgets`.

Prices are decimal strings in US dollars per hour, durations are Go's (`10m`, `1h30m`), quantities are Kubernetes's.
"""


@dataclass(frozen=True, slots=True)
class FieldEntry:
    """One field as the reference shows it."""

    path: str  # spec.providers[].name
    type: str
    default: str  # as JSON; empty: none
    doc: str
    required: bool
    refused: tuple[str, ...]  # what each of its rules says
    leaf: bool  # nothing of ours below it
    inside: str  # the schema of what is below it; empty: a leaf


def entries(kind: Kind) -> Iterator[FieldEntry]:
    """Every field of spec and status, parents before children."""
    schema = object_schema(kind.type)
    for part in ("spec", "status"):
        yield from _below(schema["properties"][part], part)


def leaves(kind: Kind) -> list[str]:
    """Paths of the spec's fields that hold a value of their own."""
    return [entry.path for entry in entries(kind) if entry.leaf and entry.path.startswith("spec")]


def markdown() -> str:
    """Objects that several fields share are described once: the others refer to the first."""
    parts, described = [HEAD], dict[str, str]()
    for kind in KINDS:
        parts.append(_chapter(kind, described))
    return "\n".join(parts)


def _below(schema: Mapping[str, Any], path: str) -> Iterator[FieldEntry]:
    for name, inner in schema.get("properties", {}).items():
        where = f"{path}.{name}"
        deeper, suffix = _item(inner)
        has_children = "properties" in deeper
        yield FieldEntry(
            where,
            _type(inner),
            json.dumps(inner["default"], ensure_ascii=False) if "default" in inner else "",
            inner.get("description", ""),
            name in schema.get("required", ()),
            tuple(rule["message"] for rule in inner.get("x-kubernetes-validations", ())),
            not has_children,
            json.dumps({part: deeper.get(part) for part in ("properties", "required")}) if has_children else "",
        )
        if has_children:
            yield from _below(deeper, where + suffix)


def _item(schema: Mapping[str, Any]) -> tuple[Mapping[str, Any], str]:
    """What is inside a list or a map, and how a path says so."""
    if schema.get("type") == "array":
        return schema["items"], "[]"
    if isinstance(schema.get("additionalProperties"), Mapping):
        return schema["additionalProperties"], "{}"
    return schema, ""


def _type(schema: Mapping[str, Any]) -> str:
    if schema.get("x-kubernetes-int-or-string"):
        return "integer or string"
    if "enum" in schema:
        return "one of " + ", ".join(f"`{value}`" if value else "empty" for value in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_type(schema['items'])}"
    if "additionalProperties" in schema:
        return f"map to {_type(schema['additionalProperties'])}"
    return "time" if schema.get("format") == "date-time" else str(schema.get("type", ""))


def _chapter(kind: Kind, described: dict[str, str]) -> str:
    """`described`: where the objects of earlier fields are described, keyed by what is inside them."""
    where = kind.resource
    scope = "namespaced" if where.namespaced else "cluster-scoped"
    short = f", short name{'s' if len(kind.short_names) > 1 else ''} {', '.join(kind.short_names)}"
    rows = [
        f"\n## {where.kind} ({where.api_version})\n",
        f"{object_schema(kind.type)['description']}\n",
        f"Kept {scope}{short if kind.short_names else ''}{'; optional' if kind.optional else ''}.\n",
        "| field | type | default | meaning |",
        "|---|---|---|---|",
    ]
    shared: tuple[str, ...] = ()  # fields below these are described elsewhere
    for entry in entries(kind):
        if entry.path.startswith(shared):
            continue
        doc, first = _cell(entry.doc), described.setdefault(entry.inside, f"`{entry.path}` of {where.kind}")
        if entry.inside and first != f"`{entry.path}` of {where.kind}":
            doc += f" Its fields are those of {first.removesuffix(f' of {where.kind}')}."
            shared += tuple(f"{entry.path}{mark}." for mark in ("", "[]", "{}"))
        default = f"`{entry.default}`" if entry.default else "needed" if entry.required else ""
        rows.append(f"| `{entry.path}` | {entry.type} | {default} | {doc} |")
    return "\n".join(rows) + "\n"


def _cell(text: str) -> str:
    return text.replace("\n", " ").replace("|", "\\|").strip()


if __name__ == "__main__":
    Path(sys.argv[1] if len(sys.argv) > 1 else "docs/fields.md").write_text(markdown(), encoding="utf-8")
