"""What became of each field of an imported file, and the object that is built from it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from tgp.core.joining.talos.stream import Document, Path

_STEP = re.compile(r"\[([^\]]*)\]|([^.\[\]]+)")


class FieldOutcome(StrEnum):
    RENAMED = "renamed"  # the same meaning in tgp's own spelling
    CHANGED = "changed"  # converted, and it behaves differently
    UNNEEDED = "not needed"  # left out, and nothing is missing
    NOT_CONVERTED = "not converted"  # left out, and the user must decide


NAME_SUFFIX = "-wireguard"
LONGEST_STEM = 253 - len(NAME_SUFFIX)


@dataclass(frozen=True, slots=True)
class FieldNote:
    """One field, where it was, and what became of it. The message never quotes a value that may be secret."""

    file: str
    line: int
    subject: str  # GPURequest default/training
    field: str  # spec.ttl; empty: the whole object
    outcome: FieldOutcome
    message: str


@dataclass(frozen=True, slots=True)
class SourceDocument:
    """A document of a file, or an item of a list in it."""

    file: str
    document: Document
    at: Path = ()

    def line_of(self, field_path: str) -> int:
        return self.document.line_of((*self.at, *steps(field_path)))


@dataclass(slots=True)
class ManifestDraft:
    """An object on its way to one of tgp's kinds."""

    source: SourceDocument
    manifest: dict[str, Any]
    notes: list[FieldNote] = field(default_factory=list)
    written: bool = True  # False: it cannot be one of tgp's objects, and the notes say why
    came_from: str = ""  # what it was called in its file; empty: it has the same name
    secret: dict[str, str] = field(default_factory=dict)  # keys that were inline, for a Secret of their own

    @property
    def secret_name(self) -> str:
        return f"{self.find('metadata.name')}"[:LONGEST_STEM].rstrip("-.") + NAME_SUFFIX

    @property
    def subject(self) -> str:
        return self.came_from or subject_of(self.manifest)

    def note(self, path: str, outcome: FieldOutcome, message: str) -> None:
        self.notes.append(FieldNote(self.source.file, self.source.line_of(path), self.subject, path, outcome, message))

    def find(self, path: str) -> Any:
        return found(self.manifest, steps(path))

    def take(self, path: str) -> Any:
        """Remove the field; None: it is not there."""
        *parents, last = steps(path)
        holder = found(self.manifest, parents)
        if isinstance(holder, dict):
            return holder.pop(last, None)
        if isinstance(holder, list) and isinstance(last, int) and last < len(holder):
            return holder.pop(last)
        return None

    def put(self, path: str, value: Any) -> None:
        *parents, last = steps(path)
        holder: Any = self.manifest
        for step in parents:
            if isinstance(holder, dict) and not isinstance(holder.get(step), dict | list):
                holder[step] = {}
            holder = holder[step]
        holder[last] = value


def steps(path: str) -> list[str | int]:
    """`spec.providers[0].name` as its steps."""
    return [int(bracket) if bracket.isdigit() else bracket or name for bracket, name in _STEP.findall(path)]


def found(value: Any, path: Sequence[str | int]) -> Any:
    """None: there is nothing at the path."""
    for step in path:
        if isinstance(value, dict):
            value = value.get(step)
        elif isinstance(value, list) and isinstance(step, int) and step < len(value):
            value = value[step]
        else:
            return None
    return value


def subject_of(manifest: Any) -> str:
    """`GPURequest default/training`, as far as it can be told."""
    meta = manifest.get("metadata")
    meta = meta if isinstance(meta, dict) else {}
    name = "/".join(str(part) for part in (meta.get("namespace"), meta.get("name")) if part)
    return f"{manifest.get('kind') or 'object'} {name}".strip()
