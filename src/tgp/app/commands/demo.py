"""`tgp demo`: the whole operator in a simulated world, live in this terminal. No cluster, account or Docker."""

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
from tgp.adapters.http.client import ConnectionPool, HttpClient
from tgp.adapters.http.client_pool import HttpClientPool
from tgp.adapters.http.serve import NoFreePort, listen
from tgp.app.demo import kubeconfig
from tgp.app.demo.operator import DemoOperator, settings_at
from tgp.app.demo.world import EmbeddedWorld
from tgp.app.program import program
from tgp.app.view.gatherer import Frame, Gatherer, Sources
from tgp.app.view.live_view import EndedEarly, Length, Work, end_after, end_on_signals, play, view_for
from tgp.app.view.log_capture import LogCapture
from tgp.app.view.stats import NoJournal
from tgp.interfaces.terminal.snapshot import Snapshot, age
from tgp.interfaces.terminal.summary import DemoOutcome, summary
from tgp.ports.clock import Clock
from tgp.services.demo_http import EmbeddedDial
from tgp.sim.scaled import BEGAN_AGO, FACTOR, ScaledClock, ScaledLoop, WorldSpeed

PORT = 8001  # as `kubectl proxy`
FASTEST = 600.0  # beyond it one loop iteration is a minute of the world, and timeouts cannot be kept
GLANCE = 0.25  # seconds between two reads of the real clock
SLOW_FOR = timedelta(minutes=5)  # so that the user can watch the effect of a change
KEPT_CONNECTIONS = ConnectionPool(fresh_for_changes=False)
PARTING = "The demo world was in memory: its objects, port and kubeconfig are gone. No real money was spent."


MOMENT = 0.25  # seconds of the world per iteration: a request takes a dozen iterations, and may take ten seconds


class StallFreeLoop(ScaledLoop):
    def __init__(self, real: Clock, *, factor: float = FACTOR, began_ago: timedelta = BEGAN_AGO) -> None:
        self._moment = MOMENT / factor
        self._lost = 0.0
        self._limit = self._moment
        super().__init__(real, factor=factor, began_ago=began_ago)

    def real_elapsed(self) -> float:
        return min(super().real_elapsed() - self._lost, self._limit)

    def real_wait(self, wait: float) -> float:
        """Called right before the selector waits: from here on this much time may pass."""
        real = super().real_wait(wait)
        self._limit = self.real_elapsed() + real + self._moment
        return real

    def _run_once(self) -> None:
        passed = super().real_elapsed() - self._lost
        if passed > self._limit:
            self._lost += passed - self._limit
            passed = self._limit
        self._limit = passed + self._moment
        super()._run_once()  # type: ignore[misc]  # asyncio's own iteration, not in typeshed


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """The options of the command line."""

    speed: float
    lasting: timedelta | None  # real time; None: until the user ends it
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
    help="how fast the simulated time runs until it reaches the present; 1: the world starts now.",
)
@click.option("--for", "lasting", type=Length(), default=None, help="end after this much real time, such as 30s.")
@click.option(
    "--port",
    type=click.IntRange(1, 65_535),
    default=PORT,
    show_default=True,
    help="port for kubectl; if it is taken, the next free one is used and shown.",
)
@click.option("--lines", is_flag=True, help="print one line for each change instead of a live screen.")
def demo(speed: float, lasting: timedelta | None, port: int, lines: bool) -> None:
    """Run the operator in a simulated world: no cluster, no account.

    The world has an API server in memory that kubectl can use, machines that run pods, three teams, and the operator
    with its shipped RBAC. It starts 24 hours ago and catches up with the present. Ctrl-C ends the demo.
    """
    try:
        with _loop(DemoOptions(speed, lasting, port, lines)) as (loop, options):
            loop.run_until_complete(_demo(loop, options))
    except (NoFreePort, EndedEarly) as error:
        raise click.ClickException(str(error)) from error


@contextmanager
def _loop(options: DemoOptions) -> Iterator[tuple[StallFreeLoop, DemoOptions]]:
    # A world that starts now is in the present already, so the factor has no effect.
    factor = options.speed if options.speed > 1 else FACTOR
    loop = StallFreeLoop(SystemClock(), factor=factor, began_ago=options.began_ago)
    asyncio.set_event_loop(loop)
    try:
        yield loop, options
    finally:
        loop.run_until_complete(loop.shutdown_asyncgens())
        asyncio.set_event_loop(None)
        loop.close()


async def _demo(loop: StallFreeLoop, options: DemoOptions) -> None:
    world = EmbeddedWorld(ScaledClock(loop, SystemClock()), SystemEntropy(), speed=options.speed)
    listening = await listen(world.handle, port=options.port)
    try:
        with kubeconfig.written(listening.url, world.visitors_token) as path:
            await DemoSession(loop, world, options, DemoAccess(listening.url, path)).begin()
    finally:
        await listening.stop()
        world.close()


@dataclass(frozen=True, slots=True)
class DemoAccess:
    """URL and kubeconfig of the world."""

    url: str
    kubeconfig: Path


