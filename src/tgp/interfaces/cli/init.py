"""`tgp init`: from an empty cluster to a first class and pool. It creates what is missing, and changes nothing else."""

from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Group

from tgp.interfaces.cli import confirm
from tgp.interfaces.cli.cluster_options import cluster_options, document_output
from tgp.interfaces.cli.context import CliServices
from tgp.interfaces.cli.init_form import (
    READ_CONFIG,
    TALOS_FILES,
    USUAL_CEILING,
    SetupForm,
    SetupOptions,
    pool_namespace,
)
from tgp.interfaces.cli.init_view import after, as_list, as_text, found, gaps_found, progress
from tgp.interfaces.cli.interrupt import BegunSteps, run
from tgp.interfaces.cli.output import as_json, show, terminal_width, waiting
from tgp.ports.cluster import ClusterError
from tgp.services.preflight_answers import ClusterFinding
from tgp.services.setup_plan import (
    HEADSCALE,
    KUBESPAN,
    NO_MESH,
    TAILSCALE,
    ClusterSurvey,
    PlannedObject,
    SetupAnswers,
    planned_objects,
)

if TYPE_CHECKING:
    from tgp.interfaces.cli.context import SetupActions

INCOMPLETE = 1
NOTHING = "Nothing was created."
CLUSTER_COMMAND = "export KUBECONFIG=FILE && tgp init"


@click.command("init")
@click.option("--provider", default="", metavar="NAME", help="Where to rent. Default: the one whose key is found.")
@click.option("--gpu", default="", metavar="MODEL", help="Default: the cheapest that the provider sells now.")
@click.option(
    "--max-hourly-cost",
    default="",
    metavar="USD",
    help=f"Hard limit for all machines together.  [default: {USUAL_CEILING}]",
)
@click.option("--talos", default="", metavar="FILE", help="A worker's machine config, or talosctl gen secrets.")
@click.option("--endpoint", default="", metavar="URL", help="https://host:6443, as rented machines reach it.")
@click.option("--cluster-name", default="", metavar="NAME", help="Needed with a secrets bundle, which has none.")
@click.option("--force", is_flag=True, help="Accept an endpoint that only some networks reach.")
@click.option(
    "--mesh",
    type=click.Choice([TAILSCALE, HEADSCALE, KUBESPAN, NO_MESH]),
    help="How machines reach the cluster. Default: as its own nodes do, or tailscale.",
)
@click.option("--login-server", default="", metavar="URL", help="Of a Headscale server, which is then the mesh.")
@click.option("-n", "--namespace", "home", default="", metavar="NAME", help="Of the pool. Default: the kubeconfig's.")
@click.option("--dry-run", is_flag=True, help="Look, try the keys, show the objects, and create nothing.")
@click.option("--yes", is_flag=True, help="Do not ask before creating.")
@document_output
@cluster_options
@click.pass_obj
def init(
    services: CliServices,
    *,
    provider: str,
    gpu: str,
    max_hourly_cost: str,
    talos: str,
    endpoint: str,
    cluster_name: str,
    force: bool,
    mesh: str | None,
    login_server: str,
    home: str,
    dry_run: bool,
    yes: bool,
    how: str,
    kubeconfig: str,
    context: str,
    namespace: str,
) -> None:
    """Set up a first class and pool: look at the cluster, ask for what is missing, show every object, create on yes.

    Keys are asked for on the terminal without being shown; without a terminal each is a line of standard input, in
    this order: API key, OAuth client id, OAuth client secret (or the API key of Headscale). Every key is tried first.
    Objects that exist are never changed, so a second run creates nothing. Nothing is bought.

    \b
    Exit code  meaning
    0          everything is there, or was created; --dry-run: everything could be created
    1          something is missing: every gap is listed with its command; or the answer was no
    2          wrong use
    """  # noqa: D301 - click's own mark for lines that are not wrapped
    if how != "table" and not (yes or dry_run):
        raise click.UsageError(f"With -o {how} no question is asked: add --yes or --dry-run.")
    if talos == "-":
        raise click.UsageError("--talos: standard input is for keys; name a file.")
    options = SetupOptions(
        provider, gpu, mesh or "", login_server, talos, endpoint, cluster_name, force, max_hourly_cost, home
    )
    begun = BegunSteps(NOTHING)
    work = _init(services, options, (kubeconfig, context, namespace), begun, dry_run=dry_run, yes=yes, how=how)
    raise SystemExit(run(work, begun))


