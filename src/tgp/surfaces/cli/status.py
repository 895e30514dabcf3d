"""`tgp status`: what is rented now, for which requests, and what that costs. It reads the cluster alone."""

import asyncio
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import click

from tgp.ports.cluster import ClusterError
from tgp.surfaces.cli.interrupt import run
from tgp.surfaces.cli.output import show, terminal_width, waiting, write
from tgp.surfaces.cli.status_view import Standing, as_document, render

LOOK_EVERY = 2.0  # seconds between two frames of --watch


class Desk(Protocol):
    """A cluster's requests."""

    async def standing(self, namespace: str) -> Standing:
        """All that may be seen; with a namespace those in it. Raises ClusterError."""
        ...


class Hallway(Protocol):
    def requests(self, kubeconfig: str, context: str) -> AbstractAsyncContextManager[Desk]: ...


@click.command()
@click.option("-n", "--namespace", default="", metavar="NAME", help="Only this one. Default: all that may be seen.")
@click.option("--all", "every", is_flag=True, help="Also requests that are finished or failed.")
@click.option("-w", "--watch", is_flag=True, help="Look again and again, until Ctrl-C.")
@click.option("-o", "--output", "how", type=click.Choice(["table", "json", "yaml"]), default="table", show_default=True)
@click.option("--kubeconfig", default="", metavar="FILE", help="Default: $KUBECONFIG, ~/.kube/config.")
@click.option("--context", default="", metavar="NAME", help="Default: the kubeconfig's current one.")
@click.pass_obj
def status(
    hallway: Hallway, *, namespace: str, every: bool, watch: bool, how: str, kubeconfig: str, context: str
) -> None:
    """Show every request with its machine: phase, GPU, Node, price, money spent, when it ends, and its pods.

    Reads the cluster alone. What the providers themselves list is what `tgp doctor` compares.
    """
    try:
        run(_status(hallway.requests(kubeconfig, context), namespace, how, every=every, watch=watch))
    except ClusterError as error:
        raise click.ClickException(str(error)) from error


async def _status(
    connecting: AbstractAsyncContextManager[Desk], namespace: str, how: str, *, every: bool, watch: bool
) -> None:
    async with connecting as desk:
        with waiting("asking the cluster …"):
            standing = await desk.standing(namespace)
        while True:
            if watch and how == "table":
                click.clear()
            _print(standing, how, every=every)
            if not watch:
                return
            await asyncio.sleep(LOOK_EVERY)
            standing = await desk.standing(namespace)


def _print(standing: Standing, how: str, *, every: bool) -> None:
    if how == "table":
        width = terminal_width()
        show(render(standing, width, every=every), width)
    else:
        write(as_document(standing), how)
