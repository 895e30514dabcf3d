"""`tgp talos join-secret FILE`: create the Secret that lets rented machines join."""

from base64 import b64encode
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

import click
from rich.console import Group
from rich.text import Text

from tgp.core.joining.mesh.endpoint_reach import out_of_reach
from tgp.core.joining.talos.join_source import Taken, take
from tgp.core.joining.talos.join_values import NotJoinable, read_join
from tgp.core.model.join import JOIN_SECRET, NEEDED, OPTIONAL
from tgp.core.model.secret import Secret
from tgp.interfaces.cli.class_file import read_text
from tgp.interfaces.cli.cluster_options import cluster_options
from tgp.interfaces.cli.confirm import agreed
from tgp.interfaces.cli.context import CliServices, TalosActions
from tgp.interfaces.cli.interrupt import BegunSteps, run
from tgp.interfaces.cli.next_step import next_lines
from tgp.interfaces.cli.output import Formats, TableColumn, show, table, terminal_width, wrapped, write

USUAL_NAMESPACE = "tgp-system"
PUBLIC = frozenset({"endpoint", "cluster-name", "pod-subnets", "service-subnets", "dns-domain"})
STYLES = {"new": "green", "other": "yellow", "gone": "yellow", "same": "dim"}


@click.command("join-secret")
@click.argument("file", metavar="FILE|-")
@click.option("--apply", is_flag=True, help="Write it into the cluster, after showing what changes.")
@click.option("-o", "--output", "how", type=Formats(["table", "yaml", "json"]), default="table", show_default=True)
@click.option("--endpoint", default="", metavar="URL", help="https://host:6443, as rented machines reach it.")
@click.option("--cluster-name", default="", metavar="NAME", help="Needed with a secrets bundle, which has none.")
@click.option("--force", is_flag=True, help="Accept an endpoint that only some networks reach.")
@click.option("--yes", is_flag=True, help="With --apply: replace different values without asking.")
@cluster_options
@click.pass_obj
def join_secret(
    services: CliServices,
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
    """Create the Secret tgp-join from a worker's machine config, or from a bundle of talosctl gen secrets.

    Only what a worker needs is taken; CA keys never leave the file. With -o yaml the manifest is printed, including
    the secrets: for a secret store, or for kubectl apply.
    """
    if apply and how != "table":
        raise click.UsageError("Give --apply to write the Secret, or -o to print it, not both.")
    if yes and not apply:
        raise click.UsageError("--yes needs --apply.")
    try:
        taken = take(read_text(file), endpoint=endpoint, cluster_name=cluster_name)
    except NotJoinable as error:
        problems = "".join(f"\n  {problem}" for problem in error.problems)
        raise click.ClickException(f"{file} does not contain what the join Secret needs:{problems}") from error
    if not force and (why := out_of_reach(taken.data["endpoint"])):
        raise click.ClickException(
            f"Endpoint {taken.data['endpoint']}: {why}, which a rented machine cannot reach. Every machine would be "
            "billed until its join deadline. Set --endpoint to the control plane's address in the mesh; or use "
            "--force if a route leads there (tailscaleConfig.acceptRoutes, wireGuardConfig.allowedIPs)."
        )
    if how != "table":
        write(manifest_of(taken.data, namespace or USUAL_NAMESPACE), how)
        return
    if not apply:
        width = terminal_width()
        show(render(taken, None, width, f"tgp talos join-secret {file} --apply"), width)
        return
    begun = BegunSteps()
    run(_apply(services.talos(kubeconfig, context, namespace), taken, begun, yes=yes), begun)


async def _apply(
    connecting: AbstractAsyncContextManager[TalosActions], taken: Taken, begun: BegunSteps, *, yes: bool
) -> None:
    async with connecting as talos_service:
        before = await talos_service.join_secret()
        known = dict(before.values) if before is not None else {}
        width = terminal_width()
        show(render(taken, known, width), width)
        changes = change_of(taken.data, known)
        where = f"Secret {talos_service.namespace}/{JOIN_SECRET}"
        if before is not None and not changes:
            click.echo(f"{where} is up to date.")
            return
        _refuse_what_stays(known, taken.data, where)
        replaced = [key for key, what in changes.items() if what != "new"]
        if replaced and not agreed(f"Replace {', '.join(replaced)} in {where}?", yes=yes):
            raise click.ClickException(f"{where} was not changed; --yes replaces different values without asking.")
        begun.words = f"Whether {where} was written is unknown: run the command again to see what differs."
        await talos_service.write_join(_change(taken.data, known, talos_service.namespace), before)
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
    """With None for every key of tgp that is to be removed; other keys stay."""
    manifest = manifest_of(data, namespace)
    gone = [key for key in (*NEEDED, *OPTIONAL) if key in known and key not in data]
    return {**manifest, "data": {**manifest["data"], **dict.fromkeys(gone)}}


def _refuse_what_stays(known: Mapping[str, str], data: Mapping[str, str], where: str) -> None:
    """Keys that are not tgp's stay in the Secret; one of them may be the reason why the operator refuses it."""
    others = {key: value for key, value in known.items() if key not in (*NEEDED, *OPTIONAL)}
    read = read_join({key: Secret(value) for key, value in {**others, **data}.items()})
    if isinstance(read, tuple):
        raise click.ClickException(
            f"The operator would still refuse {where}: {'; '.join(read)}. Remove that key first."
        )


def change_of(data: Mapping[str, str], known: Mapping[str, str]) -> dict[str, str]:
    """By key: new, other, gone. Unchanged keys and keys that are not tgp's are left out."""
    changes = {key: "new" if key not in known else "other" for key in data if known.get(key) != data[key]}
    return changes | {key: "gone" for key in (*NEEDED, *OPTIONAL) if key in known and key not in data}


def render(taken: Taken, known: Mapping[str, str] | None, width: int, following: str = "") -> Group:
    """`known`: what the cluster has; None: the cluster was not read."""
    changes = change_of(taken.data, known) if known is not None else {}
    keys = [*taken.data, *(key for key, what in changes.items() if what == "gone")]
    columns = [
        TableColumn("KEY", tuple((key, "bold") for key in keys)),
        TableColumn("FROM", tuple((taken.places.get(key, "—") if key in taken.data else "—", "") for key in keys)),
        TableColumn(
            "VALUE", tuple((_value(taken.data.get(key)) if key in PUBLIC else _hidden(taken, key), "") for key in keys)
        ),
    ]
    if known is not None:
        said = [changes.get(key, "same") for key in keys]
        columns.insert(1, TableColumn("", tuple((word, STYLES[word]) for word in said)))
    lines = [
        *wrapped(
            f"Secret {JOIN_SECRET}, from {taken.source}. The Secret holds what a worker needs, and no CA key.", width
        ),
        Text(),
        *table(columns, width),
    ]
    if taken.left:
        lines += [Text(), Text("left out:", "dim")]
        lines += [line for words in taken.left for line in wrapped(words, width, first="  · ", rest="    ")]
    lines.append(Text())
    if following:
        lines += next_lines(following)
    return Group(*lines)


def _value(value: str | None) -> str:
    return value if value is not None else ""


def _hidden(taken: Taken, key: str) -> str:
    value = taken.data.get(key)
    if value is None:
        return ""
    return "a certificate" if key.endswith(".crt") else f"*** ({len(value)} characters)"
