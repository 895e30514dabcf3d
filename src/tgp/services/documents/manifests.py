"""What `tgp check -f` found in manifests: summary, exit code and document."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, TypeAlias, TypedDict

from tgp.api.field_error import FieldError
from tgp.core.model.text import plain
from tgp.services.documents import API_VERSION, ApiVersion

Verdict: TypeAlias = Literal["Accepted", "Refused", "NotReady"]
SAID: Mapping[Verdict, str] = MappingProxyType(
    {"Refused": "refused by the API server", "NotReady": "accepted, but would not work (Ready=False)"}
)


class FieldProblemItem(TypedDict):
    field: str
    message: str


class CheckedObjectItem(TypedDict):
    file: str
    line: int
    object: str
    checked: bool
    verdict: Verdict | None
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
    refused: bool = False  # by the API server; otherwise it creates the object, and problems keep it from working

    @property
    def verdict(self) -> Verdict | None:
        """None: it was not looked at."""
        if not self.ours:
            return None
        return "Refused" if self.refused else "NotReady" if self.problems else "Accepted"


def exit_code(checked: Sequence[CheckedManifest]) -> int:
    return 1 if any(each.problems for each in checked) or not any(each.ours for each in checked) else 0


def summary(checked: Sequence[CheckedManifest]) -> str:
    verdicts = [each.verdict for each in checked if each.ours]
    if not verdicts:
        return "There is no object of tgp in these files."
    objects = f"{len(verdicts)} {'object' if len(verdicts) == 1 else 'objects'} of tgp"
    bad = [f"{count} would be {SAID[each]}" for each in SAID if (count := verdicts.count(each))]
    return f"{objects}: {'; '.join(bad) or 'all would be accepted'}."


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
                "verdict": each.verdict,
                "problems": [{"field": one.path, "message": plain(one.body)} for one in each.problems],
            }
            for each in checked
        ],
        summary=summary(checked),
        exitCode=exit_code(checked),
    )
