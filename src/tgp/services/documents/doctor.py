"""What `tgp doctor` found: the report, its exit code and its document."""

from dataclasses import dataclass
from typing import Literal, TypedDict

from tgp.api.values import rfc3339
from tgp.core.model.cluster_inventory import ClusterInventory
from tgp.core.model.money import dollars
from tgp.core.model.text import plain
from tgp.core.reports.doctor import DoctorFinding, EndMachine
from tgp.core.reports.machine_costs import hourly_total, machine_costs
from tgp.services.documents import API_VERSION, ApiVersion, Moment, usd
from tgp.services.documents.machines import MachineItem, costing, machine_item


class AskedProviderItem(TypedDict):
    provider: str
    credentials: str | None
    account: str | None
    answered: bool
    machines: int | None
    message: str


class FindingItem(TypedDict):
    problem: str
    kind: str
    about: str
    message: str
    usdPerHour: float | None
    since: Moment | None
    fix: str | None
    fixable: bool
    instanceId: str | None


class DoctorReportDocument(TypedDict):
    apiVersion: ApiVersion
    kind: Literal["DoctorReport"]
    cluster: str
    context: str
    providers: list[AskedProviderItem]
    findings: list[FindingItem]
    machines: list[MachineItem]
    usdPerHour: float
    done: list[str]
    failed: list[str]
    summary: str
    exitCode: int


ALL_WELL = 0
LEFT = 1
UNKNOWN = 2  # a provider that could not be asked may run any machine: more serious than what was found


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


def doctor_report(report: DoctorReport) -> DoctorReportDocument:
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
        findings=[_finding_item(finding) for finding in report.findings],
        machines=[machine_item(one) for one in held],
        usdPerHour=usd(hourly_total(held)),
        done=[plain(words) for words in report.done],
        failed=[plain(words) for words in report.failed],
        summary=plain(summary(report)),
        exitCode=exit_code(report),
    )


def kind_of(finding: DoctorFinding) -> str:
    return "note" if finding.note else "unknown" if finding.unknown else "problem"


def _finding_item(finding: DoctorFinding) -> FindingItem:
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
