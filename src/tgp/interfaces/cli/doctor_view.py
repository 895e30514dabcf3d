"""What `tgp doctor` found: each problem with its cost and the command that fixes it."""

from dataclasses import dataclass

from rich.console import Group
from rich.text import Text

from tgp.api.values import rfc3339
from tgp.core.model.cluster_inventory import ClusterInventory
from tgp.core.model.money import dollars
from tgp.core.reports.doctor import DoctorFinding, EndMachine
from tgp.core.reports.machine_costs import hourly_total, machine_costs
from tgp.interfaces.cli.holdings_view import costing, machine_item
from tgp.interfaces.cli.next_step import as_called, next_lines
from tgp.interfaces.cli.output import usd, wrapped
from tgp.interfaces.documents import API_VERSION
from tgp.interfaces.documents.machines import DoctorReportDocument, FindingItem
from tgp.interfaces.terminal.snapshot import plain

ALL_WELL = 0
LEFT = 1
UNKNOWN = 2  # a provider that could not be asked may run any machine: more serious than what was found
INDENT = "    "
MARKS = {"note": ("·", "dim"), "unknown": ("?", "yellow"), "problem": ("✗", "red")}


@dataclass(frozen=True, slots=True)
class DoctorReport:
    title: str  # of the cluster
    inventory: ClusterInventory
    findings: tuple[DoctorFinding, ...]
    done: tuple[str, ...] = ()  # what was fixed, as sentences
    failed: tuple[str, ...] = ()  # what was tried and failed

    @property
    def open(self) -> tuple[DoctorFinding, ...]:
        return tuple(finding for finding in self.findings if not finding.note)


def exit_code(report: DoctorReport) -> int:
    if any(finding.unknown for finding in report.findings):
        return UNKNOWN
    return LEFT if report.open or report.failed else ALL_WELL


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


def summary(report: DoctorReport) -> str:
    """One sentence that agrees with the exit code, and what runs."""
    held = machine_costs(report.inventory)
    runs = costing(held)
    unknown = [finding.about for finding in report.findings if finding.unknown]
    if unknown:
        return f"Unknown: {', '.join(unknown)}. There may be machines that are not listed here. {runs}"
    count = len(report.open)
    if count:
        wasted = sum(finding.hourly_microusd or 0 for finding in report.open)
        problems = "1 problem is" if count == 1 else f"{count} problems are"
        return f"{problems} left to fix, at {dollars(wasted)} an hour. {runs}"
    return f"No problems: every machine has a request, and every request has its machine. {runs}"


def next_command(report: DoctorReport) -> str:
    """What stops a cost first."""
    order = sorted(report.open, key=lambda finding: (finding.cure is None, finding.unknown))
    return next((finding.fix for finding in order if finding.fix), "")


def as_document(report: DoctorReport) -> DoctorReportDocument:
    inventory = report.inventory
    held = machine_costs(inventory)
    return DoctorReportDocument(
        apiVersion=API_VERSION,
        kind="DoctorReport",
        cluster=inventory.cluster,
        context=report.title,
        providers=[
            {
                "provider": one.access.provider,
                "credentials": one.access.credentials or None,
                "account": one.account or None,
                "answered": one.asked,
                "machines": len(one.machines) if one.asked else None,
                "message": plain(one.why),
            }
            for one in inventory.inspections
        ],
        findings=[_item(finding) for finding in report.findings],
        machines=[machine_item(one) for one in held],
        usdPerHour=usd(hourly_total(held)),
        done=[plain(words) for words in report.done],
        failed=[plain(words) for words in report.failed],
        summary=plain(summary(report)),
        exitCode=exit_code(report),
    )


def kind_of(finding: DoctorFinding) -> str:
    return "note" if finding.note else "unknown" if finding.unknown else "problem"


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


def _item(finding: DoctorFinding) -> FindingItem:
    return {
        "problem": str(finding.problem),
        "kind": kind_of(finding),
        "about": finding.about,
        "message": plain(finding.words),
        "usdPerHour": usd(finding.hourly_microusd),
        "since": rfc3339(finding.since) if finding.since is not None else None,
        "fix": finding.fix or None,
        "fixable": finding.cure is not None,
        "instanceId": finding.cure.instance.id if isinstance(finding.cure, EndMachine) else None,
    }
