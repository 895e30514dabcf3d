"""What `tgp check -f` found in manifests: summary, exit code and document."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypedDict

from tgp.api.field_error import FieldError
from tgp.core.model.text import plain
from tgp.services.documents import API_VERSION, ApiVersion


class FieldProblemItem(TypedDict):
    field: str
    message: str


class CheckedObjectItem(TypedDict):
    file: str
    line: int
    object: str
    checked: bool
    problems: list[FieldProblemItem]


class ManifestReport(TypedDict):
    apiVersion: ApiVersion
    kind: Literal["ManifestReport"]
    objects: list[CheckedObjectItem]
    summary: str
    exitCode: int


@dataclass(frozen=True, slots=True)
class CheckedManifest:
    file: str
    line: int
    title: str  # GPUNodeClass gpus
    problems: tuple[FieldError, ...] = ()
    ours: bool = True  # False: of another API group, and not looked at


def exit_code(checked: Sequence[CheckedManifest]) -> int:
    return 1 if any(each.problems for each in checked) or not any(each.ours for each in checked) else 0


def summary(checked: Sequence[CheckedManifest]) -> str:
    ours = [each for each in checked if each.ours]
    bad = sum(bool(each.problems) for each in ours)
    if not ours:
        return "There is no object of tgp in these files."
    objects = f"{len(ours)} {'object' if len(ours) == 1 else 'objects'} of tgp"
    return f"{objects}: {bad} would be refused." if bad else f"{objects}: all would be accepted."


def manifest_report(checked: Sequence[CheckedManifest]) -> ManifestReport:
    return ManifestReport(
        apiVersion=API_VERSION,
        kind="ManifestReport",
        objects=[
            {
                "file": each.file,
                "line": each.line,
                "object": plain(each.title),
                "checked": each.ours,
                "problems": [{"field": one.path, "message": plain(one.body)} for one in each.problems],
            }
            for each in checked
        ],
        summary=summary(checked),
        exitCode=exit_code(checked),
    )
