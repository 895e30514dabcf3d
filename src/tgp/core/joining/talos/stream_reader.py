"""YAML streams into plain data with line numbers, by ruamel's parser. Imported with the first text that is read."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentEndEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from tgp.api.unicode import whole
from tgp.core.joining.talos.scanner import TabScanner
from tgp.core.joining.talos.stream import Document, Path, UnreadableStream, resolve, spell
from tgp.core.model.machine_config import ConfigFinding

MAX_NODES = 100_000  # after aliases are written out: a YAML bomb of nine lines would have a billion
MAX_DEPTH = 100

_STRING_TAGS = frozenset(("!", "tag:yaml.org,2002:str"))
_GENERAL_TAGS = frozenset(
    f"tag:yaml.org,2002:{name}" for name in ("int", "float", "bool", "null", "map", "seq", "timestamp")
)


def read_documents(text: str) -> Iterator[Document]:
    """Every document, including empty ones. Raises UnreadableStream."""
    try:
        yield from _documents(text)
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark is not None else 0
        raise UnreadableStream(
            ConfigFinding(line, "", f"is not valid YAML: {error.problem or error.context}")
        ) from None
    except YAMLError:  # a character that YAML does not allow: its message would quote the text
        raise UnreadableStream(
            ConfigFinding(_first_forbidden(text), "", "has a character that YAML does not allow")
        ) from None


@dataclass(slots=True)
class _Open:
    """A collection that is being read."""

    holds: Any
    path: Path
    anchor: str | None = None
    key: str | None = None  # of a mapping: the key whose value comes next
    merges: list[Any] = field(default_factory=list)


def _documents(text: str) -> Iterator[Document]:
    yaml = YAML(typ="safe", pure=True)
    yaml.Scanner = TabScanner
    reader: _Reader | None = None
    for event in yaml.parse(text):
        if isinstance(event, DocumentStartEvent):
            if event.version is not None or event.tags:
                raise UnreadableStream(ConfigFinding(_line(event), "", "begins with a % directive: leave it out"))
            reader = _Reader(_line(event))
        elif isinstance(event, DocumentEndEvent):
            assert reader is not None
            yield Document(reader.root, reader.line, reader.lines)
        elif reader is not None:
            reader.take(event)


class _Reader:
    """Builds one document from its events, with bounds on its size and depth."""

    def __init__(self, line: int) -> None:
        self.root: Any = None
        self.line = line
        self.lines: dict[Path, int] = {}
        self._open: list[_Open] = []
        self._anchors: dict[str, Any] = {}
        self._nodes = 0

    def take(self, event: Any) -> None:
        if isinstance(event, ScalarEvent):
            self._scalar(event)
        elif isinstance(event, AliasEvent):
            self._alias(event)
        elif isinstance(event, MappingStartEvent | SequenceStartEvent):
            self._start(event)
        elif isinstance(event, MappingEndEvent | SequenceEndEvent):
            self._end()

    def _scalar(self, event: Any) -> None:
        inside = self._open[-1] if self._open else None
        plain = event.style is None
        if inside is not None and isinstance(inside.holds, dict) and inside.key is None:
            self._key(inside, event)
            return
        tag = _tag(event)
        if tag in _STRING_TAGS or (tag is None and not plain):
            value: Any = self._whole(event, self._next_path())
        elif tag is None or tag in _GENERAL_TAGS:
            value = resolve(self._whole(event, self._next_path()))
        else:
            raise self._refusal(event, "has a tag of its own: leave it out")
        self._place(value, event)

    def _whole(self, event: Any, path: Path) -> str:
        """Characters above 16 bits may come as surrogate pairs, as in JSON; half a pair is not valid."""
        found = whole(event.value)
        if found is None:
            why = "has half a surrogate pair (\\ud800 to \\udfff), which is not valid text"
            raise UnreadableStream(ConfigFinding(_line(event), spell(path), why))
        return found

    def _key(self, inside: _Open, event: Any) -> None:
        key = self._whole(event, inside.path)
        if key == "<<" and event.style is None:
            inside.key = key
            return
        if key in inside.holds:
            path = (*inside.path, key)
            raise UnreadableStream(ConfigFinding(_line(event), spell(path), "is a duplicate key: keep one of the two"))
        inside.key = key
        inside.holds[key] = None  # its place, before what is merged in
        if event.anchor is not None:
            self._anchors[event.anchor] = key
        self.lines[(*inside.path, key)] = _line(event)

    def _alias(self, event: Any) -> None:
        if event.anchor not in self._anchors:
            raise self._refusal(event, "refers to an anchor that is not defined before it")
        if self._open and isinstance(self._open[-1].holds, dict) and self._open[-1].key is None:
            raise self._refusal(event, "has an alias as a key: write the key out")
        self._place(self._copy(self._anchors[event.anchor], event, len(self._open)), event)

    def _copy(self, value: Any, event: Any, depth: int) -> Any:
        """Copied: a change in one place must not change the other."""
        self._count(event, depth)
        if isinstance(value, dict):
            return {key: self._copy(item, event, depth + 1) for key, item in value.items()}
        if isinstance(value, list):
            return [self._copy(item, event, depth + 1) for item in value]
        return value

    def _start(self, event: Any) -> None:
        if self._open and isinstance(self._open[-1].holds, dict) and self._open[-1].key is None:
            raise self._refusal(event, "has a key that is not a string")
        tag = _tag(event)
        if tag is not None and tag not in _GENERAL_TAGS and tag not in _STRING_TAGS:
            raise self._refusal(event, "has a tag of its own: leave it out")
        holds: Any = {} if isinstance(event, MappingStartEvent) else []
        path = self._next_path()
        if path:
            self.lines.setdefault(path, _line(event))
        self._count(event, len(self._open) + 1)
        self._open.append(_Open(holds, path, event.anchor))

    def _end(self) -> None:
        closed = self._open.pop()
        for merged in closed.merges:
            for key, value in merged.items():
                closed.holds.setdefault(key, value)
        self._put(closed.holds)
        if closed.anchor is not None:
            self._anchors[closed.anchor] = closed.holds

    def _place(self, value: Any, event: Any) -> None:
        self._count(event, len(self._open))
        path = self._next_path()
        if path:
            self.lines.setdefault(path, _line(event))
        anchor = event.anchor if isinstance(event, ScalarEvent) else None
        if anchor is not None:
            self._anchors[anchor] = value
        self._put(value, event)

    def _put(self, value: Any, event: Any = None) -> None:
        if not self._open:
            self.root = value
            return
        inside = self._open[-1]
        if isinstance(inside.holds, list):
            inside.holds.append(value)
            return
        if inside.key == "<<" and "<<" not in inside.holds:
            merged = value if isinstance(value, list) else [value]
            if not all(isinstance(each, dict) for each in merged):
                line = _line(event) if event is not None else self.line
                raise UnreadableStream(ConfigFinding(line, spell(inside.path), "merges a value that is not a mapping"))
            inside.merges += merged
        else:
            assert inside.key is not None
            inside.holds[inside.key] = value
        inside.key = None

    def _next_path(self) -> Path:
        if not self._open:
            return ()
        inside = self._open[-1]
        if isinstance(inside.holds, list):
            return (*inside.path, len(inside.holds))
        return inside.path if inside.key is None else (*inside.path, inside.key)

    def _count(self, event: Any, depth: int) -> None:
        self._nodes += 1
        if self._nodes > MAX_NODES:
            raise self._refusal(event, f"has more than {MAX_NODES} values after its aliases are expanded")
        if depth > MAX_DEPTH:
            raise self._refusal(event, f"is nested deeper than {MAX_DEPTH} levels")

    def _refusal(self, event: Any, why: str) -> UnreadableStream:
        return UnreadableStream(ConfigFinding(_line(event), spell(self._next_path()[:8]), why))


def _tag(event: Any) -> str | None:
    tag = event.ctag
    return None if tag is None or str(tag) == "None" else str(tag)


def _line(event: Any) -> int:
    return int(event.start_mark.line) + 1


def _first_forbidden(text: str) -> int:
    found = re.search("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]", text)
    return text.count("\n", 0, found.start()) + 1 if found else 0