class DemoSession:
    """One run of the demo."""

    def __init__(self, loop: StallFreeLoop, world: EmbeddedWorld, options: DemoOptions, access: DemoAccess) -> None:
        self._loop = loop
        self._clock = clock = ScaledClock(loop, SystemClock())
        self._world = world
        self._options = options
        self._url = access.url
        self._file = shlex.quote(str(access.kubeconfig))
        self._near = kubeconfig.shown(access.kubeconfig)
        self._kubectl = kubeconfig.command(access.kubeconfig)
        self._wall = SystemClock()
        self._began_at = self._wall.boottime(), loop.time()
        self._viewer = self._http(world.viewer_token())
        self._account = self._http(world.operator_token())
        world.market.open_at(self._url)
        self._lines = HttpClientPool(clock)
        self._operator = DemoOperator(
            self._account,
            clock,
            settings_at(options.speed),
            EmbeddedDial(self._lines, self._url),
            budget_truth=world.budget_truth.used,
            speed=options.speed,
        )
        world.metrics = self._operator.metrics.page
        self._gatherer = Gatherer(Sources(self._viewer, clock.now, SystemEntropy(), NoJournal()))
        self._log_capture = LogCapture(clock, conditions=False)
        self._paced = asyncio.Event()  # set, and replaced by a new one, when the speed changes
        world.on_visitors_change = self._slow_down
        self._last: Snapshot | None = None  # None: the operator still runs

    async def begin(self) -> None:
        ended = asyncio.Event()
        end_on_signals(ended)
        for line in self._welcome():
            click.echo(line)
        view = view_for(self._snapshot, self._wall_sleep, lines=self._options.lines, end=ended.set)
        work = Work(self._operator.run, self._stop)
        background = (
            self._gatherer.run(),
            self._world.scenario(),
            end_after(self._options.lasting, ended, self._wall_sleep),
        )
        try:
            with self._log_capture.capturing():
                await play(ended, work, view, *background)
            for line in self._summary():
                click.echo(line)
        finally:
            await self._lines.close()
            await self._viewer.close()
            await self._account.close()

    def _stop(self) -> None:
        self._last = self._snapshot()  # while the operator still ran
        self._operator.stop()

    def _http(self, token: str) -> HttpClient:
        headers = (("User-Agent", f"tgp/{__version__}"), ("Authorization", f"Bearer {token}"))
        return HttpClient(self._url, self._clock, headers=headers, pool=KEPT_CONNECTIONS)

    async def _wall_sleep(self, seconds: float) -> None:
        """In real time, also when the world is behind."""
        due = self._wall.boottime() + seconds
        left = seconds
        while left > 0:
            wait = world_seconds(self._loop.pace, self._loop.real_elapsed(), min(left, GLANCE))
            with suppress(TimeoutError):
                await asyncio.wait_for(self._paced.wait(), wait)  # a change of the speed ends the wait
            left = due - self._wall.boottime()

    def _slow_down(self) -> None:
        self._loop.slow_down(SLOW_FOR.total_seconds())
        self._paced.set()
        self._paced = asyncio.Event()

    def _welcome(self) -> list[str]:
        return [
            f"tgp demo: a simulated Kubernetes API in memory at {self._url}; nothing is bought or installed.",
            f"From another terminal: {self._kubectl} get tgp -A",
            f"The market, with the same file: {program()} offers --kubeconfig {self._file}",
            f"Speed of the simulated time: {self._pace()}. Ctrl-C ends.",
        ]

    def _snapshot(self) -> Snapshot:
        return self._gatherer.snapshot(
            Frame(
                title=f"tgp demo  {self._url}",
                pace=self._pace(),
                url=self._url,
                kubectl=f"kubectl --kubeconfig {self._near}",
                operator=self._operator.facts(),
                market=self._operator.market_summary(),
                machine_prices=self._operator.machine_prices(),
                held=self._operator.held,
                look=f"export KUBECONFIG={self._near}; kubectl get tgp -A; {program()} offers",
                log_rows=tuple(self._log_capture.rows),
                scenario_lines=self._world.scenario_lines(),
            )
        )

    def _pace(self) -> str:
        return speed_text(self._loop.pace, self._loop.real_elapsed())

    def _summary(self) -> list[str]:
        wall, world = self._began_at
        outcome = DemoOutcome(
            wall=timedelta(seconds=self._wall.boottime() - wall),
            passed=timedelta(seconds=self._loop.time() - world),
            bills=self._world.market.bills(),
            parting=PARTING,
            following=(
                (f"{program()} observe", "the same operator on your own cluster, read-only"),
                (f"{program()} offers", "what the providers sell now, by your API keys"),
                (f"{program()} init", "your cluster, your keys: a first class and pool; buys nothing"),
            ),
        )
        return summary(self._last or self._snapshot(), outcome)


def speed_text(pace: WorldSpeed, elapsed: float) -> str:
    """After `elapsed` seconds of real time."""
    slow = min(pace.slow_until, pace.real_until_caught_up) - elapsed
    if slow > 0:
        return f"real time for {age(timedelta(seconds=slow))}: you changed something"
    left = pace.real_until_caught_up - elapsed
    if left <= 0:
        return "real time"
    return f"{pace.factor:g}x, catches up with the present in {age(timedelta(seconds=left))}"


def world_seconds(pace: WorldSpeed, elapsed: float, wall_seconds: float) -> float:
    """How many seconds of the world pass in so many seconds of real time, from now on."""
    return pace.world(elapsed + wall_seconds) - pace.world(elapsed)
