"""A template is parsed as YAML with placeholder words for its variables, so that no variable can be structure."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

from tgp.core.joining.talos.stream import Document, Path, UnreadableStream, read_stream, spell
from tgp.core.joining.talos.variables import ACTION, ALIASES, ESCAPE, VARIABLE, foreign, is_escape, shown
from tgp.core.model.machine_config import ConfigFinding, TemplateRefused

MAX_ACTIONS = 10_000  # of one template


def read_template(template: str) -> tuple[Document, ...]:
    """Its documents, with every variable spelled `{{.Name}}` by its own name. Raises TemplateRefused.

    Comments are ignored: variables are searched in the parsed YAML.
    """
    if template.count("{{") > MAX_ACTIONS:
        raise TemplateRefused((ConfigFinding(0, "", f"has more than {MAX_ACTIONS} variables"),))
    words = _Words(_unheard_word(template))
    try:
        documents = read_stream(ACTION.sub(words.inert, template))
    except UnreadableStream as error:
        finding = replace(error.finding, path=words.spelled(error.finding.path))
        raise TemplateRefused(_findings(_outside_comments(template)) or (finding,)) from None
    wrong = _findings(_foreign(documents, words)) or tuple(
        finding for document in documents for finding in _keys(document, document.data, (), words)
    )
    if wrong:
        raise TemplateRefused(wrong)
    return tuple(Document(words.restored(each.data), each.line, each.lines) for each in documents)


@dataclass(frozen=True, slots=True)
class Foreign:
    """Something between {{ and }} that is not a variable of tgp."""

    line: int
    shown: str  # {{.NodeNam}}
    message: str


def foreign_actions(template: str) -> tuple[Foreign, ...]:
    """Each of them once, in the order of the lines, except those in comments."""
    words = _Words(_unheard_word(template))
    try:
        return tuple(_foreign(read_stream(ACTION.sub(words.inert, template)), words))
    except UnreadableStream:
        return tuple(_outside_comments(template))


class _Words:
    """Placeholder words for variables, and back."""

    def __init__(self, mark: str) -> None:
        self._mark = mark
        self.shown: dict[int, str] = {}
        self._stood: list[str] = []  # what each word stands for
        self.foreign: dict[int, str] = {}  # by number: why it is not a variable of tgp
        self.word = re.compile(rf"{mark}([0-9]+)z")

    def inert(self, found: re.Match[str]) -> str:
        number = len(self._stood)
        why = foreign(found)
        if why is not None:
            self.foreign[number] = why
            self.shown[number] = shown(found)
            self._stood.append(found[0])
        elif is_escape(found):
            self._stood.append(ESCAPE)
        else:
            variable = VARIABLE.fullmatch(found[1])
            assert variable is not None, "anything else is foreign"
            self._stood.append(f"{{{{.{ALIASES.get(variable[1], variable[1])}}}}}")
        return f"{self._mark}{number}z"

    def stands_for(self, found: re.Match[str]) -> str:
        return self._stood[int(found[1])]

    def spelled(self, text: str) -> str:
        return self.word.sub(self.stands_for, text)

    def restored(self, data: Any) -> Any:
        if isinstance(data, dict):
            return {self.spelled(key): self.restored(item) for key, item in data.items()}
        if isinstance(data, list):
            return [self.restored(item) for item in data]
        return self.spelled(data) if isinstance(data, str) else data


def shape(data: Any) -> Any:
    """The structure without its scalars: two renderings of one template have one shape."""
    if isinstance(data, dict):
        return {key: shape(item) for key, item in data.items()}
    if isinstance(data, list):
        return [shape(item) for item in data]
    kinds = (bool, int, float, str)  # a number is a number, however it was spelled
    return next((kind.__name__ for kind in kinds if isinstance(data, kind)), "null")


def texts(data: Any, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """Keys and values, each with its path."""
    if isinstance(data, dict):
        for key, item in data.items():
            yield (*path, key), key
            yield from texts(item, (*path, key))
    elif isinstance(data, list):
        for place, item in enumerate(data):
            yield from texts(item, (*path, place))
    elif isinstance(data, str):
        yield path, data


# ----


def _unheard_word(template: str) -> str:
    """A word that is not in the template: letters and digits only, so that it is a string everywhere."""
    for attempt in range(1_000):
        word = f"tgp{sha256(f'{attempt} {template}'.encode(errors='replace')).hexdigest()[:12]}v"
        if word not in template:
            return word
    raise AssertionError("a template that holds its own digest a thousand times")


def _findings(foreign: Iterable[Foreign]) -> tuple[ConfigFinding, ...]:
    return tuple(ConfigFinding(each.line, "", each.message) for each in foreign)


def _foreign(documents: Iterable[Document], words: _Words) -> Iterator[Foreign]:
    """Each of them once."""
    seen: set[str] = set()
    for document in documents:
        for path, text in texts(document.data):
            for found in words.word.finditer(text):
                why = words.foreign.get(int(found[1]))
                if why is not None and why not in seen:
                    seen.add(why)
                    yield Foreign(document.line_of(path), words.shown[int(found[1])], why)


def _outside_comments(template: str) -> Iterator[Foreign]:
    """For text that is not YAML: there, a comment is a line that begins with #."""
    seen: set[str] = set()
    for number, line in enumerate(template.splitlines(), 1):
        for found in ACTION.finditer("" if line.lstrip().startswith("#") else line):
            why = foreign(found)
            if why is not None and why not in seen:
                seen.add(why)
                yield Foreign(number, shown(found), why)


def _keys(document: Document, data: Any, path: Path, words: _Words) -> Iterator[ConfigFinding]:
    """Variables in keys: their values would decide the structure."""
    if isinstance(data, dict):
        for key, item in data.items():
            here = (*path, key)
            if any(words.stands_for(found) != ESCAPE for found in words.word.finditer(key)):
                why = "a variable cannot be a key, or part of one: write the key out"
                yield ConfigFinding(document.line_of(here), spell(path), why)
            yield from _keys(document, item, here, words)
    elif isinstance(data, list):
        for place, item in enumerate(data):
            yield from _keys(document, item, (*path, place), words)
