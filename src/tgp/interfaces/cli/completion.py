"""`tgp completion`: what a shell needs to complete commands, flags and the names of live objects."""

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem, get_completion_class

if TYPE_CHECKING:
    from tgp.interfaces.cli.context import CliServices
    from tgp.services.request_documents import ClusterStatus

PATIENCE_S = 2.0  # a shell waits while the user does
BUDGET = "budget/"
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


def live_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Requests and the Nodes of their machines; after `budget/` budgets. Nothing if no cluster answers in time."""
    del param
    services: CliServices | None = ctx.find_root().obj
    if services is None:
        return []
    where = (str(ctx.params.get("kubeconfig") or ""), str(ctx.params.get("context") or ""))
    namespace = str(ctx.params.get("namespace") or "")
    with suppress(Exception):  # whatever is wrong, a shell must show no traceback
        if incomplete.startswith(BUDGET):
            return asyncio.run(_budgets(services, where, namespace, incomplete))
        standing = asyncio.run(_standing(services, where, namespace))
        return [item for item in _items(standing) if str(item.value).startswith(incomplete)]
    return []


def budget_names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Budgets as NAMESPACE/NAME, which is how the commands for budgets take them."""
    found = live_names(ctx, param, f"{BUDGET}{incomplete}")
    return [CompletionItem(str(item.value).removeprefix(BUDGET), help=item.help) for item in found]


async def _budgets(
    services: "CliServices", where: tuple[str, str], namespace: str, incomplete: str
) -> list[CompletionItem]:
    async with asyncio.timeout(PATIENCE_S), services.budgets(*where) as budgets:
        board = await budgets.board(namespace)
    items = [CompletionItem(f"{BUDGET}{line.key}", help=line.budget.spec.enforcement.action) for line in board.lines]
    return [item for item in items if str(item.value).startswith(incomplete)]


async def _standing(services: "CliServices", where: tuple[str, str], namespace: str) -> "ClusterStatus":
    async with asyncio.timeout(PATIENCE_S), services.requests(*where) as requests:
        return await requests.standing(namespace)


def _items(standing: "ClusterStatus") -> list[CompletionItem]:
    found = []
    for request in standing.requests:
        name = f"{request.metadata.namespace}/{request.metadata.name}"
        found.append(CompletionItem(f"request/{name}", help=request.status.phase or ""))
        if request.status.node_name:
            found.append(CompletionItem(f"node/{request.status.node_name}", help=f"of request {name}"))
    return found
