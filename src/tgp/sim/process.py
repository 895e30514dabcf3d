"""A simulated process: it starts with empty memory, and it ends as by a power cut.

A crash first takes its ports away (its calls hang for ever, what is under way goes unanswered), then lets its callbacks
fall and takes its tasks apart, so that no `finally` of its own can reach the world.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import Context
from enum import Enum
from random import Random
from typing import NoReturn, Protocol, TypeAlias

from tgp.ports.compute import Compute
from tgp.ports.exec import Exec
from tgp.ports.http import Http
from tgp.ports.resolver import Resolver
from tgp.sim.clock import HostClock
from tgp.sim.entropy import SeededEntropy
from tgp.sim.loop import MAX_UNWINDS, OWNER, VirtualLoop, bury
from tgp.sim.trace import RunTrace

RESTART_AFTER = (1.0, 40.0)  # seconds: from a container that is restarted in place to one that is rescheduled


class Life(Enum):
    RUNNING = "running"
    PAUSED = "paused"
    DEAD = "dead"


class Doors(Protocol):
    """What a process is given when it starts, beside its own clock and luck."""

    @property
    def compute(self) -> Compute: ...

    @property
    def resolver(self) -> Resolver: ...

    @property
    def exec(self) -> Exec: ...

    def http(self, host: "Host", endpoint: str) -> Http: ...


class Host:
    """One life of a process: its ports, its tasks, and whether they still run. Never reused."""

    def __init__(self, process: "Process", number: int, clock: HostClock, entropy: SeededEntropy) -> None:
        self.process = process
        self.number = number
        self.clock = clock
        self.entropy = entropy
        self.compute = process.doors.compute
        self.resolver = process.doors.resolver
        self.exec = process.doors.exec
        self.frozen_until = 0.0  # loop time before which its streams bring no news
        self._life = Life.RUNNING
        self._backlog: list[asyncio.Handle] = []
        self._hang_ups: dict[object, Callable[[], None]] = {}

    @property
    def name(self) -> str:
        return self.process.name

    def http(self, endpoint: str) -> Http:
        return self.process.doors.http(self, endpoint)

    async def exit(self) -> NoReturn:
        """End this process here and now, as `os._exit` does: nothing of it runs any more, `finally` included."""
        self.process.crash()
        await self.for_ever()

    # Owner of callbacks and tasks.

    @property
    def gone(self) -> bool:
        return self._life is Life.DEAD

    @property
    def paused(self) -> bool:
        return self._life is Life.PAUSED

    def holds(self, handle: asyncio.Handle) -> bool:
        if self._life is Life.RUNNING:
            return False
        if self._life is Life.PAUSED:
            self._backlog.append(handle)
        return True

    # What the world does to it.

    def on_cut(self, key: object, hang_up: Callable[[], None]) -> None:
        """Have `hang_up` called when the power goes, unless `forget(key)` comes first."""
        self._hang_ups[key] = hang_up

    def forget(self, key: object) -> None:
        self._hang_ups.pop(key, None)

    def pause(self) -> None:
        assert self._life is Life.RUNNING, f"{self.name} does not run"
        self._life = Life.PAUSED

    def resume(self) -> list[asyncio.Handle]:
        """Resume; returns what became due meanwhile, in order."""
        assert self._life is Life.PAUSED, f"{self.name} is not paused"
        self._life = Life.RUNNING
        backlog, self._backlog = self._backlog, []
        return backlog

    def cut(self) -> None:
        """The ports first. The tasks still exist until `bury`, and never run."""
        self._life = Life.DEAD
        self._backlog.clear()
        hang_ups, self._hang_ups = self._hang_ups, {}
        for hang_up in hang_ups.values():
            hang_up()

    def bury(self, loop: VirtualLoop) -> None:
        OWNER.set(self)  # in a context of its own: what the falling schedule must be held, too
        for _ in range(MAX_UNWINDS):
            fallen = loop.tasks_of(self)
            if not fallen:
                return
            loop.forget(fallen)
            bury(fallen)

    async def for_ever(self) -> NoReturn:
        await asyncio.get_running_loop().create_future()
        raise AssertionError("for ever is over")


Main: TypeAlias = Callable[[Host], Awaitable[None]]


class Process:
    """A named process that may restart many times. Each start calls `main` with no state of earlier ones."""

    def __init__(
        self,
        name: str,
        main: Main,
        *,
        loop: VirtualLoop,
        doors: Doors,
        clock: HostClock,
        seed: int | str,
        trace: RunTrace,
    ) -> None:
        self.name = name
        self.doors = doors
        self.clock = clock
        self.starts = 0
        self.restarts = True
        self.on_failure: Callable[[str, BaseException], None] | None = None
        self.on_standstill: Callable[[], None] = lambda: None
        """Called when it pauses, resumes, or is gone."""
        self._main = main
        self._loop = loop
        self._seed = seed
        self._trace = trace
        self._luck = Random(f"{seed}/{name}/restarts")
        self._host: Host | None = None
        self._waking: asyncio.TimerHandle | None = None
        self._comeback: asyncio.TimerHandle | None = None

    @property
    def host(self) -> Host | None:
        """The present life; None: between two."""
        return self._host

    @property
    def running(self) -> bool:
        return self._host is not None and not self._host.paused

    @property
    def paused(self) -> bool:
        return self._host is not None and self._host.paused

    def start(self) -> None:
        assert self._host is None, f"{self.name} runs already"
        self.starts += 1
        self._cancel_timers()
        host = Host(self, self.starts, self.clock, SeededEntropy(self._seed, f"{self.name}/{self.starts}"))
        self._host = host
        self._trace.note(self.name, "starts", self.starts)
        context = Context()
        context.run(OWNER.set, host)
        task = self._loop.create_task(self._live(host), name=f"{self.name}/{self.starts}", context=context)
        task.add_done_callback(lambda done: self._ended(host, done), context=Context())

    async def _live(self, host: Host) -> None:
        await self._main(host)

    def crash(self, restart_after: float | None = None) -> None:
        """Power cut. It comes back after `restart_after` seconds; None: after a drawn time."""
        host = self._host
        if host is None:
            return
        self._trace.note(self.name, "crashes", host.number)
        self._leave(host)
        if self.restarts:
            wait = self._luck.uniform(*RESTART_AFTER) if restart_after is None else restart_after
            self._comeback = self._loop.call_later(wait, self.start, context=Context())

    def stop(self) -> None:
        """Power cut, for good."""
        self.restarts = False
        self._cancel_timers()
        if self._host is not None:
            self._trace.note(self.name, "stops", self._host.number)
            self._leave(self._host)

    def pause(self, seconds: float) -> None:
        """Stand still: its callbacks wait while the world and its clocks go on."""
        host = self._host
        if host is None or host.paused:
            return
        self._trace.note(self.name, "pauses", f"{seconds:.3f}")
        host.pause()
        self._waking = self._loop.call_later(seconds, self.resume, context=Context())
        self.on_standstill()

    def resume(self) -> None:
        host = self._host
        if host is None or not host.paused:
            return
        self._cancel_timers()
        self._trace.note(self.name, "resumes")
        self._loop.requeue(host.resume())
        self.on_standstill()

    def _leave(self, host: Host) -> None:
        self._cancel_timers()
        self._host = None
        host.cut()
        # Not here: it may be this process's own step that we are called from.
        self._loop.call_soon(host.bury, self._loop, context=Context())
        self.on_standstill()

    def _cancel_timers(self) -> None:
        for timer in (self._waking, self._comeback):
            if timer is not None:
                timer.cancel()
        self._waking = self._comeback = None

    def _ended(self, host: Host, task: "asyncio.Task[None]") -> None:
        """Its main returned or failed: a container that exits is started again."""
        if host.gone:
            return
        error = None if task.cancelled() else task.exception()
        self._trace.note(self.name, "ends", host.number, type(error).__name__ if error else "")
        self._leave(host)
        if error is not None and self.on_failure is not None:
            self.on_failure(self.name, error)
        if self.restarts:
            self._comeback = self._loop.call_later(self._luck.uniform(*RESTART_AFTER), self.start, context=Context())
