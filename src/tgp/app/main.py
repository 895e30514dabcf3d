"""The program `tgp`, which is also `kubectl tgp`.

Commands are listed here by name and imported when called, so that `tgp --help` answers within 150 ms.
"""

import importlib
import os
import sys
from typing import TYPE_CHECKING, Any, NoReturn

import click

from tgp import __version__
from tgp.app.program import program
from tgp.interfaces.cli.called import RAN, readable
from tgp.interfaces.cli.interrupt import INTERRUPTED, Interrupted

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

COMMANDS = {  # name: where it lives, what it does
    "breakeven": (
        "tgp.interfaces.cli.breakeven:breakeven",
        "Rent or buy: after how many hours a GPU of your own is cheaper.",
    ),
    "check": ("tgp.interfaces.cli.check:check", "Try every API key and list what is missing. Nothing is spent."),
    "completion": (
        "tgp.interfaces.cli.completion:completion",
        "Print a script that completes commands and names in bash, zsh or fish.",
    ),
    "cost": ("tgp.interfaces.cli.cost:cost", "Show what was spent: by month, pool, provider, namespace, class or GPU."),
    "crds": ("tgp.interfaces.cli.crds:crds", "Print, apply or compare the custom resource definitions."),
    "demo": ("tgp.app.commands.demo:demo", "Run the operator in a simulated world: no cluster, no account."),
    "doctor": (
        "tgp.interfaces.cli.doctor:doctor",
        "Compare the providers' lists with the cluster, and fix differences.",
    ),
    "down": ("tgp.interfaces.cli.down:down", "Terminate every machine of this cluster, and prove it."),
    "hold": ("tgp.interfaces.cli.hold:hold", "Pause all purchases; terminations continue."),
    "init": ("tgp.interfaces.cli.init:init", "Set up keys, join Secret, a first class and pool. Nothing is bought."),
    "import": (
        "tgp.interfaces.cli.import_files:import_files",
        "Convert manifests, Helm values or variables of tgp's ancestors.",
    ),
    "node": ("tgp.interfaces.cli.node:node", "Test whether a machine you own can be powered on and off."),
    "nodes": ("tgp.interfaces.cli.nodes:nodes", "Show rented machines and your own: GPUs in use, price, age, address."),
    "observe": ("tgp.app.commands.observe:observe", "Show a real cluster live: buy nothing, write nothing."),
    "offers": ("tgp.interfaces.cli.offers:offers", "Show the offers on sale now: price, age, availability."),
    "plan": ("tgp.interfaces.cli.plan:plan", "Show which machines would be bought for pods that wait, and why."),
    "budgets": (
        "tgp.interfaces.cli.budgets:budgets",
        "Show GPU-hour budgets; simulate, top up, reset, report.",
    ),
    "rent": ("tgp.interfaces.cli.rent:rent", "Rent one machine: show the offer, ask, and write a GPURequest."),
    "release": ("tgp.interfaces.cli.hold:release", "Resume purchases, after listing what will buy."),
    "schema": ("tgp.interfaces.cli.schema:schema", "Print the JSON Schema of a document of -o json."),
    "sim": ("tgp.app.commands.sim:sim", "Serve a simulated market: every provider's API on a local port."),
    "operator": ("tgp.app.commands.operator:operator", "Run the operator in, or against, a cluster."),
    "mesh": ("tgp.interfaces.cli.mesh:mesh", "Print the access rules that a class needs in its tailnet."),
    "status": ("tgp.interfaces.cli.status:status", "Show what is rented now: phase, Node, price, end time, pods."),
    "talos": ("tgp.interfaces.cli.talos:talos", "Check templates, print a node's config, create the join Secret."),
    "watch": ("tgp.interfaces.cli.watch:watch", "Follow one machine from plan to ready to gone, with times and cost."),
    "why": (
        "tgp.interfaces.cli.why:why",
        "Explain what a request, pod, Node, pool or budget waits for, and what would help.",
    ),
}


