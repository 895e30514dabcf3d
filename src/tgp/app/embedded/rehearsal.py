"""The whole show in virtual time: the same world, operator and view, a day in seconds, and equal every time."""

import asyncio
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from datetime import timedelta
from types import TracebackType
from typing import Any, Self

from tgp.app.embedded.guest import Guest, settings_at
from tgp.app.embedded.market import EmbeddedDial
from tgp.app.embedded.world import EmbeddedWorld
from tgp.app.view.ears import Ears
from tgp.app.view.facts import Unheard
from tgp.app.view.scene import Frame, Gatherer, Sources
from tgp.ports.http import Call, Http, Reply, Stream
from tgp.sim.clouds.dialling import Dialler
from tgp.sim.entropy import SeededEntropy
from tgp.sim.scaled import FACTOR
from tgp.sim.world import World
from tgp.surfaces.terminal.scene import Scene

ENDPOINT = "http://embedded"


class Rehearsal:
    """Use it with `with`. What the operator or the world raised comes out of `run`."""

    def __init__(self, seed: int | str = 1) -> None:
        self._seed = seed
        self._sim = World(seed)
        self.world = self._sim.until(self._furnished())
        person = self._sim.visitor(ENDPOINT)
        account = TokenHttp(self._sim.visitor(ENDPOINT), self.world.operator_token())
        clock = self._sim.clock
        dial = EmbeddedDial(Dialler(self._sim.network, clock), ENDPOINT)
        self.guest = Guest(account, clock, settings_at(FACTOR), dial, self._entropy("operator"))
        self._gatherer = Gatherer(Sources(person, clock, self._entropy("view"), Unheard()))
        self.ears = Ears(clock, conditions=False)
        self._tasks: list[asyncio.Task[None]] = []

    def _entropy(self, name: str) -> SeededEntropy:
        return SeededEntropy(self._seed, name)

    async def _furnished(self) -> EmbeddedWorld:
        world = EmbeddedWorld(self._sim.clock, self._entropy("apiserver"), seed=self._seed)
        self._sim.mount(ENDPOINT, world.handle)
        return world

    def run(self, *, hours: float = 0, minutes: float = 0, seen: bool = True) -> None:
        """Let so much time pass, with somebody looking or not. Whoever should have gone on and did not raises here."""
        with self.ears.listening():
            self._sim.until(self._pass(timedelta(hours=hours, minutes=minutes), seen=seen))

    async def _pass(self, length: timedelta, *, seen: bool) -> None:
        if not self._tasks:
            self._tasks = [asyncio.create_task(self.guest.run()), asyncio.create_task(self.world.life())]
        view = [asyncio.create_task(self._gatherer.run())] if seen else []
        ended, _ = await asyncio.wait(
            [*self._tasks, *view], timeout=length.total_seconds(), return_when=asyncio.FIRST_COMPLETED
        )
        for task in view:
            task.cancel()
        for task in ended:
            task.result()
            raise AssertionError(f"{task.get_name()} ended by itself")

    def scene(self, title: str, kubectl: str, pace: str = "virtual") -> Scene:
        frame = Frame(
            title=title,
            pace=pace,
            url="",
            kubectl=kubectl,
            operator=self.guest.facts(),
            held=self.guest.held,
            stall=self.guest.stall(),
            heard=tuple(self.ears.heard),
            stories=self.world.stories(),
        )
        return self._gatherer.scene(frame)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.world.close()
        self._sim.close()


class TokenHttp:
    """Shows a token with every call."""

    def __init__(self, inner: Http, token: str) -> None:
        self._inner = inner
        self._header = ("Authorization", f"Bearer {token}")

    def _shown(self, call: Call) -> Call:
        return replace(call, headers=(*call.headers, self._header))

    async def send(self, call: Call) -> Reply:
        return await self._inner.send(self._shown(call))

    def stream(self, call: Call, **how: Any) -> AbstractAsyncContextManager[Stream]:
        return self._inner.stream(self._shown(call), **how)
