"""How an import is shown: manifests with comments, and a table of what became of each field."""

import sys
from collections.abc import Iterator
from typing import Any

from rich.console import Console, Group
from rich.text import Text

from tgp.core.joining.talos.stream import write_stream
from tgp.core.migration.conversion import ImportResult
from tgp.core.migration.field_notes import FieldNote, FieldOutcome, ManifestDraft
from tgp.interfaces.cli.next_step import next_lines
from tgp.interfaces.cli.output import PIPED_WIDTH, TableColumn, table, terminal_width, wrapped
from tgp.services.documents.imports import summary

START = "---\n"
TOLD = (FieldOutcome.CHANGED, FieldOutcome.NOT_CONVERTED)  # as a comment in the manifest
STYLES = {FieldOutcome.NOT_CONVERTED: "red", FieldOutcome.CHANGED: "yellow"}
COMMENT_WIDTH = 118


def manifests(result: ImportResult) -> str:
    """YAML for kubectl apply, and the Helm values as a comment at the end."""
    return "".join([*map(_manifest, result.drafts), *_left(result.notes), *_values(result.values)])


def _manifest(draft: ManifestDraft) -> str:
    comments = [f"from {draft.source.file} line {draft.source.line_of('')}: {draft.subject}"]
    comments += [_sentence(note) for note in draft.notes if note.outcome in TOLD]
    body = write_stream([draft.manifest]) if draft.written else ""
    return START + "".join(map(_comment, comments)) + body


def _left(notes: list[FieldNote]) -> Iterator[str]:
    """What is in no object: nothing of a file disappears unseen."""
    lines = [
        f"{note.file} line {note.line}: {note.subject}: {_sentence(note)}" for note in notes if note.outcome in TOLD
    ]
    if lines:
        yield START + "".join(map(_comment, lines))


def _values(values: dict[str, Any]) -> Iterator[str]:
    if values:
        body = write_stream([values])
        yield f"{START}# Helm values for deploy/charts/tgp-operator, in a file of their own:\n"
        yield "".join(f"#   {line}\n" for line in body.splitlines())


def _sentence(note: FieldNote) -> str:
    field = f" {note.field}" if note.field else ""
    return f"{note.outcome}{field}: {note.message}"


def _comment(words: str) -> str:
    return "".join(f"{line.plain}\n" for line in wrapped(words, COMMENT_WIDTH, first="# ", rest="#   "))


def print_report(result: ImportResult, checking: str) -> None:
    """On standard error. `checking`: the command that checks the output; empty: it cannot be run again."""
    width = terminal_width() if sys.stderr.isatty() else PIPED_WIDTH
    Console(stderr=True, width=width, highlight=False).print(Group(*_report(result, width, checking)))


def _report(result: ImportResult, width: int, checking: str) -> Iterator[Text]:
    notes = result.all_notes
    if notes:
        columns = [
            TableColumn("OUTCOME", tuple((str(note.outcome), STYLES.get(note.outcome, "dim")) for note in notes)),
            TableColumn("FIELD", tuple((note.field, "bold") for note in notes)),
            TableColumn("OBJECT", tuple((note.subject, "") for note in notes)),
            TableColumn("FILE", tuple((f"{note.file}:{note.line}", "dim") for note in notes)),
        ]
        head, *rows = table(columns, width)
        yield head
        for row, note in zip(rows, notes, strict=True):
            yield row
            yield from wrapped(note.message, width, first="    ", rest="    ", style="dim")
        yield Text()
    yield from wrapped(summary(result), width, style="bold")
    if any(draft.written for draft in result.drafts):
        yield from next_lines(checking)
