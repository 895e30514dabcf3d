"""Drives the controllers: stores wake queues, queues feed workers, a worker gives one key one turn at a time.

The one broad `except` of the house stands here, around a whole turn: whatever a reconciler raises is counted, noted
with its key and turn, and asked again later. One bad object never keeps the others waiting.
"""

import asyncio
import logging
import traceback
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from tgp.adapters.kube.board import Filler
from tgp.adapters.kube.controller import Controller, Source, own_key
from tgp.adapters.kube.meters import DONE, FAILED, OVERDUE, PUT_OFF, Meter, Unmetered
from tgp.adapters.kube.queue import Queue
from tgp.adapters.kube.turn import CURRENT, Turn
from tgp.core.model.facts import TurnFailed
from tgp.core.model.key import Key
from tgp.ports.clock import Clock
from tgp.ports.cluster import ClusterBusy, ClusterError
from tgp.ports.entropy import Entropy
from tgp.ports.http import HttpError
from tgp.ports.journal import Journal
from tgp.ports.leadership import NotLeading

STOP_WITHIN = 10.0  # seconds for turns under way; then they are cancelled, as they must be able to bear
TICK = 1.0  # seconds between looks at loop lag, queue depths and turns that take too long
AT_A_STRETCH = 0.005  # seconds a worker may go on without letting others run
SOONEST = 0.05  # seconds; "look again at once", without spinning
LATEST = 3600.0  # seconds; a wall clock that jumped must not put a key to sleep for years
FRAMES = 12  # of a traceback in the log
LONGEST_RETRY_AFTER = timedelta(minutes=5)  # a server that asks for more is asked again sooner, as after any failure


@dataclass(frozen=True)
class House:
    """What the runtime is given."""

    clock: Clock
    entropy: Entropy
    journal: Journal
    meter: Meter = field(default_factory=Unmetered)
    tick: float = TICK


@dataclass(slots=True)
class _UnderWay:
    """A turn that is being taken. Cheaper than a timeout around each, which would cost more than a small turn."""

    began: float  # loop time
    worker: asyncio.Task[None]
    overdue: bool = False


class Lane:
    """One controller with its queue and workers."""

    def __init__(self, controller: Controller, house: House) -> None:
        self.controller = controller
        self.queue = Queue(house.entropy)
        self._house = house
        self._turns = 0
        self._under_way: dict[Key, _UnderWay] = {}
        self._told_depth: tuple[int, int] | None = None  # None: nothing yet
        self._log = logging.getLogger("tgp.runtime")

    def open(self) -> None:
        """Let changes wake it, and everything that is there now.

        Not before it has workers: a replica that never leads would remember every key it ever saw.
        """
        for source in self.controller.sources:
            source.store.subscribe(_waking(source, self.queue))

    async def work(self) -> None:
        """A worker: turns, until the queue stops."""
        loop, worker = asyncio.get_running_loop(), asyncio.current_task()
        assert worker is not None
        rested_at = loop.time()
        while True:
            key = self.queue.take()
            if key is None:
                key = await self.queue.next()
                if key is None:
                    return
                rested_at = loop.time()
            now = await self._take_turn(key, worker, loop)
            if now - rested_at > AT_A_STRETCH:
                await asyncio.sleep(0)
                rested_at = loop.time()

    def tend(self, now: float) -> None:
        """End turns that take too long; tell how many keys wait."""
        if self._under_way:
            limit = self.controller.turn_limit.total_seconds()
            for turn in list(self._under_way.values()):
                if now - turn.began > limit and not turn.overdue:
                    turn.overdue = True
                    turn.worker.cancel()
        depth = (len(self.queue), self.queue.failing)
        if depth != self._told_depth:  # a quiet controller is asked every second and has nothing to tell
            self._told_depth = depth
            self._house.meter.depth(self.controller.name, *depth)

    async def _take_turn(self, key: Key, worker: asyncio.Task[None], loop: asyncio.AbstractEventLoop) -> float:
        self._turns += 1
        turn = Turn(self.controller.name, key, self._turns)
        CURRENT.set(turn)
        began = loop.time()
        under_way = self._under_way[key] = _UnderWay(began, worker)
        outcome = DONE
        try:
            again = await self._reconcile(key)
            self.queue.done(key, None if again is None else loop.time() + self._wait(again))
        except (ClusterError, HttpError, NotLeading) as error:
            outcome = PUT_OFF
            self._put_off(turn, error)
        except asyncio.CancelledError as error:
            if under_way.overdue:
                worker.uncancel()
            if worker.cancelling():
                raise
            # The turn was ours to end, or waited for something that was cancelled: the worker goes on.
            outcome = OVERDUE if under_way.overdue else FAILED
            self._failed(turn, error)
        except Exception as error:  # noqa: BLE001 - the one place in the house: a turn is a fire door
            outcome = FAILED
            self._failed(turn, error)
        finally:
            del self._under_way[key]
        now = loop.time()
        self._house.meter.turn(self.controller.name, outcome, now - began)
        return now

    async def _reconcile(self, key: Key) -> datetime | None:
        for store in self.controller.writes:
            if store.behind(key):
                await store.caught_up(key)
        return await self.controller.reconciler.reconcile(key)

    def _wait(self, again: datetime) -> float:
        return min(max((again - self._house.clock.now()).total_seconds(), SOONEST), LATEST)

    def _put_off(self, turn: Turn, error: ClusterError | HttpError | NotLeading) -> None:
        asked = (error.retry_after if isinstance(error, ClusterBusy) else None) or timedelta()
        wait = self.queue.failed(turn.key, min(asked, LONGEST_RETRY_AFTER).total_seconds())
        self._log.info("turn put off", extra={"turn": str(turn), "key": str(turn.key), "why": str(error), "wait": wait})

    def _failed(self, turn: Turn, error: BaseException) -> None:
        wait = self.queue.failed(turn.key)
        where = "".join(traceback.format_tb(error.__traceback__)[-FRAMES:])
        name = type(error).__name__
        self._log.error("turn failed", extra={"turn": str(turn), "key": str(turn.key), "error": name, "where": where})
        fact = TurnFailed(turn.controller, turn.key, str(turn), name, timedelta(seconds=wait))
        self._house.journal.note(fact)


