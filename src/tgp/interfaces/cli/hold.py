"""`tgp hold` and `tgp release`: pause and resume purchases. Terminations continue meanwhile."""

from difflib import get_close_matches

import click
from rich.console import Group
from rich.text import Text

from tgp.api.common import PROVIDERS, canonical_provider
from tgp.api.values import rfc3339
from tgp.core.model.cluster_inventory import ClusterInventory
from tgp.core.model.hold import Hold, new_hold
from tgp.core.reports.machine_costs import machine_costs
from tgp.core.reports.pending_purchases import PendingPurchase, bought_after_release, pending_purchases, unsuspended
from tgp.interfaces.cli.cluster_options import cluster_options
from tgp.interfaces.cli.completion import live_names
from tgp.interfaces.cli.confirm import agreed
from tgp.interfaces.cli.context import CliServices, ClusterActions
from tgp.interfaces.cli.holdings_view import machines_table, purchase_lines
from tgp.interfaces.cli.interrupt import BegunSteps, run
from tgp.interfaces.cli.next_step import next_lines
from tgp.interfaces.cli.output import Formats, show, terminal_width, wrapped, write
from tgp.services.documents.machines import costing, hold_report

CLASS_WORDS = ("class", "gpunodeclass", "gnc")
OTHER_WORDS = (
    "pool",
    "gpunodepool",
    "gnp",
    "request",
    "gpurequest",
    "gr",
    "namespace",
    "ns",
    "provider",
    "node",
    "pod",
)
OUTPUTS = ("table", "json", "yaml")
UNSURE = "Whether purchases are paused now is unknown: tgp hold --status"

_output = click.option("-o", "--output", "how", type=Formats(OUTPUTS), default="table", show_default=True)


@click.command()
@click.argument("words", nargs=-1, metavar="[REASON | class/NAME]", shell_complete=live_names("class"))
@click.option("--status", is_flag=True, help="Change nothing; report whether purchases are paused.")
@_output
@cluster_options
@click.pass_obj
def hold(
    services: CliServices,
    *,
    words: tuple[str, ...],
    status: bool,
    how: str,
    kubeconfig: str,
    context: str,
    namespace: str,
) -> None:
    """Pause all purchases; terminations continue.

    With class/NAME only that class stops buying (its spec.suspend). A pause that exists already stays and is reported.
    """
    _refuse_other_targets(words)
    begun = BegunSteps()
    run(_hold(services, words, (kubeconfig, context, namespace), how, begun, status=status), begun)


async def _hold(
    services: CliServices,
    words: tuple[str, ...],
    where: tuple[str, str, str],
    how: str,
    begun: BegunSteps,
    *,
    status: bool,
) -> None:
    node_class = _class_named(words)
    async with services.cluster(*where) as cluster:
        before = await cluster.inventory(ask=False)
        if status:
            said = standing(before)
        else:
            begun.words = UNSURE
            said = await (
                _suspend(cluster, before, node_class) if node_class else _pause(cluster, before, " ".join(words))
            )
        after = before if status else await cluster.inventory(ask=False)
    _print(after, said, how, command="tgp release" if after.hold else "")


async def _suspend(cluster: ClusterActions, inventory: ClusterInventory, name: str) -> str:
    if _is_suspended(inventory, name):
        return f"class/{name} was suspended already: the class buys nothing."
    await cluster.suspend(name, suspended=True)
    return f"class/{name} is suspended: the class buys nothing from now on. Terminations continue."


async def _pause(cluster: ClusterActions, inventory: ClusterInventory, reason: str) -> str:
    if inventory.hold is not None and not reason:
        return standing(inventory)
    since = inventory.hold.since if inventory.hold is not None else None
    fresh = new_hold(reason, inventory.now)
    await cluster.hold(Hold(fresh.reason, since or fresh.since))
    return f"Purchases are paused from now on ({fresh.reason}). Terminations continue."


@click.command()
@click.argument("words", nargs=-1, metavar="[class/NAME | provider/NAME]", shell_complete=live_names("class"))
@click.option("--yes", is_flag=True, help="Do not ask, even if purchases follow at once.")
@_output
@cluster_options
@click.pass_obj
def release(
    services: CliServices, *, words: tuple[str, ...], yes: bool, how: str, kubeconfig: str, context: str, namespace: str
) -> None:
    """Resume purchases, after listing what will buy.

    With provider/NAME: purchases at a provider whose lists contradicted themselves or the Nodes (ProviderInconsistent)
    resume at once. Do this after you checked the provider's console and found its lists to be right.
    """
    node_class, where, begun = (
        _class_named(words),
        (kubeconfig, context, namespace),
        BegunSteps("Nothing was released."),
    )
    if provider := _provider_named(words):
        run(_trust(services, provider, where, begun), begun)
        return
    if words and not node_class:
        raise click.UsageError(
            f"{words[0]!r} cannot be released: name class/NAME or provider/NAME, or no argument for everything."
        )
    run(_release(services, node_class, where, how, begun, yes=yes), begun)


