"""`tgp mesh policy`: the access rules that a class needs in its tailnet, ready to paste."""

from contextlib import AbstractAsyncContextManager

import click

from tgp.api.nodeclass import GPUNodeClass
from tgp.core.joining.mesh.policy import (
    CONTROL_PLANE_TAG,
    NODE_TAG,
    OPERATOR_TAG,
    Names,
    as_acls,
    as_grants,
    policy_for,
    without_comments,
)
from tgp.core.joining.mesh.selection import mesh_of
from tgp.core.joining.talos.class_templates import configs_of
from tgp.core.model.mesh import Backend, MeshSettings
from tgp.interfaces.cli.class_file import one_class
from tgp.interfaces.cli.cluster_options import class_option, cluster_options
from tgp.interfaces.cli.context import CliServices, TalosActions
from tgp.interfaces.cli.interrupt import run
from tgp.interfaces.cli.output import Formats, as_json, waiting

FORMS = {Backend.TAILSCALE: as_grants, Backend.HEADSCALE: as_acls}
USUAL = MeshSettings(Backend.TAILSCALE, tags=("tag:tgp-gpu",))


class Tag(click.ParamType[str]):
    name = "tag"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not value.startswith("tag:") or not value[4:].replace("-", "").isalnum() or not value.isascii():
            self.fail(f"{value!r} is not a tag: write tag: and then letters, digits and dashes", param, ctx)
        return value


@click.group()
def mesh() -> None:
    """The private network through which rented machines join."""


@mesh.command()
@class_option("A class of the cluster.")
@click.option("--class-file", default="", metavar="FILE", help="A class in a file; no cluster is needed.")
@click.option(
    "--for", "form", type=click.Choice([each.value for each in FORMS]), help="Default: the class's own, or tailscale."
)
@click.option("--operator-tag", type=Tag(), default=OPERATOR_TAG, show_default=True, help="Of the OAuth client.")
@click.option("--control-plane-tag", type=Tag(), default=CONTROL_PLANE_TAG, show_default=True)
@click.option("--node-tag", type=Tag(), default=NODE_TAG, show_default=True, help="Of the cluster's other nodes.")
@click.option("-o", "--output", "how", type=Formats(["table", "json"]), default="table", show_default=True)
@cluster_options
@click.pass_obj
def policy(
    services: CliServices,
    *,
    node_class: str,
    class_file: str,
    form: str | None,
    operator_tag: str,
    control_plane_tag: str,
    node_tag: str,
    how: str,
    kubeconfig: str,
    context: str,
    namespace: str,
) -> None:
    """Print tag owners, grants with their ports, and route approvals, ready to paste into a tailnet policy.

    Nothing is sent or changed. Without a class: for machines with the tag tag:tgp-gpu. -o json has no comments.
    """
    if node_class and class_file:
        raise click.UsageError("Give --class or --class-file, not both.")
    settings = USUAL
    if class_file:
        settings = _settings(one_class(class_file))
    elif node_class:
        with waiting("asking the cluster …"):
            settings = _settings(run(_read(services.talos(kubeconfig, context, namespace), node_class)))
    backend = Backend(form) if form else settings.backend
    made = policy_for(settings, Names(operator_tag, control_plane_tag, node_tag))
    text = FORMS[backend](made)
    click.echo(text if how == "table" else f"{as_json(without_comments(text))}\n", nl=False)


async def _read(connecting: AbstractAsyncContextManager[TalosActions], name: str) -> GPUNodeClass:
    async with connecting as talos_service:
        return await talos_service.node_class(name)


def _settings(node_class: GPUNodeClass) -> MeshSettings:
    provider = next(iter(configs_of(node_class)), "")
    settings = mesh_of(node_class, provider, None, Backend.TAILSCALE)
    if settings.backend not in FORMS:
        raise click.ClickException(
            f"Class {node_class.metadata.name} joins by {settings.backend}, which has no tailnet policy."
        )
    return settings
