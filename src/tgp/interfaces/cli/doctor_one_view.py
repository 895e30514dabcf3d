"""One machine, link by link: what works, what is broken and how to fix it, and what is unknown and why."""

from dataclasses import dataclass

from rich.console import Group
from rich.text import Text

from tgp.core.reports.path_check import PathLink
from tgp.interfaces.cli.next_step import next_lines
from tgp.interfaces.cli.output import wrapped
from tgp.interfaces.documents import API_VERSION
from tgp.interfaces.documents.machines import ConnectivityReport
from tgp.interfaces.terminal.snapshot import plain

ALL_WELL, BROKEN, UNKNOWN = 0, 1, 2
MARKS = {True: ("✓", "green"), False: ("✗", "red"), None: ("?", "yellow")}
KINDS = {True: "ok", False: "broken", None: "unknown"}


@dataclass(frozen=True, slots=True)
class Examination:
    title: str  # of the cluster
    name: str  # node/x
    links: tuple[PathLink, ...]
    following: str = ""  # the next command


def exit_code(examination: Examination) -> int:
    """A broken link is certain, so it comes before an unknown one."""
    if any(link.ok is False for link in examination.links):
        return BROKEN
    return UNKNOWN if any(link.ok is None for link in examination.links) else ALL_WELL


def render(examination: Examination, width: int) -> Group:
    lines = [Text.assemble((plain(examination.name), "bold"), (f"  in cluster {plain(examination.title)}", "dim"))]
    widest = max((len(link.name) for link in examination.links), default=0)
    for link in examination.links:
        mark, style = MARKS[link.ok]
        start = f"{mark} {link.name:<{widest}}  "
        for number, line in enumerate(wrapped(link.words, width, first=start, rest=" " * len(start))):
            if number == 0:
                line.stylize(style, 0, 1)
                line.stylize("bold", 2, 2 + len(link.name))
            lines.append(line)
        if link.fix:
            lines += wrapped(link.fix, width, first=" " * len(start) + "fix: ", rest=" " * (len(start) + 5))
    lines += [Text(), *wrapped(summary(examination), width, style="bold")]
    if examination.following:
        lines += next_lines(examination.following)
    return Group(*lines)


def summary(examination: Examination) -> str:
    broken = next((link for link in examination.links if link.ok is False), None)
    if broken is not None:
        return f"Broken at the {broken.name}: {broken.words}."
    unknown = [link.name for link in examination.links if link.ok is None]
    if unknown:
        return f"Everything that could be checked works; unknown: {', '.join(unknown)}."
    if len(examination.links) == 1:  # there is no machine to examine
        return f"No problems: {examination.links[0].words}."
    return "No problems, from the request to the kubelet."


def as_document(examination: Examination) -> ConnectivityReport:
    return ConnectivityReport(
        apiVersion=API_VERSION,
        kind="ConnectivityReport",
        cluster=examination.title,
        about=examination.name,
        links=[
            {"name": link.name, "kind": KINDS[link.ok], "message": plain(link.words), "fix": link.fix or None}
            for link in examination.links
        ],
        summary=plain(summary(examination)),
        exitCode=exit_code(examination),
    )
