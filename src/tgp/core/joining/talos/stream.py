"""YAML streams as Talos reads them: into plain data with line numbers, and back into text with the same meaning.

Talos reads with Go's YAML, which is neither quite 1.1 nor quite 1.2: `0600` and `0o600` are both octal, `on` is a
string unless a field is a boolean, and a plain number is read as written where a field is a string. So numbers keep
their spelling, and every string that some parser could read as something else is quoted.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

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
from tgp.core.model.machine_config import ConfigFinding

Path: TypeAlias = tuple[str | int, ...]

MAX_CHARACTERS = 32 * 1024 * 1024  # a bound, many times what any provider accepts
MAX_NODES = 100_000  # after aliases are written out: a YAML bomb of nine lines would have a billion
MAX_DEPTH = 100

_NULLS = frozenset(("", "~", "null", "Null", "NULL"))
_TRUTHS = {word: word[0] in "tT" for word in ("true", "True", "TRUE", "false", "False", "FALSE")}
_INTEGER = re.compile(r"[-+]?(?:0[bB][01]+|0[oO][0-7]+|0[xX][0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*)\Z")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z")
_UNUSUAL_FLOATS = re.compile(r"[-+]?\.(?:inf|Inf|INF)\Z|\.(?:nan|NaN|NAN)\Z")
_STRING_TAGS = frozenset(("!", "tag:yaml.org,2002:str"))
_GENERAL_TAGS = frozenset(
    f"tag:yaml.org,2002:{name}" for name in ("int", "float", "bool", "null", "map", "seq", "timestamp")
)

# What needs no quotes and is a string to every parser: it begins with a letter or a slash, holds nothing that
# YAML gives a meaning to, and is none of the words below.
_PLAIN = re.compile(r"[A-Za-z/](?:[A-Za-z0-9_./+@=,()-]|:(?=[A-Za-z0-9_./])| (?=[A-Za-z0-9_./+@=(-]))*\Z")
_WORDS = frozenset(("true", "false", "yes", "no", "on", "off", "y", "n", "null", "nan", "inf", "infinity"))
_PLAIN_MAX = 200  # longer ones are quoted, which is safer
_KEY_MAX = 1000  # YAML looks for the colon of a key within 1024 characters, unless a ? announces it
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
_UNPRINTABLE = re.compile(r'["\\]|[^\x20-\x7e]')
_LITERAL = re.compile(r"[\x21-\x7e][\x20-\x7e]*(?:\n[\x20-\x7e]*)*\n?\Z")


class WrittenInt(int):
    """A number that keeps its spelling: 0o600 and 384 are equal, but written differently."""

    source: str


class WrittenFloat(float):
    source: str


class UnreadableStream(Exception):
    """The stream cannot be parsed; the finding says where and why."""

    def __init__(self, finding: ConfigFinding) -> None:
        super().__init__(str(finding))
        self.finding = finding


@dataclass(frozen=True, slots=True)
class Document:
    """One document: plain dicts, lists and scalars, each with its line."""

    data: Any = field(repr=False)  # None: an empty document
    line: int = 1
    lines: Mapping[Path, int] = field(default_factory=dict, repr=False)

    def line_of(self, path: Path) -> int:
        """The line of that path, or of its nearest parent."""
        for length in range(len(path), 0, -1):
            line = self.lines.get(path[:length])
            if line is not None:
                return line
        return self.line


def read_stream(text: str) -> tuple[Document, ...]:
    """Every document, including empty ones. Raises UnreadableStream."""
    if len(text) > MAX_CHARACTERS:
        raise UnreadableStream(ConfigFinding(0, "", f"is longer than {MAX_CHARACTERS // 1024 // 1024} MiB"))
    try:
        return tuple(_documents(text))
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


def write_stream(documents: Iterable[Any]) -> str:
    """The same data gives the same text, byte for byte; keys stay in their order."""
    return "---\n".join("".join(_block(document, 0)) for document in documents)


def spell(path: Path) -> str:
    """`machine.files[0].path`, as shown to users."""
    spelled = ""
    for step in path:
        if isinstance(step, int):
            spelled += f"[{step}]"
        elif re.fullmatch(r"[A-Za-z0-9_-]+", step):
            spelled += f".{step}" if spelled else step
        else:
            spelled += f"[{_quoted(step[:80])}]"
    return spelled


def resolve(text: str) -> Any:
    """What a plain scalar is to Go's YAML."""
    if text in _NULLS:
        return None
    if text in _TRUTHS:
        return _TRUTHS[text]
    if text[0] not in "0123456789+-.":
        return text
    bare = text if text[0] == "." else text.replace("_", "")
    if _INTEGER.match(bare):
        return _integer(text, bare)
    if _FLOAT.match(bare):
        return _float(text, float(bare))
    if _UNUSUAL_FLOATS.match(text):
        return _float(text, float(text.replace(".", "", 1)))
    return text


