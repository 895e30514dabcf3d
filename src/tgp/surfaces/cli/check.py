"""`tgp check`: would it work? Every key is tried without spending anything."""

from dataclasses import dataclass
from typing import Protocol

import click

from tgp.surfaces.cli.check_view import CheckRow, Finding, as_document, exit_code, render
from tgp.surfaces.cli.interrupt import Begun, run
from tgp.surfaces.cli.output import show, terminal_width, waiting, write


@dataclass(frozen=True, slots=True)
class Report:
    rows: tuple[CheckRow, ...]
    findings: tuple[Finding, ...] = ()  # about the cluster; empty: there is none to be seen


class Hallway(Protocol):
    """What the hall hands to this command."""

    async def check(self, providers: tuple[str, ...], kubeconfig: str, context: str, namespace: str) -> Report:
        """Of the named providers; when none is named, of those the cluster's classes buy from, or else of all."""
        ...


@click.command()
@click.option("--provider", "providers", multiple=True, metavar="NAME", help="Only these. Repeatable.")
@click.option("--kubeconfig", default="", metavar="FILE", help="Default: $KUBECONFIG, ~/.kube/config.")
@click.option("--context", default="", metavar="NAME", help="Default: the kubeconfig's current one.")
@click.option("-n", "--namespace", default="", metavar="NAME", help="Where the operator lives. Default: tgp-system.")
@click.option(
    "-o",
    "--output",
    "how",
    type=click.Choice(["table", "wide", "json", "yaml"]),
    default="table",
    show_default=True,
    help="wide: what each provider's key may do, and what follows from how its machines start.",
)
@click.pass_obj
def check(
    hallway: Hallway, *, providers: tuple[str, ...], kubeconfig: str, context: str, namespace: str, how: str
) -> None:
    """Look at everything that a purchase needs, and list all that is missing with the command that supplies it.

    With a kubeconfig: the cluster's kinds, rights, classes, Secrets, mesh and device plugin, and the operator's own
    keys. Without one, or with --provider: the keys of this terminal. Nothing is spent and nothing is changed.

    \b
    Exit code  meaning
    0          nothing is missing, and a node could come of it
    1          something is missing or does not work
    2          wrong use, or no such kubeconfig
    """  # noqa: D301 - click's own mark for lines that are not wrapped
    with waiting("looking at the cluster and trying every key …"):
        report = run(hallway.check(providers, kubeconfig, context, namespace), Begun("Nothing was spent."))
    if how in {"table", "wide"}:
        width = terminal_width()
        show(render(report.rows, report.findings, width, wide=how == "wide"), width)
    else:
        write(as_document(report.rows, report.findings), how)
    raise SystemExit(exit_code(report.rows, report.findings))
