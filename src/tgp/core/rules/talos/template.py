"""A template is read as YAML with inert words in place of its variables, so that none of them can be structure."""

import re
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

from tgp.core.model.machine_config import Finding, TemplateRefused
from tgp.core.rules.talos.stream import Document, Path, Unreadable, read_stream, spell
from tgp.core.rules.talos.variables import ACTION, ALIASES, VARIABLE, foreign_actions

MAX_ACTIONS = 10_000  # of one template


def read_template(template: str) -> tuple[Document, ...]:
    """Its documents, with every variable spelled `{{.Name}}` by its own name. Raises TemplateRefused."""
    foreign = tuple(Finding(action.line, "", action.message) for action in foreign_actions(template))
    if foreign:
        raise TemplateRefused(foreign)
    if template.count("{{") > MAX_ACTIONS:
        raise TemplateRefused((Finding(0, "", f"holds more than {MAX_ACTIONS} variables"),))
    mark = _unheard_word(template)
    try:
        documents = read_stream(ACTION.sub(lambda found: _inert(found, mark), template))
    except Unreadable as error:
        raise TemplateRefused((error.finding,)) from None
    word = re.compile(rf"{mark}([A-Za-z]+)z")
    keys = tuple(finding for document in documents for finding in _keys(document, document.data, (), word))
    if keys:
        raise TemplateRefused(keys)
    return tuple(Document(_restored(each.data, word), each.line, each.lines) for each in documents)


def shape(data: Any) -> Any:
    """The structure without its scalars: two renderings of one template have one shape."""
    if isinstance(data, dict):
        return {key: shape(item) for key, item in data.items()}
    if isinstance(data, list):
        return [shape(item) for item in data]
    kinds = (bool, int, float, str)  # a number is a number, however it was spelled
    return next((kind.__name__ for kind in kinds if isinstance(data, kind)), "null")


# ----


def _unheard_word(template: str) -> str:
    """A word the template does not hold: letters and digits only, so that it is text wherever it stands."""
    for attempt in range(1_000):
        word = f"tgp{sha256(f'{attempt} {template}'.encode(errors='replace')).hexdigest()[:12]}v"
        if word not in template:
            return word
    raise AssertionError("a template that holds its own digest a thousand times")


def _inert(found: re.Match[str], mark: str) -> str:
    variable = VARIABLE.fullmatch(found[1])
    assert variable is not None, "foreign actions are refused before"
    return f"{mark}{ALIASES.get(variable[1], variable[1])}z"


def _restored(data: Any, word: re.Pattern[str]) -> Any:
    if isinstance(data, dict):
        return {key: _restored(item, word) for key, item in data.items()}
    if isinstance(data, list):
        return [_restored(item, word) for item in data]
    if isinstance(data, str):
        return word.sub(r"{{.\1}}", data)
    return data


def _keys(document: Document, data: Any, path: Path, word: re.Pattern[str]) -> Iterator[Finding]:
    """Variables that are keys: their values would decide the structure."""
    if isinstance(data, dict):
        for key, item in data.items():
            here = (*path, key)
            if word.search(key):
                why = "a variable cannot be a key, or a part of one: write the key out"
                yield Finding(document.line_of(here), spell(path), why)
            yield from _keys(document, item, here, word)
    elif isinstance(data, list):
        for place, item in enumerate(data):
            yield from _keys(document, item, (*path, place), word)