# ---- reading


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


def _integer(text: str, bare: str) -> Any:
    digits = bare.lstrip("+-")
    if digits[:2].lower() in {"0b", "0o", "0x"}:
        value = int(digits, 0)
    else:
        value = int(digits, 8 if digits[0] == "0" else 10)
    value = -value if bare[0] == "-" else value
    if not -(2**63) <= value < 2**64:
        return _float(text, float(value)) if _FLOAT.match(bare) else text
    written = WrittenInt(value)
    written.source = text
    return written


def _float(text: str, value: float) -> WrittenFloat:
    written = WrittenFloat(value)
    written.source = text
    return written


# ---- writing


def _block(value: Any, indent: int) -> Iterator[str]:
    margin = "  " * indent
    if isinstance(value, dict) and value:
        for key, item in value.items():
            spelled = _scalar(key)
            yield f"{margin}{spelled}:" if len(spelled) <= _KEY_MAX else f"{margin}? {spelled}\n{margin}:"
            yield from _after(item, indent)
    elif isinstance(value, list) and value:
        for item in value:
            yield f"{margin}-"
            if isinstance(item, dict) and item:
                first, *rest = "".join(_block(item, indent + 1)).split("\n", 1)
                yield f" {first[len(margin) + 2 :]}\n"
                yield from rest
            else:
                yield from _after(item, indent)
    else:
        yield f"{margin}{_scalar(value, indent)}\n"


def _after(value: Any, indent: int) -> Iterator[str]:
    if isinstance(value, dict | list) and value:
        yield "\n"
        yield from _block(value, indent + 1)
    else:
        yield f" {_scalar(value, indent + 1)}\n"


def _scalar(value: Any, indent: int | None = None) -> str:
    """`indent`: of the lines of a text that may be written as a block; None: it must stay on one line."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, WrittenInt | WrittenFloat):
        return value.source
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(value).replace("nan", ".nan").replace("inf", ".inf")
    if isinstance(value, dict):
        return "{}"
    if isinstance(value, list):
        return "[]"
    assert isinstance(value, str), type(value)
    if len(value) <= _PLAIN_MAX and _PLAIN.match(value) and value.lower() not in _WORDS:
        return value
    if indent is not None and "\n" in value and _LITERAL.match(value):
        return _literal(value, indent)
    return _quoted(value)


def _literal(value: str, indent: int) -> str:
    margin = "  " * indent
    kept = value.endswith("\n")
    lines = value.removesuffix("\n").split("\n")
    if not lines[-1].strip():  # parsers count trailing blank lines differently: quotes are unambiguous
        return _quoted(value)
    body = "\n".join(f"{margin}{line}" if line else "" for line in lines)
    return f"{'|' if kept else '|-'}\n{body}"


def _quoted(value: str) -> str:
    return '"' + _UNPRINTABLE.sub(_escaped, value) + '"'


def _escaped(found: re.Match[str]) -> str:
    character = found[0]
    if character in _ESCAPES:
        return _ESCAPES[character]
    code = ord(character)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
