"""`tgp status`: what is rented now, for which requests, and what it costs. It reads only the cluster."""

import asyncio
from contextlib import AbstractAsyncContextManager
from functools import partial

import click

from tgp.core.model.text import plain
from tgp.interfaces.cli.cluster_options import kubeconfig_options
from tgp.interfaces.cli.context import CliServices, RequestActions
from tgp.interfaces.cli.interrupt import run
from tgp.interfaces.cli.output import ROW_FORMATS, TABLES, Formats, print_rows, waiting
from tgp.interfaces.cli.status_view import render
from tgp.ports.cluster import ClusterError
from tgp.services.documents.requests import status_report
from tgp.services.request_answers import ClusterStatus

LOOK_EVERY = 2.0  # seconds between two frames of --watch


@click.command()
@click.option(
    "-n", "--namespace", default="", metavar="NAME", help="Only this namespace. Default: all that you may read."
)
@click.option("--all", "every", is_flag=True, help="Also finished and failed requests.")
@click.option("-w", "--watch", is_flag=True, help="Refresh until Ctrl-C.")
@click.option("-o", "--output", "how", type=Formats(ROW_FORMATS), default="table", show_default=True)
@kubeconfig_options
@click.pass_obj
def status(
    services: CliServices, *, namespace: str, every: bool, watch: bool, how: str, kubeconfig: str, context: str
) -> None:
    """Show every request with its machine: phase, GPU, Node, price, cost so far, end time, and pods.

    Reads only the cluster. `tgp doctor` compares it with what the providers list.
    """
    try:
        run(_status(services.requests(kubeconfig, context), namespace, how, every=every, watch=watch))
    except ClusterError as error:
        raise click.ClickException(str(error)) from error


async def _status(
    connecting: AbstractAsyncContextManager[RequestActions], namespace: str, how: str, *, every: bool, watch: bool
) -> None:
    async with connecting as requests:
        with waiting("asking the cluster …"):
            standing = await requests.standing(namespace)
        trouble = ""
        while True:
            if watch and how in TABLES:
                click.clear()
            if not trouble or how in TABLES:
                _print(standing, how, every=every)
            if trouble:
                click.secho(f"! the cluster does not answer: {plain(trouble)}", fg="red", err=how not in TABLES)
            if not watch:
                return
            await asyncio.sleep(LOOK_EVERY)
            try:
                standing, trouble = await requests.standing(namespace), ""
            except ClusterError as error:  # it comes back: what was last seen stays on the screen
                trouble = str(error)


def _print(standing: ClusterStatus, how: str, *, every: bool) -> None:
    names = [f"request/{each.metadata.namespace}/{each.metadata.name}" for each in standing.requests]
    print_rows(partial(render, standing, every=every), status_report(standing), "requests", names, how)
