"""`tgp demo`: the whole operator on an embedded world, live in this terminal. No cluster, no account, no Docker."""

import asyncio
import shlex
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import click

from tgp import __version__
from tgp.adapters.clock import SystemClock
from tgp.adapters.entropy import SystemEntropy
from tgp.adapters.http.client import HttpClient, Pool
from tgp.adapters.http.serve import NoFreePort, listen
from tgp.app.dialling import Switchboard
from tgp.app.embedded import kubeconfig
from tgp.app.embedded.guest import Guest, settings_at
from tgp.app.embedded.market import EmbeddedDial
from tgp.app.embedded.pace import pace_in_words, world_seconds
from tgp.app.embedded.steady import SteadyLoop
from tgp.app.embedded.world import EmbeddedWorld
from tgp.app.program import program
from tgp.app.view.ears import Ears
from tgp.app.view.facts import Unheard
from tgp.app.view.scene import Frame, Gatherer, Sources
from tgp.app.view.show import EndedEarly, Length, Work, end_after, end_on_signals, play, view_for
from tgp.sim.scaled import BEGAN_AGO, FACTOR, ScaledClock
from tgp.surfaces.terminal.scene import Scene
from tgp.surfaces.terminal.summary import Outcome, summary

PORT = 8001  # where people know `kubectl proxy` from
FASTEST = 600.0  # beyond it one turn of the loop is a minute of the world, and nothing there keeps its times
GLANCE = 0.25  # seconds between looks at the clock on the wall
SLOW_FOR = timedelta(minutes=5)  # so that people can watch what their change does
KEPT_CONNECTIONS = Pool(fresh_for_changes=False)
PARTING = "That world is gone, its port and its kubeconfig with it: it was in memory, and so was the money."


@dataclass(frozen=True, slots=True)
class Wish:
    """What was asked for on the command line."""

    speed: float
    lasting: timedelta | None  # on the wall; None: until somebody ends it
    port: int
    lines: bool

    @property
    def began_ago(self) -> timedelta:
        return BEGAN_AGO if self.speed > 1 else timedelta()


@click.command()
@click.option(
    "--speed",
    type=click.FloatRange(1.0, FASTEST),
    default=FACTOR,
    show_default=True,
    help="how fast the world runs until it has caught up with the present; 1: it begins now.",
)
@click.option("--for", "lasting", type=Length(), default=None, help="end by itself after that much wall time, as 30s.")
@click.option(
    "--port",
    type=click.IntRange(1, 65_535),
    default=PORT,
    show_default=True,
    help="port for kubectl; the next free one is taken and shown.",
)
@click.option("--lines", is_flag=True, help="one line for each change, rather than a live screen.")
def demo(speed: float, lasting: timedelta | None, port: int, lines: bool) -> None:
    """Run everything on an embedded world: no cluster, no account.

    An API server in memory that kubectl can talk to, machines that run pods, three teams, and the operator under its
    shipped rights. The world begins 24 hours ago and catches up with the present. Ctrl-C ends it.
    """
    try:
        with _loop(Wish(speed, lasting, port, lines)) as (loop, wish):
            loop.run_until_complete(_demo(loop, wish))
    except (NoFreePort, EndedEarly) as error:
        raise click.ClickException(str(error)) from error


@contextmanager
def _loop(wish: Wish) -> Iterator[tuple[SteadyLoop, Wish]]:
    # A world that begins now has nothing to catch up with: any factor is over at once.
    factor = wish.speed if wish.speed > 1 else FACTOR
    loop = SteadyLoop(SystemClock(), factor=factor, began_ago=wish.began_ago)
    asyncio.set_event_loop(loop)
    try:
        yield loop, wish
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        asyncio.set_event_loop(None)
        loop.close()


async def _demo(loop: SteadyLoop, wish: Wish) -> None:
    world = EmbeddedWorld(ScaledClock(loop, SystemClock()), SystemEntropy(), speed=wish.speed)
    listening = await listen(world.handle, port=wish.port)
    try:
        with kubeconfig.written(listening.url, world.visitors_token) as path:
            await Visit(loop, world, wish, Door(listening.url, path)).begin()
    finally:
        await listening.stop()
        world.close()


@dataclass(frozen=True, slots=True)
class Door:
    """How the world is reached."""

    url: str
    kubeconfig: Path


