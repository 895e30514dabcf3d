"""`tgp plan`: which machines would be bought now for pods that wait, or for those of a manifest. It only reads."""

from contextlib import AbstractAsyncContextManager

import click

from tgp.api.field_error import Invalid
from tgp.core.joining.talos.stream import UnreadableStream, plain_data, read_stream
from tgp.core.model.object_key import ObjectKey
from tgp.interfaces.cli import consolidation_view
from tgp.interfaces.cli.class_file import read_text
from tgp.interfaces.cli.cluster_options import kubeconfig_options
from tgp.interfaces.cli.completion import live_names
from tgp.interfaces.cli.context import CliServices, PlanActions
from tgp.interfaces.cli.interrupt import run
from tgp.interfaces.cli.output import Formats, print_rows, waiting
from tgp.interfaces.cli.plan_view import render
from tgp.ports.cluster import ClusterError
from tgp.services.documents.plans import consolidation_plan, pod_plan
from tgp.services.manifest_pods import ManifestPods, pods_in
from tgp.services.plan_answers import ConsolidationPlan, PlanQuestion, PodPlan

FORMATS = ("table", "wide", "json", "yaml", "name")
NOT_SERVED = 3  # the exit code if a pod is not served


@click.command()
@click.option(
    "-f", "--filename", metavar="FILE", help="Plan for the pods of this manifest instead; - is standard input."
)
@click.option("--with-waiting", is_flag=True, help="With -f: also for the pods that wait now.")
@click.option("--consolidate", is_flag=True, help="Instead: which machines would be exchanged for cheaper ones.")
@click.option(
    "--pool",
    default="",
    metavar="NAME",
    shell_complete=live_names("pool", bare=True),
    help="With --consolidate: only this pool, NAME or NAMESPACE/NAME.",
)
@click.option("--hours", type=click.FloatRange(min=0, min_open=True), help="Also show the price for this many hours.")
@click.option(
    "-n",
    "--namespace",
    default="",
    metavar="NAME",
    help="Only pods of this namespace; with -f, of objects that name none.  [all; with -f the kubeconfig's]",
)
@click.option("-o", "--output", "how", type=Formats(FORMATS), default="table", show_default=True)
@kubeconfig_options
@click.pass_obj
def plan(
    services: CliServices,
    *,
    filename: str | None,
    with_waiting: bool,
    consolidate: bool,
    pool: str,
    hours: float | None,
    namespace: str,
    how: str,
    kubeconfig: str,
    context: str,
) -> None:
    """Show which machines would be bought now for the pods that wait, and why. Nothing is bought or written.

    With --consolidate: which machines of pools that move pods together (consolidationPolicy
    WhenEmptyOrUnderutilized) would be exchanged for cheaper ones, what that saves, which pods move, and what it waits
    for.

    -o name prints the pools that would buy; with --consolidate the Nodes that would leave.

    Exit code 0 if every pod is served, by a new machine or by room that is there; 3 if a pod is not.
    """
    if with_waiting and filename is None:
        raise click.UsageError("--with-waiting is for -f: without a file the plan is for the pods that wait.")
    if pool and not consolidate:
        raise click.UsageError("--pool is for --consolidate.")
    if consolidate:
        if filename is not None or hours is not None:
            raise click.UsageError("--consolidate is about machines that run: it takes neither -f nor --hours.")
        place, slash, name = pool.rpartition("/")
        key = ObjectKey(place if slash else namespace, name) if pool else None
        _consolidate(services.plans(kubeconfig, context), key, how)
        return
    text = read_text(filename) if filename is not None else None
    try:
        with waiting("asking the cluster and the providers …"):
            made, manifest = run(
                _ask(services.plans(kubeconfig, context), text, filename or "", namespace, with_waiting)
            )
    except ClusterError as error:
        raise click.ClickException(str(error)) from error
    pools = dict.fromkeys(f"pool/{each.pool}" for each in made.orders)
    print_rows(
        lambda width: render(made, manifest, hours, width),
        pod_plan(made, manifest, hours),
        "machines",
        [*pools],
        how,
    )
    raise SystemExit(0 if made.all_served else NOT_SERVED)


def _consolidate(connecting: AbstractAsyncContextManager[PlanActions], pool: ObjectKey | None, how: str) -> None:
    try:
        with waiting("asking the cluster and the providers …"):
            made = run(_exchanges(connecting, pool))
    except ClusterError as error:
        raise click.ClickException(str(error)) from error
    leaving = [f"node/{node}" for each in made.exchanges for node, _ in each.leaving]
    print_rows(
        lambda width: consolidation_view.render(made, width),
        consolidation_plan(made),
        "exchanges",
        leaving,
        how,
    )


async def _exchanges(connecting: AbstractAsyncContextManager[PlanActions], pool: ObjectKey | None) -> ConsolidationPlan:
    async with connecting as plans:
        return await plans.consolidation(pool)


async def _ask(
    connecting: AbstractAsyncContextManager[PlanActions],
    text: str | None,
    filename: str,
    namespace: str,
    with_waiting: bool,
) -> tuple[PodPlan, ManifestPods | None]:
    async with connecting as plans:
        if text is None:
            return await plans.plan(PlanQuestion(namespace)), None
        manifest = _read(text, filename, namespace or plans.namespace)
        question = PlanQuestion("", manifest.pods, with_waiting)
        return await plans.plan(question), manifest


def _read(text: str, filename: str, namespace: str) -> ManifestPods:
    try:
        found = pods_in((plain_data(each.data) for each in read_stream(text)), namespace)
    except UnreadableStream as error:
        raise click.UsageError(f"{filename}: {error.finding}") from error
    except Invalid as error:
        raise click.UsageError(f"{filename}: {error}") from error
    if not found.pods:
        skipped = f" (found: {', '.join(found.skipped)})" if found.skipped else ""
        raise click.UsageError(
            f"{filename} makes no pods{skipped}; "
            "Pod, Job, CronJob, JobSet, Deployment, StatefulSet and ReplicaSet are read."
        )
    return found
