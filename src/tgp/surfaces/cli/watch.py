"""`tgp watch request/x`: follows one machine from plan to ready to gone, with times and money."""

import asyncio
import json
import sys
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

import click
from rich.console import Console
from rich.live import Live

from tgp.api.problem import Invalid
from tgp.api.values import duration
from tgp.core.model.key import Key
from tgp.ports.cluster import ClusterError
from tgp.surfaces.cli.interrupt import Begun, run
from tgp.surfaces.cli.next_step import next_lines
from tgp.surfaces.cli.output import terminal_width
from tgp.surfaces.cli.request_name import read_name
from tgp.surfaces.cli.story import Story, story_of, total
from tgp.surfaces.cli.watch_view import Look, Teller, as_document, render

NOT_REACHED = 1
ONLY_WATCHED = "Nothing was changed: the request goes on."


class Desk(Protocol):
    """A cluster's requests."""

    def follow(self, key: Key) -> AsyncGenerator[Look, None]:
        """Look after look, until closed; a cluster that cannot be asked is said in the look.

        An empty namespace is the kubeconfig's own. Raises NotFound where there never was such a request.
        """
        ...


class Hallway(Protocol):
    def requests(self, kubeconfig: str, context: str) -> AbstractAsyncContextManager[Desk]: ...


@dataclass(frozen=True, slots=True)
class Errand:
    """What was asked for on the command line."""

    key: Key
    until: str  # ready, gone; empty: to the end
    lasting: timedelta | None  # None: as long as it takes
    how: str


def _length(_ctx: click.Context, _param: click.Parameter, value: str | None) -> timedelta | None:
    try:
        return None if value is None else duration(value, "--timeout")
    except Invalid as error:
        raise click.BadParameter(error.problems[0].detail) from error


@click.command()
@click.argument("name", metavar="request/NAME")
@click.option("-n", "--namespace", default="", metavar="NAME", help="Default: the kubeconfig's.")
@click.option("--until", type=click.Choice(["ready", "gone"]), help="End there. Default: follow it to its end.")
@click.option("--timeout", callback=_length, metavar="LENGTH", help="Give up after that long: 90s, 10m.")
@click.option("-o", "--output", "how", type=click.Choice(["text", "json"]), default="text", show_default=True)
@click.option("--kubeconfig", default="", metavar="FILE", help="Default: $KUBECONFIG, ~/.kube/config.")
@click.option("--context", default="", metavar="NAME", help="Default: the kubeconfig's current one.")
@click.pass_obj
def watch(
    hallway: Hallway,
    *,
    name: str,
    namespace: str,
    until: str | None,
    timeout: timedelta | None,
    how: str,
    kubeconfig: str,
    context: str,
) -> None:
    """Follow one machine from plan to ready to gone, with times and money.

    Live on a terminal; one line for each change in a pipe, or one JSON document with -o json. Ends with 0: it got
    there; 1: it never will, or not in time. Without --until a request that failed ends with 1. Ctrl-C only ends the
    watching.
    """
    errand = Errand(read_name(name, namespace), until or "", timeout, how)
    try:
        code = run(_watch(hallway.requests(kubeconfig, context), errand), Begun(ONLY_WATCHED))
    except ClusterError as error:
        raise click.ClickException(str(error)) from error
    raise SystemExit(code)


async def _watch(connecting: AbstractAsyncContextManager[Desk], errand: Errand) -> int:
    seconds = errand.lasting.total_seconds() if errand.lasting is not None else None
    async with connecting as desk:
        screen = _screen(errand)
        try:
            async with asyncio.timeout(seconds):
                return await _followed(desk, errand, screen)
        except TimeoutError:
            screen.close()
            click.echo(f"Not {errand.until or 'over'} within {seconds:g} s; it goes on by itself.", err=True)
            return NOT_REACHED
        finally:
            screen.close()


