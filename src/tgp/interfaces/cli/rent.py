"""`tgp rent`: one machine. The command shows the offer, asks, and writes a GPURequest; the operator launches."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Any

import click

from tgp.api.crds import as_yaml
from tgp.api.decoding import strict
from tgp.api.field_error import FieldError, Invalid
from tgp.api.request import GPURequest
from tgp.api.resource import GPU_REQUEST
from tgp.core.classes.semantic_validation import request_problems
from tgp.core.model.money import cents
from tgp.core.model.text import plain
from tgp.core.requests.purchase import price_cap
from tgp.interfaces.cli.breakeven import known_gpu
from tgp.interfaces.cli.cluster_options import class_option, kubeconfig_options
from tgp.interfaces.cli.confirm import agreed, interactive
from tgp.interfaces.cli.context import CliServices, RequestActions
from tgp.interfaces.cli.interrupt import BegunSteps, Interrupted, run
from tgp.interfaces.cli.next_step import next_lines
from tgp.interfaces.cli.output import Formats, show, terminal_width, waiting, write
from tgp.interfaces.cli.rent_view import render
from tgp.ports.cluster import ClusterError
from tgp.services.documents.rent import job_for, rent_plan
from tgp.services.request_answers import RentPlan

CONFIRMED_PERCENT = 110  # of the price that was shown; the default of --max-price
DECLINED = 1  # also when the cluster refuses; 2 is wrong use
NOTHING_FITS = 3  # of --dry-run
START = "---\n"  # of a YAML document
NOT_BEGUN = "No request was created, and nothing is rented."
ANY_PROVIDER = '"", '  # among supported values: the API writes "any" so; on the command line the flag is left out
FLAGS = {  # the field that an error names → the flag that sets it
    "metadata": "--name",
    "metadata.name": "--name",
    "metadata.namespace": "--namespace",
    "spec.gpuType": "--gpu",
    "spec.gpuCount": "--count",
    "spec.maxHourlyPrice": "--max-price",
    "spec.provider": "--provider",
    "spec.regions": "--region",
    "spec.spot": "--spot",
    "spec.exclusive": "--exclusive",
    "spec.nodeClassRef.name": "--class",
    "spec.maxLifetime": "--for",
    "spec.idleTimeout": "--idle",
}


@click.command()
@click.option("--gpu", required=True, metavar="MODEL", help="Model or family: RTX4090, A100.")
@click.option("--max-price", metavar="USD", help="Highest price per hour: 0.50.  [default: shown price + 10 %]")
@click.option("--count", type=int, default=1, show_default=True, help="GPUs in the machine.")
@click.option("--provider", default="", metavar="NAME", help="Only from this provider. Default: the best offer of all.")
@click.option("--region", "regions", multiple=True, metavar="REGION", help="us, eu-west, … Repeatable.")
@click.option("--spot", is_flag=True, help="A machine that the provider may interrupt, if the class allows spot.")
@click.option(
    "--exclusive/--shared",
    default=None,
    help="Only pods made for this machine, or every pod that tolerates rented machines. Default: asks.",
)
@class_option("The GPUNodeClass. Default: the default one.")
@click.option(
    "--for", "lifetime", metavar="DURATION", help="Terminate the machine after this time: 4h, Never.  [default: 24h]"
)
@click.option(
    "--idle", metavar="DURATION", help="Terminate the machine after this time without use: 30m, Never.  [default: 30m]"
)
@click.option(
    "--name", default="", metavar="NAME", help="Name of the request. Default: the GPU model and a few random letters."
)
@click.option("-n", "--namespace", default="", metavar="NAME", help="Default: the kubeconfig's.")
@click.option("--dry-run", is_flag=True, help="Only show. Exit code 0 if an offer fits, 3 if none does.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option(
    "-o", "--output", "how", type=Formats(["table", "json", "yaml", "name"]), default="table", show_default=True
)
@kubeconfig_options
@click.pass_obj
def rent(
    services: CliServices,
    *,
    gpu: str,
    max_price: str | None,
    count: int,
    provider: str,
    regions: tuple[str, ...],
    spot: bool,
    exclusive: bool | None,
    node_class: str,
    lifetime: str | None,
    idle: str | None,
    name: str,
    namespace: str,
    dry_run: bool,
    yes: bool,
    how: str,
    kubeconfig: str,
    context: str,
) -> None:
    """Rent one machine: show the offer, ask, and write a GPURequest. The operator launches the machine.

    This command never buys: the API keys of this terminal only read prices. -o yaml prints the manifest, -o json the
    plan.
    """
    if how != "table" and not (yes or dry_run):
        raise click.UsageError(f"With -o {how} no question is asked: add --yes or --dry-run.")
    spec = spec_of(
        gpu=known_gpu(gpu),
        max_price=max_price,
        count=count,
        provider=provider,
        regions=regions,
        spot=spot,
        exclusive=bool(exclusive),
        node_class=node_class,
        lifetime=lifetime,
        idle=idle,
    )
    checked(
        manifest_of(name or "checked", namespace or "default", spec)
    )  # wrong use is reported before any provider is asked
    begun = BegunSteps(NOT_BEGUN)
    if exclusive is None and not (yes or dry_run) and interactive():
        spec |= {"exclusive": True} if _ask_exclusive() else {}
    work = _rent(
        services.requests(kubeconfig, context), name, namespace, spec, begun, dry_run=dry_run, yes=yes, how=how
    )
    raise SystemExit(run(work, begun))


async def _rent(
    connecting: AbstractAsyncContextManager[RequestActions],
    name: str,
    namespace: str,
    spec: Mapping[str, Any],
    begun: BegunSteps,
    *,
    dry_run: bool,
    yes: bool,
    how: str,
) -> int:
    async with connecting as requests:
        stem = str(spec["gpuType"]).lower()
        manifest = manifest_of(name or requests.fresh_name(stem), namespace or requests.namespace, spec)
        try:
            with waiting("asking for offers …"):
                plan = await requests.plan(checked(manifest))
        except ClusterError as error:
            raise click.ClickException(str(error)) from error
        if "maxHourlyPrice" not in spec and plan.hourly_microusd is not None:  # the confirmed price binds
            manifest["spec"]["maxHourlyPrice"] = cents(plan.hourly_microusd * CONFIRMED_PERCENT // 100, up=True)
            plan = replace(plan, request=checked(manifest), cap_is_ours=True)
        if dry_run:
            _print(plan, manifest, how, created=False)
            if how == "table":
                click.echo("Nothing was created (--dry-run).")
            return 0 if plan.fits else NOTHING_FITS
        if how == "table":
            _print(plan, manifest, how, created=False)
        if price_cap(plan.request.spec) is None:
            raise click.UsageError(_without_price(plan))
        if not _agreed(plan, yes=yes):
            click.echo(NOT_BEGUN, err=True)
            return DECLINED
        meta = manifest["metadata"]
        begun.words = (
            f"Whether request {meta['namespace']}/{meta['name']} was created is unknown; if it was, a machine will be "
            f"launched. Before you rent again, run: kubectl get gpurequest {meta['name']} -n {meta['namespace']}"
        )
        try:
            await requests.create(manifest)
        except ClusterError as error:
            raise click.ClickException(str(error)) from error
        _created(plan, manifest, how)
        return 0


def checked(manifest: Mapping[str, Any]) -> GPURequest:
    """Decode the manifest as the API server would. Raises UsageError that names each wrong flag or field."""
    try:
        request = strict(manifest)
    except Invalid as error:
        raise click.UsageError(_messages(error.problems)) from error
    assert isinstance(request, GPURequest), "the manifest says so"
    if problems := request_problems(request):
        raise click.UsageError(_messages(problems))
    return request


def _messages(problems: Sequence[FieldError]) -> str:
    """Every problem that names a field. A rule that was skipped because of another problem names none."""
    return "\n".join(as_flag_error(problem) for problem in problems if problem.path) or "the request is not valid"


def as_flag_error(problem: FieldError) -> str:
    """The problem with the flag in place of the field: `--max-price: "0,5": must be a price …`."""
    field = problem.path.partition("[")[0]
    shown = f"{problem.value}: " if problem.value else ""
    words = problem.detail or problem.body
    for repeated in (f"{problem.path} in body ", "metadata.name "):  # the flag names the field
        words = words.removeprefix(repeated)
    return f"{FLAGS.get(field, problem.path)}: {shown}{words.replace(ANY_PROVIDER, '')}"


def spec_of(
    *,
    gpu: str,
    max_price: str | None = None,
    count: int = 1,
    provider: str = "",
    regions: tuple[str, ...] = (),
    spot: bool = False,
    exclusive: bool = False,
    node_class: str = "",
    lifetime: str | None = None,
    idle: str | None = None,
) -> dict[str, Any]:
    """Only what the user set: the API server fills in the defaults."""
    spec: dict[str, Any] = {"gpuType": gpu, "gpuCount": count}
    spec |= {"nodeClassRef": {"name": node_class}} if node_class else {}
    spec |= {"provider": provider} if provider else {}
    spec |= {"regions": list(dict.fromkeys(regions))} if regions else {}
    spec |= {"spot": True} if spot else {}
    spec |= {"exclusive": True} if exclusive else {}
    spec |= {"maxHourlyPrice": max_price.removeprefix("$")} if max_price is not None else {}
    spec |= {"maxLifetime": lifetime} if lifetime is not None else {}
    spec |= {"idleTimeout": idle} if idle is not None else {}
    return spec


def manifest_of(name: str, namespace: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": GPU_REQUEST.api_version,
        "kind": GPU_REQUEST.kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": dict(spec),
    }


def _print(plan: RentPlan, manifest: dict[str, Any], how: str, *, created: bool) -> None:
    if how == "table":
        width = terminal_width()
        show(render(plan, width), width)
    elif how == "name":
        click.echo(f"request/{manifest['metadata']['namespace']}/{manifest['metadata']['name']}")
    else:
        write(manifest if how == "yaml" else rent_plan(plan, created=created), how)


def _ask_exclusive() -> bool:
    try:
        return agreed("Keep other pods off the machine (exclusive)?", yes=False)
    except click.Abort:
        raise Interrupted(NOT_BEGUN) from None


def _agreed(plan: RentPlan, *, yes: bool) -> bool:
    if not (yes or interactive()):
        raise click.UsageError(
            "There is no terminal for the question: add --yes to create the request, or --dry-run to only look."
        )
    question = "Rent this machine?"
    if not plan.fits or plan.stopped:
        now = "The machine would not be launched now." if plan.fits else "No offer fits now."
        question = f"{now} Create the request anyway, and let it wait?"
    return agreed(question, yes=yes)


def _without_price(plan: RentPlan) -> str:
    """A request without a maximum price would buy at any price that its class allows, hours after it was created."""
    nearest = f" The nearest offer: {plain(plan.nearest)}." if plan.nearest else ""
    return (
        f"No offer fits now, so there is no price to confirm.{nearest} Add --max-price with the highest price per "
        f"hour; then the request waits for an offer. {NOT_BEGUN}"
    )


def _created(plan: RentPlan, manifest: dict[str, Any], how: str) -> None:
    meta = manifest["metadata"]
    if how != "table":
        _print(plan, manifest, how, created=True)
        return
    click.echo(f"gpurequest.tgp.io/{meta['name']} created in namespace {meta['namespace']}")
    click.echo(f"\nA Job that runs on this machine:\n\n{as_yaml(job_for(plan)).partition(START)[2]}")
    verb = "watch" if plan.fits and not plan.stopped else "why"
    for line in next_lines(f"tgp {verb} request/{meta['namespace']}/{meta['name']}"):
        click.echo(line.plain)
