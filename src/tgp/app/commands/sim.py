"""`tgp sim`: every provider's simulator on a port of its own, for vendors' clients, `tgp offers` and experiments."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from typing import Any

import click
from rich.console import Group
from rich.text import Text

from tgp.adapters.clock import SystemClock
from tgp.adapters.http.client import HttpClient
from tgp.adapters.http.serve import NoFreePort, listen
from tgp.app.clouds import path_of
from tgp.app.program import program
from tgp.app.view.show import Length, end_after, end_on_signals
from tgp.ports.http import Call, HttpError, Reply, Unreadable, json_call
from tgp.sim.clouds.desk import PREFIX, Desk
from tgp.sim.clouds.everyone import SIMULATORS, pretend
from tgp.sim.clouds.mishaps import Mishap, Verb
from tgp.surfaces.cli.interrupt import run
from tgp.surfaces.cli.output import document, show, terminal_width, write
from tgp.surfaces.cli.sim import bill_table, clouds_table, fleet_table, menu_table

PORT = 8010  # the first; each provider takes the next free one
SEED = "sim"
WORLD = f"http://127.0.0.1:{PORT}"
FORMS = ("table", "json", "yaml")

_where = click.option("--world", default=WORLD, show_default=True, envvar="TGP_WORLD", help="where `tgp sim` listens.")
_form = click.option("-o", "--output", "form", type=click.Choice(FORMS), default="table", help="how to print it.")


@click.group(invoke_without_command=True)
@click.option("--port", type=click.IntRange(1, 65_000), default=PORT, show_default=True, help="the first port to try.")
@click.option("--seed", default=SEED, show_default=True, help="another seed, another market.")
@click.option("--for", "lasting", type=Length(), default=None, help="end by itself after that long, as 30s.")
@click.pass_context
def sim(ctx: click.Context, port: int, seed: str, lasting: timedelta | None) -> None:
    """Serve a pretend market: each provider's API on a port of its own.

    Vendors' own clients work with it, and so do `tgp offers` and `tgp check`. Prices move, offers sell out, machines
    boot and cost pretend money. Nothing here is real, and nothing is bought.
    """
    if ctx.invoked_subcommand is None:
        try:
            asyncio.run(_serve(port, seed, lasting))
        except NoFreePort as error:
            raise click.ClickException(str(error)) from error


async def _serve(port: int, seed: str, lasting: timedelta | None) -> None:
    async with _served(port, seed) as desk:
        ended = asyncio.Event()
        end_on_signals(ended)  # before anybody is told that Ctrl-C ends it
        width = terminal_width()
        show(Group(*clouds_table(desk.clouds(), width)), width)
        first = desk.urls["simulated"]
        click.echo(f"\nFrom another terminal:\n  export TGP_WORLD={first}\n  {program()} offers")
        click.echo("and check, sim fleet, sim bill, sim break likewise. Ctrl-C ends.")
        async with asyncio.TaskGroup() as group:
            timer = group.create_task(end_after(lasting, ended, asyncio.sleep))
            await ended.wait()
            timer.cancel()
        show(Group(*bill_table(desk.bill(), width)), width)


@asynccontextmanager
async def _served(port: int, seed: str) -> AsyncIterator[Desk]:
    clock = SystemClock()
    desk = Desk({provider: pretend(provider, clock, seed) for provider in SIMULATORS})
    async with AsyncExitStack() as open_ports:
        # The simulated provider first: the first port is where everybody looks.
        for number, provider in enumerate(sorted(SIMULATORS, key=lambda name: (name != "simulated", name))):
            listening = await listen(desk.beside(provider), port=port + number)
            open_ports.push_async_callback(listening.stop)
            desk.urls[provider] = listening.url + path_of(provider)
        yield desk


@sim.command()
@_where
@_form
def fleet(world: str, form: str) -> None:
    """Show the machines that run in it."""
    rows = _ask(world, Call("GET", PREFIX + "fleet"))["machines"]
    _print(form, document("Fleet", machines=rows), fleet_table(rows, terminal_width()))


@sim.command()
@_where
@_form
def bill(world: str, form: str) -> None:
    """Show what its accounts have spent, to the second."""
    rows = _ask(world, Call("GET", PREFIX + "bill"))["accounts"]
    _print(form, document("Bill", accounts=rows), bill_table(rows, terminal_width()))


@sim.command("break")
@click.argument("mishap", type=click.Choice([each.value for each in Mishap]), required=False, metavar="[MISHAP]")
@click.option("--provider", type=click.Choice(sorted(SIMULATORS)), default="simulated", show_default=True)
@click.option("--verb", type=click.Choice([each.value for each in Verb]), default=None, help="only there.")
@click.option("--times", type=click.IntRange(1, 1000), default=1, show_default=True, help="so many calls.")
@_where
@_form
def break_(*, mishap: str | None, provider: str, verb: str | None, times: int, world: str, form: str) -> None:
    """Let something go wrong with the next calls; without a name, show the menu."""
    if mishap is None:
        rows = _ask(world, Call("GET", PREFIX + "mishaps"))["mishaps"]
        _print(form, document("Mishaps", mishaps=rows), menu_table(rows, terminal_width()))
        return
    order = {"mishap": mishap, "provider": provider, "verb": verb or "", "times": times}
    done = _ask(world, json_call("POST", PREFIX + "mishaps", order))
    calls = "call" if times == 1 else f"{times} calls"
    click.echo(f"The next {calls} at {done['at']} that {mishap} can befall will meet it.")


def _print(form: str, value: dict[str, Any], lines: list[Text]) -> None:
    if form == "table":
        show(Group(*lines), terminal_width())
    else:
        write(value, form)


def _ask(world: str, call: Call) -> dict[str, Any]:
    try:
        reply = run(_send(world, call))
        said = reply.json()
    except (HttpError, Unreadable, ValueError) as error:
        raise click.ClickException(f"no pretend market at {world} ({error}): start one with `tgp sim`") from error
    if not reply.ok or not isinstance(said, dict):
        raise click.ClickException(f"{world}: {said.get('error', said) if isinstance(said, dict) else said}")
    return said


async def _send(world: str, call: Call) -> Reply:
    http = HttpClient(world, SystemClock())
    try:
        return await http.send(call)
    finally:
        await http.close()
