"""A file given on the command line: a template, or manifests of classes, alone or in a list."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import click

from tgp.api.decoding import strict
from tgp.api.field_error import Invalid
from tgp.api.nodeclass import GPUNodeClass
from tgp.core.joining.talos.class_templates import ClassTemplate
from tgp.core.joining.talos.stream import Document, Path, UnreadableStream, plain_data, read_stream

STANDARD_INPUT = "-"
KIND = "GPUNodeClass"
LONGEST = 4 << 20  # bytes of a file that is read at all


@dataclass(frozen=True, slots=True)
class FoundClass:
    """A class in a file, and its place there."""

    node_class: GPUNodeClass
    document: Document
    at: Path  # of the class in its document: the item of a list

    def placed(self, template: ClassTemplate, text: str, name: str) -> ClassTemplate:
        """The template with its place in the file, if its lines are the file's lines."""
        return replace(template, source=name, before=self._before(template.template, text))

    def _before(self, template: str | None, text: str) -> int | None:
        if template is None:
            return None
        written, lines = text.splitlines(), template.splitlines()
        for path, line in self.document.lines.items():
            if path[-1:] != ("machineConfigTemplate",) or path[: len(self.at)] != self.at:
                continue
            there = written[line : line + len(lines)]  # a block begins on the line after its key
            if [each.strip() for each in there] == [each.strip() for each in lines]:
                return line
        return None  # folded, quoted, or JSON: then they are the template's own


def read_text(name: str) -> str:
    """Of a file, or of standard input. Raises UsageError."""
    try:
        with click.open_file(name, "rb") as file:
            raw = file.read(LONGEST + 1)
        if len(raw) > LONGEST:
            raise click.UsageError(f"{name} is larger than {LONGEST >> 20} MiB, the limit for a template.")
        return bytes(raw).decode("utf-8-sig")
    except OSError as error:
        raise click.UsageError(f"{name}: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise click.UsageError(f"{name} is not UTF-8 text.") from error


def classes_in(text: str, name: str) -> tuple[FoundClass, ...]:
    """Empty: the text is not a manifest, so it may be a template. Raises UsageError for an invalid class."""
    try:
        documents = read_stream(text)
    except UnreadableStream as error:
        if f"kind: {KIND}" in text.splitlines():
            raise click.UsageError(f"{name}: {error.finding}") from error
        return ()
    found = []
    for document in documents:
        for manifest, at in _manifests(document.data, ()):
            try:
                node_class = strict(plain_data(manifest))
            except Invalid as error:
                raise click.UsageError(f"{name}: {error}") from error
            assert isinstance(node_class, GPUNodeClass), "its kind says so"
            found.append(FoundClass(node_class, document, at))
    return tuple(found)


def one_class(name: str) -> GPUNodeClass:
    """The only class of a file. Raises UsageError."""
    found = classes_in(read_text(name), name)
    if len(found) != 1:
        many = ", ".join(each.node_class.metadata.name for each in found)
        raise click.UsageError(
            f"{name} contains {f'several classes: {many}' if found else f'no {KIND}'}; exactly one is needed."
        )
    return found[0].node_class


def _manifests(data: Any, at: Path) -> Iterator[tuple[Mapping[str, Any], Path]]:
    if not isinstance(data, dict):
        return
    if data.get("kind") == KIND:
        yield data, at
    elif str(data.get("kind", "")).endswith("List") and isinstance(data.get("items"), list):
        for place, item in enumerate(data["items"]):
            yield from _manifests(item, (*at, "items", place))
