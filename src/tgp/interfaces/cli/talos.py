"""`tgp talos check | render | join-secret`: a node's machine config, before any machine is rented with it."""

from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Any

import click

from tgp.api.common import OWNED_PROVIDER, PROVIDERS, canonical_provider
from tgp.api.decoding import strict
from tgp.api.nodeclass import GPUNodeClass
from tgp.core.joining.talos.class_templates import (
    ClassTemplate,
    UnreadTemplate,
    configs_of,
    template_of,
    templates_of,
)
from tgp.core.joining.talos.join_source import take
from tgp.core.joining.talos.join_values import NotJoinable, read_join
from tgp.core.joining.talos.placeholder_values import placeholder_join, placeholder_plan
from tgp.core.joining.talos.preview import NO_SCHEMATIC, Materials, preview
from tgp.core.joining.talos.redacted import masked
from tgp.core.joining.talos.releases import USUAL
from tgp.core.model.join import JoinValues
from tgp.core.model.machine_config import TemplateRefused
from tgp.core.model.mesh import Backend
from tgp.core.model.secret import Secret
from tgp.core.model.talos import TalosVersion, read_version
from tgp.interfaces.cli.class_file import classes_in, read_text
from tgp.interfaces.cli.cluster_options import class_option, cluster_options, document_output
from tgp.interfaces.cli.context import CliServices, TalosActions
from tgp.interfaces.cli.interrupt import run
from tgp.interfaces.cli.output import show, terminal_width, waiting, write
from tgp.interfaces.cli.request_name import read_name
from tgp.interfaces.cli.talos_join import join_secret
from tgp.interfaces.cli.talos_view import examine
from tgp.interfaces.cli.talos_view import render as drawn
from tgp.services.documents.templates import Examined, exit_code, template_check
from tgp.services.talos_answers import ConfigChoice, NoMachineConfig, Spread

REFUSED = 1
REAL = tuple(
    name for name in PROVIDERS if name not in {OWNED_PROVIDER, "simulated"}
)  # their machines boot a machine config
PLACEHOLDERS = "the bootstrap token and the mesh key are placeholders: each machine gets its own when it is launched"
MASKED = "secrets are masked: --show-secrets prints them"
NO_JOIN_VALUES = "the join values are placeholders: --join-file FILE, or --class NAME with a cluster, reads real ones"
NO_INSTALLER = "the installer's schematic id is all zeros: the image factory creates the real one at launch"


class VersionParam(click.ParamType[TalosVersion]):
    name = "version"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> TalosVersion:
        if isinstance(value, TalosVersion):
            return value
        found = read_version(str(value)) or read_version(f"{value}.0")
        if found is None or not found.supported:
            self.fail(f"{value!r} is not a Talos version from v1.10 to v1.14, such as {USUAL}", param, ctx)
        return found


_talos = click.option(
    "--talos", type=VersionParam(), metavar="VERSION", help="Default: the class's, else the cluster's."
)
_backend = click.option(
    "--backend", type=click.Choice([each.value for each in Backend]), help="Mesh. Default: the class's, or tailscale."
)


@click.group()
def talos() -> None:
    """Check templates, print the config of a node, create the join Secret."""


talos.add_command(join_secret)


# -- check -------------------------------------------------------------------------------------------------------------


@talos.command()
@click.argument("file", default="", metavar="[FILE|-]")
@class_option("The template of a class in the cluster.")
@_talos
@_backend
@document_output
@cluster_options
@click.pass_obj
def check(
    services: CliServices,
    *,
    file: str,
    node_class: str,
    talos: TalosVersion | None,
    backend: str | None,
    how: str,
    kubeconfig: str,
    context: str,
    namespace: str,
) -> None:
    """List the errors of a template line by line, what is converted, and which providers can boot it.

    FILE is a template, or a manifest that contains GPUNodeClasses. No secret is needed, and none is shown.
    Exit code 0: machines boot with it; 1: there are errors or warnings; 2: wrong use, or no cluster.
    """
    if bool(file) == bool(node_class):
        raise click.UsageError("Give FILE (- for standard input), or --class with a class of the cluster, not both.")
    mesh = Backend(backend) if backend else None
    if file:
        templates = _templates_in(file, talos, mesh)
    else:
        with waiting("asking the cluster …"):
            templates = run(_read_templates(services.talos(kubeconfig, context, namespace), node_class, talos, mesh))
    examined = [examine(template, services.facts) for template in templates]
    if how == "table":
        width = terminal_width()
        show(drawn(examined, width, _following(file, node_class, examined)), width)
    else:
        write(template_check(examined), how)
    raise SystemExit(exit_code(examined))


