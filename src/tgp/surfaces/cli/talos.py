"""`tgp talos check | render | join-secret`: a node's machine config, before any machine is rented with it."""

from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import Any, Protocol

import click

from tgp.api.common import PROVIDERS, canonical_provider
from tgp.api.decoding import strict
from tgp.api.nodeclass import GPUNodeClass
from tgp.core.model.join import JoinValues
from tgp.core.model.key import Key
from tgp.core.model.machine_config import TemplateRefused
from tgp.core.model.mesh import Backend
from tgp.core.model.secret import Secret
from tgp.core.model.talos import TalosVersion, read_version
from tgp.core.rules.talos.inert import inert_join, inert_plan
from tgp.core.rules.talos.join_source import take
from tgp.core.rules.talos.join_values import NotJoinable, read_join
from tgp.core.rules.talos.masked import masked
from tgp.core.rules.talos.preview import NO_SCHEMATIC, Materials, preview
from tgp.core.rules.talos.releases import USUAL
from tgp.core.rules.talos.sheets import SWITCHED, Sheet, Unread, configs_of, sheets_of, template_of
from tgp.ports.cloud import CloudFacts
from tgp.surfaces.cli.class_file import classes_in, read_text
from tgp.surfaces.cli.interrupt import run
from tgp.surfaces.cli.output import show, terminal_width, waiting, write
from tgp.surfaces.cli.premises import cluster_options
from tgp.surfaces.cli.request_name import read_name
from tgp.surfaces.cli.talos_join import Desk as JoinDesk
from tgp.surfaces.cli.talos_join import join_secret
from tgp.surfaces.cli.talos_view import Examined, as_document, examine, exit_code
from tgp.surfaces.cli.talos_view import render as drawn

REFUSED = 1
REAL = tuple(name for name in PROVIDERS if name not in {SWITCHED, "simulated"})  # whose machines boot what they get
PLACEHOLDERS = "the bootstrap token and the mesh's key are placeholders: each machine gets its own, when it is ordered"
MASKED = "secrets are masked: --show-secrets shows them"
INERT = "the join values are inert ones: --join-file FILE, or --class NAME of a cluster, takes real ones"
NO_INSTALLER = "the installer's schematic is a row of zeros: the image factory makes it when a machine is ordered"


@dataclass(frozen=True, slots=True)
class Wish:
    """Whose config is meant."""

    node_class: str = ""  # empty: the request's
    provider: str = ""  # empty: the request's, else the first of the class
    request: Key | None = None


@dataclass(frozen=True, slots=True)
class Spread:
    """What a config is made of, and what is to be known about it."""

    materials: Materials
    notes: tuple[str, ...] = ()


class Desk(JoinDesk, Protocol):
    """A cluster, as far as machine configs are concerned."""

    async def sheets(self, node_class: str, version: TalosVersion | None, backend: Backend | None) -> tuple[Sheet, ...]:
        """The templates of a class. Raises ClusterError."""
        ...

    async def spread(self, wish: Wish) -> Spread:
        """Raises ClickException where something that is needed is missing, ClusterError."""
        ...


class Hallway(Protocol):
    def facts(self, provider: str) -> CloudFacts: ...

    def talos(self, kubeconfig: str, context: str, namespace: str) -> AbstractAsyncContextManager[Desk]: ...


class Version(click.ParamType[TalosVersion]):
    name = "version"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> TalosVersion:
        if isinstance(value, TalosVersion):
            return value
        found = read_version(str(value)) or read_version(f"{value}.0")
        if found is None or not found.supported:
            self.fail(f"{value!r} is not a Talos of v1.10 to v1.14, such as {USUAL}", param, ctx)
        return found


_talos = click.option("--talos", type=Version(), metavar="VERSION", help="Default: the class's, else the cluster's.")
_backend = click.option(
    "--backend", type=click.Choice([each.value for each in Backend]), help="Mesh. Default: the class's, or tailscale."
)


@click.group()
def talos() -> None:
    """Check templates, see the config a node would get, make the join Secret."""


talos.add_command(join_secret)


# -- check -------------------------------------------------------------------------------------------------------------


