"""YAML streams as Talos reads them: into plain data with line numbers, and back into text with the same meaning.

Talos reads with Go's YAML, which is neither quite 1.1 nor quite 1.2: `0600` and `0o600` are both octal, `on` is a
string unless a field is a boolean, and a plain number is read as written where a field is a string. So numbers keep
their spelling, and every string that some parser could read as something else is quoted.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from tgp.core.model.machine_config import ConfigFinding

Path: TypeAlias = tuple[str | int, ...]

MAX_CHARACTERS = 32 * 1024 * 1024  # a bound, many times what any provider accepts

_NULLS = frozenset(("", "~", "null", "Null", "NULL"))
_TRUTHS = {word: word[0] in "tT" for word in ("true", "True", "TRUE", "false", "False", "FALSE")}
_INTEGER = re.compile(r"[-+]?(?:0[bB][01]+|0[oO][0-7]+|0[xX][0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*)\Z")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z")
_UNUSUAL_FLOATS = re.compile(r"[-+]?\.(?:inf|Inf|INF)\Z|\.(?:nan|NaN|NAN)\Z")

# What needs no quotes and is a string to every parser: it begins with a letter or a slash, holds nothing that
# YAML gives a meaning to, and is none of the words below.
_PLAIN = re.compile(r"[A-Za-z/](?:[A-Za-z0-9_./+@=,()-]|:(?=[A-Za-z0-9_./])| (?=[A-Za-z0-9_./+@=(-]))*\Z")
_WORDS = frozenset(("true", "false", "yes", "no", "on", "off", "y", "n", "null", "nan", "inf", "infinity"))
_PLAIN_MAX = 200  # longer ones are quoted, which is safer
_KEY_MAX = 1000  # YAML looks for the colon of a key within 1024 characters, unless a ? announces it
_PLAIN_STAND_IN, _QUOTED_STAND_IN = "a", '" "'  # each is its own stand-in
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
    from tgp.core.joining.talos.stream_reader import read_documents  # here: the YAML parser takes 2 MB

    return tuple(read_documents(text))


def write_stream(documents: Iterable[Any]) -> str:
    """The same data gives the same text, byte for byte; keys stay in their order."""
    return "---\n".join("".join(_block(document, 0, _scalar)) for document in documents)


def write_outline(documents: Iterable[Any]) -> str:
    """The text with a stand-in for each value that is a string on one line: what machines of one template share.

    Such a string is either plain, without anything that YAML gives a meaning to, or in double quotes with everything
    else escaped. So of two texts with one outline one reads as the other does, line by line, but for these strings.
    """
    return "---\n".join("".join(_block(document, 0, _stand_in)) for document in documents)


def filled_in(outline: Any, data: Any) -> Any:
    """What was read from an outline, with the strings of the data that it is the outline of."""
    if isinstance(data, dict):
        return {key: filled_in(outline[key], item) for key, item in data.items()}
    if isinstance(data, list):
        return [filled_in(read, item) for read, item in zip(outline, data, strict=True)]
    return data if isinstance(data, str) else outline


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


def plain_data(data: Any) -> Any:
    """Without the spelling of numbers, which only matters to Talos."""
    if isinstance(data, dict):
        return {key: plain_data(item) for key, item in data.items()}
    if isinstance(data, list):
        return [plain_data(item) for item in data]
    if isinstance(data, WrittenInt):
        return int(data)
    return float(data) if isinstance(data, WrittenFloat) else data


# ---- writing


_Spell: TypeAlias = Callable[[Any, int | None], str]


def _block(value: Any, indent: int, spell_value: _Spell) -> Iterator[str]:
    margin = "  " * indent
    if isinstance(value, dict) and value:
        for key, item in value.items():
            spelled = _scalar(key)
            yield f"{margin}{spelled}:" if len(spelled) <= _KEY_MAX else f"{margin}? {spelled}\n{margin}:"
            yield from _after(item, indent, spell_value)
    elif isinstance(value, list) and value:
        for item in value:
            yield f"{margin}-"
            if isinstance(item, dict) and item:
                first, *rest = "".join(_block(item, indent + 1, spell_value)).split("\n", 1)
                yield f" {first[len(margin) + 2 :]}\n"
                yield from rest
            else:
                yield from _after(item, indent, spell_value)
    else:
        yield f"{margin}{spell_value(value, indent)}\n"


def _after(value: Any, indent: int, spell_value: _Spell) -> Iterator[str]:
    if isinstance(value, dict | list) and value:
        yield "\n"
        yield from _block(value, indent + 1, spell_value)
    else:
        yield f" {spell_value(value, indent + 1)}\n"


def _stand_in(value: Any, indent: int | None) -> str:
    spelled = _scalar(value, indent)
    if not isinstance(value, str) or "\n" in spelled:
        return spelled
    return _QUOTED_STAND_IN if spelled[0] == '"' else _PLAIN_STAND_IN


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
