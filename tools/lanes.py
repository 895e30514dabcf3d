"""Steps side by side, as many at a time as the machine has cores, and some that only wait beside them.

What each one says is kept and shown in one piece.
"""

import os
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from tools.steps import ROOT, Step
from tools.told import VARIABLE, Began, Collected, Over, Reader, Spent
from tools.toolbox import child_process

POLL_S = 0.1
PATIENCE_S = 20.0  # after Ctrl-C: a control plane wants to be ended, too
LANES = "TGP_LANES"
NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"
GO_COLLECTS = "GOGC"
MORE_THAT_WAIT = 1  # beside as many as there are cores: each takes a tenth of one


@dataclass(slots=True)
class Run:
    """One step: while it runs, and what came of it."""

    step: Step
    seconds: float = 0.0
    code: int | None = None  # None: it runs still
    output: str = ""  # once it has ended
    collected: int = 0
    now: str = ""  # the test under way
    tests: list[Over] = field(default_factory=list)
    cpu_seconds: float = 0.0

    @property
    def good(self) -> bool:
        return self.code == 0

    def failed(self) -> list[Over]:
        return [test for test in self.tests if test.outcome == "failed"]


class Screen(Protocol):
    """Where people see it."""

    def failed(self, run: Run, test: Over) -> None: ...

    def ended(self, run: Run) -> None: ...

    def under_way(self, runs: Sequence[Run], waiting: int) -> None: ...


def width() -> int:
    """As many as there are cores for us, or what `TGP_LANES` says."""
    said = os.environ.get(LANES, "")
    if not said:
        return len(os.sched_getaffinity(0))
    if not said.isdecimal() or int(said) < 1:
        sys.exit(f"✗ {LANES}={said}: a number of processes is wanted, 1 or more")
    return int(said)


def surroundings() -> dict[str, str]:
    """The environment of every step: ours, but for what would have hundreds of short-lived programs do work twice.

    Python reads each file once and finds it compiled from then on, whatever the environment says: some parts start a
    new one for every test. Go collects its garbage a quarter as often: a control plane of minutes need not save memory.
    """
    return {GO_COLLECTS: "400", **{name: value for name, value in os.environ.items() if name != NO_BYTECODE}}


def side_by_side(steps: Sequence[Step], screen: Screen, lanes: int) -> list[Run]:
    """All of them, begun in this order where there is room, also after one failed; as they ended."""
    waiting, running, over = list(steps), list[_Lane](), list[Run]()
    with tempfile.TemporaryDirectory(prefix="tgp-lanes-") as folder:
        try:
            while waiting or running:
                pending = {step.name for step in waiting} | {lane.run.step.name for lane in running}
                while step := next((one for one in waiting if _may_begin(one, pending, running, lanes)), None):
                    waiting.remove(step)
                    running.append(_Lane(step, Path(folder), len(over) + len(running)))
                for lane in list(running):
                    if lane.look(screen):
                        running.remove(lane)
                        over.append(lane.run)
                        screen.ended(lane.run)
                screen.under_way([lane.run for lane in running], len(waiting))
                time.sleep(POLL_S)
        finally:
            _end(running)
    return over


def _may_begin(step: Step, pending: AbstractSet[str], running: Sequence["_Lane"], lanes: int) -> bool:
    return step.after not in pending and _has_room(step, running, lanes)


def _has_room(step: Step, running: Sequence["_Lane"], lanes: int) -> bool:
    """On one core, one at a time. On more, one that computes for each core, and beside them one more that wait."""
    if lanes == 1:
        return not running
    return sum(lane.run.step.waits == step.waits for lane in running) < lanes + (MORE_THAT_WAIT if step.waits else 0)


def _end(running: Sequence["_Lane"]) -> None:
    """First a Ctrl-C, so that tests can tidy up; no process outlives us in any case."""
    for lane in running:
        lane.interrupt()
    give_up_at = time.monotonic() + PATIENCE_S
    for lane in running:
        lane.wait(max(0.0, give_up_at - time.monotonic()))


class _Lane:
    def __init__(self, step: Step, folder: Path, number: int) -> None:
        self.run = Run(step)
        self._log = folder / f"{number}.log"
        told = folder / f"{number}.told"
        self._news = Reader(told)
        self._began = time.monotonic()
        self._process = child_process.spawn(step.command, self._log, {**surroundings(), VARIABLE: str(told)}, ROOT)

    def look(self, screen: Screen) -> bool:
        """True once it has ended."""
        code = self._process.poll()  # first: what it told before its end is then all read
        self.run.seconds = time.monotonic() - self._began
        for told in self._news.news():
            match told:
                case Collected(tests):
                    self.run.collected = tests
                case Began(test):
                    self.run.now = test
                case Over():
                    self.run.tests.append(told)
                    if told.outcome == "failed":
                        screen.failed(self.run, told)
                case Spent(cpu_seconds):
                    self.run.cpu_seconds = cpu_seconds
        if code is None:
            return False
        self.run.code = code
        self.run.output = self._log.read_text(errors="replace")
        return True

    def interrupt(self) -> None:
        if self._process.poll() is None:
            os.kill(self._process.pid, signal.SIGINT)

    def wait(self, patience_s: float) -> None:
        give_up_at = time.monotonic() + patience_s
        while self._process.poll() is None and time.monotonic() < give_up_at:
            time.sleep(POLL_S)
        child_process.stop(self._process, 1.0)
