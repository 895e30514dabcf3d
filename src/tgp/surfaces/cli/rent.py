"""`tgp rent`: one machine for now. It shows what it would rent, asks, and writes a GPURequest; the operator rents."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Any, Protocol

import click

from tgp.api.crds import as_yaml
from tgp.api.decoding import strict
from tgp.api.problem import Invalid, Problem
from tgp.api.request import GPURequest
from tgp.api.resource import GPU_REQUEST
from tgp.core.rules.beyond_crd import request_problems
from tgp.core.rules.costs import cents
from tgp.ports.cluster import ClusterError
from tgp.surfaces.cli.breakeven import known_gpu
from tgp.surfaces.cli.confirming import agreed, interactive
from tgp.surfaces.cli.interrupt import Begun, Interrupted, run
from tgp.surfaces.cli.next_step import next_lines
from tgp.surfaces.cli.output import show, terminal_width, waiting, write
from tgp.surfaces.cli.rent_view import Plan, as_document, job_for, render

CONFIRMED_PERCENT = 110  # of the price that was shown: above it nothing is rented, unless --max-price says otherwise
DECLINED = 1  # so is a refusal of the cluster; 2 is wrong use
NOTHING_FITS = 3  # of --dry-run
START = "---\n"  # of a YAML document
NOT_BEGUN = "No request was created, and nothing is rented."
NOBODY = '"", '  # among supported values: the API's way to say "any", which a flag says by its absence
FLAGS = {  # the field a problem names → what somebody typed
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


class Desk(Protocol):
    """A cluster's requests."""

    def fresh_name(self, stem: str) -> str:
        """One that nobody has, as far as luck goes."""
        ...

    @property
    def namespace(self) -> str:
        """Where a request goes when nobody says; the kubeconfig's own."""
        ...

    async def plan(self, request: GPURequest) -> Plan:
        """What would be rented for it now, by the operator's own rules. Nothing is written or bought."""
        ...

    async def create(self, manifest: Mapping[str, Any]) -> None:
        """Raises ClusterError. An answer that was lost is looked up: it is never sent a second time."""
        ...


class Hallway(Protocol):
    def requests(self, kubeconfig: str, context: str) -> AbstractAsyncContextManager[Desk]: ...


