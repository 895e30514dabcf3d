"""`tgp talos join-secret FILE`: the Secret that lets rented machines join, from what an administrator has at hand."""

from base64 import b64encode
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

import click

from tgp.core.model.join import JOIN_SECRET, NEEDED, OPTIONAL
from tgp.core.model.secret import Secret
from tgp.core.rules.mesh.reach import out_of_reach
from tgp.core.rules.talos.join_source import Taken, take
from tgp.core.rules.talos.join_values import NotJoinable, read_join
from tgp.surfaces.cli.class_file import read_text
from tgp.surfaces.cli.confirming import agreed
from tgp.surfaces.cli.interrupt import Begun, run
from tgp.surfaces.cli.output import show, terminal_width, write
from tgp.surfaces.cli.premises import cluster_options
from tgp.surfaces.cli.talos_join_view import change_of, render

USUAL_NAMESPACE = "tgp-system"


@dataclass(frozen=True, slots=True)
class Stored:
    """The Secret as the cluster has it."""

    values: Mapping[str, str] = field(repr=False)
    uid: str
    resource_version: str


class Desk(Protocol):
    @property
    def namespace(self) -> str:
        """The operator's."""
        ...

    async def join_secret(self) -> Stored | None:
        """None: there is none."""
        ...

    async def write_join(self, manifest: Mapping[str, Any], before: Stored | None) -> None:
        """Keys that are None go. Raises Conflict where it is not as it was `before`."""
        ...


class Hallway(Protocol):
    def talos(self, kubeconfig: str, context: str, namespace: str) -> AbstractAsyncContextManager[Desk]: ...


@click.command("join-secret")
@click.argument("file", metavar="FILE|-")
@click.option("--apply", is_flag=True, help="Write it into the cluster, after showing what changes.")
@click.option("-o", "--output", "how", type=click.Choice(["text", "yaml", "json"]), default="text", show_default=True)
@click.option("--endpoint", default="", metavar="URL", help="https://host:6443, as rented machines reach it.")
@click.option("--cluster-name", default="", metavar="NAME", help="Needed with a secrets bundle, which has none.")
@click.option("--force", is_flag=True, help="Take an endpoint that only some networks reach.")
@click.option("--yes", is_flag=True, help="With --apply: replace values that differ without a question.")
@cluster_options
@click.pass_obj
def join_secret(
    hallway: Hallway,
    *,
    file: str,
    apply: bool,
    how: str,
    endpoint: str,
    cluster_name: str,
    force: bool,
    yes: bool,
    kubeconfig: str,
    context: str,
    namespace: str,
) -> None:
    """Make the Secret tgp-join from a worker's machine config, or from a bundle of talosctl gen secrets.

    Only what a worker needs is taken; the keys of CAs never leave the file. With -o yaml the manifest is printed,
    secrets and all: for a vault, or for kubectl apply.
    """
    if apply and how != "text":
        raise click.UsageError("--apply writes it, -o prints it; one of them.")
    if yes and not apply:
        raise click.UsageError("--yes is for --apply.")
    try:
        taken = take(read_text(file), endpoint=endpoint, cluster_name=cluster_name)
    except NotJoinable as error:
        problems = "".join(f"\n  {problem}" for problem in error.problems)
        raise click.ClickException(f"no join Secret can be made of {file}:{problems}") from error
    if not force and (why := out_of_reach(taken.data["endpoint"])):
        raise click.ClickException(
            f"endpoint {taken.data['endpoint']}: {why}, which a rented machine does not reach, and every machine would "
            "be paid for until its join deadline. Say --endpoint with the control plane's address in the mesh; or "
            "--force, where a route leads there (tailscaleConfig.acceptRoutes, wireGuardConfig.allowedIPs)."
        )
    if how != "text":
        write(manifest_of(taken.data, namespace or USUAL_NAMESPACE), how)
        return
    if not apply:
        width = terminal_width()
        show(render(taken, None, width, f"tgp talos join-secret {file} --apply"), width)
        return
    begun = Begun()
    run(_apply(hallway.talos(kubeconfig, context, namespace), taken, begun, yes=yes), begun)


async def _apply(connecting: AbstractAsyncContextManager[Desk], taken: Taken, begun: Begun, *, yes: bool) -> None:
    async with connecting as desk:
        before = await desk.join_secret()
        known = dict(before.values) if before is not None else {}
        width = terminal_width()
        show(render(taken, known, width), width)
        changes = change_of(taken.data, known)
        where = f"Secret {desk.namespace}/{JOIN_SECRET}"
        if before is not None and not changes:
            click.echo(f"{where} is as it should be.")
            return
        _refuse_what_stays(known, taken.data, where)
        replaced = [key for key, what in changes.items() if what != "new"]
        if replaced and not agreed(f"Replace {', '.join(replaced)} in {where}?", yes=yes):
            raise click.ClickException(f"{where} was left as it is; --yes replaces what differs without a question.")
        begun.words = f"Whether {where} was written is not known: run the command again to see what differs."
        await desk.write_join(_change(taken.data, known, desk.namespace), before)
        click.echo(f"{where} {'was changed' if before is not None else 'was created'}.")


def manifest_of(data: Mapping[str, str], namespace: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": JOIN_SECRET, "namespace": namespace},
        "type": "Opaque",
        "data": {key: b64encode(value.encode()).decode() for key, value in data.items()},
    }


def _change(data: Mapping[str, str], known: Mapping[str, str], namespace: str) -> dict[str, Any]:
    """With a None for every key of ours that is not any more; keys of others stay."""
    manifest = manifest_of(data, namespace)
    gone = [key for key in (*NEEDED, *OPTIONAL) if key in known and key not in data]
    return {**manifest, "data": {**manifest["data"], **dict.fromkeys(gone)}}


def _refuse_what_stays(known: Mapping[str, str], data: Mapping[str, str], where: str) -> None:
    """Keys that are none of ours stay there; one of them may be what the operator refuses the Secret for."""
    others = {key: value for key, value in known.items() if key not in (*NEEDED, *OPTIONAL)}
    read = read_join({key: Secret(value) for key, value in {**others, **data}.items()})
    if isinstance(read, tuple):
        raise click.ClickException(f"{where} would still be refused: {'; '.join(read)}. Remove that key first.")
