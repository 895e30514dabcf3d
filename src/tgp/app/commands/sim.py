"""`tgp sim`: every provider's simulator on a port of its own, for vendors' clients, `tgp offers` and experiments."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from typing import Any

import click
from rich.console import Group
from rich.text import Text

from tgp.adapters.clock import SystemClock
from tgp.adapters.clouds.registry import path_of
from tgp.adapters.http.client import HttpClient
from tgp.adapters.http.serve import NoFreePort, listen
from tgp.app.program import program
from tgp.app.view.live_view import Length, end_after, end_on_signals
from tgp.interfaces.cli.interrupt import run
from tgp.interfaces.cli.output import Formats, show, terminal_width, write
from tgp.interfaces.cli.sim import bill_table, clouds_table, fleet_table, menu_table
from tgp.ports.http import Call, HttpError, Reply, UnreadableReply, json_call
from tgp.services.documents import API_VERSION
from tgp.services.documents.simulation import BillDocument, FaultsDocument, FleetDocument
from tgp.sim.clouds.admin_api import PREFIX, AdminApi
from tgp.sim.clouds.cloud_faults import CloudFault, CloudVerb
from tgp.sim.clouds.registry import SIMULATORS, pretend

PORT = 8010  # the first; each provider takes the next free one
SEED = "sim"
WORLD = f"http://127.0.0.1:{PORT}"
FORMS = ("table", "json", "yaml")

_where = click.option("--world", default=WORLD, show_default=True, envvar="TGP_WORLD", help="where `tgp sim` listens.")
_form = click.option("-o", "--output", "form", type=Formats(FORMS), default="table", help="how to print it.")


@click.group(invoke_without_command=True)
@click.option("--port", type=click.IntRange(1, 65_000), default=PORT, show_default=True, help="the first port to try.")
@click.option("--seed", default=SEED, show_default=True, help="another seed, another market.")
@click.option("--for", "lasting", type=Length(), default=None, help="end after this time, such as 30s.")
@click.pass_context
def sim(ctx: click.Context, port: int, seed: str, lasting: timedelta | None) -> None:
    """Serve a simulated market: each provider's API on its own port.

    The vendors' own clients work with it, and so do `tgp offers` and `tgp check`. Prices change, offers sell out,
    machines boot and cost simulated money. Nothing real is bought.
    """
    if ctx.invoked_subcommand is None:
        try:
            asyncio.run(_serve(port, seed, lasting))
        except NoFreePort as error:
            raise click.ClickException(str(error)) from error


async def _serve(port: int, seed: str, lasting: timedelta | None) -> None:
    async with _served(port, seed) as market:
        ended = asyncio.Event()
        end_on_signals(ended)  # before the text that mentions Ctrl-C
        width = terminal_width()
        show(Group(*clouds_table(market.clouds(), width)), width)
        first = market.urls["simulated"]
        click.echo(f"\nFrom another terminal:\n  export TGP_WORLD={first}\n  {program()} offers")
        click.echo("The same works for check, sim fleet, sim bill and sim break. Ctrl-C ends.")
        async with asyncio.TaskGroup() as group:
            timer = group.create_task(end_after(lasting, ended, asyncio.sleep))
            await ended.wait()
            timer.cancel()
        show(Group(*bill_table(market.bill(), width)), width)


@asynccontextmanager
async def _served(port: int, seed: str) -> AsyncIterator[AdminApi]:
    clock = SystemClock()
    market = AdminApi({provider: pretend(provider, clock, seed) for provider in SIMULATORS})
    async with AsyncExitStack() as open_ports:
        # The simulated provider first: the first port is the documented one.
        for number, provider in enumerate(sorted(SIMULATORS, key=lambda name: (name != "simulated", name))):
            listening = await listen(market.beside(provider), port=port + number)
            open_ports.push_async_callback(listening.stop)
            market.urls[provider] = listening.url + path_of(provider)
        yield market


@sim.command()
@_where
@_form
def fleet(world: str, form: str) -> None:
    """Show the machines of the simulated market."""
    rows = _ask(world, Call("GET", PREFIX + "fleet"))["machines"]
    _print(
        form, FleetDocument(apiVersion=API_VERSION, kind="Fleet", machines=rows), fleet_table(rows, terminal_width())
    )


@sim.command()
@_where
@_form
def bill(world: str, form: str) -> None:
    """Show what the simulated accounts have spent, to the second."""
    rows = _ask(world, Call("GET", PREFIX + "bill"))["accounts"]
    _print(form, BillDocument(apiVersion=API_VERSION, kind="Bill", accounts=rows), bill_table(rows, terminal_width()))


@sim.command("break")
@click.argument("fault", type=click.Choice([each.value for each in CloudFault]), required=False, metavar="[FAULT]")
@click.option("--provider", type=click.Choice(sorted(SIMULATORS)), default="simulated", show_default=True)
@click.option("--verb", type=click.Choice([each.value for each in CloudVerb]), default=None, help="only for this call.")
@click.option("--times", type=click.IntRange(1, 1000), default=1, show_default=True, help="number of calls.")
@_where
@_form
def break_(*, fault: str | None, provider: str, verb: str | None, times: int, world: str, form: str) -> None:
    """Inject a fault into the next calls; without a name, list the faults."""
    if fault is None:
        rows = _ask(world, Call("GET", PREFIX + "faults"))["faults"]
        _print(
            form, FaultsDocument(apiVersion=API_VERSION, kind="Faults", faults=rows), menu_table(rows, terminal_width())
        )
        return
    order = {"fault": fault, "provider": provider, "verb": verb or "", "times": times}
    done = _ask(world, json_call("POST", PREFIX + "faults", order))
    calls = "call" if times == 1 else f"{times} calls"
    click.echo(f"Fault {fault} will hit the next {calls} at {done['at']} to which it applies.")


def _print(form: str, value: Mapping[str, Any], lines: list[Text]) -> None:
    if form == "table":
        show(Group(*lines), terminal_width())
    else:
        write(value, form)


def _ask(world: str, call: Call) -> dict[str, Any]:
    try:
        reply = run(_send(world, call))
        said = reply.json()
    except (HttpError, UnreadableReply, ValueError) as error:
        raise click.ClickException(
            f"No simulated market answers at {world} ({error}): start one with `tgp sim`."
        ) from error
    if not reply.ok or not isinstance(said, dict):
        raise click.ClickException(f"{world}: {said.get('error', said) if isinstance(said, dict) else said}")
    return said


async def _send(world: str, call: Call) -> Reply:
    http = HttpClient(world, SystemClock())
    try:
        return await http.send(call)
    finally:
        await http.close()
