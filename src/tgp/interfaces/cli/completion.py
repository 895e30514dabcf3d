"""`tgp completion`: what a shell needs to complete commands, flags and the names of live objects."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem, get_completion_class

if TYPE_CHECKING:
    from tgp.interfaces.cli.context import CliServices

PATIENCE_S = 2.0  # a shell waits while the user does
BUDGET = "budget"
PROGRAM, VARIABLE = "tgp", "_TGP_COMPLETE"
SETUP = {
    "bash": "echo 'eval \"$(tgp completion bash)\"' >> ~/.bashrc",
    "zsh": "echo 'eval \"$(tgp completion zsh)\"' >> ~/.zshrc",
    "fish": "tgp completion fish > ~/.config/fish/completions/tgp.fish",
}


@click.command(epilog="\b\nOnce for every new shell:\n" + "\n".join(f"  {each}" for each in SETUP.values()))
@click.argument("shell", type=click.Choice(list(SETUP)))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print a script that completes commands, flags and names of objects in a shell.

    For kubectl nothing has to be set up: `kubectl tgp` completes as soon as kubectl's own completion does.
    """
    found = get_completion_class(shell)
    assert found is not None, shell
    click.echo(found(ctx.find_root().command, {}, PROGRAM, VARIABLE).source())


Completer = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def live_names(*kinds: str, bare: bool = False) -> Completer:
    """Names of these kinds as KIND/NAME; with `bare` without the kind. Nothing if no cluster answers in time."""

    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        del param
        services: CliServices | None = ctx.find_root().obj
        wanted = [kind for kind in kinds if bare or _may_be(f"{kind}/", incomplete)]
        if services is None or not wanted:
            return []
        where = (str(ctx.params.get("kubeconfig") or ""), str(ctx.params.get("context") or ""))
        namespace = str(ctx.params.get("namespace") or "")
        with suppress(Exception):  # whatever is wrong, a shell must show no traceback
            found = asyncio.run(_found(services, where, wanted, namespace))
            items = [(name if bare else f"{kind}/{name}", words) for kind, name, words in found]
            return [CompletionItem(value, help=words) for value, words in items if value.startswith(incomplete)]
        return []

    return complete


def _may_be(start: str, incomplete: str) -> bool:
    return incomplete.startswith(start) or start.startswith(incomplete)


async def _found(
    services: "CliServices", where: tuple[str, str], kinds: Sequence[str], namespace: str
) -> list[tuple[str, str, str]]:
    """Each as its kind, its name and what it is."""
    found = []
    async with asyncio.timeout(PATIENCE_S):
        if BUDGET in kinds:
            async with services.budgets(*where) as budgets:
                board = await budgets.board(namespace)
            found += [(BUDGET, str(line.key), line.budget.spec.enforcement.action) for line in board.lines]
        others = [kind for kind in kinds if kind != BUDGET]
        if others:
            async with services.requests(*where) as requests:
                for kind in others:
                    found += [(kind, name, words) for name, words in await requests.names(kind, namespace)]
    return found
