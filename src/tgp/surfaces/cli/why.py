"""`tgp why request/x`: what it waits for, since when, and what would change it. It only reads."""

from contextlib import AbstractAsyncContextManager
from typing import Protocol

import click

from tgp.core.model.key import Key
from tgp.ports.cluster import ClusterError
from tgp.surfaces.cli.interrupt import run
from tgp.surfaces.cli.output import show, terminal_width, waiting, write
from tgp.surfaces.cli.request_name import read_name
from tgp.surfaces.cli.why_view import Enquiry, as_document, render


class Desk(Protocol):
    """A cluster's requests."""

    async def enquire(self, key: Key) -> Enquiry:
        """All there is to know about one. Raises NotFound, naming the nearest."""
        ...


class Hallway(Protocol):
    def requests(self, kubeconfig: str, context: str) -> AbstractAsyncContextManager[Desk]: ...


@click.command()
@click.argument("name", metavar="request/NAME")
@click.option("-n", "--namespace", default="", metavar="NAME", help="Default: the kubeconfig's.")
@click.option("-o", "--output", "how", type=click.Choice(["text", "json", "yaml"]), default="text", show_default=True)
@click.option("--kubeconfig", default="", metavar="FILE", help="Default: $KUBECONFIG, ~/.kube/config.")
@click.option("--context", default="", metavar="NAME", help="Default: the kubeconfig's current one.")
@click.pass_obj
def why(hallway: Hallway, *, name: str, namespace: str, how: str, kubeconfig: str, context: str) -> None:
    """Say why a request is where it is: what it waits for, since when, until when, and what would change it.

    Only requests can be asked about so far: request/NAME, NAME or NAMESPACE/NAME.
    """
    key = read_name(name, namespace)
    try:
        with waiting("asking the cluster …"):
            asked = run(_ask(hallway.requests(kubeconfig, context), key))
    except ClusterError as error:
        raise click.ClickException(str(error)) from error
    if how == "text":
        width = terminal_width()
        show(render(asked, width), width)
    else:
        write(as_document(asked), how)


async def _ask(connecting: AbstractAsyncContextManager[Desk], key: Key) -> Enquiry:
    async with connecting as desk:
        return await desk.enquire(key)