async def _trust(services: CliServices, provider: str, where: tuple[str, str, str], begun: BegunSteps) -> None:
    async with services.cluster(*where) as cluster:
        moment = await cluster.now()
        begun.words = f"Whether provider {provider} is trusted again is unknown: run the command once more."
        await cluster.trust(provider, moment)
    click.echo(
        f"Provider {provider} is trusted again: contradictions before {rfc3339(moment)} no longer stop purchases there."
    )


async def _release(
    services: CliServices, node_class: str, where: tuple[str, str, str], how: str, begun: BegunSteps, *, yes: bool
) -> None:
    async with services.cluster(*where) as cluster:
        inventory = await cluster.inventory(ask=False)
        if node_class and not _is_suspended(inventory, node_class):
            said = f"class/{node_class} is not suspended. {standing(inventory)}"
        elif not node_class and inventory.hold is None:
            said = standing(inventory)
        else:
            _ask_first(inventory, node_class, yes=yes)
            begun.words = UNSURE
            if node_class:
                await cluster.suspend(node_class, suspended=False)
            else:
                await cluster.hold(None)
            inventory = await cluster.inventory(ask=False)
            said = f"{f'class/{node_class} is' if node_class else 'Purchases are'} released. {standing(inventory)}"
    _print(inventory, said, how, command="tgp release" if inventory.hold is not None else "tgp doctor")


def _ask_first(inventory: ClusterInventory, node_class: str, *, yes: bool) -> None:
    at_once = [buyer for buyer in freed(inventory, node_class) if buyer.at_once]
    if not at_once or yes:
        return
    click.echo("These may buy at once:", err=True)
    for line in purchase_lines(at_once, terminal_width()):
        click.echo(line.plain, err=True)
    if not agreed("Release anyway?", yes=yes):
        raise click.UsageError("Nothing was released. Without a terminal, add --yes.")


def freed(inventory: ClusterInventory, node_class: str) -> tuple[PendingPurchase, ...]:
    """What may buy again once this is released."""
    found = unsuspended(inventory, pending_purchases(inventory), but=node_class)
    if not node_class:
        return found
    return () if inventory.hold is not None else tuple(buyer for buyer in found if buyer.node_class == node_class)


def standing(inventory: ClusterInventory) -> str:
    suspended = [record.key.name for record in inventory.classes if record.value and record.value.spec.suspend]
    only = f" Suspended: {', '.join(f'class/{name}' for name in suspended)}." if suspended else ""
    if inventory.hold is not None:
        since = f" since {rfc3339(inventory.hold.since)}" if inventory.hold.since is not None else ""
        return f"Purchases are paused{since} ({inventory.hold.reason}). Terminations continue.{only}"
    return f"Purchases are not paused.{only}"


def _is_suspended(inventory: ClusterInventory, name: str) -> bool:
    """Raises UsageError where there is no such class, with the nearest names."""
    for record in inventory.classes:
        if record.key.name == name:
            return record.value is not None and record.value.spec.suspend
    near = get_close_matches(name, [record.key.name for record in inventory.classes], n=3)
    hint = f" Did you mean {', '.join(near)}?" if near else ""
    raise click.UsageError(f"There is no GPUNodeClass {name!r}.{hint}")


def _class_named(words: tuple[str, ...]) -> str:
    kind, slash, name = words[0].partition("/") if len(words) == 1 else ("", "", "")
    return name if slash and kind.lower() in CLASS_WORDS else ""


def _provider_named(words: tuple[str, ...]) -> str:
    """By its short name; empty: no provider is meant. Raises UsageError where there is none of that name."""
    kind, slash, name = words[0].partition("/") if len(words) == 1 else ("", "", "")
    if not slash or kind.lower() != "provider":
        return ""
    provider = canonical_provider(name)
    if provider not in PROVIDERS:
        raise click.UsageError(f"There is no provider {name!r}: choose one of {', '.join(sorted(PROVIDERS))}.")
    return provider


def _refuse_other_targets(words: tuple[str, ...]) -> None:
    """A user who names one object must not pause everything by it."""
    kind, slash, name = words[0].partition("/") if words else ("", "", "")
    if not slash:
        return
    if kind.lower() in CLASS_WORDS and len(words) > 1:
        raise click.UsageError(f"A class stores no reason, so nothing was suspended. Run: tgp hold class/{name}")
    if kind.lower() in OTHER_WORDS and len(words) == 1 and " " not in name:
        raise click.UsageError(
            f"{words[0]!r} cannot be paused alone; nothing was changed: tgp hold class/NAME suspends one class, "
            "tgp hold pauses all purchases."
        )


def _print(inventory: ClusterInventory, said: str, how: str, command: str) -> None:
    if how != "table":
        write(hold_report(inventory, said), how)
        return
    width = terminal_width()
    held = machine_costs(inventory)
    lines = [*wrapped(said, width, style="bold"), *wrapped(costing(held), width)]
    lines += machines_table(held, width) if held else []
    if may_buy := bought_after_release(inventory):
        head = "These buy after tgp release:" if inventory.hold is not None else "These may buy:"
        lines += [Text(head), *purchase_lines(may_buy, width)]
    lines += next_lines(command)
    show(Group(*lines), width)
