"""What `tgp doctor` found: each problem with its cost and the command that fixes it."""

from rich.console import Group
from rich.text import Text

from tgp.core.model.money import dollars
from tgp.core.model.text import plain
from tgp.core.reports.doctor import DoctorFinding
from tgp.interfaces.cli.next_step import as_called, next_lines
from tgp.interfaces.cli.output import wrapped
from tgp.services.documents.doctor import DoctorReport, kind_of, summary

INDENT = "    "
MARKS = {"note": ("·", "dim"), "unknown": ("?", "yellow"), "problem": ("✗", "red")}


def render(report: DoctorReport, width: int) -> Group:
    inventory, lines = report.inventory, []
    asked = sorted({one.title for one in inventory.inspections if one.asked})
    lines += wrapped(
        f"Cluster {report.title} ({inventory.cluster}); providers asked: {', '.join(asked) or 'none'}.", width
    )
    for finding in report.findings:
        lines += [Text(), *_block(finding, width)]
    lines.append(Text())
    for words in report.done:
        lines += wrapped(words, width, first="✓ ", rest=INDENT, style="green")
    for words in report.failed:
        lines += wrapped(words, width, first="✗ ", rest=INDENT, style="red")
    lines += wrapped(summary(report), width, style="bold")
    lines += next_lines(next_command(report))
    return Group(*lines)


def next_command(report: DoctorReport) -> str:
    """What stops a cost first."""
    order = sorted(report.open, key=lambda finding: (finding.cure is None, finding.unknown))
    return next((finding.fix for finding in order if finding.fix), "")


def _block(finding: DoctorFinding, width: int) -> list[Text]:
    mark, style = MARKS[kind_of(finding)]
    title = Text.assemble((f"{mark} ", style), (plain(finding.about), "bold"), (f"  {finding.problem}", "dim"))
    if finding.hourly_microusd is None:
        title.append("  costs an unknown amount an hour", "yellow")
    elif finding.hourly_microusd:
        title.append(f"  {dollars(finding.hourly_microusd)} an hour", style)
    lines = [title, *wrapped(finding.words, width, first=INDENT, rest=INDENT)]
    if finding.fix:
        lines.append(Text.assemble((f"{INDENT}fix: ", "dim"), as_called(finding.fix)))
    return lines
