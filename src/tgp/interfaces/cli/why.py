"""`tgp why request/x`: what the request waits for, since when, and what would help. It only reads."""

from contextlib import AbstractAsyncContextManager

import click

from tgp.core.model.object_key import ObjectKey
from tgp.interfaces.cli.context import CliServices, RequestActions
from tgp.interfaces.cli.interrupt import run
from tgp.interfaces.cli.output import show, terminal_width, waiting, write
from tgp.interfaces.cli.request_name import read_name
from tgp.interfaces.cli.why_view import as_document, render
from tgp.ports.cluster import ClusterError
from tgp.services.request_documents import Enquiry


@click.command()
@click.argument("name", metavar="request/NAME")
@click.option("-n", "--namespace", default="", metavar="NAME", help="Default: the kubeconfig's.")
@click.option("-o", "--output", "how", type=click.Choice(["text", "json", "yaml"]), default="text", show_default=True)
@click.option("--kubeconfig", default="", metavar="FILE", help="Default: $KUBECONFIG, ~/.kube/config.")
@click.option("--context", default="", metavar="NAME", help="Default: the kubeconfig's current one.")
@click.pass_obj
def why(services: CliServices, *, name: str, namespace: str, how: str, kubeconfig: str, context: str) -> None:
    """Explain the state of a request: what it waits for, since when, until when, and what would help.

    Only requests are supported so far: request/NAME, NAME or NAMESPACE/NAME.
    """
    key = read_name(name, namespace)
    try:
        with waiting("asking the cluster …"):
            asked = run(_ask(services.requests(kubeconfig, context), key))
    except ClusterError as error:
        raise click.ClickException(str(error)) from error
    if how == "text":
        width = terminal_width()
        show(render(asked, width), width)
    else:
        write(as_document(asked), how)


async def _ask(connecting: AbstractAsyncContextManager[RequestActions], key: ObjectKey) -> Enquiry:
    async with connecting as requests:
        return await requests.enquire(key)
