"""The virtual-time event loop: asyncio as it is, on a clock that jumps to the next timer instead of waiting for it.

Equal programs and equal seeds give equal runs. Nothing here reaches a socket, a thread or the real clock: code that
tries fails at once, because a simulation that waits for the outside world cannot be repeated.

Callbacks belong to the owner of the context they were scheduled in (`OWNER`). An owner may hold its callbacks back
(a paused process) or let them fall (a dead one); callbacks without an owner belong to the world and always run.
"""

# ruff: noqa: SLF001 - this is the inside of an event loop: Handle's and BaseEventLoop's own parts are its material

import asyncio
import heapq
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import suppress
from contextvars import Context, ContextVar
from random import Random
from typing import Any, NoReturn, Protocol, TypeVar, TypeVarTuple, Unpack

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

RESOLUTION = 1e-6  # seconds; still a distinct float after centuries of virtual time, which 1e-9 is not after months
MAX_TURNS_AT_ONE_INSTANT = 200_000  # a busy real turn has hundreds; this many mean that the program never waits
MAX_UNWINDS = 32  # awaits in nested `finally` blocks that one dead coroutine is taken through
MAX_LISTED_TASKS = 40  # in the text of a deadlock


class Deadlock(AssertionError):
    """All tasks wait and nothing is due: the message says which task waits where."""


class Livelock(AssertionError):
    """A task runs again and again and time cannot advance."""


class NoWayOut(AssertionError):
    """Simulated code reached for a thread, a socket or a program: take the port instead."""


class LoopOwner(Protocol):
    def holds(self, handle: asyncio.Handle) -> bool:
        """True: do not run this callback now; the owner has kept it, or let it fall."""
        ...


OWNER: ContextVar[LoopOwner | None] = ContextVar("owner", default=None)
_NO_OWNER = Context()


