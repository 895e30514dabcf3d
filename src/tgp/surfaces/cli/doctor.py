"""`tgp doctor`: is there a machine that nobody wants, or a request without one? It asks the providers, not a cache.

`tgp doctor node/NAME`, or `request/NAME`: one machine, link by link, to the way from the API server to its kubelet.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

import click

from tgp.core.model.cloud_errors import CloudError
from tgp.core.model.survey import Survey
from tgp.core.rules.checkup import DeleteNode, EndMachine, Finding, findings
from tgp.ports.cluster import ClusterError
from tgp.surfaces.cli.confirming import Confirmed, agreed, confirmed, interactive
from tgp.surfaces.cli.doctor_one import examine
from tgp.surfaces.cli.doctor_view import Report, as_document, exit_code, render
from tgp.surfaces.cli.interrupt import Begun, run
from tgp.surfaces.cli.output import dollars, show, terminal_width, waiting, write
from tgp.surfaces.cli.premises import Hallway, Premises, cluster_options

GONE_WITHIN = 120.0  # seconds that an end may take before it is told as asked for only
LOOK_EVERY = 5.0


@click.command()
@click.argument("what", default="", metavar="[node/NAME|request/NAME]")
@click.option("--orphans", is_flag=True, help="Only machines that no request owns.")
@click.option("--fix", is_flag=True, help="Mend what can be mended by a command, after a question.")
@click.option("--yes", is_flag=True, help="With --fix: do not ask.")
@click.option("-o", "--output", "how", type=click.Choice(["table", "json", "yaml"]), default="table", show_default=True)
@cluster_options
@click.pass_obj
def doctor(
    hallway: Hallway,
    *,
    what: str,
    orphans: bool,
    fix: bool,
    yes: bool,
    how: str,
    kubeconfig: str,
    context: str,
    namespace: str,
) -> None:
    """Compare what the providers list with what the cluster knows, and offer to mend it.

    With a Node or a request: that one machine, link by link, from its request to the way to its kubelet.

    Ends with 0: all is well; 1: something is left to mend; 2: somebody could not be asked, and unknown is not none.
    """
    if what:
        if orphans or fix:
            raise click.UsageError("--orphans and --fix are for the whole cluster.")
        raise SystemExit(examine(hallway, (kubeconfig, context, namespace), what, how))
    if yes and not fix:
        raise click.UsageError("--yes is for --fix.")
    if fix and not yes and not interactive():
        raise click.UsageError("there is nobody to ask here: say --fix --yes.")
    offering = fix or (how == "table" and interactive())
    begun, where = Begun(), (kubeconfig, context, namespace)
    report = run(_examine(hallway, where, begun, only_orphans=orphans, offering=offering, yes=yes, how=how), begun)
    _print(report, how)
    raise SystemExit(exit_code(report))


async def _examine(
    hallway: Hallway,
    where: tuple[str, str, str],
    begun: Begun,
    *,
    only_orphans: bool,
    offering: bool,
    yes: bool,
    how: str,
) -> Report:
    async with hallway.premises(*where) as premises:
        with waiting("asking the providers …"):
            survey = await premises.survey()
        found = findings(survey, only_orphans=only_orphans)
        report = Report(premises.title, survey, found)
        curable = [finding for finding in found if finding.cure is not None]
        if not curable or not offering:
            return report
        if how == "table" and not yes:
            _print(report, how)
        return await _mended(premises, report, curable, begun, only_orphans=only_orphans, yes=yes)


@dataclass(slots=True)
class Tally:
    """What was tried, and what came of it."""

    begun: Begun
    done: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    tried: list[str] = field(default_factory=list)

    def trying(self, name: str) -> None:
        self.tried.append(name)
        self.begun.words = (
            f"Begun: {', '.join(self.tried)} asked to terminate or deleted. That they are gone is not proven: "
            "tgp doctor shows what is left."
        )


async def _mended(
    premises: Premises, report: Report, curable: Sequence[Finding], begun: Begun, *, only_orphans: bool, yes: bool
) -> Report:
    ends = [finding.cure for finding in curable if isinstance(finding.cure, EndMachine)]
    nodes = [finding.cure for finding in curable if isinstance(finding.cure, DeleteNode)]
    tally = Tally(begun)
    ending = confirmed(report.survey.cluster, ((one.till, one.instance.id) for one in ends), _question(ends), yes=yes)
    if ending is not None:
        await _end(premises, ends, ending, tally)
    if nodes and agreed(f"Delete {_nodes(nodes)} from the cluster?", yes=yes):
        await _delete(premises, nodes, tally)
    if not tally.done and not tally.failed:
        return report
    with waiting("looking again …"):
        survey = await _after(premises, ending)
    return Report(
        premises.title, survey, findings(survey, only_orphans=only_orphans), tuple(tally.done), tuple(tally.failed)
    )


async def _end(premises: Premises, ends: Sequence[EndMachine], agreement: Confirmed, tally: Tally) -> None:
    """Only what is an orphan still: the question may have waited for hours, and a request been restored meanwhile."""
    still = {
        (finding.cure.till, finding.cure.instance.id)
        for finding in findings(await premises.survey())
        if isinstance(finding.cure, EndMachine)
    }
    for one in ends:
        name = f"{one.instance.id} ({one.till.partition('/')[0]})"
        if (one.till, one.instance.id) not in still:
            tally.done.append(f"{name} is no orphan any more, and was left alone.")
            continue
        tally.trying(name)
        try:
            await premises.end(one.till, one.instance, agreement)
        except (CloudError, TimeoutError) as error:
            why = str(error) or "no answer came"
            tally.failed.append(f"{name} could not be ended: {why}. It may cost on.")
        else:
            tally.done.append(f"The end of {name} was asked for.")


async def _delete(premises: Premises, nodes: Sequence[DeleteNode], tally: Tally) -> None:
    for one in nodes:
        tally.trying(f"node/{one.node.name}")
        try:
            await premises.delete_node(one.node)
        except ClusterError as error:
            tally.failed.append(f"Node {one.node.name} could not be deleted: {error}.")
        else:
            tally.done.append(f"Node {one.node.name} was deleted.")


async def _after(premises: Premises, ending: Confirmed | None) -> Survey:
    """Asked for is not gone: look until the lists agree, for a while."""
    loop = asyncio.get_running_loop()
    until = loop.time() + GONE_WITHIN
    while True:
        survey = await premises.survey()
        ids = {instance.id for one in survey.inspections for instance in one.machines}
        if ending is None or not any(machine in ids for _, machine in ending.machines) or loop.time() >= until:
            return survey
        await asyncio.sleep(LOOK_EVERY)


def _question(ends: Sequence[EndMachine]) -> str:
    total = sum(one.instance.hourly_microusd or 0 for one in ends)
    what, there = ("this machine", "it") if len(ends) == 1 else (f"these {len(ends)} machines", "them")
    return f"End {what} now (${dollars(total)} an hour)? Whatever is on {there} is lost."


def _nodes(nodes: Sequence[DeleteNode]) -> str:
    return ", ".join(f"node/{one.node.name}" for one in nodes)


def _print(report: Report, how: str) -> None:
    if how == "table":
        width = terminal_width()
        show(render(report, width), width)
    else:
        write(as_document(report), how)