async def _read_templates(
    connecting: AbstractAsyncContextManager[TalosActions],
    name: str,
    version: TalosVersion | None,
    backend: Backend | None,
) -> tuple[ClassTemplate, ...]:
    async with connecting as talos_service:
        try:
            return await talos_service.templates(name, version, backend)
        except NoMachineConfig as error:
            raise click.ClickException(str(error)) from error


def _templates_in(file: str, version: TalosVersion | None, backend: Backend | None) -> tuple[ClassTemplate, ...]:
    text = read_text(file)
    name = "standard input" if file == "-" else file
    usual = read_version(USUAL)
    assert usual is not None, "USUAL is a valid version"
    found = classes_in(text, name)
    if not found:
        template = ClassTemplate(
            name, version or usual, backend or Backend.TAILSCALE, text, source=file, providers=REAL
        )
        return (template,)
    templates = [
        each.placed(template, text, file)
        for each in found
        for template in templates_of(each.node_class, default_version=usual, version=version, backend=backend)
    ]
    if not templates:
        raise click.UsageError(f"{name}: no provider of this class boots a config; owned machines keep their Talos.")
    return tuple(templates)


def _following(file: str, node_class: str, examined: list[Examined]) -> str:
    """The command that prints the converted config."""
    if file == "-" or len({each.class_template.title for each in examined}) != 1:
        return ""
    return f"tgp talos render {f'--class {node_class}' if node_class else f'--class-file {file}'}"


# -- render ------------------------------------------------------------------------------------------------------------


@talos.command()
@class_option("A class of the cluster.")
@click.option(
    "--class-file", default="", metavar="FILE", help="A class, or a template, in a file; no cluster is needed."
)
@click.option("--join-file", default="", metavar="FILE", help="Join values: the Secret, or a worker's machine config.")
@click.option("--provider", default="", metavar="NAME", help="Default: the request's, or the first of the class.")
@click.option("--request", default="", metavar="NAMESPACE/NAME", help="The config of this request's machine.")
@click.option("--node", default="", metavar="NAME", help="The node's name.")
@_talos
@_backend
@click.option("--untrusted", is_flag=True, help="For a host that is not trusted: without shared secrets.")
@click.option("--show-secrets", is_flag=True, help="Print join secrets unmasked.")
@cluster_options
@click.pass_obj
def render(
    services: CliServices,
    *,
    node_class: str,
    class_file: str,
    join_file: str,
    provider: str,
    request: str,
    node: str,
    talos: TalosVersion | None,
    backend: str | None,
    untrusted: bool,
    show_secrets: bool,
    kubeconfig: str,
    context: str,
    namespace: str,
) -> None:
    """Print the machine config of a node. No key, token or image is created for it.

    With --class or --request the values come from the cluster; otherwise from files, or they are placeholders.
    Conversions and notes are printed to standard error as comments.
    """
    name = canonical_provider(provider) if provider else ""
    if name and name not in PROVIDERS:
        raise click.UsageError(f"Unknown provider {provider}. Known: {', '.join(PROVIDERS)}.")
    if (node_class or request) and (class_file or join_file):
        raise click.UsageError(
            "--class and --request read a cluster; they cannot be combined with --class-file and --join-file."
        )
    if node_class or request:
        options = ConfigChoice(node_class, name, read_name(request) if request else None)
        with waiting("asking the cluster …"):
            spread = run(_read_spread(services.talos(kubeconfig, context, namespace), options))
    else:
        spread = _from_files(class_file, join_file, name, talos)
    materials = spread.materials
    if talos is not None:
        materials = replace(materials, version=talos)
    if backend:
        materials = replace(materials, node_class=_joining_by(materials.node_class, backend))
    if node:
        materials = replace(materials, node_name=node)
    if untrusted:
        materials = replace(materials, shared_secrets=False)
    _print(materials, spread.notes, show_secrets=show_secrets)


