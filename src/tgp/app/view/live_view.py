"""Shows a running operator until the user ends it: live on a terminal, as lines elsewhere.

A task that ends early ends the run with its error, so nothing waits for a task that is gone.
"""

import asyncio
import os
import signal
import sys
import termios
import tty
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol

import click
from rich.console import Console
from rich.live import Live

from tgp.api.field_error import Invalid
from tgp.api.values import duration
from tgp.interfaces.terminal.keys import Glance, keys_in
from tgp.interfaces.terminal.lines import SnapshotLines
from tgp.interfaces.terminal.screen import TerminalScreen
from tgp.interfaces.terminal.snapshot import Snapshot

FRAME_EVERY = 0.25  # seconds of real time
LINES_EVERY = 0.5
LEAVES_WITHIN = 60.0  # seconds of the simulated world: running reconciles, last Events and the Lease need a few
ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

Sleep = Callable[[float], Awaitable[None]]  # seconds of real time, however fast the simulated world runs
Snapshots = Callable[[], Snapshot]


class EndedEarly(Exception):
    """A task returned before the end was requested."""


class AnyView(Protocol):
    async def run(self) -> None:
        """Show one snapshot after another until cancelled."""
        ...


class LiveView:
    """On the terminal's alternate screen; the previous content returns at the end."""

    def __init__(self, snapshots: Snapshots, sleep: Sleep, console: Console, end: Callable[[], None]) -> None:
        self._snapshots = snapshots
        self._sleep = sleep
        self._console = console
        self._end = end
        self._glance = Glance()

    async def run(self) -> None:
        with (
            keys_from_terminal(self._pressed) as keys,
            Live(
                console=self._console, screen=True, auto_refresh=False, redirect_stdout=False, redirect_stderr=False
            ) as live,
        ):
            while True:
                snapshot = self._snapshots()
                self._glance = self._glance.within(snapshot.objects)
                live.update(TerminalScreen(snapshot, self._glance if keys else None), refresh=True)
                await self._sleep(FRAME_EVERY)

    def _pressed(self, key: str) -> None:
        self._glance = self._glance.after(key)
        if self._glance.ends:
            self._end()


class LineView:
    """One line for each change."""

    def __init__(self, snapshots: Snapshots, sleep: Sleep, say: Callable[[str], None]) -> None:
        self._snapshots = snapshots
        self._sleep = sleep
        self._say = say
        self._printer = SnapshotLines()

    async def run(self) -> None:
        while True:
            self.print_changes()
            await self._sleep(LINES_EVERY)

    def print_changes(self) -> None:
        for line in self._printer.lines(self._snapshots()):
            self._say(line)


def drawable(*, lines: bool) -> bool:
    """Whether the terminal can be drawn on and --lines was not given."""
    return not lines and sys.stdout.isatty() and not Console().is_dumb_terminal


def view_for(snapshots: Snapshots, sleep: Sleep, *, lines: bool, end: Callable[[], None]) -> AnyView:
    """Live if possible; the key q calls `end`. rich honours NO_COLOR."""
    if drawable(lines=lines):
        return LiveView(snapshots, sleep, Console(), end)
    return LineView(snapshots, sleep, click.echo)


@dataclass(frozen=True)
class Work:
    """The operator: it runs until `stop`, and then needs a moment to shut down."""

    run: Callable[[], Coroutine[Any, Any, None]]
    stop: Callable[[], None]


async def play(ended: asyncio.Event, work: Work, view: AnyView, *background: Coroutine[Any, Any, None]) -> None:
    """Until `ended` is set; then the view stops first, the work shuts down, and the rest is cancelled.

    A task that returns or raises before that ends the run: with `EndedEarly`, or with its error.
    """
    asked = asyncio.create_task(ended.wait(), name="asked to end")
    working = asyncio.create_task(work.run(), name="the operator")
    showing = asyncio.create_task(view.run(), name="the view")
    others = [asyncio.create_task(one, name=getattr(one, "__qualname__", "a helper")) for one in background]
    tasks = [working, showing, *others]
    try:
        await asyncio.wait([asked, *tasks], return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            if task.done():
                task.result()
                if not ended.is_set():
                    raise EndedEarly(f"{task.get_name()} ended unexpectedly")
    finally:
        await _stopped(asked, showing)
        work.stop()
        await asyncio.wait([working], timeout=LEAVES_WITHIN)
        await _stopped(working, *others)


async def _stopped(*tasks: "asyncio.Task[Any]") -> None:
    """Cancel them and wait until each has ended. Their errors are ignored."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def end_on_signals(ended: asyncio.Event) -> None:
    """The first signal shuts down gracefully; the second one kills the process."""
    loop = asyncio.get_running_loop()

    def asked(number: signal.Signals) -> None:
        loop.remove_signal_handler(number)
        ended.set()

    for number in ENDINGS:
        with suppress(NotImplementedError):  # a loop without signal handlers
            loop.add_signal_handler(number, asked, number)


async def end_after(length: timedelta | None, ended: asyncio.Event, sleep: Sleep) -> None:
    """Set `ended` after this much real time; None: never."""
    if length is not None:
        await sleep(length.total_seconds())
        ended.set()
    await ended.wait()


class Length(click.ParamType[timedelta]):
    """A duration on the command line: 30s, 5m, 1h30m."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        if isinstance(value, timedelta):
            return value
        try:
            length = duration(str(value), "")
        except Invalid as error:
            self.fail(f"{value!r} {error.problems[0].detail}", param, ctx)
        if length <= timedelta():
            self.fail(f"{value!r} is not longer than zero", param, ctx)
        return length


CHUNK = 1024  # bytes; a user types fewer at a time


@contextmanager
def keys_from_terminal(pressed: Callable[[str], None]) -> Iterator[bool]:
    """Each key as it is pressed, for as long as the block lasts. False: there is no terminal to read."""
    file = _terminal()
    if file is None:
        yield False
        return
    loop, before = asyncio.get_running_loop(), termios.tcgetattr(file)

    def read() -> None:
        try:
            text = os.read(file, CHUNK).decode(errors="ignore")
        except BlockingIOError:
            return
        except OSError:  # the terminal is gone; SIGHUP says so, too
            text = ""
        if not text:
            loop.remove_reader(file)
        for key in keys_in(text):
            pressed(key)

    tty.setcbreak(file, termios.TCSADRAIN)  # Ctrl-C and Ctrl-Z still send signals
    try:
        loop.add_reader(file, read)
        yield True
    finally:
        loop.remove_reader(file)
        with suppress(termios.error):  # the terminal is gone
            termios.tcsetattr(file, termios.TCSADRAIN, before)


def _terminal() -> int | None:
    """Only if this process is in the foreground: in the background, reading the settings would stop it."""
    try:
        file = sys.stdin.fileno()
        return file if os.isatty(file) and os.tcgetpgrp(file) == os.getpgrp() else None
    except (OSError, ValueError, AttributeError):  # stdin is closed or not a file
        return None
