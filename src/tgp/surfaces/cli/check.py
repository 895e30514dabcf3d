"""`tgp check`: would it work? Every key is tried without spending anything."""

import asyncio
from dataclasses import dataclass
from typing import Protocol

import click

from tgp.surfaces.cli.check_view import CheckRow, Finding, as_document, exit_code, render
from tgp.surfaces.cli.output import show, terminal_width, waiting, write


@dataclass(frozen=True, slots=True)
class Report:
    rows: tuple[CheckRow, ...]
    findings: tuple[Finding, ...] = ()  # about the cluster; empty: there is none to be seen


class Hallway(Protocol):
    """What the hall hands to this command."""

    async def check(self, providers: tuple[str, ...], kubeconfig: str, context: str) -> Report:
        """Of the named providers; of all when none is named."""
        ...


@click.command()
@click.option("--provider", "providers", multiple=True, metavar="NAME", help="Only these. Repeatable.")
@click.option("--kubeconfig", default="", metavar="FILE", help="Default: $KUBECONFIG, ~/.kube/config.")
@click.option("--context", default="", metavar="NAME", help="Default: the kubeconfig's current one.")
@click.option("-o", "--output", "how", type=click.Choice(["table", "json", "yaml"]), default="table", show_default=True)
@click.pass_obj
def check(hallway: Hallway, *, providers: tuple[str, ...], kubeconfig: str, context: str, how: str) -> None:
    """Try every key, look at every market, and say what would follow. Nothing is spent.

    Ends with 0: all that is set up works, and a node could come of it; 1: something does not work; 2: wrong use.
    """
    with waiting("trying every key …"):
        report = asyncio.run(hallway.check(providers, kubeconfig, context))
    if how == "table":
        width = terminal_width()
        show(render(report.rows, report.findings, width), width)
    else:
        write(as_document(report.rows, report.findings), how)
    raise SystemExit(exit_code(report.rows, report.findings))