class Runtime:
    def __init__(self, reflectors: Sequence[Filler], controllers: Sequence[Controller], house: House) -> None:
        names = [controller.name for controller in controllers]
        assert len(set(names)) == len(names), f"two controllers of one name: {names}"
        self._reflectors = tuple(reflectors)
        self._lanes = tuple(Lane(controller, house) for controller in controllers)
        self._house = house
        self._by_store = {id(reflector.store): reflector for reflector in reflectors}
        for lane in self._lanes:
            for store in lane.controller.stores():
                assert id(store) in self._by_store, (
                    f"nobody fills the {store.resource.plural} of {lane.controller.name}"
                )
        self._stopping = asyncio.Event()
        self._workers: list[asyncio.Task[None]] = []
        self._onlookers: list[asyncio.Task[None]] = []

    @property
    def lanes(self) -> tuple[Lane, ...]:
        return self._lanes

    @property
    def synced(self) -> bool:
        """Every store holds a complete list."""
        return all(reflector.store.synced for reflector in self._reflectors)

    def stop(self) -> None:
        """Finish the turns under way, begin no other, and let `run` return."""
        self._stopping.set()

    async def run(self, leading: Awaitable[object], *, settled: Callable[[], None] | None = None) -> None:
        """Watch at once; reconcile from when `leading` is done and the stores a controller looks at are fresh.

        Returns after `stop`. `settled` is called once, when every store is synced (to freeze the garbage collector).
        An exception out of here is a defect of ours: leave the process.
        """
        async with asyncio.TaskGroup() as group:
            led = group.create_task(
                self._lead(leading), name="lead"
            )  # first: who leads already needs one list, not two
            tasks = [group.create_task(reflector.run(), name="reflector") for reflector in self._reflectors]
            tasks.append(group.create_task(self._tick(), name="tick"))
            if settled is not None:
                tasks.append(group.create_task(self._settle(settled), name="settle"))
            await self._stopping.wait()
            for lane in self._lanes:
                lane.queue.stop()
            await self._wind_down(led)
            for task in tasks:
                task.cancel()

    async def _lead(self, leading: Awaitable[object]) -> None:
        await leading
        lists = {store: reflector.list_again() for store, reflector in self._by_store.items()}
        async with asyncio.TaskGroup() as group:
            for lane in self._lanes:
                group.create_task(self._drive(lane, lists), name=lane.controller.name)

    async def _drive(self, lane: Lane, lists: Mapping[int, int]) -> None:
        """Workers for one controller, once what it looks at was listed since we lead."""
        for store in lane.controller.stores():
            await self._by_store[id(store)].listed(lists[id(store)])
        lane.open()
        async with asyncio.TaskGroup() as workers:
            for number in range(lane.controller.workers):
                worker = workers.create_task(lane.work(), name=f"{lane.controller.name}-{number}")
                (self._onlookers if lane.controller.only_looks else self._workers).append(worker)

    async def _wind_down(self, led: asyncio.Task[None]) -> None:
        for onlooker in self._onlookers:
            onlooker.cancel()
        if self._workers:
            await asyncio.wait(self._workers, timeout=STOP_WITHIN)
        led.cancel()  # also one that still waits to lead, or for a list
        await asyncio.wait([led])

    async def _tick(self) -> None:
        loop, tick = asyncio.get_running_loop(), self._house.tick
        while True:
            due = loop.time() + tick
            await asyncio.sleep(tick)
            now = loop.time()
            self._house.meter.lag(max(0.0, now - due))
            for lane in self._lanes:
                lane.tend(now)

    async def _settle(self, settled: Callable[[], None]) -> None:
        for reflector in self._reflectors:
            await reflector.store.wait_synced()
        settled()


def _waking(source: Source, queue: Queue) -> Callable[[Any, Any], None]:
    add, keys = queue.add, source.keys
    if keys is own_key:  # the common case, without a tuple for each change

        def wake_own(old: Any, new: Any) -> None:
            add((old if new is None else new).key)

        return wake_own

    def wake(old: Any, new: Any) -> None:
        for key in keys(old, new):
            add(key)

    return wake
