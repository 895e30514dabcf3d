"""What `tgp doctor` found: each thing with what it costs and the command that mends it."""

from dataclasses import dataclass
from typing import Any

from rich.console import Group
from rich.text import Text

from tgp.api.values import rfc3339
from tgp.core.model.survey import Survey
from tgp.core.rules.checkup import EndMachine, Finding
from tgp.core.rules.holdings import holdings, hourly_total
from tgp.surfaces.cli.holdings_view import costing, machine_item
from tgp.surfaces.cli.next_step import as_called, next_lines
from tgp.surfaces.cli.output import document, dollars, usd, wrapped
from tgp.surfaces.terminal.scene import plain

ALL_WELL = 0
LEFT = 1
UNKNOWN = 2  # whoever could not be asked may hold anything: that outweighs what was found
INDENT = "    "
MARKS = {"note": ("·", "dim"), "unknown": ("?", "yellow"), "problem": ("✗", "red")}


@dataclass(frozen=True, slots=True)
class Report:
    title: str  # of the cluster
    survey: Survey
    findings: tuple[Finding, ...]
    done: tuple[str, ...] = ()  # what was mended, in words
    failed: tuple[str, ...] = ()  # what was tried in vain

    @property
    def open(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if not finding.note)


def exit_code(report: Report) -> int:
    if any(finding.unknown for finding in report.findings):
        return UNKNOWN
    return LEFT if report.open or report.failed else ALL_WELL


def render(report: Report, width: int) -> Group:
    survey, lines = report.survey, []
    asked = sorted({one.title for one in survey.inspections if one.asked})
    lines += wrapped(f"Cluster {report.title} ({survey.cluster}); asked: {', '.join(asked) or 'nobody'}.", width)
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


def summary(report: Report) -> str:
    """One sentence that agrees with the exit code, and what runs."""
    held = holdings(report.survey)
    runs = costing(held)
    unknown = [finding.about for finding in report.findings if finding.unknown]
    if unknown:
        return f"Nobody can tell about {', '.join(unknown)}: unknown is not none. {runs}"
    count = len(report.open)
    if count:
        wasted = sum(finding.hourly_microusd or 0 for finding in report.open)
        things = "1 thing is" if count == 1 else f"{count} things are"
        return f"{things} left to mend, ${dollars(wasted)} an hour among them. {runs}"
    return f"All well: every machine has its request, and every request its machine. {runs}"


def next_command(report: Report) -> str:
    """What ends a bill first."""
    order = sorted(report.open, key=lambda finding: (finding.cure is None, finding.unknown))
    return next((finding.mend for finding in order if finding.mend), "")


def as_document(report: Report) -> dict[str, Any]:
    survey = report.survey
    held = holdings(survey)
    return document(
        "DoctorReport",
        cluster=survey.cluster,
        context=report.title,
        asked=[
            {
                "provider": one.till.provider,
                "credentials": one.till.credentials or None,
                "account": one.account or None,
                "answered": one.asked,
                "machines": len(one.machines) if one.asked else None,
                "message": plain(one.why),
            }
            for one in survey.inspections
        ],
        findings=[_item(finding) for finding in report.findings],
        machines=[machine_item(one) for one in held],
        usdPerHour=usd(hourly_total(held)),
        done=[plain(words) for words in report.done],
        failed=[plain(words) for words in report.failed],
        summary=plain(summary(report)),
        exitCode=exit_code(report),
    )


def kind_of(finding: Finding) -> str:
    return "note" if finding.note else "unknown" if finding.unknown else "problem"


def _block(finding: Finding, width: int) -> list[Text]:
    mark, style = MARKS[kind_of(finding)]
    title = Text.assemble((f"{mark} ", style), (plain(finding.about), "bold"), (f"  {finding.problem}", "dim"))
    if finding.hourly_microusd is None:
        title.append("  costs an unknown amount an hour", "yellow")
    elif finding.hourly_microusd:
        title.append(f"  ${dollars(finding.hourly_microusd)} an hour", style)
    lines = [title, *wrapped(finding.words, width, first=INDENT, rest=INDENT)]
    if finding.mend:
        lines.append(Text.assemble((f"{INDENT}mend: ", "dim"), as_called(finding.mend)))
    return lines


def _item(finding: Finding) -> dict[str, Any]:
    return {
        "problem": str(finding.problem),
        "kind": kind_of(finding),
        "about": finding.about,
        "message": plain(finding.words),
        "usdPerHour": usd(finding.hourly_microusd),
        "since": rfc3339(finding.since) if finding.since is not None else None,
        "mend": finding.mend or None,
        "fixable": finding.cure is not None,
        "instanceId": finding.cure.instance.id if isinstance(finding.cure, EndMachine) else None,
    }
