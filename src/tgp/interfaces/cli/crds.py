"""`tgp crds print | apply | diff`: the custom resource definitions of this release.

They are generated from the types in this program, not read from files, so their version is always the program's.
"""

import json
from collections.abc import AsyncIterator, Coroutine, Iterable, Iterator
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeVar

import click

from tgp import __version__
from tgp.api.crds import ALLOW_OLDER, as_yaml
from tgp.api.crds import crds as definitions
from tgp.api.resource import CUSTOM_RESOURCE_DEFINITION
from tgp.core.model.object_key import ObjectKey
from tgp.interfaces.cli.cluster_options import document_output, kubeconfig_options
from tgp.interfaces.cli.context import CliServices
from tgp.interfaces.cli.interrupt import BegunSteps, run
from tgp.interfaces.cli.output import write
from tgp.ports.cluster import Cluster, ClusterError, NotFound
from tgp.services.crd_difference import difference, newer
from tgp.services.documents.crds import KindDifferenceItem, kind_difference

USE_NEWER = (
    "Use the tgp of that version. Past it, with the loss of what objects have in those fields: "
    "tgp crds apply --allow-older"
)
DIFFERENT = 1  # the exit code of diff and kubectl diff

T = TypeVar("T")


class CouldNotTell(click.ClickException):
    """Neither the same nor different: the API server did not answer, or refused."""

    exit_code = 2


_legacy = click.option(
    "--legacy-budgets", is_flag=True, help="Also the legacy kind budget.zxuhan.dev/GPUWorkloadBudget."
)


@click.group()
def crds() -> None:
    """Print, apply or compare the custom resource definitions."""


@crds.command("print")
@_legacy
@click.option("-o", "--output", type=click.Choice(["yaml", "json"]), default="yaml", show_default=True)
def print_(legacy_budgets: bool, output: str) -> None:
    """Write them to standard output, ready for kubectl apply --server-side."""
    documents = definitions(legacy=legacy_budgets)
    if output == "yaml":
        click.echo(as_yaml(*documents), nl=False)
        return
    click.echo(json.dumps({"apiVersion": "v1", "kind": "List", "items": documents}, indent=2, ensure_ascii=False))


@crds.command()
@_legacy
@kubeconfig_options
@click.option("--allow-older", is_flag=True, help="Also where the installed ones are newer.")
@click.pass_obj
def apply(services: CliServices, legacy_budgets: bool, kubeconfig: str, context: str, allow_older: bool) -> None:
    """Install or upgrade them by server-side apply, and report the result for each.

    The operator's fields that another tool has set before, a chart for example, are taken over. Where one of the
    installed ones is newer, none is changed: its new fields would be removed, also from live requests.
    """
    begun = BegunSteps()
    work = _apply(services.kubernetes(kubeconfig, context), begun, legacy=legacy_budgets, allow_older=allow_older)
    _run(work, click.ClickException, begun)


@crds.command()
@_legacy
@kubeconfig_options
@document_output
@click.pass_obj
def diff(services: CliServices, legacy_budgets: bool, kubeconfig: str, context: str, how: str) -> None:
    """Compare the cluster's definitions with this release's. Exit code 0: same; 1: different; 2: unknown."""
    kinds = _run(_diff(services.kubernetes(kubeconfig, context), legacy=legacy_budgets), CouldNotTell)
    if how == "table":
        for each in kinds:
            click.echo(each["difference"], nl=False)
    else:
        write(kind_difference(kinds), how)
    if any(each["difference"] for each in kinds):
        raise SystemExit(DIFFERENT)


def _run(work: Coroutine[Any, Any, T], refusal: type[click.ClickException], begun: BegunSteps | None = None) -> T:
    try:
        return run(work, begun)
    except ClusterError as error:
        raise refusal(str(error)) from error


async def _apply(
    connecting: AbstractAsyncContextManager[Cluster], begun: BegunSteps, *, legacy: bool, allow_older: bool
) -> None:
    async with connecting as cluster:
        pairs = [pair async for pair in _pairs(cluster, legacy=legacy)]
        if not allow_older and (refusal := "; ".join(_newer(pairs))):
            raise click.ClickException(f"Nothing was changed: {refusal}. {USE_NEWER}")
        for stored, definition in pairs:
            name = definition["metadata"]["name"]
            begun.words = f"Whether {name} was applied is unknown; those listed above were. Run tgp crds diff."
            applied = _allowed(definition) if newer(stored, definition) else definition
            await cluster.apply(CUSTOM_RESOURCE_DEFINITION, applied, force=True)
            click.echo(f"{name}: {_what_happens(stored, definition)}")


def _allowed(definition: dict[str, Any]) -> dict[str, Any]:
    """Past the policy that keeps kinds from going back. The next `tgp crds apply` takes the annotation off."""
    return {**definition, "metadata": {**definition["metadata"], "annotations": {ALLOW_OLDER: "true"}}}


async def _diff(connecting: AbstractAsyncContextManager[Cluster], *, legacy: bool) -> list[KindDifferenceItem]:
    async with connecting as cluster:
        pairs = [pair async for pair in _pairs(cluster, legacy=legacy)]
    return [
        {"name": ours["metadata"]["name"], "installed": stored is not None, "difference": difference(stored, ours)}
        for stored, ours in pairs
    ]


async def _pairs(cluster: Cluster, *, legacy: bool) -> AsyncIterator[tuple[dict[str, Any] | None, dict[str, Any]]]:
    for definition in definitions(legacy=legacy):
        yield await _stored(cluster, definition["metadata"]["name"]), definition


async def _stored(cluster: Cluster, name: str) -> dict[str, Any] | None:
    try:
        return await cluster.read(CUSTOM_RESOURCE_DEFINITION, ObjectKey("", name))
    except NotFound:
        return None


def _newer(pairs: Iterable[tuple[dict[str, Any] | None, dict[str, Any]]]) -> Iterator[str]:
    for stored, ours in pairs:
        if why := newer(stored, ours):
            yield f"{ours['metadata']['name']} is newer than tgp {__version__} ({why})"


def _what_happens(stored: dict[str, Any] | None, ours: dict[str, Any]) -> str:
    if stored is None:
        return "created"
    return "changed" if difference(stored, ours) else "unchanged"
