"""What was imported from files of an ancestor: summary and document."""

from typing import Any, Literal, TypedDict

from tgp.core.migration.conversion import ImportResult
from tgp.core.migration.field_notes import FieldOutcome
from tgp.core.model.text import plain
from tgp.services.documents import API_VERSION, ApiVersion


class ImportedFieldItem(TypedDict):
    file: str
    line: int
    object: str
    field: str
    outcome: str
    message: str


class ImportReport(TypedDict):
    apiVersion: ApiVersion
    kind: Literal["ImportReport"]
    objects: list[dict[str, Any]]
    values: dict[str, Any]
    fields: list[ImportedFieldItem]
    summary: str
    exitCode: int


def summary(result: ImportResult) -> str:
    written = sum(draft.written for draft in result.drafts)
    notes = result.all_notes
    open_ones = sum(note.outcome is FieldOutcome.NOT_CONVERTED for note in notes)
    changed = sum(note.outcome is FieldOutcome.CHANGED for note in notes)
    objects = f"{written} {'object' if written == 1 else 'objects'} written"
    if result.values:
        objects += ", and Helm values in a comment at the end" if written else "; Helm values are in a comment"
    if open_ones:
        return f"{objects}; {open_ones} not converted, {_differs(changed)}. Nothing was applied."
    return f"{objects}; {_differs(changed)}. Nothing was applied."


def _differs(changed: int) -> str:
    return f"{changed} {'difference' if changed == 1 else 'differences'} in behaviour"


def import_report(result: ImportResult) -> ImportReport:
    return ImportReport(
        apiVersion=API_VERSION,
        kind="ImportReport",
        objects=[draft.manifest for draft in result.drafts if draft.written],
        values=result.values,
        fields=[
            {
                "file": note.file,
                "line": note.line,
                "object": plain(note.subject),
                "field": plain(note.field),
                "outcome": str(note.outcome),
                "message": plain(note.message),
            }
            for note in result.all_notes
        ],
        summary=summary(result),
        exitCode=0 if result.complete else 1,
    )
