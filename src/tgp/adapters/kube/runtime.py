"""Runs the controllers: stores wake queues, queues feed workers, a worker reconciles one key at a time.

The only broad `except` of the project is here, around a whole reconcile: any exception of a reconciler is counted,
noted with its key and reconcile, and the key is tried again later. One bad object never keeps the others waiting.
"""

import asyncio
import logging
import traceback
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from tgp.adapters.kube.controller import Controller, WatchSource, own_key
from tgp.adapters.kube.event_channel import CacheFeeder
from tgp.adapters.kube.queue import Queue
from tgp.adapters.kube.reconcile_context import CURRENT, ReconcileContext
from tgp.adapters.kube.runtime_metrics import DEFERRED, DONE, FAILED, OVERDUE, NoRuntimeMetrics, RuntimeMetrics
from tgp.core.model.facts import ReconcileFailed
from tgp.core.model.object_key import ObjectKey
from tgp.ports.clock import Clock
from tgp.ports.cluster import ClusterBusy, ClusterError
from tgp.ports.entropy import Entropy
from tgp.ports.http import HttpError
from tgp.ports.journal import Journal
from tgp.ports.leadership import NotLeading

STOP_WITHIN = 10.0  # seconds for reconciles in progress; then they are cancelled: each may be killed at any line
TICK = 1.0  # seconds between checks of loop lag, queue depths and overdue reconciles
MAX_RUN_WITHOUT_YIELD = 0.005  # seconds a worker may run before it yields to other tasks
SOONEST = 0.05  # seconds; the shortest requeue, so that "at once" does not spin
LATEST = 3600.0  # seconds; a wall clock that jumped must not delay a key for years
FRAMES = 12  # of a traceback in the log
LONGEST_RETRY_AFTER = timedelta(minutes=5)  # a longer Retry-After is cut to this, as after any failure


@dataclass(frozen=True)
class RuntimeDeps:
    """What the runtime is given."""

    clock: Clock
    entropy: Entropy
    journal: Journal
    meter: RuntimeMetrics = field(default_factory=NoRuntimeMetrics)
    tick: float = TICK


@dataclass(slots=True)
class _InProgress:
    """A running reconcile. Cheaper than an asyncio timeout around each, which costs more than a small reconcile."""

    began: float  # loop time
    worker: asyncio.Task[None]
    overdue: bool = False


class ControllerLoop:
    """One controller with its queue and workers."""

    def __init__(self, controller: Controller, deps: RuntimeDeps) -> None:
        self.controller = controller
        self.queue = Queue(deps.entropy, first=controller.first)
        self._deps = deps
        self._reconciles = 0
        self._in_progress: dict[ObjectKey, _InProgress] = {}
        self._reported_depth: tuple[int, int] | None = None  # None: not reported yet
        self._log = logging.getLogger("tgp.runtime")

    def open(self) -> None:
        """Enqueue every key in the stores now, and each change from now on.

        Not before it has workers: the queue of a replica that never leads would grow with every key it saw.
        """
        for source in self.controller.sources:
            source.store.subscribe(_waking(source, self.queue))

    async def work(self) -> None:
        """A worker: reconciles keys until the queue stops."""
        loop, worker = asyncio.get_running_loop(), asyncio.current_task()
        assert worker is not None
        yielded_at = loop.time()
        while True:
            key = self.queue.take()
            if key is None:
                key = await self.queue.next()
                if key is None:
                    return
                yielded_at = loop.time()
            now = await self._run_one(key, worker, loop)
            if now - yielded_at > MAX_RUN_WITHOUT_YIELD:
                await asyncio.sleep(0)
                yielded_at = loop.time()

    def check_deadlines(self, now: float) -> None:
        """Cancel reconciles that are overdue; report how many keys wait."""
        if self._in_progress:
            limit = self.controller.reconcile_timeout.total_seconds()
            for each in list(self._in_progress.values()):
                if now - each.began > limit and not each.overdue:
                    each.overdue = True
                    each.worker.cancel()
        depth = (len(self.queue), self.queue.failing)
        if depth != self._reported_depth:  # checked every second; a quiet controller has no change
            self._reported_depth = depth
            self._deps.meter.depth(self.controller.name, *depth)

    async def _run_one(self, key: ObjectKey, worker: asyncio.Task[None], loop: asyncio.AbstractEventLoop) -> float:
        self._reconciles += 1
        context = ReconcileContext(self.controller.name, key, self._reconciles)
        CURRENT.set(context)
        began = loop.time()
        running = self._in_progress[key] = _InProgress(began, worker)
        outcome = DONE
        try:
            again = await self._reconcile(key)
            self.queue.done(key, None if again is None else loop.time() + self._wait(again))
        except (ClusterError, HttpError, NotLeading) as error:
            outcome = DEFERRED
            self._deferred(context, error)
        except asyncio.CancelledError as error:
            if running.overdue:
                worker.uncancel()
            if worker.cancelling():
                raise
            # The reconcile was overdue, or waited for something that was cancelled: the worker continues.
            outcome = OVERDUE if running.overdue else FAILED
            self._failed(context, error)
        except Exception as error:  # noqa: BLE001 - the one place: a bad reconcile must not stop the worker
            outcome = FAILED
            self._failed(context, error)
        finally:
            del self._in_progress[key]
        now = loop.time()
        self._deps.meter.reconciled(self.controller.name, outcome, now - began)
        return now

    async def _reconcile(self, key: ObjectKey) -> datetime | None:
        for store in self.controller.writes:
            if store.behind(key):
                await store.wait_for_own_write(key)
        return await self.controller.reconciler.reconcile(key)

    def _wait(self, again: datetime) -> float:
        return min(max((again - self._deps.clock.now()).total_seconds(), SOONEST), LATEST)

    def _deferred(self, context: ReconcileContext, error: ClusterError | HttpError | NotLeading) -> None:
        asked = (error.retry_after if isinstance(error, ClusterBusy) else None) or timedelta()
        wait = self.queue.failed(context.key, min(asked, LONGEST_RETRY_AFTER).total_seconds())
        extra = {"reconcile": str(context), "key": str(context.key), "why": str(error), "wait": wait}
        self._log.info("reconcile deferred", extra=extra)

    def _failed(self, context: ReconcileContext, error: BaseException) -> None:
        wait = self.queue.failed(context.key)
        where = "".join(traceback.format_tb(error.__traceback__)[-FRAMES:])
        name = type(error).__name__
        extra = {"reconcile": str(context), "key": str(context.key), "error": name, "where": where}
        self._log.error("reconcile failed", extra=extra)
        fact = ReconcileFailed(context.controller, context.key, str(context), name, timedelta(seconds=wait))
        self._deps.journal.note(fact)


