"""`tgp watch request/x`: follows one machine from plan to ready to gone, with times and cost."""

import asyncio
import json
import sys
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol

import click
from rich.console import Console
from rich.live import Live

from tgp.api.field_error import Invalid
from tgp.api.values import duration
from tgp.core.model.money import total
from tgp.core.model.object_key import ObjectKey
from tgp.core.reports.request_timeline import RequestTimeline, timeline_of
from tgp.interfaces.cli.cluster_options import document_output, kubeconfig_options
from tgp.interfaces.cli.completion import live_names
from tgp.interfaces.cli.context import CliServices, RequestActions
from tgp.interfaces.cli.interrupt import BegunSteps, run
from tgp.interfaces.cli.next_step import next_lines
from tgp.interfaces.cli.output import terminal_width, write
from tgp.interfaces.cli.request_name import read_name
from tgp.interfaces.cli.watch_view import WatchPrinter, render
from tgp.ports.cluster import ClusterError
from tgp.services.documents.requests import request_timeline
from tgp.services.request_answers import Look

NOT_REACHED = 1
ONLY_WATCHED = "Nothing was changed: the request continues."


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """The arguments of the command line."""

    key: ObjectKey
    until: str  # ready, gone; empty: to the end
    lasting: timedelta | None  # None: no timeout
    how: str


def _length(_ctx: click.Context, _param: click.Parameter, value: str | None) -> timedelta | None:
    try:
        return None if value is None else duration(value, "--timeout")
    except Invalid as error:
        raise click.BadParameter(error.problems[0].detail) from error


@click.command()
@click.argument("name", metavar="request/NAME", shell_complete=live_names("request"))
@click.option("-n", "--namespace", default="", metavar="NAME", help="Default: the kubeconfig's.")
@click.option(
    "--until", type=click.Choice(["ready", "gone"]), help="Stop there. Default: follow the machine until it is gone."
)
@click.option("--timeout", callback=_length, metavar="DURATION", help="Give up after this time: 90s, 10m.")
@document_output
@kubeconfig_options
@click.pass_obj
def watch(
    services: CliServices,
    *,
    name: str,
    namespace: str,
    until: str | None,
    timeout: timedelta | None,
    how: str,
    kubeconfig: str,
    context: str,
) -> None:
    """Follow one machine from plan to ready to gone, with times and cost.

    Live on a terminal; one line for each change in a pipe, or one document with -o json or yaml. Exit code 0: the
    machine got there; 1: it never will, or not in time. Without --until the exit code of a failed request is 1.
    Ctrl-C ends the watching and changes nothing.
    """
    options = WatchOptions(read_name(name, namespace), until or "", timeout, how)
    try:
        code = run(_watch(services.requests(kubeconfig, context), options), BegunSteps(ONLY_WATCHED))
    except ClusterError as error:
        raise click.ClickException(str(error)) from error
    raise SystemExit(code)


async def _watch(connecting: AbstractAsyncContextManager[RequestActions], options: WatchOptions) -> int:
    seconds = options.lasting.total_seconds() if options.lasting is not None else None
    async with connecting as requests:
        screen = _screen(options)
        try:
            async with asyncio.timeout(seconds):
                return await _followed(requests, options, screen)
        except TimeoutError:
            screen.close()
            click.echo(
                f"The request is not {options.until or 'over'} after {seconds:g} s; the operator continues with it.",
                err=True,
            )
            return NOT_REACHED
        finally:
            screen.close()


async def _followed(requests: RequestActions, options: WatchOptions, screen: "WatchScreen") -> int:
    timeline: RequestTimeline | None = None
    async with aclosing(requests.follow(options.key)) as looks:
        async for look in looks:
            if look.request is None:
                if look.trouble:
                    screen.trouble(look)
                    continue
                screen.gone(timeline, look)
                return NOT_REACHED if options.until == "ready" else 0
            timeline = timeline_of(look.request, look.now)
            screen.show(timeline, look)
            if (code := verdict(timeline, options.until)) is not None and not look.trouble:
                screen.end(timeline)
                return code
    return NOT_REACHED


