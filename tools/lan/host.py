"""One computer: its own network, processes and /run; the files are shared."""

import ctypes
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tools.toolbox import child_process
from tools.toolbox.debian import SEARCHED

CLONE_NEWNET = 0x40000000  # linux/sched.h
PATIENCE_S = 30.0  # a killed program leaves its children behind
RUN_BOUND_S = 30.0
POLL_S = 0.02
LAST_LINES = 25
# Sockets of programs inside lie in /run, so two computers do not see each other's.
SETTLE = "mount -t tmpfs none /run && ip link set lo up && echo settled && exec sleep infinity"


class LanFailed(Exception):
    """Something did not start, or did not happen in time; the text shows what was said last."""


class Host:
    """Its end is the end of every process in it."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.folder = folder / name
        self.folder.mkdir(parents=True)
        self.address = ""  # on the network it is plugged into
        log = self.folder / "host.log"
        alone = ("unshare", "--net", "--pid", "--mount", "--uts", "--fork", "--kill-child", "--mount-proc")
        self._holder = child_process.spawn([*alone, "sh", "-c", SETTLE], log, env=_environment(None))
        self._programs: list[Program] = []
        try:
            wait_for(lambda: "settled" in log.read_text(), 10.0, lambda: f"{name} did not start: {log.read_text()}")
        except BaseException:
            self.stop()
            raise

    @property
    def pid(self) -> int:
        """Outside: by which others find its network."""
        return self._holder.pid

    def run(
        self, *argv: str, env: Mapping[str, str] | None = None, bound_s: float = RUN_BOUND_S, given: str = ""
    ) -> str:
        """A program inside, to its end; what it printed. Raises LanFailed."""
        try:
            done = subprocess.run(
                [*self._door(), *argv],
                input=given,
                capture_output=True,
                text=True,
                env=_environment(env),
                timeout=bound_s,
                check=False,
            )
        except subprocess.TimeoutExpired as error:
            raise LanFailed(f"{self.name}: {argv[0]} did not end within {bound_s:g} s") from error
        if done.returncode != 0:
            raise LanFailed(f"{self.name}: {' '.join(argv)} ended with {done.returncode}: {done.stderr.strip()}")
        return done.stdout

    def start(self, name: str, argv: Sequence[str], env: Mapping[str, str] | None = None) -> "Program":
        """A program inside that goes on."""
        program = Program(f"{self.name}/{name}", [*self._door(), *argv], self.folder / f"{name}.log", _environment(env))
        self._programs.append(program)
        return program

    @contextmanager
    def inside(self) -> Iterator[None]:
        """This thread is on the computer's network: sockets that are made now belong there, also afterwards."""
        own, theirs = Path(f"/proc/self/task/{threading.get_native_id()}/ns/net"), Path(f"/proc/{self.pid}/ns/net")
        with own.open() as home, theirs.open() as there:
            _enter(there.fileno())
            try:
                yield
            finally:
                _enter(home.fileno())

    def path(self, inside: str) -> Path:
        """A file in its own /run, as it is reached from outside."""
        return Path(f"/proc/{self.pid}/root{inside}")

    def stop(self) -> None:
        """Programs are asked to go; whatever is left is killed with the first process."""
        for program in reversed(self._programs):
            program.stop()
        child_process.stop(self._holder, 0.0)  # it listens to nothing less

    def _door(self) -> tuple[str, ...]:
        at = f"/proc/{self.pid}/ns"
        rooms = (f"--net={at}/net", f"--mount={at}/mnt", f"--uts={at}/uts", f"--pid={at}/pid_for_children")
        return ("nsenter", *rooms, "--")


class Program:
    """While it runs, and its log."""

    def __init__(self, name: str, argv: Sequence[str], log: Path, env: Mapping[str, str]) -> None:
        self.name = name
        self.log = log
        self._begins_at = log.stat().st_size if log.exists() else 0  # what an earlier one said stands above
        self._process = child_process.spawn(argv, log, env=env)

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def must_live(self) -> None:
        if not self.alive:
            raise LanFailed(f"{self.name} ended with {self._process.returncode}. {self.tail()}")

    def said_since_start(self) -> list[str]:
        return self.log.read_bytes()[self._begins_at :].decode(errors="replace").splitlines()

    def tail(self) -> str:
        lines = self.said_since_start()[-LAST_LINES:]
        return f"The end of {self.log}:\n" + "\n".join(f"    {line}" for line in lines)

    def stop(self) -> None:
        child_process.stop(self._process, PATIENCE_S)


def wait_for(done: Callable[[], bool], bound_s: float, why: Callable[[], str]) -> None:
    """Real programs take real time. Raises LanFailed."""
    give_up_at = time.monotonic() + bound_s
    while not done():
        if time.monotonic() > give_up_at:
            raise LanFailed(why())
        time.sleep(POLL_S)


def _environment(env: Mapping[str, str] | None) -> dict[str, str]:
    """Nothing of ours but the way to programs."""
    return {"PATH": SEARCHED, **(env or {})}


def _enter(descriptor: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(descriptor, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "setns")