@talos.command()
@click.argument("file", default="", metavar="[FILE|-]")
@click.option("--class", "node_class", default="", metavar="NAME", help="The template of a class in the cluster.")
@_talos
@_backend
@click.option("-o", "--output", "how", type=click.Choice(["text", "json", "yaml"]), default="text", show_default=True)
@cluster_options
@click.pass_obj
def check(
    hallway: Hallway,
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
    """Say line by line what is wrong with a template, what old things in it become, and who can boot it.

    FILE is a template, or a manifest with GPUNodeClasses in it. No secret is needed, and none is shown.
    Ends with 0: machines boot with it; 1: there is something to be looked at; 2: wrong use, or no cluster.
    """
    if bool(file) == bool(node_class):
        raise click.UsageError("name a FILE (- for standard input), or a class of the cluster by --class; one of them.")
    mesh = Backend(backend) if backend else None
    if file:
        sheets = _sheets_in(file, talos, mesh)
    else:
        with waiting("asking the cluster …"):
            sheets = run(_read_sheets(hallway.talos(kubeconfig, context, namespace), node_class, talos, mesh))
    examined = [examine(sheet, hallway.facts) for sheet in sheets]
    if how == "text":
        width = terminal_width()
        show(drawn(examined, width, _following(file, node_class, examined)), width)
    else:
        write(as_document(examined), how)
    raise SystemExit(exit_code(examined))


async def _read_sheets(
    connecting: AbstractAsyncContextManager[Desk], name: str, version: TalosVersion | None, backend: Backend | None
) -> tuple[Sheet, ...]:
    async with connecting as desk:
        return await desk.sheets(name, version, backend)


def _sheets_in(file: str, version: TalosVersion | None, backend: Backend | None) -> tuple[Sheet, ...]:
    text = read_text(file)
    name = "standard input" if file == "-" else file
    usual = read_version(USUAL)
    assert usual is not None, "a constant of ours"
    found = classes_in(text, name)
    if not found:
        sheet = Sheet(name, version or usual, backend or Backend.TAILSCALE, text, source=file, providers=REAL)
        return (sheet,)
    sheets = [
        each.sheet(sheet, text, file)
        for each in found
        for sheet in sheets_of(each.node_class, default_version=usual, version=version, backend=backend)
    ]
    if not sheets:
        raise click.UsageError(f"{name}: no provider of this class boots anything; machines you own keep their Talos.")
    return tuple(sheets)


def _following(file: str, node_class: str, examined: list[Examined]) -> str:
    """Where to see what became of it."""
    if file == "-" or len({each.sheet.title for each in examined}) != 1:
        return ""
    return f"tgp talos render {f'--class {node_class}' if node_class else f'--class-file {file}'}"


# -- render ------------------------------------------------------------------------------------------------------------


@talos.command()
@click.option("--class", "node_class", default="", metavar="NAME", help="A class of the cluster.")
@click.option(
    "--class-file", default="", metavar="FILE", help="A class, or a template, in a file; no cluster is asked."
)
@click.option("--join-file", default="", metavar="FILE", help="Join values: the Secret, or a worker's machine config.")
@click.option("--provider", default="", metavar="NAME", help="Default: the request's, or the first of the class.")
@click.option("--request", default="", metavar="NAMESPACE/NAME", help="The config of this request's machine.")
@click.option("--node", default="", metavar="NAME", help="The node's name.")
@_talos
@_backend
@click.option("--untrusted", is_flag=True, help="As for a host that nobody vouches for: without shared secrets.")
@click.option("--show-secrets", is_flag=True, help="Join secrets as they are. Mind who looks.")
@cluster_options
@click.pass_obj
def render(
    hallway: Hallway,
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
    """Print the machine config that a node would get. Nothing is made for it: no key, no token, no image.

    With --class or --request from the cluster; otherwise from files, or from inert values. What was converted, and
    what is worth knowing, goes to standard error as comments.
    """
    name = canonical_provider(provider) if provider else ""
    if name and name not in PROVIDERS:
        raise click.UsageError(f"there is no provider {provider}: {', '.join(PROVIDERS)}.")
    if (node_class or request) and (class_file or join_file):
        raise click.UsageError("--class and --request are of a cluster, --class-file and --join-file of none.")
    if node_class or request:
        wish = Wish(node_class, name, read_name(request) if request else None)
        with waiting("asking the cluster …"):
            spread = run(_read_spread(hallway.talos(kubeconfig, context, namespace), wish))
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


async def _read_spread(connecting: AbstractAsyncContextManager[Desk], wish: Wish) -> Spread:
    async with connecting as desk:
        return await desk.spread(wish)


def _print(materials: Materials, notes: tuple[str, ...], *, show_secrets: bool) -> None:
    try:
        made = preview(materials)
    except TemplateRefused as refusal:
        for finding in refusal.findings:
            click.echo(f"# {finding.severity}: {finding}", err=True)
        raise click.ClickException("no config can be made of this template; see tgp talos check") from refusal
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
    assert usual is not None, "a constant of ours"
    node_class, bare = _class_from(class_file, provider or "simulated")
    configs = configs_of(node_class)
    name = provider or next(iter(configs), "")
    if name not in configs:
        raise click.UsageError(f"the class buys at {', '.join(configs) or 'nobody'}, not at {name or 'anybody'}.")
    config = configs[name]
    template = bare or template_of(config)
    if isinstance(template, Unread):
        raise click.UsageError(f"{template.why}.")
    said = version or (read_version(config.image) if config.image else None) or usual
    join, notes = (_join_from(join_file), ()) if join_file else (inert_join(), (INERT,))
    kubelet = config.kubelet_image or inert_plan(said, Backend.NONE).kubelet_image
    if not config.kubelet_image:
        notes = (*notes, "the kubelet's version is Talos's own here, and the API server's in a cluster")
    schematic = config.schematic or NO_SCHEMATIC
    return Spread(Materials(node_class, name, said, join, template, kubelet, schematic=schematic), notes)


def _class_from(file: str, provider: str) -> tuple[GPUNodeClass, str]:
    """Of the file; around a bare template, or around nothing, the least that a class can be, and the template."""
    text = read_text(file) if file else ""
    found = classes_in(text, file)
    if len(found) > 1:
        names = ", ".join(each.node_class.metadata.name for each in found)
        raise click.UsageError(f"{file} holds several classes: {names}. Put the one that is meant into a file.")
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