def verdict(timeline: RequestTimeline, until: str) -> int | None:
    """The exit code, once it is certain; None: not yet."""
    if until == "ready":
        if timeline.ready and not timeline.over and not timeline.final:
            return 0
        return NOT_REACHED if timeline.over or timeline.final else None
    if not timeline.over:
        return None
    return NOT_REACHED if timeline.failed and not until else 0


class WatchScreen(Protocol):
    def show(self, timeline: RequestTimeline, look: Look) -> None: ...
    def trouble(self, look: Look) -> None:
        """Before anything could be read."""
        ...

    def gone(self, timeline: RequestTimeline | None, look: Look) -> None: ...
    def end(self, timeline: RequestTimeline) -> None: ...
    def close(self) -> None: ...


def _screen(options: WatchOptions) -> WatchScreen:
    if options.how != "table":
        return DocumentLines(options.how)
    return LiveScreen() if sys.stdout.isatty() else LineScreen()


class LiveScreen:
    """Redrawn in place, and left there at the end."""

    def __init__(self) -> None:
        console = Console(highlight=False)
        self._ascii = not (console.encoding or "").lower().startswith("utf")
        self._live = Live(console=console, auto_refresh=False, vertical_overflow="crop")
        self._live.start()

    def show(self, timeline: RequestTimeline, look: Look) -> None:
        self._live.update(render(timeline, look, terminal_width(), ascii_only=self._ascii), refresh=True)

    def trouble(self, look: Look) -> None:
        self._live.update(f"! the cluster does not answer: {look.trouble}", refresh=True)

    def gone(self, timeline: RequestTimeline | None, look: Look) -> None:
        self.close()
        _say_gone(timeline, look)

    def end(self, timeline: RequestTimeline) -> None:
        self.close()
        _say_next(timeline)

    def close(self) -> None:
        self._live.stop()


class LineScreen:
    """One line for each change."""

    def __init__(self) -> None:
        self._printer = WatchPrinter()
        self._troubled = False

    def show(self, timeline: RequestTimeline, look: Look) -> None:
        for line in self._printer.lines(timeline, look):
            click.echo(line)
        sys.stdout.flush()  # the reader of a pipe needs the line now

    def trouble(self, look: Look) -> None:
        if not self._troubled:
            click.echo(f"! the cluster does not answer: {look.trouble}")
        self._troubled = True

    def gone(self, timeline: RequestTimeline | None, look: Look) -> None:
        _say_gone(timeline, look)

    def end(self, timeline: RequestTimeline) -> None:
        _say_next(timeline)

    def close(self) -> None:
        """Nothing is open."""


class DocumentLines:
    """One document whenever its content changes: a line of JSON, or a part of a YAML stream."""

    def __init__(self, how: str) -> None:
        self._how = how
        self._printed: dict[str, object] = {}

    def show(self, timeline: RequestTimeline, look: Look) -> None:
        current = request_timeline(timeline, look.now)
        same = {name: value for name, value in current.items() if name not in {"at", "usdSpent"}}
        if same != self._printed and not look.trouble:
            self._write(current)
        self._printed = same

    def _write(self, current: Mapping[str, Any]) -> None:
        if self._how == "json":
            click.echo(json.dumps(current, ensure_ascii=False))
        else:
            write(current, self._how)
        sys.stdout.flush()

    def trouble(self, look: Look) -> None:
        click.echo(f"the cluster does not answer: {look.trouble}", err=True)

    def gone(self, timeline: RequestTimeline | None, look: Look) -> None:
        if timeline is not None:
            self._write({**request_timeline(timeline, look.now), "phase": "Gone", "over": True})

    def end(self, timeline: RequestTimeline) -> None:
        """The last document is the end."""

    def close(self) -> None:
        """Nothing is open."""


def _say_gone(timeline: RequestTimeline | None, look: Look) -> None:
    spent = "" if timeline is None else f" Estimated cost: {total(timeline.spent_microusd)}."
    click.echo(f"{look.now:%H:%M:%SZ} gone: the request is deleted and its machine is terminated.{spent}")


def _say_next(timeline: RequestTimeline) -> None:
    for line in next_lines(next_command(timeline)):
        click.echo(line.plain)


def next_command(timeline: RequestTimeline) -> str:
    if timeline.over:
        return f"tgp why {timeline.key}"
    if timeline.node:
        return f"kubectl describe node {timeline.node}"
    return f"tgp why {timeline.key}"
