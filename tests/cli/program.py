"""Our own program as a person starts it: within this process, with pipes, or on a terminal of its own."""

import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from click.testing import CliRunner

from tgp.app.main import tgp as command_line
from tools.controlplane.plane import quiet_environment

BOUND_S = 180.0  # for anything to appear, on a machine with much else to do
MARKET_PORT = "18010"  # or the next free one
MARKET_S = 3600  # it is ended with the last test; this is for a test run that was killed
OF_THIS_MACHINE = (
    "VAST_API_KEY",
    "RUNPOD_API_KEY",
    "LAMBDA_LABS_API_KEY",
    "PAPERSPACE_API_KEY",
    "VULTR_API_KEY",
    "GCP_SERVICE_ACCOUNT_JSON",
    "GOOGLE_APPLICATION_CREDENTIALS",
    "KUBECONFIG",
    "TGP_WORLD",
)

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


@dataclass(frozen=True)
class Answer:
    """What a command wrote, and the code it ended with."""

    returncode: int
    stdout: str
    stderr: str


def answer(*words: str, **variables: str) -> Answer:
    """Of a command that runs in this process: an import costs more than most commands. No key, cluster or market of
    this machine is visible to it, and what would be a traceback is raised.
    """
    hidden: dict[str, str | None] = dict.fromkeys(OF_THIS_MACHINE)
    ended = CliRunner().invoke(command_line, words, env={**hidden, "HOME": os.devnull, **variables})
    if ended.exception is not None and not isinstance(ended.exception, SystemExit):
        raise ended.exception
    return Answer(ended.exit_code, ended.stdout, ended.stderr)


@contextmanager
def a_market() -> Iterator[str]:
    """The address of `tgp sim` in a process of its own; in the end it shows its bill."""
    command = [sys.executable, *tgp("sim", "--port", MARKET_PORT, "--for", f"{MARKET_S}s")]
    with subprocess.Popen(command, env=environment(TGP_WORLD=""), stdout=subprocess.PIPE, text=True) as process:
        try:
            yield line_with(process, "TGP_WORLD=").partition("TGP_WORLD=")[2].split()[0]
            process.send_signal(signal.SIGINT)
            rest, _ = process.communicate(timeout=BOUND_S)
        finally:
            process.kill()
    assert process.returncode == 0
    assert "SPENT" in rest, "the bill is the last thing said"


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