class Visit:
    """One person's look at one world."""

    def __init__(self, loop: SteadyLoop, world: EmbeddedWorld, wish: Wish, door: Door) -> None:
        self._loop = loop
        self._clock = clock = ScaledClock(loop, SystemClock())
        self._world = world
        self._wish = wish
        self._url = door.url
        self._file = shlex.quote(str(door.kubeconfig))
        self._kubectl = kubeconfig.command(door.kubeconfig)
        self._wall = SystemClock()
        self._began_at = self._wall.boottime(), loop.time()
        self._viewer = self._http(world.viewer_token())
        self._account = self._http(world.operator_token())
        world.market.open_at(self._url)
        self._lines = Switchboard(clock)
        self._guest = Guest(self._account, clock, settings_at(wish.speed), EmbeddedDial(self._lines, self._url))
        self._gatherer = Gatherer(Sources(self._viewer, clock, SystemEntropy(), Unheard()))
        self._ears = Ears(clock, conditions=False)
        self._paced = asyncio.Event()  # set, and another in its place, when the pace changes
        world.on_visitors_change = self._slow_down
        self._last: Scene | None = None  # None: it is still on

    async def begin(self) -> None:
        ended = asyncio.Event()
        end_on_signals(ended)
        for line in self._welcome():
            click.echo(line)
        view = view_for(self._scene, self._wall_sleep, lines=self._wish.lines, end=ended.set)
        work = Work(self._guest.run, self._stop)
        background = (self._gatherer.run(), self._world.life(), end_after(self._wish.lasting, ended, self._wall_sleep))
        try:
            with self._ears.listening():
                await play(ended, work, view, *background)
            for line in self._farewell():
                click.echo(line)
        finally:
            await self._lines.close()
            await self._viewer.close()
            await self._account.close()

    def _stop(self) -> None:
        self._last = self._scene()  # as it was while the operator was there
        self._guest.stop()

    def _http(self, token: str) -> HttpClient:
        headers = (("User-Agent", f"tgp/{__version__}"), ("Authorization", f"Bearer {token}"))
        return HttpClient(self._url, self._clock, headers=headers, pool=KEPT_CONNECTIONS)

    async def _wall_sleep(self, seconds: float) -> None:
        """By the clock on the wall, also where the world fell behind it."""
        due = self._wall.boottime() + seconds
        left = seconds
        while left > 0:
            wait = world_seconds(self._loop.pace, self._loop.real_elapsed(), min(left, GLANCE))
            with suppress(TimeoutError):
                await asyncio.wait_for(self._paced.wait(), wait)  # a wait in fast seconds is long in slow ones
            left = due - self._wall.boottime()

    def _slow_down(self) -> None:
        self._loop.slow_down(SLOW_FOR.total_seconds())
        self._paced.set()
        self._paced = asyncio.Event()

    def _welcome(self) -> list[str]:
        return [
            f"tgp demo: an embedded Kubernetes API in memory at {self._url}; nothing is bought, nothing is installed.",
            f"Look from another terminal: {self._kubectl} get tgp -A",
            f"The same file opens the market: {program()} offers --kubeconfig {self._file}",
            f"World time: {self._pace()}. Ctrl-C ends.",
        ]

    def _scene(self) -> Scene:
        return self._gatherer.scene(
            Frame(
                title=f"tgp demo  {self._url}",
                pace=self._pace(),
                url=self._url,
                kubectl=self._kubectl,
                operator=self._guest.facts(),
                stall=self._guest.stall(),
                held=self._guest.held,
                look=f"export KUBECONFIG={self._file}; kubectl get tgp -A; {program()} offers",
                heard=tuple(self._ears.heard),
                stories=self._world.stories(),
            )
        )

    def _pace(self) -> str:
        return pace_in_words(self._loop.pace, self._loop.real_elapsed())

    def _farewell(self) -> list[str]:
        wall, world = self._began_at
        outcome = Outcome(
            wall=timedelta(seconds=self._wall.boottime() - wall),
            passed=timedelta(seconds=self._loop.time() - world),
            bills=self._world.market.bills(),
            parting=PARTING,
            following=(
                (f"{program()} observe", "the same operator on your own cluster: it only looks"),
                (f"{program()} crds apply", "install the four kinds"),
                (f"{program()} operator --help", "run it for real"),
            ),
        )
        return summary(self._last or self._scene(), outcome)
