"""Exits the process when its leadership has lapsed, whatever the event loop is doing.

A loop that is blocked, or a process that was stopped and continued, cannot be asked to stop: by the time it runs again
another replica acts. So a separate thread checks the fence, on the clock that also counts while the machine sleeps.
A call that never releases the interpreter lock would block that thread too; a kernel timer is the last resort.
"""

import ctypes
import os
import signal
import threading
from collections.abc import Callable

from tgp.ports.clock import Clock
from tgp.ports.leadership import Fence

LAST_RESORT_EXIT_CODE = int(signal.SIGALRM)
LEASE_LOST_EXIT_CODE = 75  # sysexits' "try again": a supervisor restarts us
LOOK_EVERY = 0.25  # seconds
GRACE = 1.0  # seconds past the deadline for the loop to stop by itself, with a reason in the log
LAST_RESORT = 2.0  # seconds past the deadline: the thread itself did not get to run. Lease 15 s, deadline 10 s.
STDERR = 2


def end_without_the_interpreter(after: float | None) -> None:
    """Exit the process after so many seconds; None: cancel. Each call replaces the one before. The exit code is 14.

    The kernel's timer, and for its handler the C library's own `_exit`, which gets the signal's number: nothing
    of Python runs. A signal without a handler would not end a container's first process, and a traceback of threads
    that are still running (faulthandler's) has been seen to crash instead.
    """
    if after is not None:
        library = ctypes.CDLL(None)
        library.signal(signal.SIGALRM, library["_exit"])
    signal.setitimer(signal.ITIMER_REAL, 0.0 if after is None else max(after, 0.001))


class Watchdog:
    """Start it with the process. While we do not lead it does nothing."""

    def __init__(
        self,
        fence: Fence,
        clock: Clock,
        *,
        exit_process: Callable[[int], object] = os._exit,  # not sys.exit: no `finally` of ours may act any more
        last_resort: Callable[[float | None], None] = end_without_the_interpreter,
    ) -> None:
        self._fence = fence
        self._clock = clock
        self._exit = exit_process
        self._last_resort = last_resort
        self._armed_for: float | None = None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="lease-watchdog", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """For a graceful exit, after the Lease was released."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()

    def lapsed(self) -> bool:
        deadline = self._fence.deadline()
        return deadline is not None and self._clock.boottime() >= deadline + GRACE

    def _watch(self) -> None:
        while not self._stopped.wait(LOOK_EVERY):
            if self.lapsed():
                os.write(STDERR, b"tgp: leadership has lapsed; exiting at once so that no two replicas act\n")
                self._exit(LEASE_LOST_EXIT_CODE)
                break
            self._arm(self._fence.deadline())
        self._arm(None)

    def _arm(self, deadline: float | None) -> None:
        if deadline == self._armed_for:
            return
        self._armed_for = deadline
        self._last_resort(None if deadline is None else deadline + LAST_RESORT - self._clock.boottime())
