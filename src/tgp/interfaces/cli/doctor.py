"""`tgp doctor`: is there a machine without a request, or a request without its machine? It asks the providers.

`tgp doctor node/NAME`, or `request/NAME`: one machine, from its request to the connection to its kubelet.
"""

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from uuid import UUID

import click
from rich.console import Group
from rich.text import Text

from tgp.core.model.cloud_errors import CloudError
from tgp.core.model.cluster_inventory import ClusterInventory
from tgp.core.model.identity import CLUSTER_DIGITS, cluster_id
from tgp.core.model.money import dollars
from tgp.core.model.text import plain
from tgp.core.reports.doctor import DeleteNode, DoctorFinding, EndMachine, findings
from tgp.interfaces.cli.cluster_options import cluster_options
from tgp.interfaces.cli.completion import live_names
from tgp.interfaces.cli.confirm import agreed, confirmed, interactive
from tgp.interfaces.cli.context import CliServices, ClusterActions
from tgp.interfaces.cli.doctor_anywhere import look_everywhere
from tgp.interfaces.cli.doctor_one import examine
from tgp.interfaces.cli.interrupt import BegunSteps, run
from tgp.interfaces.cli.next_step import as_called, next_lines
from tgp.interfaces.cli.output import ROW_FORMATS, TABLES, Formats, print_rows, waiting, wrapped
from tgp.ports.cluster import ClusterError
from tgp.services.confirmed import Confirmed
from tgp.services.documents.doctor import DoctorReport, doctor_report, exit_code, kind_of, summary

GONE_WITHIN = 120.0  # seconds that a termination may take before it is reported as requested only
LOOK_EVERY = 5.0
CLUSTER_ID = re.compile(rf"[0-9a-f]{{{CLUSTER_DIGITS}}}")
INDENT = "    "
MARKS = {"note": ("·", "dim"), "unknown": ("?", "yellow"), "problem": ("✗", "red")}


@click.command()
@click.argument("what", default="", metavar="[node/NAME|request/NAME]", shell_complete=live_names("node", "request"))
@click.option("--orphans", is_flag=True, help="Only machines that no request owns.")
@click.option("--no-cluster", is_flag=True, help="Machines of any cluster, by the API keys in the environment alone.")
@click.option(
    "--cluster-id",
    "bought_by",
    default="",
    metavar="ID",
    help="As --no-cluster, but only machines of this cluster: its id, or the uid of its Namespace kube-system.",
)
@click.option("--fix", is_flag=True, help="Fix what a command can fix, after a question.")
@click.option("--yes", is_flag=True, help="With --fix: do not ask.")
@click.option("-o", "--output", "how", type=Formats(ROW_FORMATS), default="table", show_default=True)
@cluster_options
@click.pass_obj
def doctor(
    services: CliServices,
    *,
    what: str,
    orphans: bool,
    no_cluster: bool,
    bought_by: str,
    fix: bool,
    yes: bool,
    how: str,
    kubeconfig: str,
    context: str,
    namespace: str,
) -> None:
    """Compare what the providers list with the objects in the cluster, and offer to fix differences.

    With a Node or a request: that one machine, from its request to the connection to its kubelet. With --no-cluster:
    every machine that tgp bought from the providers whose API keys are in the environment, for when a cluster is gone.

    Exit code 0: no problem; 1: a problem is left; 2: a provider could not be asked, so its machines are unknown.
    """
    if no_cluster or bought_by:
        if what or orphans or fix or kubeconfig or context:
            asks = "--cluster-id asks" if bought_by else "--no-cluster asks"
            raise click.UsageError(f"{asks} only the providers: of the other options only --output can be given.")
        raise SystemExit(look_everywhere(services, how, _cluster_id(bought_by)))
    if what:
        if orphans or fix:
            raise click.UsageError("--orphans and --fix cannot be combined with a Node or a request.")
        raise SystemExit(examine(services, (kubeconfig, context, namespace), what, how))
    if yes and not fix:
        raise click.UsageError("--yes needs --fix.")
    if fix and not yes and not interactive():
        raise click.UsageError("There is no terminal for the question: use --fix --yes.")
    offering = fix or (how in TABLES and interactive())
    begun, where = BegunSteps(), (kubeconfig, context, namespace)
    report = run(_examine(services, where, begun, only_orphans=orphans, offering=offering, yes=yes, how=how), begun)
    _print(report, how)
    raise SystemExit(exit_code(report))


def _cluster_id(given: str) -> str:
    """Ten hex digits; empty: any cluster."""
    if not given or CLUSTER_ID.fullmatch(given):
        return given
    try:
        return cluster_id(str(UUID(given)))
    except ValueError:
        raise click.UsageError(
            f"--cluster-id {given!r} is neither a cluster's id (ten digits 0-9a-f, as tgp doctor and tgp down show it) "
            "nor the uid of its Namespace kube-system."
        ) from None


