"""The demo in virtual time: the same world, operator and view, a day in seconds, and deterministic."""

import asyncio
from dataclasses import replace
from datetime import timedelta
from types import TracebackType
from typing import Self

from tgp.app.demo.operator import DemoOperator, settings_at
from tgp.app.demo.world import EmbeddedWorld
from tgp.app.view.gatherer import Frame, Gatherer, Sources
from tgp.app.view.log_capture import LogCapture
from tgp.app.view.stats import NoJournal
from tgp.interfaces.terminal.snapshot import Snapshot
from tgp.ports.http import Call, Http, Reply, WrappedHttp
from tgp.services.demo_http import EmbeddedDial
from tgp.sim.clouds.http_factory import Dialler
from tgp.sim.compute import InlineCompute
from tgp.sim.entropy import SeededEntropy
from tgp.sim.scaled import FACTOR
from tgp.sim.world import World

ENDPOINT = "http://embedded"


class DemoSimulation:
    """A context manager. Errors of the operator or the world are raised by `run`."""

    def __init__(self, seed: int | str = 1, *, scenario: bool = True) -> None:
        """Without a scenario only the objects of the start are there, and what a test does."""
        self._seed = seed
        self._scenario = scenario
        self.sim = World(seed)
        self.world = self.sim.until(self._created())
        client = self.sim.visitor(ENDPOINT)
        account = TokenHttp(self.sim.visitor(ENDPOINT), self.world.operator_token())
        clock = self.sim.clock
        dial = EmbeddedDial(Dialler(self.sim.network, clock), ENDPOINT)
        self.operator = DemoOperator(
            account,
            clock,
            settings_at(FACTOR),
            dial,
            speed=FACTOR,
            entropy=self._entropy("operator"),
            compute=InlineCompute(),
            budget_truth=self.world.budget_truth.used,
        )
        self.world.metrics = self.operator.metrics.page
        self._gatherer = Gatherer(Sources(client, clock.now, self._entropy("view"), NoJournal()))
        self.log_capture = LogCapture(clock, conditions=False)
        self._tasks: list[asyncio.Task[None]] = []

    def _entropy(self, name: str) -> SeededEntropy:
        return SeededEntropy(self._seed, name)

    async def _created(self) -> EmbeddedWorld:
        world = EmbeddedWorld(self.sim.clock, self._entropy("apiserver"), seed=self._seed)
        self.sim.mount(ENDPOINT, world.handle)
        return world

    def run(self, *, hours: float = 0, minutes: float = 0, with_view: bool = True) -> None:
        """Let this much time pass, with or without the view. A task that ended early raises here."""
        with self.log_capture.capturing():
            self.sim.until(self._pass(timedelta(hours=hours, minutes=minutes), with_view=with_view))

    async def _pass(self, length: timedelta, *, with_view: bool) -> None:
        if not self._tasks:
            self._tasks = [asyncio.create_task(self.operator.run())]
            self._tasks += [asyncio.create_task(self.world.scenario())] if self._scenario else []
        view = [asyncio.create_task(self._gatherer.run())] if with_view else []
        ended, _ = await asyncio.wait(
            [*self._tasks, *view], timeout=length.total_seconds(), return_when=asyncio.FIRST_COMPLETED
        )
        for task in view:
            task.cancel()
        for task in ended:
            task.result()
            raise AssertionError(f"{task.get_name()} ended unexpectedly")

    def page(self, path: str) -> str:
        """As a browser on this machine gets it."""
        reply = self.sim.until(self.world.handle(Call("GET", path)))
        assert isinstance(reply, Reply), "no stream"
        return reply.content.decode()

    def snapshot(self, title: str, kubectl: str, pace: str = "virtual") -> Snapshot:
        frame = Frame(
            title=title,
            pace=pace,
            url="",
            kubectl=kubectl,
            operator=self.operator.facts(),
            held=self.operator.held,
            market=self.operator.market_summary(),
            log_rows=tuple(self.log_capture.rows),
            scenario_lines=self.world.scenario_lines(),
            machine_prices=self.operator.machine_prices(),
        )
        return self._gatherer.snapshot(frame)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.world.close()
        self.sim.close()


class TokenHttp(WrappedHttp):
    """Adds a bearer token to every call."""

    def __init__(self, inner: Http, token: str) -> None:
        super().__init__(inner)
        self._header = ("Authorization", f"Bearer {token}")

    def _changed(self, call: Call) -> Call:
        return replace(call, headers=(*call.headers, self._header))
