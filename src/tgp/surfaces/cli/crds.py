"""`tgp crds print | apply | diff`: the custom resource definitions that belong to this very release.

They come from the types in this program, not from files beside it, so they cannot be of another version.
"""

import difflib
import json
from collections.abc import AsyncIterator, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, TypeVar

import click

from tgp.api.crds import as_yaml
from tgp.api.crds import crds as definitions
from tgp.api.resource import CUSTOM_RESOURCE_DEFINITION
from tgp.core.model.key import Key
from tgp.ports.cluster import Cluster, ClusterError, NotFound
from tgp.surfaces.cli.interrupt import Begun, run

CONTEXT_LINES = 3
DIFFERENT = 1  # as diff and kubectl diff end

T = TypeVar("T")


class CouldNotTell(click.ClickException):
    """Neither the same nor different: nobody answered, or not to us."""

    exit_code = 2


class Hallway(Protocol):
    """What the hall hands to the command line: a cluster, for as long as the block lasts."""

    def cluster(self, kubeconfig: str = "", context: str = "") -> AbstractAsyncContextManager[Cluster]: ...


_ancestor = click.option(
    "--ancestor", is_flag=True, help="Also the optional budget.zxuhan.dev GPUWorkloadBudget, for its users' manifests."
)
_kubeconfig = click.option("--kubeconfig", default="", metavar="FILE", help="Default: $KUBECONFIG, ~/.kube/config.")
_context = click.option("--context", default="", metavar="NAME", help="Default: the kubeconfig's current one.")


@click.group()
def crds() -> None:
    """Print, apply or compare the custom resource definitions."""


@crds.command("print")
@_ancestor
@click.option("-o", "--output", type=click.Choice(["yaml", "json"]), default="yaml", show_default=True)
def print_(ancestor: bool, output: str) -> None:
    """Write them to standard output, ready for kubectl apply --server-side."""
    documents = definitions(ancestor=ancestor)
    if output == "yaml":
        click.echo(as_yaml(*documents), nl=False)
        return
    click.echo(json.dumps({"apiVersion": "v1", "kind": "List", "items": documents}, indent=2, ensure_ascii=False))


@crds.command()
@_ancestor
@_kubeconfig
@_context
@click.pass_obj
def apply(hallway: Hallway, ancestor: bool, kubeconfig: str, context: str) -> None:
    """Install or upgrade them by server-side apply, and say what happened to each.

    Fields of ours that another tool has set before, a chart for instance, are taken over.
    """
    begun = Begun()
    _run(_apply(hallway.cluster(kubeconfig, context), begun, ancestor=ancestor), click.ClickException, begun)


@crds.command()
@_ancestor
@_kubeconfig
@_context
@click.pass_obj
def diff(hallway: Hallway, ancestor: bool, kubeconfig: str, context: str) -> None:
    """Compare the cluster's with ours. Ends with 0: the same; 1: they differ; 2: could not tell."""
    differences = _run(_diff(hallway.cluster(kubeconfig, context), ancestor=ancestor), CouldNotTell)
    for text in differences:
        click.echo(text, nl=False)
    if differences:
        raise SystemExit(DIFFERENT)


def _run(work: Coroutine[Any, Any, T], refusal: type[click.ClickException], begun: Begun | None = None) -> T:
    try:
        return run(work, begun)
    except ClusterError as error:
        raise refusal(str(error)) from error


async def _apply(connecting: AbstractAsyncContextManager[Cluster], begun: Begun, *, ancestor: bool) -> None:
    async with connecting as cluster:
        for definition in definitions(ancestor=ancestor):
            name = definition["metadata"]["name"]
            stored = await _stored(cluster, name)
            begun.words = f"Whether {name} was applied is not known; what is listed above was. Run tgp crds diff."
            await cluster.apply(CUSTOM_RESOURCE_DEFINITION, definition, force=True)
            click.echo(f"{name}: {_what_happens(stored, definition)}")


async def _diff(connecting: AbstractAsyncContextManager[Cluster], *, ancestor: bool) -> list[str]:
    async with connecting as cluster:
        pairs = [pair async for pair in _pairs(cluster, ancestor=ancestor)]
    return [text for stored, ours in pairs if (text := difference(stored, ours))]


async def _pairs(cluster: Cluster, *, ancestor: bool) -> AsyncIterator[tuple[dict[str, Any] | None, dict[str, Any]]]:
    for definition in definitions(ancestor=ancestor):
        yield await _stored(cluster, definition["metadata"]["name"]), definition


async def _stored(cluster: Cluster, name: str) -> dict[str, Any] | None:
    try:
        return await cluster.read(CUSTOM_RESOURCE_DEFINITION, Key("", name))
    except NotFound:
        return None


def _what_happens(stored: dict[str, Any] | None, ours: dict[str, Any]) -> str:
    if stored is None:
        return "created"
    return "changed" if difference(stored, ours) else "unchanged"


def difference(stored: dict[str, Any] | None, ours: dict[str, Any]) -> str:
    """A unified diff from what is stored to ours; empty: nothing of ours is missing or other."""
    name = ours["metadata"]["name"]
    before = [] if stored is None else _lines(comparable(stored, ours))
    after = _lines(comparable(ours, ours))
    lines = difflib.unified_diff(before, after, f"cluster/{name}", f"tgp/{name}", n=CONTEXT_LINES)
    return "".join(lines)


def comparable(definition: dict[str, Any], ours: dict[str, Any]) -> dict[str, Any]:
    """What can be told apart: the spec but for what the API server adds to it, and the labels that we set."""
    spec = {key: value for key, value in definition["spec"].items() if (key, value) not in _ADDED_BY_SERVER}
    wanted = ours["metadata"].get("labels", {})
    labels = {key: value for key, value in (definition["metadata"].get("labels") or {}).items() if key in wanted}
    return {"metadata": {"name": definition["metadata"]["name"], "labels": labels}, "spec": spec}


_ADDED_BY_SERVER = (("conversion", {"strategy": "None"}), ("preserveUnknownFields", False))


def _lines(document: dict[str, Any]) -> list[str]:
    return as_yaml(_sorted(document)).splitlines(keepends=True)


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value