async def _followed(desk: Desk, errand: Errand, screen: "Screen") -> int:
    story: Story | None = None
    async with aclosing(desk.follow(errand.key)) as looks:
        async for look in looks:
            if look.request is None:
                if look.trouble:
                    screen.trouble(look)
                    continue
                screen.gone(story, look)
                return NOT_REACHED if errand.until == "ready" else 0
            story = story_of(look.request, look.now)
            screen.show(story, look)
            if (code := verdict(story, errand.until)) is not None and not look.trouble:
                screen.end(story)
                return code
    return NOT_REACHED


def verdict(story: Story, until: str) -> int | None:
    """The exit code, once it is certain; None: not yet."""
    if until == "ready":
        if story.ready and not story.over and not story.final:
            return 0
        return NOT_REACHED if story.over or story.final else None
    if not story.over:
        return None
    return NOT_REACHED if story.failed and not until else 0


class Screen(Protocol):
    def show(self, story: Story, look: Look) -> None: ...
    def trouble(self, look: Look) -> None:
        """Before anything could be read."""
        ...

    def gone(self, story: Story | None, look: Look) -> None: ...
    def end(self, story: Story) -> None: ...
    def close(self) -> None: ...


def _screen(errand: Errand) -> Screen:
    if errand.how == "json":
        return JsonLines()
    return LiveScreen() if sys.stdout.isatty() else Lines()


class LiveScreen:
    """Redrawn in place, and left there at the end."""

    def __init__(self) -> None:
        console = Console(highlight=False)
        self._ascii = not (console.encoding or "").lower().startswith("utf")
        self._live = Live(console=console, auto_refresh=False, vertical_overflow="crop")
        self._live.start()

    def show(self, story: Story, look: Look) -> None:
        self._live.update(render(story, look, terminal_width(), ascii_only=self._ascii), refresh=True)

    def trouble(self, look: Look) -> None:
        self._live.update(f"! the cluster cannot be asked: {look.trouble}", refresh=True)

    def gone(self, story: Story | None, look: Look) -> None:
        self.close()
        _say_gone(story, look)

    def end(self, story: Story) -> None:
        self.close()
        _say_next(story)

    def close(self) -> None:
        self._live.stop()


class Lines:
    """One for each change."""

    def __init__(self) -> None:
        self._teller = Teller()
        self._troubled = False

    def show(self, story: Story, look: Look) -> None:
        for line in self._teller.tell(story, look):
            click.echo(line)
        sys.stdout.flush()  # whoever reads a pipe wants the line now

    def trouble(self, look: Look) -> None:
        if not self._troubled:
            click.echo(f"! the cluster cannot be asked: {look.trouble}")
        self._troubled = True

    def gone(self, story: Story | None, look: Look) -> None:
        _say_gone(story, look)

    def end(self, story: Story) -> None:
        _say_next(story)

    def close(self) -> None:
        """Nothing is open."""


class JsonLines:
    """One document to a line, whenever it says something else."""

    def __init__(self) -> None:
        self._told: dict[str, object] = {}

    def show(self, story: Story, look: Look) -> None:
        told = as_document(story, look.now)
        same = {name: value for name, value in told.items() if name not in {"at", "usdSpent"}}
        if same != self._told and not look.trouble:
            click.echo(json.dumps(told, ensure_ascii=False))
            sys.stdout.flush()
        self._told = same

    def trouble(self, look: Look) -> None:
        click.echo(f"the cluster cannot be asked: {look.trouble}", err=True)

    def gone(self, story: Story | None, look: Look) -> None:
        if story is not None:
            click.echo(json.dumps({**as_document(story, look.now), "phase": "Gone", "over": True}, ensure_ascii=False))

    def end(self, story: Story) -> None:
        """The last document says it."""

    def close(self) -> None:
        """Nothing is open."""


def _say_gone(story: Story | None, look: Look) -> None:
    spent = "" if story is None else f" It cost {total(story.spent_microusd)}, as far as was seen."
    click.echo(f"{look.now:%H:%M:%SZ} gone: the request is deleted, and its machine was given back.{spent}")


def _say_next(story: Story) -> None:
    for line in next_lines(next_command(story)):
        click.echo(line.plain)


def next_command(story: Story) -> str:
    if story.over:
        return f"tgp why {story.key}"
    if story.node:
        return f"kubectl describe node {story.node}"
    return f"tgp why {story.key}"
