"""`tgp nodes`: rented machines and those you own, with price, use, age and address. It reads only the cluster."""

from collections.abc import Sequence
from functools import partial

import click
from rich.console import Group
from rich.text import Text

from tgp.api.values import go_duration
from tgp.core.model.money import dollars
from tgp.interfaces.cli.cluster_options import kubeconfig_options
from tgp.interfaces.cli.context import CliServices
from tgp.interfaces.cli.interrupt import run
from tgp.interfaces.cli.next_step import next_lines
from tgp.interfaces.cli.output import ROW_FORMATS, Cell, Formats, TableColumn, fits, print_rows, table, waiting, wrapped
from tgp.interfaces.terminal.snapshot import age
from tgp.ports.cluster import ClusterError
from tgp.services.documents.nodes import nodes_report
from tgp.services.nodes import OTHER, RENTED, MachineNode, NodesReport, address_of, state_of

NOTHING: Cell = ("-", "dim")
STATES = {"Ready": "green", "NotReady": "red", "Off": "dim"}


@click.command()
@click.option("-o", "--output", "how", type=Formats(ROW_FORMATS), default="table", show_default=True)
@kubeconfig_options
@click.pass_obj
def nodes(services: CliServices, *, how: str, kubeconfig: str, context: str) -> None:
    """Show every Node with GPUs: rented, your own or another, with GPUs in use, price, age and address.

    Machines you own are shown while they are off, too. Reads only the cluster.
    """
    try:
        with waiting("asking the cluster …"):
            report = run(_report(services, kubeconfig, context))
    except ClusterError as error:
        raise click.ClickException(str(error)) from error
    print_rows(
        partial(render, report), nodes_report(report), "nodes", [f"node/{row.name}" for row in report.nodes], how
    )


async def _report(services: CliServices, kubeconfig: str, context: str) -> NodesReport:
    async with services.requests(kubeconfig, context) as requests:
        return await requests.gpu_nodes()


def render(report: NodesReport, width: int) -> Group:
    rows = report.nodes
    lines: list[Text] = table(_columns(report, width), width) if rows else []
    lines += [Text()] if rows else []
    lines += wrapped(_summary(rows), width, style="" if rows else "bold")
    if not report.requests_known:
        lines += wrapped("You may not list GPURequests: prices of rented machines are unknown.", width, style="yellow")
    first = next((row for row in rows if row.kind != OTHER), None)
    return Group(*lines, *next_lines(f"tgp why node/{first.name}" if first is not None else "tgp rent --help"))


def _columns(report: NodesReport, width: int) -> list[TableColumn]:
    """Name, use and price stay however narrow the terminal is."""
    rows = report.nodes
    made = [row.node.created_at if row.node is not None else None for row in rows]
    every = {
        "node": TableColumn("NODE", tuple((row.name, "") for row in rows), longest=40),
        "kind": TableColumn(
            "KIND", tuple((row.provider if row.kind == RENTED and row.provider else row.kind, "") for row in rows)
        ),
        "state": TableColumn("STATE", tuple((state_of(row), STATES.get(state_of(row), "yellow")) for row in rows)),
        "gpu": TableColumn("GPU", tuple((row.gpu, "") if row.gpu else NOTHING for row in rows)),
        "used": TableColumn("USED", tuple(_used(row) for row in rows), right=True),
        "hourly": TableColumn("$/H", tuple(_hourly(row) for row in rows), right=True),
        "age": TableColumn(
            "AGE", tuple((age(report.now - each), "") if each is not None else NOTHING for each in made), right=True
        ),
        "boot": TableColumn(
            "BOOT", tuple((go_duration(row.boot), "") if row.boot is not None else NOTHING for row in rows), right=True
        ),
        "address": TableColumn(
            "ADDRESS",
            tuple((address_of(row.node) or "-", "") if row.node is not None else NOTHING for row in rows),
        ),
        "request": TableColumn(
            "REQUEST", tuple((str(row.request), "") if row.request is not None else NOTHING for row in rows), longest=40
        ),
    }
    for name in ("request", "address", "boot", "age", "gpu", "kind"):
        if fits(list(every.values()), width):
            break
        del every[name]
    return list(every.values())


def _summary(rows: Sequence[MachineNode]) -> str:
    if not rows:
        return "No Node has GPUs, and no class names a machine of yours."
    paid = [row for row in rows if row.hourly_microusd]
    gpus, used = sum(row.gpus for row in rows), sum(row.used or 0 for row in rows)
    in_use = f"{used} of {gpus} GPUs in use" if all(row.used is not None for row in rows) else f"{gpus} GPUs"
    machines = "1 machine" if len(paid) == 1 else f"{len(paid)} machines"
    return f"{in_use}; {dollars(sum(row.hourly_microusd or 0 for row in paid))} an hour for {machines}."


def _used(row: MachineNode) -> Cell:
    return (f"{'?' if row.used is None else row.used}/{row.gpus}", "")


def _hourly(row: MachineNode) -> Cell:
    return NOTHING if row.hourly_microusd is None else (dollars(row.hourly_microusd), "")