@click.command()
@click.option("--gpu", required=True, metavar="MODEL", help="Model or family: RTX4090, A100.")
@click.option("--max-price", metavar="USD", help="At most that, an hour: 0.50.  [default: shown price + 10 %]")
@click.option("--count", type=int, default=1, show_default=True, help="GPUs in the machine.")
@click.option("--provider", default="", metavar="NAME", help="From this one only. Default: from the best.")
@click.option("--region", "regions", multiple=True, metavar="REGION", help="us, eu-west, … Repeatable.")
@click.option("--spot", is_flag=True, help="A machine that the provider may take back, where the class allows it.")
@click.option(
    "--exclusive/--shared",
    default=None,
    help="Keep it for pods made for this machine, or let every pod that tolerates rented machines in. Default: asks.",
)
@click.option("--class", "node_class", default="", metavar="NAME", help="The GPUNodeClass. Default: the default one.")
@click.option("--for", "lifetime", metavar="LENGTH", help="Give it back after that long: 4h, Never.  [default: 24h]")
@click.option("--idle", metavar="LENGTH", help="Give it back when unused for that long: 30m, Never.  [default: 30m]")
@click.option("--name", default="", metavar="NAME", help="Of the request. Default: the GPU's, with a few letters.")
@click.option("-n", "--namespace", default="", metavar="NAME", help="Default: the kubeconfig's.")
@click.option("--dry-run", is_flag=True, help="Only show. Ends with 0 if something fits, 3 if nothing does.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("-o", "--output", "how", type=click.Choice(["text", "json", "yaml"]), default="text", show_default=True)
@click.option("--kubeconfig", default="", metavar="FILE", help="Default: $KUBECONFIG, ~/.kube/config.")
@click.option("--context", default="", metavar="NAME", help="Default: the kubeconfig's current one.")
@click.pass_obj
def rent(
    hallway: Hallway,
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
    """Rent one machine: show what it would be, ask, and write a GPURequest. The operator does the rest.

    This program never buys: keys of this terminal are only used to ask for prices. -o yaml prints the manifest, -o json
    the plan.
    """
    if how != "text" and not (yes or dry_run):
        raise click.UsageError(f"-o {how} is for programs, which cannot be asked: add --yes or --dry-run.")
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
    checked(manifest_of(name or "checked", namespace or "default", spec))  # wrong use is told before anybody is asked
    begun = Begun(NOT_BEGUN)
    if exclusive is None and not (yes or dry_run) and interactive():
        spec |= {"exclusive": True} if _alone() else {}
    work = _rent(hallway.requests(kubeconfig, context), name, namespace, spec, begun, dry_run=dry_run, yes=yes, how=how)
    raise SystemExit(run(work, begun))


async def _rent(
    connecting: AbstractAsyncContextManager[Desk],
    name: str,
    namespace: str,
    spec: Mapping[str, Any],
    begun: Begun,
    *,
    dry_run: bool,
    yes: bool,
    how: str,
) -> int:
    async with connecting as desk:
        stem = str(spec["gpuType"]).lower()
        manifest = manifest_of(name or desk.fresh_name(stem), namespace or desk.namespace, spec)
        try:
            with waiting("asking what it would be …"):
                plan = await desk.plan(checked(manifest))
        except ClusterError as error:
            raise click.ClickException(str(error)) from error
        if "maxHourlyPrice" not in spec and plan.hourly_microusd is not None:  # what is confirmed binds
            manifest["spec"]["maxHourlyPrice"] = cents(plan.hourly_microusd * CONFIRMED_PERCENT // 100, up=True)
            plan = replace(plan, request=checked(manifest), cap_is_ours=True)
        if dry_run:
            _print(plan, manifest, how, created=False)
            if how == "text":
                click.echo("Nothing was created (--dry-run).")
            return 0 if plan.fits else NOTHING_FITS
        if how == "text":
            _print(plan, manifest, how, created=False)
        if not _agreed(plan, yes=yes):
            click.echo(NOT_BEGUN, err=True)
            return DECLINED
        meta = manifest["metadata"]
        begun.words = (
            f"Whether request {meta['namespace']}/{meta['name']} was created is not known; if it was, its machine is "
            f"rented. Look before you rent again: kubectl get gpurequest {meta['name']} -n {meta['namespace']}"
        )
        try:
            await desk.create(manifest)
        except ClusterError as error:
            raise click.ClickException(str(error)) from error
        _created(plan, manifest, how)
        return 0


def checked(manifest: Mapping[str, Any]) -> GPURequest:
    """As the API server would take it. Raises UsageError that names each flag, or field, that is wrong."""
    try:
        request = strict(manifest)
    except Invalid as error:
        raise click.UsageError(_told(error.problems)) from error
    assert isinstance(request, GPURequest), "the manifest says so"
    if problems := request_problems(request):
        raise click.UsageError(_told(problems))
    return request


def _told(problems: Sequence[Problem]) -> str:
    """All that can be mended here: that rules were skipped because of another problem cannot."""
    return "\n".join(spoken(problem) for problem in problems if problem.path) or "the request is not valid"


def spoken(problem: Problem) -> str:
    """A problem by the flag that somebody typed: `--max-price: "0,5": must be a price …`."""
    field = problem.path.partition("[")[0]
    shown = f"{problem.value}: " if problem.value else ""
    words = problem.detail or problem.body
    for repeated in (f"{problem.path} in body ", "metadata.name "):  # the flag says which field it is
        words = words.removeprefix(repeated)
    return f"{FLAGS.get(field, problem.path)}: {shown}{words.replace(NOBODY, '')}"


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
    """Only what was said: the rest are the API's own defaults, which may change with it."""
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


def _print(plan: Plan, manifest: dict[str, Any], how: str, *, created: bool) -> None:
    if how == "text":
        width = terminal_width()
        show(render(plan, width), width)
    else:
        write(manifest if how == "yaml" else as_document(plan, created=created), how)


def _alone() -> bool:
    try:
        return agreed("Keep other pods off the machine (exclusive)?", yes=False)
    except click.Abort:
        raise Interrupted(NOT_BEGUN) from None


def _agreed(plan: Plan, *, yes: bool) -> bool:
    if not (yes or interactive()):
        raise click.UsageError("nobody is there to be asked: add --yes to create it, or --dry-run to only look.")
    question = "Rent it?"
    if not plan.fits or plan.stopped:
        now = "It would not be rented now." if plan.fits else "Nothing fits now."
        question = f"{now} Create the request all the same, and let it wait?"
    return agreed(question, yes=yes)


def _created(plan: Plan, manifest: dict[str, Any], how: str) -> None:
    meta = manifest["metadata"]
    if how != "text":
        _print(plan, manifest, how, created=True)
        return
    click.echo(f"gpurequest.tgp.io/{meta['name']} created in namespace {meta['namespace']}")
    click.echo(f"\nA Job that runs on this machine:\n\n{as_yaml(job_for(plan)).partition(START)[2]}")
    verb = "watch" if plan.fits and not plan.stopped else "why"
    for line in next_lines(f"tgp {verb} request/{meta['namespace']}/{meta['name']}"):
        click.echo(line.plain)