# What people type who know other tools → what it is called here.
OTHER_WORDS = {
    "install": "init",
    "setup": "init",
    "uninstall": "down",
    "destroy": "down",
    "teardown": "down",
    "list": "status",
    "ls": "status",
    "get": "status",
    "describe": "why",
    "explain": "why",
    "prices": "offers",
    "pause": "hold",
    "resume": "release",
    "migrate": "import",
    "version": "--version",
    "help": "--help",
}


class LazyGroup(click.Group):
    """A group that shows its commands' names without importing them."""

    def invoke(self, ctx: click.Context) -> Any:
        """Ctrl-C that no command handles, between two imports for example, ends the program in the same way."""
        ctx.meta[RAN] = (*ctx._protected_args, *ctx.args)  # noqa: SLF001 - click's own record of the arguments
        try:
            return super().invoke(ctx)
        except (KeyboardInterrupt, click.Abort):
            raise Interrupted("") from None
        except click.ClickException as error:
            from tgp.interfaces.cli.failure import with_next_step

            raise with_next_step(error, ctx.meta[RAN]) from error.__cause__

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl([(name, doc) for name, (_, doc) in sorted(COMMANDS.items())])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem]":
        """With whole sentences, and without importing every command: a shell waits for it."""
        from click.shell_completion import CompletionItem

        named = [
            CompletionItem(name, help=doc) for name, (_, doc) in sorted(COMMANDS.items()) if name.startswith(incomplete)
        ]
        return [*named, *click.Command.shell_complete(self, ctx, incomplete)]

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """As click does it, with the nearest name when there is no such command."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            import difflib

            near = (
                [OTHER_WORDS[args[0]]] if args[0] in OTHER_WORDS else difflib.get_close_matches(args[0], COMMANDS, n=1)
            )
            hint = f" Did you mean {near[0]!r}?" if near else ""
            ctx.fail(f"No such command {args[0]!r}.{hint}")
        return super().resolve_command(ctx, args)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="tgp")
@click.option(
    "--world",
    envvar="TGP_WORLD",
    default="",
    metavar="URL",
    help="URL of a simulated market instead of the real providers: where `tgp sim` or `tgp demo` listens (TGP_WORLD).",
)
@click.pass_context
def tgp(ctx: click.Context, world: str) -> None:
    """Rent GPU machines for a Talos cluster when pods need them, and terminate them afterwards.

    Start with `tgp demo`: the whole operator in a simulated world.
    """
    from tgp.app.cli_context import CliContext
    from tgp.interfaces.cli.context import CliServices

    services: CliServices = CliContext(world)
    ctx.obj = services


def _completing() -> dict[str, Any]:
    """While a shell asks for completions no command runs: the names of live objects are looked up all the same."""
    if "_TGP_COMPLETE" not in os.environ:
        return {}
    from tgp.app.cli_context import CliContext

    return {"obj": CliContext(os.environ.get("TGP_WORLD", ""))}


def kubectl_complete() -> NoReturn:
    """What kubectl starts to complete `kubectl tgp …`: the words so far, the last of them unfinished."""
    from click.shell_completion import ShellComplete

    from tgp.app.cli_context import CliContext

    *before, last = sys.argv[1:] or [""]
    asked = ShellComplete(tgp, {"obj": CliContext(os.environ.get("TGP_WORLD", ""))}, "tgp", "_TGP_COMPLETE")
    for item in asked.get_completions(before, last):
        click.echo(f"{item.value}\t{item.help}" if item.help else item.value)
    click.echo(":4")  # kubectl: offer no names of files
    raise SystemExit(0)


def main() -> NoReturn:
    """Run the command line; errors of use end with 2, refusals with 1, and neither shows a traceback."""
    readable()
    try:
        tgp.main(prog_name="kubectl tgp" if sys.argv[0].endswith("kubectl-tgp") else program(), **_completing())
    except SystemExit as ended:
        if ended.code == INTERRUPTED:  # at once: Python would wait for threads first
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(INTERRUPTED)
        raise
    raise SystemExit(0)  # unreachable in standalone mode, but the type checker cannot know
