"""`tgp import FILE…`: manifests, Helm values and variables of tgp's ancestors as tgp's own objects."""

import shlex

import click

from tgp.api.common import DEFAULT_KEYS
from tgp.core.migration.conversion import convert_files
from tgp.core.migration.kind_import import ImportSettings
from tgp.core.model.offer import BootMode
from tgp.interfaces.cli.called import RAN
from tgp.interfaces.cli.class_file import STANDARD_INPUT, read_text
from tgp.interfaces.cli.context import CliServices
from tgp.interfaces.cli.import_view import manifests, print_report
from tgp.interfaces.cli.next_step import as_called
from tgp.interfaces.cli.output import Formats, write
from tgp.interfaces.cli.talos_join import USUAL_NAMESPACE
from tgp.services.documents.imports import import_report

INCOMPLETE = 1


class UnreadableImport(click.ClickException):
    """Nothing was converted; the text names every file and line."""

    exit_code = 2


@click.command("import")
@click.argument("files", metavar="FILE|-", nargs=-1, required=True)
@click.option(
    "-n",
    "--namespace",
    "home",
    default="default",
    show_default=True,
    metavar="NAME",
    help="For objects that name none.",
)
@click.option(
    "--operator-namespace", default=USUAL_NAMESPACE, show_default=True, metavar="NAME", help="Where the operator runs."
)
@click.option(
    "--mesh",
    type=click.Choice(["keep", "tailscale"]),
    default="keep",
    show_default=True,
    help="tailscale: replace WireGuard tunnels by a tailnet.",
)
@click.option(
    "-o",
    "--output",
    "how",
    type=Formats(["table", "json", "yaml"]),
    default="table",
    show_default=True,
    help="table: manifests on standard output, the report on standard error. json, yaml: both as one document.",
)
@click.pass_context
def import_files(
    ctx: click.Context, *, files: tuple[str, ...], home: str, operator_namespace: str, mesh: str, how: str
) -> None:
    """Convert manifests, Helm values or environment variables of tgp's ancestors.

    Those are tgp-operator, gpu-k8s-operator (budgets) and k8s-gpu-autoprovision (machines you own). The manifests are
    written to standard output, with a comment where an object behaves differently. Nothing is applied, and no file is
    changed. The report on standard error names every field that was not simply copied.

    \b
    Exit code  meaning
    0          everything was converted
    1          some fields or objects were not converted: the report names them
    2          wrong use, or a file that cannot be read; nothing was written
    """  # noqa: D301 - click's own mark for lines that are not wrapped
    services: CliServices = ctx.obj
    texts = [(name, read_text(name)) for name in dict.fromkeys(files)]
    known = {name: services.facts(name) for name in DEFAULT_KEYS}
    containers = {name: facts.title for name, facts in known.items() if set(facts.boot) == {BootMode.CONTAINER}}
    result = convert_files(
        texts, ImportSettings(home, operator_namespace, to_tailscale=mesh == "tailscale", containers=containers)
    )
    if result.unreadable:
        raise UnreadableImport("\n".join(f"{each}" for each in result.unreadable) + "\nNothing was written.")
    if how == "table":
        click.echo(manifests(result), nl=False)
        ran = shlex.join(ctx.find_root().meta[RAN])
        print_report(result, "" if STANDARD_INPUT in files else f"tgp {ran} | {as_called('tgp check -f -')}")
    else:
        write(import_report(result), how)
    raise SystemExit(0 if result.complete else INCOMPLETE)
