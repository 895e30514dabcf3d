"""`tgp mesh policy`: the access rules that a class needs in its tailnet, to paste into one's own."""

from contextlib import AbstractAsyncContextManager
from typing import Protocol

import click

from tgp.api.nodeclass import GPUNodeClass
from tgp.core.model.mesh import Backend, MeshSettings
from tgp.core.rules.mesh.choice import mesh_of
from tgp.core.rules.mesh.policy import CONTROL_PLANE_TAG, NODE_TAG, OPERATOR_TAG, Names, as_acls, as_grants, policy_for
from tgp.core.rules.talos.sheets import configs_of
from tgp.surfaces.cli.class_file import one_class
from tgp.surfaces.cli.interrupt import run
from tgp.surfaces.cli.output import waiting
from tgp.surfaces.cli.premises import cluster_options

FORMS = {Backend.TAILSCALE: as_grants, Backend.HEADSCALE: as_acls}
USUAL = MeshSettings(Backend.TAILSCALE, tags=("tag:tgp-gpu",))


class Desk(Protocol):
    async def node_class(self, name: str) -> GPUNodeClass: ...


class Hallway(Protocol):
    def talos(self, kubeconfig: str, context: str, namespace: str) -> AbstractAsyncContextManager[Desk]: ...


class Tag(click.ParamType[str]):
    name = "tag"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if not value.startswith("tag:") or not value[4:].replace("-", "").isalnum() or not value.isascii():
            self.fail(f"{value!r} is no tag: tag: in front, then letters, digits and dashes", param, ctx)
        return value


@click.group()
def mesh() -> None:
    """The private network that rented machines join by."""


@mesh.command()
@click.option("--class", "node_class", default="", metavar="NAME", help="A class of the cluster.")
@click.option("--class-file", default="", metavar="FILE", help="A class in a file; no cluster is asked.")
@click.option(
    "--for", "form", type=click.Choice([each.value for each in FORMS]), help="Default: the class's own, or tailscale."
)
@click.option("--operator-tag", type=Tag(), default=OPERATOR_TAG, show_default=True, help="Of the OAuth client.")
@click.option("--control-plane-tag", type=Tag(), default=CONTROL_PLANE_TAG, show_default=True)
@click.option("--node-tag", type=Tag(), default=NODE_TAG, show_default=True, help="Of the cluster's other nodes.")
@cluster_options
@click.pass_obj
def policy(
    hallway: Hallway,
    *,
    node_class: str,
    class_file: str,
    form: str | None,
    operator_tag: str,
    control_plane_tag: str,
    node_tag: str,
    kubeconfig: str,
    context: str,
    namespace: str,
) -> None:
    """Print tag owners, grants with their ports, and approvals of routes, as people paste them into their policy.

    Nothing is sent to anybody. Without a class: for machines with the tag tag:tgp-gpu.
    """
    if node_class and class_file:
        raise click.UsageError("--class or --class-file; one of them.")
    settings = USUAL
    if class_file:
        settings = _settings(one_class(class_file))
    elif node_class:
        with waiting("asking the cluster …"):
            settings = _settings(run(_read(hallway.talos(kubeconfig, context, namespace), node_class)))
    backend = Backend(form) if form else settings.backend
    made = policy_for(settings, Names(operator_tag, control_plane_tag, node_tag))
    click.echo(FORMS[backend](made), nl=False)


async def _read(connecting: AbstractAsyncContextManager[Desk], name: str) -> GPUNodeClass:
    async with connecting as desk:
        return await desk.node_class(name)


def _settings(node_class: GPUNodeClass) -> MeshSettings:
    provider = next(iter(configs_of(node_class)), "")
    settings = mesh_of(node_class, provider, None, Backend.TAILSCALE)
    if settings.backend not in FORMS:
        raise click.ClickException(
            f"class {node_class.metadata.name} joins by {settings.backend}: there is no tailnet to set rules in."
        )
    return settings
