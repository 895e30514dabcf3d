"""`tgp hold` and `tgp release`: the brake. Held, nothing is bought; giving back goes on."""

from difflib import get_close_matches
from typing import Any

import click
from rich.console import Group
from rich.text import Text

from tgp.api.common import PROVIDERS, canonical_provider
from tgp.api.values import rfc3339
from tgp.core.model.hold import Hold, new_hold
from tgp.core.model.survey import Survey
from tgp.core.rules.buyers import Buyer, buyers, unsuspended
from tgp.core.rules.holdings import holdings, hourly_total
from tgp.surfaces.cli.confirming import agreed
from tgp.surfaces.cli.holdings_view import buyer_item, buyers_lines, costing, machine_item, machines_table
from tgp.surfaces.cli.interrupt import Begun, run
from tgp.surfaces.cli.next_step import next_lines
from tgp.surfaces.cli.output import document, show, terminal_width, usd, wrapped, write
from tgp.surfaces.cli.premises import Hallway, Premises, cluster_options

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
UNSURE = "Whether purchases are held now is not known: tgp hold --status"

_output = click.option("-o", "--output", "how", type=click.Choice(OUTPUTS), default="table", show_default=True)


@click.command()
@click.argument("words", nargs=-1, metavar="[REASON | class/NAME]")
@click.option("--status", is_flag=True, help="Change nothing, and say how things stand.")
@_output
@cluster_options
@click.pass_obj
def hold(
    hallway: Hallway,
    *,
    words: tuple[str, ...],
    status: bool,
    how: str,
    kubeconfig: str,
    context: str,
    namespace: str,
) -> None:
    """Stop every purchase at once; giving back goes on.

    With class/NAME only that class stops buying (its spec.suspend). What is held already stays held, and is told.
    """
    _refuse_other_targets(words)
    begun = Begun()
    run(_hold(hallway, words, (kubeconfig, context, namespace), how, begun, status=status), begun)


async def _hold(
    hallway: Hallway, words: tuple[str, ...], where: tuple[str, str, str], how: str, begun: Begun, *, status: bool
) -> None:
    node_class = _class_named(words)
    async with hallway.premises(*where) as premises:
        before = await premises.survey(ask=False)
        if status:
            said = standing(before)
        else:
            begun.words = UNSURE
            said = await (
                _suspend(premises, before, node_class) if node_class else _brake(premises, before, " ".join(words))
            )
        after = before if status else await premises.survey(ask=False)
    _print(after, said, how, command="tgp release" if after.hold else "")


async def _suspend(premises: Premises, survey: Survey, name: str) -> str:
    if _is_suspended(survey, name):
        return f"class/{name} was held already: it buys nothing."
    await premises.suspend(name, suspended=True)
    return f"class/{name} is held: it buys nothing from now on. Giving back goes on."


async def _brake(premises: Premises, survey: Survey, reason: str) -> str:
    if survey.hold is not None and not reason:
        return standing(survey)
    since = survey.hold.since if survey.hold is not None else None
    fresh = new_hold(reason, survey.now)
    await premises.hold(Hold(fresh.reason, since or fresh.since))
    return f"Held: nothing is bought from now on ({fresh.reason}). Giving back goes on."


@click.command()
@click.argument("words", nargs=-1, metavar="[class/NAME | provider/NAME]")
@click.option("--yes", is_flag=True, help="Do not ask, whatever will be bought.")
@_output
@cluster_options
@click.pass_obj
def release(
    hallway: Hallway, *, words: tuple[str, ...], yes: bool, how: str, kubeconfig: str, context: str, namespace: str
) -> None:
    """Let purchases go on, after saying what will buy.

    With provider/NAME: purchases at a provider whose lists contradicted themselves or the Nodes (ProviderInconsistent)
    go on at once, because you looked at its console and found its lists to be right.
    """
    node_class, where, begun = _class_named(words), (kubeconfig, context, namespace), Begun("Nothing was released.")
    if provider := _provider_named(words):
        run(_trust(hallway, provider, where, begun), begun)
        return
    if words and not node_class:
        raise click.UsageError(
            f"{words[0]!r} cannot be released: say class/NAME or provider/NAME, or nothing for everything."
        )
    run(_release(hallway, node_class, where, how, begun, yes=yes), begun)


async def _trust(hallway: Hallway, provider: str, where: tuple[str, str, str], begun: Begun) -> None:
    async with hallway.premises(*where) as premises:
        moment = await premises.now()
        begun.words = f"Provider {provider} may be trusted again, or not: run the command once more."
        await premises.trust(provider, moment)
    click.echo(f"Provider {provider} is trusted again: contradictions before {rfc3339(moment)} stop no purchase there.")