async def _init(
    services: CliServices,
    options: SetupOptions,
    where: tuple[str, str, str],
    begun: BegunSteps,
    *,
    dry_run: bool,
    yes: bool,
    how: str,
) -> int:
    width = terminal_width()
    async with AsyncExitStack() as stack:
        try:
            with waiting("looking at the cluster …"):
                setup = await stack.enter_async_context(services.setup(*where))
                survey = await setup.survey(pool_namespace(setup, options))
        except (click.ClickException, ClusterError) as error:
            show(gaps_found(_without_cluster(error, options), width), width)
            return INCOMPLETE
        if how == "table":
            show(found(survey.findings, width), width)
        form = SetupForm(services, setup, survey, options)
        answers = await form.fill()
        if gaps := (*survey.blocking, *form.gaps):
            show(gaps_found(gaps, width), width)
            return INCOMPLETE
        objects = planned_objects(survey, answers, setup.namespace)
        if how == "table":
            for note in form.notes:
                click.echo(note)
        if not objects:
            click.echo("Nothing to change: class, pool and Secrets are there.")
            return 0
        if how == "json":
            click.echo(as_json(as_list(objects)))
        else:
            click.echo(as_text(objects), nl=False)
        if dry_run:
            click.echo(f"{NOTHING[:-1]} (--dry-run).", err=True)
            return 0
        if not (yes or confirm.interactive()):
            raise click.UsageError("There is no terminal for the question: add --yes to create, or --dry-run to look.")
        many = f"{len(objects)} {'object' if len(objects) == 1 else 'objects'}"
        if not confirm.agreed(f"Create {many} in {setup.title}?", yes=yes):
            click.echo(NOTHING, err=True)
            return INCOMPLETE
        await _create(setup, survey, objects, begun)
        if how == "table":
            _finish(survey, answers, width)
        return 0


async def _create(
    setup: "SetupActions", survey: ClusterSurvey, objects: tuple[PlannedObject, ...], begun: BegunSteps
) -> None:
    """One after the other; whenever it stops, `begun` says what exists."""
    done: list[str] = []
    for place, planned in enumerate(objects):
        left = [each.title for each in objects[place + 1 :]]
        begun.words = progress(done, planned.title, left)
        try:
            fresh = await setup.write(planned, survey)
            if place + 1 == len(survey.absent_kinds):  # the kinds come first
                await setup.wait_for_kinds()
        except ClusterError as error:
            raise click.ClickException(f"{planned.title}: {error}\n{progress(done, planned.title, left)}") from error
        verb = "changed" if planned.adds else "created" if fresh else "exists already, and was left as it is"
        click.echo(f"{planned.title} {verb}", err=True)
        done.append(planned.title)
    begun.words = f"Created: {', '.join(done)}."


def _finish(survey: ClusterSurvey, answers: SetupAnswers, width: int) -> None:
    install = next((each.command for each in survey.findings if each.title == "operator"), "")
    show(Group(*after(answers, operator_runs=survey.operator_runs, install=install, width=width)), width)


def _without_cluster(error: Exception, options: SetupOptions) -> list[ClusterFinding]:
    """No cluster answers: this, and what would be missing next."""
    from tgp.services.cluster_failure import explained, first_step  # only where no cluster answers

    gap = ClusterFinding("cluster", False, str(error), CLUSTER_COMMAND)
    if isinstance(error, ClusterError):  # a kubeconfig was found: another one is not the answer
        gap = ClusterFinding("cluster", False, explained(str(error), error), first_step(error))
    gaps = [gap]
    if not options.talos and not any(Path(name).is_file() for name in TALOS_FILES):
        gaps.append(
            ClusterFinding("Talos config", False, "no worker config, which says how machines join", READ_CONFIG)
        )
    return gaps
