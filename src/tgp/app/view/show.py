"""Shows a running operator to a person until they have seen enough: live on a terminal, in lines elsewhere.

Whoever ends before its time ends the show with what it raised: nothing here waits for something that is already gone.
"""

import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol

import click
from rich.console import Console
from rich.live import Live

from tgp.api.problem import Invalid
from tgp.api.values import duration
from tgp.app.view.keyboard import keys_from_terminal
from tgp.surfaces.terminal.keys import Glance
from tgp.surfaces.terminal.lines import Teller
from tgp.surfaces.terminal.scene import Scene
from tgp.surfaces.terminal.screen import Screen

FRAME_EVERY = 0.25  # seconds on the wall: quick enough to look alive, slow enough to read
LINES_EVERY = 0.5
LEAVES_WITHIN = 60.0  # seconds of the world: turns under way, last Events and the Lease need a few
ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

Sleep = Callable[[float], Awaitable[None]]  # so many seconds on the wall, however fast the world runs
Scenes = Callable[[], Scene]


class EndedEarly(Exception):
    """A part of the show returned although nobody had asked it to."""


class View(Protocol):
    async def run(self) -> None:
        """Show one scene after another until cancelled."""
        ...


class LiveView:
    """On the terminal's other screen, which goes away with us and leaves what was there before."""

    def __init__(self, scenes: Scenes, sleep: Sleep, console: Console, end: Callable[[], None]) -> None:
        self._scenes = scenes
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
                scene = self._scenes()
                self._glance = self._glance.within(scene.things)
                live.update(Screen(scene, self._glance if keys else None), refresh=True)
                await self._sleep(FRAME_EVERY)

    def _pressed(self, key: str) -> None:
        self._glance = self._glance.after(key)
        if self._glance.ends:
            self._end()


class LineView:
    """One line for each thing that changed."""

    def __init__(self, scenes: Scenes, sleep: Sleep, say: Callable[[str], None]) -> None:
        self._scenes = scenes
        self._sleep = sleep
        self._say = say
        self._teller = Teller()

    async def run(self) -> None:
        while True:
            self.tell()
            await self._sleep(LINES_EVERY)

    def tell(self) -> None:
        for line in self._teller.tell(self._scenes()):
            self._say(line)


def drawable(*, lines: bool) -> bool:
    """Whether there is a terminal that can be drawn on, and nobody asked for lines."""
    return not lines and sys.stdout.isatty() and not Console().is_dumb_terminal


def view_for(scenes: Scenes, sleep: Sleep, *, lines: bool, end: Callable[[], None]) -> View:
    """Live where that is possible; a key there calls `end`. NO_COLOR is rich's to honour, and it does."""
    if drawable(lines=lines):
        return LiveView(scenes, sleep, Console(), end)
    return LineView(scenes, sleep, click.echo)


@dataclass(frozen=True)
class Work:
    """What is shown: it runs until `stop`, and then takes a moment to leave in good order."""

    run: Callable[[], Coroutine[Any, Any, None]]
    stop: Callable[[], None]


async def play(ended: asyncio.Event, work: Work, view: View, *background: Coroutine[Any, Any, None]) -> None:
    """Until `ended` is set; then the view goes first, the work may leave in good order, and the rest is cancelled.

    Whoever returns or raises before that ends the show: with `EndedEarly`, or with what it raised.
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
                    raise EndedEarly(f"{task.get_name()} ended by itself")
    finally:
        await _stopped(asked, showing)
        work.stop()
        await asyncio.wait([working], timeout=LEAVES_WITHIN)
        await _stopped(working, *others)


async def _stopped(*tasks: "asyncio.Task[Any]") -> None:
    """Cancel them and wait until each is over. What they say on their way out is not news."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def end_on_signals(ended: asyncio.Event) -> None:
    """The first signal ends the show well; the second ends the process as it stands."""
    loop = asyncio.get_running_loop()

    def asked(number: signal.Signals) -> None:
        loop.remove_signal_handler(number)
        ended.set()

    for number in ENDINGS:
        with suppress(NotImplementedError):  # a loop without signals has a terminal without them
            loop.add_signal_handler(number, asked, number)


async def end_after(length: timedelta | None, ended: asyncio.Event, sleep: Sleep) -> None:
    """Set `ended` after so much wall time; None: never by itself."""
    if length is not None:
        await sleep(length.total_seconds())
        ended.set()
    await ended.wait()


class Length(click.ParamType[timedelta]):
    """A length of time on the command line: 30s, 5m, 1h30m."""

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
