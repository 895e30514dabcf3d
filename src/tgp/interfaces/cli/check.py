"""`tgp check`: is everything there that a purchase needs? Every API key is tried; nothing is spent."""

from typing import TYPE_CHECKING, NoReturn

import click

from tgp.interfaces.cli.check_view import render
from tgp.interfaces.cli.cluster_options import cluster_options
from tgp.interfaces.cli.context import CliServices
from tgp.interfaces.cli.interrupt import BegunSteps, run
from tgp.interfaces.cli.output import Formats, show, terminal_width, waiting, write
from tgp.services.documents import manifests
from tgp.services.documents.checks import check_report, exit_code

if TYPE_CHECKING:
    from tgp.core.reports.manifest_verdict import Surroundings


@click.command()
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    metavar="FILE|-",
    help="Check the manifests in this file, and nothing else. Repeatable.",
)
@click.option("--provider", "providers", multiple=True, metavar="NAME", help="Only these. Repeatable.")
@cluster_options
@click.option(
    "-o",
    "--output",
    "how",
    type=Formats(["table", "wide", "json", "yaml"]),
    default="table",
    show_default=True,
    help="wide: what each provider's key may do, and whether its machines can become nodes.",
)
@click.pass_obj
def check(
    services: CliServices,
    *,
    files: tuple[str, ...],
    providers: tuple[str, ...],
    kubeconfig: str,
    context: str,
    namespace: str,
    how: str,
) -> None:
    """Check everything that a purchase needs, and list what is missing with the command that adds it.

    With a kubeconfig: the cluster's CRDs, permissions, classes, Secrets, mesh and device plugin, and the operator's
    own API keys. Without one, or with --provider: the API keys of this terminal. Nothing is spent or changed.
    With -f: whether the API server and the operator would accept these manifests. They are compared with each other;
    with --kubeconfig or --context also with the classes and Namespaces of that cluster.

    \b
    Exit code  meaning
    0          nothing is missing, and at least one provider can supply nodes; -f: all would be accepted
    1          something is missing or does not work; -f: a manifest would be refused, or not work
    2          wrong use, no such kubeconfig, or a file that cannot be read
    """  # noqa: D301 - click's own mark for lines that are not wrapped
    if files:
        known = run(services.surroundings(kubeconfig, context, namespace), BegunSteps("Nothing was spent."))
        _check_files(files, known, how)
    with waiting("checking the cluster and every API key …"):
        report = run(services.check(providers, kubeconfig, context, namespace), BegunSteps("Nothing was spent."))
    if how in {"table", "wide"}:
        width = terminal_width()
        show(render(report.rows, report.findings, width, wide=how == "wide"), width)
    else:
        write(check_report(report.rows, report.findings), how)
    raise SystemExit(exit_code(report.rows, report.findings))


def _check_files(names: tuple[str, ...], known: "Surroundings", how: str) -> NoReturn:
    from tgp.interfaces.cli import check_files  # imports all kinds: not needed to check a cluster

    checked = check_files.check_files(names, known)
    if how in {"table", "wide"}:
        width = terminal_width()
        show(check_files.render(checked, names, width), width)
    else:
        write(manifests.manifest_report(checked), how)
    raise SystemExit(manifests.exit_code(checked))
