"""The front door: `tgp`, which is also `kubectl tgp`.

Commands are listed here by name and imported when called, so that `tgp --help` answers within 150 ms.
"""

import importlib
import os
import sys
from typing import Any, NoReturn

import click

from tgp import __version__
from tgp.app.program import program
from tgp.surfaces.cli.called import RAN, readable
from tgp.surfaces.cli.interrupt import INTERRUPTED, Interrupted

COMMANDS = {  # name: where it lives, what it does
    "breakeven": ("tgp.surfaces.cli.breakeven:breakeven", "Rent or own: after how many hours a card pays for itself."),
    "check": ("tgp.surfaces.cli.check:check", "Try every key, and say what would follow. Nothing is spent."),
    "cost": ("tgp.surfaces.cli.cost:cost", "Show what was spent: by month, pool, provider, namespace, class or GPU."),
    "crds": ("tgp.surfaces.cli.crds:crds", "Print, apply or compare the custom resource definitions."),
    "demo": ("tgp.app.commands.demo:demo", "Run everything on an embedded world: no cluster, no account."),
    "doctor": ("tgp.surfaces.cli.doctor:doctor", "Ask the providers what they hold, and mend what does not fit."),
    "down": ("tgp.surfaces.cli.down:down", "Give everything of this cluster back, and prove it."),
    "hold": ("tgp.surfaces.cli.hold:hold", "Stop every purchase at once; giving back goes on."),
    "observe": ("tgp.app.commands.observe:observe", "Watch a real cluster: buy nothing, write nothing."),
    "offers": ("tgp.surfaces.cli.offers:offers", "Show what can be rented right now, and how sure that is."),
    "rent": ("tgp.surfaces.cli.rent:rent", "Rent one machine: show what it would be, ask, and write a request."),
    "release": ("tgp.surfaces.cli.hold:release", "Let purchases go on, after saying what will buy."),
    "sim": ("tgp.app.commands.sim:sim", "Serve a pretend market: every provider's API on a local port."),
    "operator": ("tgp.app.commands.operator:operator", "Run the operator in, or against, a cluster."),
    "mesh": ("tgp.surfaces.cli.mesh:mesh", "Print the access rules that a class needs in its tailnet."),
    "status": ("tgp.surfaces.cli.status:status", "Show what is rented now: phase, Node, price, when it ends, pods."),
    "talos": ("tgp.surfaces.cli.talos:talos", "Check templates, see a node's config, make the join Secret."),
    "watch": ("tgp.surfaces.cli.watch:watch", "Follow one machine from plan to ready to gone, with times and money."),
    "why": ("tgp.surfaces.cli.why:why", "Say what a request waits for, and what would change it."),
}


class LateGroup(click.Group):
    """A group that shows its commands' names without importing them."""

    def invoke(self, ctx: click.Context) -> Any:
        """Ctrl-C where no command answers it, between two imports say, ends like any other."""
        ctx.meta[RAN] = (*ctx._protected_args, *ctx.args)  # noqa: SLF001 - click's own words for what was typed
        try:
            return super().invoke(ctx)
        except (KeyboardInterrupt, click.Abort):
            raise Interrupted("") from None

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

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """As click does it, with the nearest name when there is no such command."""
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            import difflib

            near = difflib.get_close_matches(args[0], COMMANDS, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            ctx.fail(f"No such command {args[0]!r}.{hint}")
        return super().resolve_command(ctx, args)


@click.group(cls=LateGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="tgp")
@click.option(
    "--world",
    envvar="TGP_WORLD",
    default="",
    metavar="URL",
    help="a pretend market instead of the real one: where `tgp sim` or `tgp demo` listens (TGP_WORLD).",
)
@click.pass_context
def tgp(ctx: click.Context, world: str) -> None:
    """Rent GPU machines for a Talos cluster when pods need them, and give them back.

    Start with `tgp demo`: the whole operator on a world in memory.
    """
    from tgp.app.house import House

    ctx.obj = House(world)


def main() -> NoReturn:
    """Run the command line; errors of use end with 2, refusals with 1, and neither shows a traceback."""
    readable()
    try:
        tgp.main(prog_name="kubectl tgp" if sys.argv[0].endswith("kubectl-tgp") else program())
    except SystemExit as ended:
        if ended.code == INTERRUPTED:  # at once: Python would wait for threads first
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(INTERRUPTED)
        raise
    raise SystemExit(0)  # unreachable in standalone mode, but the type checker cannot know