class Runtime:
    def __init__(self, reflectors: Sequence[CacheFeeder], controllers: Sequence[Controller], deps: RuntimeDeps) -> None:
        names = [controller.name for controller in controllers]
        assert len(set(names)) == len(names), f"two controllers of one name: {names}"
        self._reflectors = tuple(reflectors)
        self._loops = tuple(ControllerLoop(controller, deps) for controller in controllers)
        self._deps = deps
        self._by_store = {id(reflector.store): reflector for reflector in reflectors}
        for loop in self._loops:
            for store in loop.controller.stores():
                assert id(store) in self._by_store, (
                    f"no reflector fills the {store.resource.plural} of {loop.controller.name}"
                )
        self._stopping = asyncio.Event()
        self._workers: list[asyncio.Task[None]] = []
        self._readers: list[asyncio.Task[None]] = []

    @property
    def loops(self) -> tuple[ControllerLoop, ...]:
        return self._loops

    @property
    def synced(self) -> bool:
        """Every store holds a complete list."""
        return all(reflector.store.synced for reflector in self._reflectors)

    def stop(self) -> None:
        """Finish the reconciles in progress, start no other, and let `run` return."""
        self._stopping.set()

    async def run(self, leading: Awaitable[object], *, settled: Callable[[], None] | None = None) -> None:
        """Watch at once; reconcile from when `leading` is done and the stores that a controller reads are fresh.

        Returns after `stop`. `settled` is called once, when every store is synced (to freeze the garbage collector).
        An exception out of here is a bug of ours: leave the process.
        """
        async with asyncio.TaskGroup() as group:
            led = group.create_task(
                self._lead(leading), name="lead"
            )  # first: a replica that leads already needs one list, not two
            tasks = [group.create_task(reflector.run(), name="reflector") for reflector in self._reflectors]
            tasks.append(group.create_task(self._tick(), name="tick"))
            if settled is not None:
                tasks.append(group.create_task(self._settle(settled), name="settle"))
            await self._stopping.wait()
            for loop in self._loops:
                loop.queue.stop()
            await self._wind_down(led)
            for task in tasks:
                task.cancel()

    async def _lead(self, leading: Awaitable[object]) -> None:
        await leading
        lists = {store: reflector.list_again() for store, reflector in self._by_store.items()}
        async with asyncio.TaskGroup() as group:
            for loop in self._loops:
                group.create_task(self._drive(loop, lists), name=loop.controller.name)

    async def _drive(self, loop: ControllerLoop, lists: Mapping[int, int]) -> None:
        """Start the workers of one controller once its stores were listed after we began to lead."""
        for store in loop.controller.stores():
            await self._by_store[id(store)].listed(lists[id(store)])
        loop.open()
        async with asyncio.TaskGroup() as workers:
            for number in range(loop.controller.workers):
                worker = workers.create_task(loop.work(), name=f"{loop.controller.name}-{number}")
                (self._readers if loop.controller.read_only else self._workers).append(worker)

    async def _wind_down(self, led: asyncio.Task[None]) -> None:
        for reader in self._readers:
            reader.cancel()
        if self._workers:
            await asyncio.wait(self._workers, timeout=STOP_WITHIN)
        led.cancel()  # also one that still waits to lead, or for a list
        await asyncio.wait([led])

    async def _tick(self) -> None:
        loop, tick = asyncio.get_running_loop(), self._deps.tick
        while True:
            due = loop.time() + tick
            await asyncio.sleep(tick)
            now = loop.time()
            self._deps.meter.lag(max(0.0, now - due))
            for each in self._loops:
                each.check_deadlines(now)

    async def _settle(self, settled: Callable[[], None]) -> None:
        for reflector in self._reflectors:
            await reflector.store.wait_synced()
        settled()


def _waking(source: WatchSource, queue: Queue) -> Callable[[Any, Any], None]:
    add, keys = queue.add, source.keys
    if keys is own_key:  # the common case, without a tuple for each change

        def wake_own(old: Any, new: Any) -> None:
            add((old if new is None else new).key)

        return wake_own

    def wake(old: Any, new: Any) -> None:
        for key in keys(old, new):
            add(key)

    return wake
