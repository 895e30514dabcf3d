"""Child processes that cannot outlive us, not even when we are killed with no chance to tidy up.

A child is started through this very file, run as a script: it asks the kernel for SIGKILL at its parent's death and
then becomes the program. The kernel watches the *thread* that started the child, so all starting is done by one thread
that lives as long as the process.
"""

import ctypes
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import cache
from pathlib import Path

PR_SET_PDEATHSIG = 1  # linux/prctl.h
PARENT_GONE = 125  # our parent died before the kernel could be asked
CANNOT_RUN = 126  # what shells answer for a program that cannot be executed


def spawn(
    argv: Sequence[str], log: Path, env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> subprocess.Popen[bytes]:
    """Start a program in its own process group with both outputs appended to `log`."""
    command = [sys.executable, "-I", "-S", __file__, str(os.getpid()), *argv]
    started: Future[subprocess.Popen[bytes]] = Future()

    def start() -> None:
        try:
            with log.open("ab") as out:
                started.set_result(
                    subprocess.Popen(
                        command,
                        stdin=subprocess.DEVNULL,
                        stdout=out,
                        stderr=out,
                        env=env,
                        cwd=cwd,
                        start_new_session=True,
                    )
                )
        except OSError as error:
            started.set_exception(error)

    _errands().put(start)
    return started.result()


def stop(process: subprocess.Popen[bytes], patience_s: float) -> bool:
    """End a program and its group for sure; True if it went when asked, False if it had to be killed."""
    if process.poll() is not None:
        return True
    os.killpg(process.pid, signal.SIGTERM)  # not reaped yet, so the number is still its own
    try:
        process.wait(patience_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return False
    return True


@cache
def _errands() -> "queue.SimpleQueue[Callable[[], None]]":
    waiting: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()

    def run_errands() -> None:
        while True:
            waiting.get()()

    threading.Thread(target=run_errands, name="child_process", daemon=True).start()
    return waiting


def end_with(parent: int) -> None:
    """Called in a child: the kernel kills it when the thread that started it ends."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL) != 0 or os.getppid() != parent:
        sys.exit(PARENT_GONE)


def _become(parent: int, argv: list[str]) -> None:
    end_with(parent)
    try:
        os.execvp(argv[0], argv)  # noqa: S606 - becoming the program is the point
    except OSError as error:
        sys.stderr.write(f"cannot run {argv[0]}: {error.strerror}\n")
        sys.exit(CANNOT_RUN)


if __name__ == "__main__":
    _become(int(sys.argv[1]), sys.argv[2:])
