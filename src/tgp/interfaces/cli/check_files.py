"""`tgp check -f FILE`: would the API server and the operator accept these manifests?"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from zoneinfo import available_timezones

import click
import msgspec
from rich.console import Group
from rich.text import Text

from tgp.api.field_error import FieldError
from tgp.api.kinds import KINDS
from tgp.core.joining.talos.stream import Path, UnreadableStream, plain_data, read_stream
from tgp.core.reports.manifest_verdict import Surroundings, among, verdict
from tgp.interfaces.cli.class_file import read_text
from tgp.interfaces.cli.next_step import next_lines
from tgp.interfaces.cli.output import wrapped
from tgp.interfaces.documents import API_VERSION
from tgp.interfaces.documents.setup import ManifestReport
from tgp.interfaces.terminal.snapshot import plain

OUR_GROUPS = frozenset(kind.resource.group for kind in KINDS)


@dataclass(frozen=True, slots=True)
class CheckedManifest:
    file: str
    line: int
    title: str  # GPUNodeClass gpus
    problems: tuple[FieldError, ...] = ()
    ours: bool = True  # False: of another API group, and not looked at


def check_files(names: Sequence[str], known: Surroundings) -> list[CheckedManifest]:
    """Every object of the files, beside the others and what is known. Raises UsageError for an unreadable file."""
    found: list[tuple[str, int, dict[str, Any]]] = []
    for name in names:
        try:
            documents = read_stream(read_text(name))
        except UnreadableStream as error:
            raise click.UsageError(f"{name}: {error.finding}. Correct this line, and run the command again.") from error
        for each in documents:
            for manifest, at in _objects(plain_data(each.data), ()):
                found.append((name, each.line_of(at), manifest))
    zoned = msgspec.structs.replace(known, time_zones=frozenset(available_timezones()))
    beside = among((manifest for _, _, manifest in found), zoned)
    return [_checked(name, line, manifest, beside) for name, line, manifest in found]


def _objects(data: Any, at: Path) -> Iterator[tuple[dict[str, Any], Path]]:
    if not isinstance(data, dict):
        return
    items = data.get("items")
    if str(data.get("kind", "")).endswith("List") and isinstance(items, list):
        for number, item in enumerate(items):
            yield from _objects(item, (*at, "items", number))
    else:
        yield data, at


def _checked(file: str, line: int, manifest: dict[str, Any], known: Surroundings) -> CheckedManifest:
    meta = manifest.get("metadata")
    meta = meta if isinstance(meta, dict) else {}
    name = "/".join(str(part) for part in (meta.get("namespace"), meta.get("name")) if part)
    title = f"{manifest.get('kind') or 'object without a kind'} {name}".strip()
    group = str(manifest.get("apiVersion") or "").partition("/")[0]
    if manifest.get("kind") and group not in OUR_GROUPS:
        return CheckedManifest(file, line, title, ours=False)
    return CheckedManifest(file, line, title, verdict(manifest, known))


def exit_code(checked: Sequence[CheckedManifest]) -> int:
    return 1 if any(each.problems for each in checked) or not any(each.ours for each in checked) else 0


def summary(checked: Sequence[CheckedManifest]) -> str:
    ours = [each for each in checked if each.ours]
    bad = sum(bool(each.problems) for each in ours)
    if not ours:
        return "There is no object of tgp in these files."
    objects = f"{len(ours)} {'object' if len(ours) == 1 else 'objects'} of tgp"
    return f"{objects}: {bad} would be refused." if bad else f"{objects}: all would be accepted."


def render(checked: Sequence[CheckedManifest], files: Sequence[str], width: int) -> Group:
    lines: list[Text] = []
    for each in checked:
        mark, style = ("·", "dim") if not each.ours else ("✗", "red") if each.problems else ("✓", "green")
        aside = "" if each.ours else ", not an object of tgp: not looked at"
        title, *rest = wrapped(f"{each.title} ({each.file} line {each.line}){aside}", width, first=f"{mark} ")
        title.stylize(style, 0, len(mark))
        lines += [title, *rest]
        for problem in each.problems:
            lines += wrapped(str(problem), width, first="    ", rest="      ", style="red")
    lines += wrapped(summary(checked), width, style="bold")
    if exit_code(checked) == 0 and "-" not in files:
        lines += next_lines(f"kubectl apply {' '.join(f'-f {name}' for name in files)}")
    return Group(*lines)


def as_document(checked: Sequence[CheckedManifest]) -> ManifestReport:
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