async def _read_spread(connecting: AbstractAsyncContextManager[TalosActions], options: ConfigChoice) -> Spread:
    async with connecting as talos_service:
        try:
            return await talos_service.spread(options)
        except NoMachineConfig as error:
            raise click.ClickException(str(error)) from error


def _print(materials: Materials, notes: tuple[str, ...], *, show_secrets: bool) -> None:
    try:
        made = preview(materials)
    except TemplateRefused as refusal:
        for finding in refusal.findings:
            click.echo(f"# {finding.severity}: {finding}", err=True)
        raise click.ClickException("The template has errors, so there is no config; see tgp talos check.") from refusal
    if materials.schematic == NO_SCHEMATIC:
        notes = (*notes, NO_INSTALLER)
    for words in (*notes, PLACEHOLDERS, *(() if show_secrets else (MASKED,))):
        click.echo(f"# {words}", err=True)
    for conversion in made.conversions:
        click.echo(f"# converted: {conversion}", err=True)
    for finding in made.warnings:
        click.echo(f"# {finding.severity}: {finding}", err=True)
    click.echo(made.text if show_secrets else masked(made.text), nl=False)


def _from_files(class_file: str, join_file: str, provider: str, version: TalosVersion | None) -> Spread:
    usual = read_version(USUAL)
    assert usual is not None, "USUAL is a valid version"
    node_class, bare = _class_from(class_file, provider or "simulated")
    configs = configs_of(node_class)
    name = provider or next(iter(configs), "")
    if name not in configs:
        raise click.UsageError(
            f"The class boots machines at {', '.join(configs) or 'no provider'}. {name or 'None'} is not among them."
        )
    config = configs[name]
    template = bare or template_of(config)
    if isinstance(template, UnreadTemplate):
        raise click.UsageError(f"{template.why}.")
    said = version or (read_version(config.image) if config.image else None) or usual
    join, notes = (_join_from(join_file), ()) if join_file else (placeholder_join(), (NO_JOIN_VALUES,))
    kubelet = config.kubelet_image or placeholder_plan(said, Backend.NONE).kubelet_image
    if not config.kubelet_image:
        notes = (*notes, "the kubelet version is the default of Talos; with a cluster it is the API server's")
    schematic = config.schematic or NO_SCHEMATIC
    return Spread(Materials(node_class, name, said, join, template, kubelet, schematic=schematic), notes)


def _class_from(file: str, provider: str) -> tuple[GPUNodeClass, str]:
    """The class in the file; for a bare template or no file a minimal class, and the template."""
    text = read_text(file) if file else ""
    found = classes_in(text, file)
    if len(found) > 1:
        names = ", ".join(each.node_class.metadata.name for each in found)
        raise click.UsageError(f"{file} contains several classes: {names}. Move the wanted one into its own file.")
    if found:
        return found[0].node_class, ""
    spec = {"providers": [{"name": provider}], "networking": {"backend": Backend.TAILSCALE.value}}
    metadata = {"name": "any"}
    made = strict({"apiVersion": "tgp.io/v1", "kind": "GPUNodeClass", "metadata": metadata, "spec": spec})
    assert isinstance(made, GPUNodeClass), "its kind says so"
    return made, text


def _joining_by(node_class: GPUNodeClass, backend: str) -> GPUNodeClass:
    import msgspec

    from tgp.api.nodeclass import Networking

    spec = msgspec.structs.replace(node_class.spec, networking=Networking(backend=backend))
    return msgspec.structs.replace(node_class, spec=spec)


def _join_from(file: str) -> JoinValues:
    try:
        taken = take(read_text(file))
    except NotJoinable as error:
        raise click.UsageError(f"{file}: {error}.") from error
    read = read_join({key: Secret(value) for key, value in taken.data.items()})
    assert isinstance(read, JoinValues), "what was taken is what is read"
    return read
