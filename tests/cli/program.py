"""Our own program as a person starts it: with pipes, or on a terminal of its own."""

import os
import pty
import select
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tools.controlplane.plane import quiet_environment

BOUND_S = 60.0  # for anything to appear, on a machine with much else to do

# Makes the pseudo-terminal the program's own, so that Ctrl-C typed there reaches it, and becomes the program.
ON_A_TERMINAL = (
    "import fcntl, os, sys, termios; os.setsid(); fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
    "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
)


def environment(**more: str) -> dict[str, str]:
    plain = {name: value for name, value in quiet_environment().items() if name not in {"NO_COLOR", "FORCE_COLOR"}}
    return {**plain, "PYTHONUNBUFFERED": "1", "TERM": "xterm-256color", **more}


def tgp(*arguments: str) -> list[str]:
    return ["-m", "tgp", *arguments]


@contextmanager
def started(where: Path, *arguments: str) -> Iterator["subprocess.Popen[str]"]:
    """With pipes; killed at the end if it still runs."""
    process = subprocess.Popen(
        [sys.executable, *arguments],
        cwd=where,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def line_with(process: "subprocess.Popen[str]", words: str) -> str:
    """The next line that has these words; fails when the program ends without one."""
    assert process.stdout is not None
    seen = []
    for line in process.stdout:
        seen.append(line)
        if words in line:
            return line
    raise AssertionError(f"ended without {words!r}: {''.join(seen)}")


class Terminal:
    """A program on a terminal of `columns` by `rows`; what it wrote there is in `written`."""

    def __init__(self, where: Path, *arguments: str, columns: int = 120, rows: int = 36, **more: str) -> None:
        self._master, slave = pty.openpty()
        self.resize(columns, rows)
        self.written = b""
        self.process = subprocess.Popen(
            [sys.executable, "-c", ON_A_TERMINAL, *arguments],
            cwd=where,
            env=environment(**more),
            stdin=slave,
            stdout=slave,
            stderr=slave,
        )
        os.close(slave)

    def resize(self, columns: int, rows: int) -> None:
        termios.tcsetwinsize(self._master, (rows, columns))

    def type(self, keys: bytes) -> None:
        os.write(self._master, keys)

    def settings(self) -> list[object]:
        """Its modes and characters, as `stty` shows them."""
        return termios.tcgetattr(self._master)

    def wait_for(self, words: bytes, after: int = 0) -> int:
        """Read on until `words` were written beyond `after`; gives the place behind them."""
        ends = time.monotonic() + BOUND_S
        while (found := self.written.find(words, after)) < 0:
            assert time.monotonic() < ends, f"{words!r} never came: {self.written[-2000:]!r}"
            assert self._read(), f"ended without {words!r}: {self.written[-2000:]!r}"
        return found + len(words)

    def wait(self) -> int:
        """Read to the end; gives the exit code."""
        while self._read():
            pass
        return self.process.wait(BOUND_S)

    def _read(self) -> bool:
        ready, _, _ = select.select([self._master], [], [], BOUND_S)
        assert ready, "nothing was written for too long"
        try:
            piece = os.read(self._master, 65_536)
        except OSError:  # the other side of the terminal is closed
            return False
        self.written += piece
        return bool(piece)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait(BOUND_S)
        with suppress(OSError):
            os.close(self._master)