async def _examine(
    services: CliServices,
    where: tuple[str, str, str],
    begun: BegunSteps,
    *,
    only_orphans: bool,
    offering: bool,
    yes: bool,
    how: str,
) -> DoctorReport:
    async with services.cluster(*where) as cluster:
        with waiting("asking the providers …"):
            inventory = await cluster.inventory()
        found = findings(inventory, only_orphans=only_orphans)
        report = DoctorReport(cluster.title, inventory, found)
        curable = [finding for finding in found if finding.cure is not None]
        if not curable or not offering:
            return report
        if how in TABLES and not yes:
            _print(report, how)
        return await _repaired(cluster, report, curable, begun, only_orphans=only_orphans, yes=yes)


@dataclass(slots=True)
class RepairTally:
    """What was tried, with the results."""

    begun: BegunSteps
    done: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    tried: list[str] = field(default_factory=list)

    def trying(self, name: str) -> None:
        self.tried.append(name)
        self.begun.words = (
            f"Termination or deletion was requested for {', '.join(self.tried)}. It is not proven that they are gone: "
            "tgp doctor shows what is left."
        )


async def _repaired(
    cluster: ClusterActions,
    report: DoctorReport,
    curable: Sequence[DoctorFinding],
    begun: BegunSteps,
    *,
    only_orphans: bool,
    yes: bool,
) -> DoctorReport:
    ends = [finding.cure for finding in curable if isinstance(finding.cure, EndMachine)]
    nodes = [finding.cure for finding in curable if isinstance(finding.cure, DeleteNode)]
    tally = RepairTally(begun)
    ending = confirmed(
        report.inventory.cluster, ((one.access, one.instance.id) for one in ends), _question(ends), yes=yes
    )
    if ending is not None:
        await _end(cluster, ends, ending, tally)
    if nodes and agreed(f"Delete {_nodes(nodes)} from the cluster?", yes=yes):
        await _delete(cluster, nodes, tally)
    if not tally.done and not tally.failed:
        return report
    with waiting("looking again …"):
        inventory = await _after(cluster, ending)
    return DoctorReport(
        cluster.title,
        inventory,
        findings(inventory, only_orphans=only_orphans),
        tuple(tally.done),
        tuple(tally.failed),
    )


async def _end(cluster: ClusterActions, ends: Sequence[EndMachine], agreement: Confirmed, tally: RepairTally) -> None:
    """Only machines that are still orphans: the question may have waited for hours while a request was restored."""
    still = {
        (finding.cure.access, finding.cure.instance.id)
        for finding in findings(await cluster.inventory())
        if isinstance(finding.cure, EndMachine)
    }
    for one in ends:
        name = f"{one.instance.id} ({one.access.partition('/')[0]})"
        if (one.access, one.instance.id) not in still:
            tally.done.append(f"Machine {name} is no longer an orphan and was not terminated.")
            continue
        tally.trying(name)
        try:
            await cluster.end(one.access, one.instance, agreement)
        except (CloudError, TimeoutError) as error:
            why = str(error) or "no answer"
            tally.failed.append(f"Machine {name} was not terminated: {why}. The machine may still be billed.")
        else:
            tally.done.append(f"Termination of machine {name} was requested.")


async def _delete(cluster: ClusterActions, nodes: Sequence[DeleteNode], tally: RepairTally) -> None:
    for one in nodes:
        tally.trying(f"node/{one.node.name}")
        try:
            await cluster.delete_node(one.node)
        except ClusterError as error:
            tally.failed.append(f"Node {one.node.name} could not be deleted: {error}.")
        else:
            tally.done.append(f"Node {one.node.name} was deleted.")


async def _after(cluster: ClusterActions, ending: Confirmed | None) -> ClusterInventory:
    """A requested termination may take a while: look until the lists agree, or the time is over."""
    loop = asyncio.get_running_loop()
    until = loop.time() + GONE_WITHIN
    while True:
        inventory = await cluster.inventory()
        ids = {instance.id for one in inventory.inspections for instance in one.machines}
        if ending is None or not any(machine in ids for _, machine in ending.machines) or loop.time() >= until:
            return inventory
        await asyncio.sleep(LOOK_EVERY)


def _question(ends: Sequence[EndMachine]) -> str:
    total = sum(one.instance.hourly_microusd or 0 for one in ends)
    what = "this machine" if len(ends) == 1 else f"these {len(ends)} machines"
    return f"Terminate {what} now ({dollars(total)} an hour)? All data there is lost."


def _nodes(nodes: Sequence[DeleteNode]) -> str:
    return ", ".join(f"node/{one.node.name}" for one in nodes)


def _print(report: DoctorReport, how: str) -> None:
    names = [plain(finding.about) for finding in report.findings]
    print_rows(partial(render, report), doctor_report(report), "findings", names, how)


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
