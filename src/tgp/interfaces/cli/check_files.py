"""`tgp check -f FILE`: would the API server and the operator accept these manifests?"""

from collections.abc import Iterator, Sequence
from typing import Any
from zoneinfo import available_timezones

import click
import msgspec
from rich.console import Group
from rich.text import Text

from tgp.api.kinds import KINDS
from tgp.core.joining.talos.stream import Path, UnreadableStream, plain_data, read_stream
from tgp.core.reports.manifest_verdict import Surroundings, among, refused, verdict
from tgp.interfaces.cli.class_file import read_text
from tgp.interfaces.cli.next_step import next_lines
from tgp.interfaces.cli.output import wrapped
from tgp.services.documents.manifests import SAID, CheckedManifest, exit_code, summary

NOT_OURS = "not an object of tgp, not looked at"
OUR_GROUPS = frozenset(kind.resource.group for kind in KINDS)


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
    return CheckedManifest(file, line, title, verdict(manifest, known), refused=refused(manifest))


def render(checked: Sequence[CheckedManifest], files: Sequence[str], width: int) -> Group:
    lines: list[Text] = []
    for each in checked:
        mark, style = ("·", "dim") if not each.ours else ("✗", "red") if each.problems else ("✓", "green")
        said = SAID.get(each.verdict) if each.verdict is not None else NOT_OURS
        aside = f": {said}" if said is not None else ""
        title, *rest = wrapped(f"{each.title} ({each.file} line {each.line}){aside}", width, first=f"{mark} ")
        title.stylize(style, 0, len(mark))
        lines += [title, *rest]
        for problem in each.problems:
            lines += wrapped(str(problem), width, first="    ", rest="      ", style="red")
    lines += wrapped(summary(checked), width, style="bold")
    if exit_code(checked) == 0 and "-" not in files:
        lines += next_lines(f"kubectl apply {' '.join(f'-f {name}' for name in files)}")
    return Group(*lines)
