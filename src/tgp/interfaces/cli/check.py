"""`tgp check`: is everything there that a purchase needs? Every API key is tried; nothing is spent."""

import click

from tgp.interfaces.cli.check_view import as_document, exit_code, render
from tgp.interfaces.cli.context import CliServices
from tgp.interfaces.cli.interrupt import BegunSteps, run
from tgp.interfaces.cli.output import show, terminal_width, waiting, write


@click.command()
@click.option("--provider", "providers", multiple=True, metavar="NAME", help="Only these. Repeatable.")
@click.option("--kubeconfig", default="", metavar="FILE", help="Default: $KUBECONFIG, ~/.kube/config.")
@click.option("--context", default="", metavar="NAME", help="Default: the kubeconfig's current one.")
@click.option(
    "--operator-namespace",
    "namespace",
    default="",
    metavar="NAME",
    help="Where the operator runs. Default: tgp-system.",
)
@click.option(
    "-o",
    "--output",
    "how",
    type=click.Choice(["table", "wide", "json", "yaml"]),
    default="table",
    show_default=True,
    help="wide: what each provider's key may do, and whether its machines can become nodes.",
)
@click.pass_obj
def check(
    services: CliServices, *, providers: tuple[str, ...], kubeconfig: str, context: str, namespace: str, how: str
) -> None:
    """Check everything that a purchase needs, and list what is missing with the command that adds it.

    With a kubeconfig: the cluster's CRDs, permissions, classes, Secrets, mesh and device plugin, and the operator's
    own API keys. Without one, or with --provider: the API keys of this terminal. Nothing is spent or changed.

    \b
    Exit code  meaning
    0          nothing is missing, and at least one provider can supply nodes
    1          something is missing or does not work
    2          wrong use, or no such kubeconfig
    """  # noqa: D301 - click's own mark for lines that are not wrapped
    with waiting("checking the cluster and every API key …"):
        report = run(services.check(providers, kubeconfig, context, namespace), BegunSteps("Nothing was spent."))
    if how in {"table", "wide"}:
        width = terminal_width()
        show(render(report.rows, report.findings, width, wide=how == "wide"), width)
    else:
        write(as_document(report.rows, report.findings), how)
    raise SystemExit(exit_code(report.rows, report.findings))
