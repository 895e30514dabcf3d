"""One machine, link by link: what works, what is broken and how to fix it, and what is unknown and why."""

from rich.console import Group
from rich.text import Text

from tgp.core.model.text import plain
from tgp.interfaces.cli.next_step import next_lines
from tgp.interfaces.cli.output import wrapped
from tgp.services.documents.connectivity import Examination, summary

MARKS = {True: ("✓", "green"), False: ("✗", "red"), None: ("?", "yellow")}


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