async def _release(
    hallway: Hallway, node_class: str, where: tuple[str, str, str], how: str, begun: Begun, *, yes: bool
) -> None:
    async with hallway.premises(*where) as premises:
        survey = await premises.survey(ask=False)
        if node_class and not _is_suspended(survey, node_class):
            said = f"class/{node_class} is not held by itself. {standing(survey)}"
        elif not node_class and survey.hold is None:
            said = standing(survey)
        else:
            _ask_first(survey, node_class, yes=yes)
            begun.words = UNSURE
            if node_class:
                await premises.suspend(node_class, suspended=False)
            else:
                await premises.hold(None)
            survey = await premises.survey(ask=False)
            said = f"{f'class/{node_class}' if node_class else 'Everything'} is released. {standing(survey)}"
    _print(survey, said, how, command="tgp release" if survey.hold is not None else "tgp doctor")


def _ask_first(survey: Survey, node_class: str, *, yes: bool) -> None:
    at_once = [buyer for buyer in freed(survey, node_class) if buyer.at_once]
    if not at_once or yes:
        return
    click.echo("These may buy at once:", err=True)
    for line in buyers_lines(at_once, terminal_width()):
        click.echo(line.plain, err=True)
    if not agreed("Release all the same?", yes=yes):
        raise click.UsageError("nothing was released. Where nobody can be asked, say --yes.")


def freed(survey: Survey, node_class: str) -> tuple[Buyer, ...]:
    """Who may buy again once this is released."""
    found = unsuspended(survey, buyers(survey), but=node_class)
    if not node_class:
        return found
    return () if survey.hold is not None else tuple(buyer for buyer in found if buyer.node_class == node_class)


def standing(survey: Survey) -> str:
    suspended = [record.key.name for record in survey.classes if record.object and record.object.spec.suspend]
    only = f" Held by themselves: {', '.join(f'class/{name}' for name in suspended)}." if suspended else ""
    if survey.hold is not None:
        since = f" since {rfc3339(survey.hold.since)}" if survey.hold.since is not None else ""
        return f"Held{since}: nothing is bought ({survey.hold.reason}). Giving back goes on.{only}"
    return f"Not held: whoever needs a machine gets one.{only}"


def _is_suspended(survey: Survey, name: str) -> bool:
    """Raises UsageError where there is no such class, with the nearest names."""
    for record in survey.classes:
        if record.key.name == name:
            return record.object is not None and record.object.spec.suspend
    near = get_close_matches(name, [record.key.name for record in survey.classes], n=3)
    hint = f" Did you mean {', '.join(near)}?" if near else ""
    raise click.UsageError(f"there is no GPUNodeClass {name!r}.{hint}")


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
        raise click.UsageError(f"there is no provider {name!r}: say one of {', '.join(sorted(PROVIDERS))}.")
    return provider


def _refuse_other_targets(words: tuple[str, ...]) -> None:
    """Who names one thing must not stop everything by it."""
    kind, slash, name = words[0].partition("/") if words else ("", "", "")
    if not slash:
        return
    if kind.lower() in CLASS_WORDS and len(words) > 1:
        raise click.UsageError(f"a class keeps no reason, and nothing was held: tgp hold class/{name}")
    if kind.lower() in OTHER_WORDS and len(words) == 1 and " " not in name:
        raise click.UsageError(
            f"{words[0]!r} cannot be held by itself, and nothing was: tgp hold class/NAME stops one class, tgp hold "
            "stops everything."
        )


def _print(survey: Survey, said: str, how: str, command: str) -> None:
    if how != "table":
        write(as_document(survey, said), how)
        return
    width = terminal_width()
    held = holdings(survey)
    lines = [*wrapped(said, width, style="bold"), *wrapped(costing(held), width)]
    lines += machines_table(held, width) if held else []
    may_buy = unsuspended(survey, buyers(survey)) if survey.hold is None else buyers(survey)
    if may_buy:
        head = "These wait, and buy once released:" if survey.hold is not None else "These may buy:"
        lines += [Text(head), *buyers_lines(may_buy, width)]
    lines += next_lines(command)
    show(Group(*lines), width)


def as_document(survey: Survey, said: str) -> dict[str, Any]:
    held = holdings(survey)
    brake = survey.hold
    return document(
        "HoldReport",
        held=brake is not None,
        reason=brake.reason if brake is not None else None,
        since=rfc3339(brake.since) if brake is not None and brake.since is not None else None,
        heldClasses=[record.key.name for record in survey.classes if record.object and record.object.spec.suspend],
        message=said,
        usdPerHour=usd(hourly_total(held)),
        machines=[machine_item(one) for one in held],
        buyers=[buyer_item(buyer) for buyer in buyers(survey)],
    )