class VirtualLoop(asyncio.BaseEventLoop):
    """Time moves only when no task can run. `seed` other than None also shuffles tasks that are ready together."""

    # What BaseEventLoop keeps and typeshed does not show; the same names from 3.11 to 3.14.
    _ready: deque[asyncio.Handle]
    _scheduled: list[tuple[float, asyncio.TimerHandle]]  # ours has the time beside the timer: a heap compares all day
    _stopping: bool
    _closed: bool
    _check_closed: Callable[[], None]
    _timer_cancelled_count: int

    def __init__(self, seed: int | str | None = None, start: float = 0.0) -> None:
        super().__init__()
        self._instant = start
        self._turns_at_instant = 0
        self._order = None if seed is None else Random(f"order/{seed}")
        self._tasks: dict[asyncio.Task[Any], LoopOwner | None] = {}
        self.after_turn: Callable[[], None] | None = None
        """Called after each turn of the loop; what it raises ends the run."""
        self._ending = False

    def time(self) -> float:
        return self._instant

    @property
    def order(self) -> Random | None:
        return self._order

    @order.setter
    def order(self, order: Random | None) -> None:
        self._order = order

    # One turn.

    def _run_once(self) -> None:
        ready = self._ready
        cancelled = self._timer_cancelled_count
        if cancelled and self._scheduled and (cancelled > 100 or self._scheduled[0][1]._cancelled):
            self._discard_cancelled()
        if not ready and not self._stopping:
            self._jump()
        if self._scheduled and self._scheduled[0][0] < self._instant + RESOLUTION:
            self._collect_due()
        if len(ready) > 1 and self._order is not None:
            self._shuffle(self._order)
            ready = self._ready
        self._turns_at_instant += 1
        if self._turns_at_instant > MAX_TURNS_AT_ONE_INSTANT:
            raise Livelock(f"no end of callbacks at {self._instant:.6f} s:\n{self._who_waits()}")
        for _ in range(len(ready)):
            handle = ready.popleft()
            if handle._cancelled:
                continue
            context = handle._context  # type: ignore[attr-defined]  # get_context() came with 3.12
            owner = context.get(OWNER)
            if owner is None or not owner.holds(handle):
                try:
                    context.run(handle._callback, *handle._args)  # type: ignore[attr-defined]  # what Handle._run runs
                except (SystemExit, KeyboardInterrupt):
                    raise
                except BaseException as error:  # noqa: BLE001 - as asyncio: whatever a callback raises is reported
                    self._report(handle, error)
        if self.after_turn is not None:
            self.after_turn()

    def _report(self, handle: asyncio.Handle, error: BaseException) -> None:
        message = f"Exception in callback {handle!r}"
        self.call_exception_handler({"message": message, "exception": error, "handle": handle})

    def _discard_cancelled(self) -> None:
        """As asyncio does it: at once when they are most of the heap, else those that lie on top."""
        if self._timer_cancelled_count > 100 and self._timer_cancelled_count * 2 > len(self._scheduled):
            kept = []
            for entry in self._scheduled:
                if entry[1]._cancelled:
                    _unschedule(entry[1])
                else:
                    kept.append(entry)
            heapq.heapify(kept)
            self._scheduled = kept
            self._timer_cancelled_count = 0
        while self._scheduled and self._scheduled[0][1]._cancelled:
            self._timer_cancelled_count -= 1
            _unschedule(heapq.heappop(self._scheduled)[1])

    def _jump(self) -> None:
        if not self._scheduled:
            raise Deadlock(f"nothing will ever happen after {self._instant:.6f} s:\n{self._who_waits()}")
        due = self._scheduled[0][0]
        if due > self._instant:
            self._instant = due
            self._turns_at_instant = 0

    def _collect_due(self) -> None:
        scheduled, horizon = self._scheduled, self._instant + RESOLUTION
        while scheduled and scheduled[0][0] < horizon:
            handle = heapq.heappop(scheduled)[1]
            _unschedule(handle)
            self._ready.append(handle)

    def _shuffle(self, order: Random) -> None:
        """Permute the steps of tasks among their own places; a plain callback keeps its place, as protocols expect."""
        ready = list(self._ready)
        places = [place for place, handle in enumerate(ready) if _is_step(handle)]
        if len(places) < 2:
            return
        targets = places[:]
        order.shuffle(targets)
        shuffled = ready[:]
        for place, target in zip(places, targets, strict=True):
            shuffled[target] = ready[place]
        self._ready = deque(shuffled)

    def requeue(self, handles: Iterable[asyncio.Handle]) -> None:
        """Let callbacks run that their owner had held back."""
        self._ready.extend(handles)

    def end(self) -> None:
        """Nothing that waits will run any more: it is to be taken apart, not finished."""
        self._ending = True
        self.after_turn = None
        self._ready.clear()
        self._scheduled.clear()
        self._timer_cancelled_count = 0
        self._turns_at_instant = 0

    # What asyncio does, without what it does for debuggers and other threads: half of all that a simulation runs.

    get_debug = bool  # never: every Handle asks, and a type is called without a frame

    def call_soon(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        if self._closed:
            self._check_closed()
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_later(
        self, delay: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self._instant + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        if self._closed:
            self._check_closed()
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        timer._scheduled = True  # type: ignore[attr-defined]  # asyncio's mark for "is in the heap"
        heapq.heappush(self._scheduled, (when, timer))
        return timer

    # Who is there.

    def tasks(self) -> list[asyncio.Task[Any]]:
        """Every task that is not done, in the order they were made (asyncio.all_tasks is a set)."""
        return list(self._tasks)

    def tasks_of(self, owner: LoopOwner) -> list[asyncio.Task[Any]]:
        return [task for task, whose in self._tasks.items() if whose is owner]

    def create_task(self, coro: Any, **options: Any) -> "asyncio.Task[Any]":
        task = super().create_task(coro, **options)
        context: Context | None = options.get("context")
        self._tasks[task] = OWNER.get() if context is None else context.get(OWNER)
        task.add_done_callback(self._let_go, context=_NO_OWNER)
        return task

    def _let_go(self, task: asyncio.Task[Any]) -> None:
        self._tasks.pop(task, None)

    def forget(self, tasks: list[asyncio.Task[Any]]) -> None:
        """These are dead: they never end, and are not waited for."""
        for task in tasks:
            self._let_go(task)

    def _who_waits(self) -> str:
        waiting = self.tasks()
        lines = [f"  {task.get_name()} at {where_it_waits(task)}" for task in waiting[:MAX_LISTED_TASKS]]
        if len(waiting) > MAX_LISTED_TASKS:
            lines.append(f"  and {len(waiting) - MAX_LISTED_TASKS} more")
        return "\n".join(lines) or "  no task at all"

    # No way out.

    def run_in_executor(self, *_args: object, **_options: object) -> NoReturn:
        raise NoWayOut("a simulation has no threads: take Compute (or Resolver, for names)")

    def create_connection(self, *_args: object, **_options: object) -> NoReturn:
        raise NoWayOut("a simulation has no sockets: take Http")

    def create_server(self, *_args: object, **_options: object) -> NoReturn:
        raise NoWayOut("a simulation has no sockets: mount a Handler on the network")

    def create_datagram_endpoint(self, *_args: object, **_options: object) -> NoReturn:
        raise NoWayOut("a simulation has no sockets: take Http")

    def subprocess_exec(self, *_args: object, **_options: object) -> NoReturn:
        raise NoWayOut("a simulation starts no programs: take Exec")

    def subprocess_shell(self, *_args: object, **_options: object) -> NoReturn:
        raise NoWayOut("a simulation starts no programs: take Exec")

    def _process_events(self, _events: object) -> None:
        """There are none: nothing is selected on."""

    def _write_to_self(self) -> None:
        """There is no thread to wake."""

    def _asyncgen_finalizer_hook(self, agen: Any) -> None:
        """A dead owner's generators vanish with it; those of others are closed as asyncio does."""
        if self._ending or _owner_is_gone():
            return
        super()._asyncgen_finalizer_hook(agen)  # type: ignore[misc]  # asyncio's own, not in typeshed

    def __del__(self) -> None:
        """Nothing to warn about: there is no file descriptor to leak."""


def _owner_is_gone() -> bool:
    owner = OWNER.get()
    return owner is not None and bool(getattr(owner, "gone", False))


def _unschedule(handle: asyncio.TimerHandle) -> None:
    handle._scheduled = False  # type: ignore[attr-defined]  # asyncio's mark for "is in the heap"


def _is_step(handle: asyncio.Handle) -> bool:
    callback = handle._callback  # type: ignore[attr-defined]
    return isinstance(getattr(callback, "__self__", None), asyncio.Task)


def where_it_waits(task: "asyncio.Task[Any]") -> str:
    """The innermost line of our own that a task is stopped at, with the way to it."""
    return " > ".join(_chain(task.get_coro())) or "its end"


def _chain(coroutine: Any) -> Iterator[str]:
    for _ in range(64):  # deeper chains are cut: the text is for users
        frame = getattr(coroutine, "cr_frame", None) or getattr(coroutine, "ag_frame", None)
        if frame is None:
            return
        code = frame.f_code
        yield f"{code.co_qualname} ({code.co_filename.rsplit('/', 1)[-1]}:{frame.f_lineno})"
        coroutine = getattr(coroutine, "cr_await", None) or getattr(coroutine, "ag_await", None)


def bury(tasks: list["asyncio.Task[Any]"]) -> None:
    """Take dead tasks apart. Their `finally` blocks run, and whatever they try or raise is dropped.

    The caller has seen to it that no port of theirs reaches the world any more. Tasks that they start while they
    fall are the caller's to bury too.
    """
    for task in tasks:
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # asyncio's own switch for this
        if not task.done():
            _unwind(task.get_coro())
        elif not task.cancelled():
            task.exception()  # retrieved: no other reader will


def _unwind(coroutine: Any) -> None:
    for _ in range(MAX_UNWINDS):
        if _closed(coroutine):
            return


def _closed(coroutine: Any) -> bool:
    # Last words of the dead: in a real power cut these lines would not have run at all, so whatever they raise
    # (an await inside `finally` is a RuntimeError here) helps no reader.
    with suppress(BaseException):
        coroutine.close()
        return True
    return False


def run(main: Coroutine[Any, Any, T], *, seed: int | str | None = None) -> T:
    """Run `main` to its end on a loop of its own, as `asyncio.run` does, in no time at all."""
    loop = VirtualLoop(seed)
    try:
        return loop.run_until_complete(main)
    finally:
        close(loop)


def close(loop: VirtualLoop) -> None:
    """Close a loop that is no longer run, with everything that still waits on it."""
    loop.end()
    loop.run_until_complete(_bury_everybody(loop))
    loop.close()


async def _bury_everybody(loop: VirtualLoop) -> None:
    """On the loop, because what falls may reach for it: a `finally` that starts a task needs one that runs."""
    me = asyncio.current_task()
    for _ in range(MAX_UNWINDS):  # the falling may start tasks
        left = [task for task in loop.tasks() if task is not me]
        loop.forget(left)
        bury(left)
        if not left:
            break
    loop.end()  # the first steps of what was started meanwhile
