"""What a person sees of steps that run side by side: what is under way, a line when one ends, a summary to act on.

On a terminal the last line is rewritten; in a log it comes now and then. What a step said is shown when it has ended,
in one piece: all of it if it failed, and otherwise what is more than dots.
"""

import re
import shlex
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import chain

from tools.lanes import Run
from tools.told import Over

EVERY_S = {True: 0.5, False: 30.0}  # how often to say what is under way: on a terminal, in a log
WIDE = 110  # of a terminal's line; a longer one would wrap and could not be rewritten
SLOWEST, SLOW_S = 15, 5.0  # so many tests are named in the end, if they took longer than this
# What every pytest says: dots, and how many passed. The rest of a good run's output is something it wanted to tell.
USUAL = re.compile(r"[.sxX]+( *\[ *\d+%\])?|\d+ (passed|skipped).* in [\d.]+s.*|=+ warnings summary =+|")
PYTEST = ".venv/bin/python -m pytest"


class LiveScreen:
    """Implements `Screen`."""

    def __init__(self) -> None:
        self._terminal = sys.stdout.isatty()
        self._began = self._said_at = time.monotonic()
        self._over = 0

    def failed(self, run: Run, test: Over) -> None:
        self._line(f"  ✗ {test.test} (in {run.step.name})")

    def ended(self, run: Run) -> None:
        self._over += 1
        tests = f"{_count(run.tests)}, " if run.tests else ""
        cpu = f", {clock(run.cpu_seconds)} of processor time" if run.cpu_seconds else ""
        self._line(f"{'✓' if run.good else '✗'} {run.step.name} ({tests}{clock(run.seconds)}{cpu})")
        for line in said(run):
            self._line(f"    {line}")

    def under_way(self, runs: Sequence[Run], waiting: int) -> None:
        now = time.monotonic()
        if not runs and self._terminal:
            print("\r\x1b[K", end="", flush=True)  # what comes next begins a line
        if not runs or now - self._said_at < EVERY_S[self._terminal]:
            return
        self._said_at = now
        each = ", ".join(_progress(run) for run in runs)
        line = f"· {clock(now - self._began)}  {each}; {self._over} over, {waiting} to come"
        if self._terminal:
            print(f"\r\x1b[K{line[:WIDE]}", end="", flush=True)
        else:
            print(line, flush=True)

    def _line(self, line: str) -> None:
        print(f"\r\x1b[K{line}" if self._terminal else line, flush=True)


def said(run: Run) -> Iterator[str]:
    """Of a good run, what is more than the usual; of another, all."""
    lines = run.output.rstrip().splitlines()
    return (line for line in lines if not run.good or not USUAL.fullmatch(line.strip()))


def summary(runs: Sequence[Run], seconds: float) -> Iterator[str]:
    """How many, how long, and for what failed the command that tries it alone."""
    tests = list(chain.from_iterable(run.tests for run in runs))
    if tests:
        yield from _slowest(tests)
        cpu = sum(run.cpu_seconds for run in runs)
        yield f"{len(tests)} tests: {_count(tests)}, in {clock(seconds)} ({clock(cpu)} of processor time)"
    for run in runs:
        if not run.good:
            yield from _wrong(run)


def _slowest(tests: Sequence[Over]) -> Iterator[str]:
    for test in sorted(tests, key=lambda test: -test.seconds)[:SLOWEST]:
        if test.seconds > SLOW_S:
            yield f"  {test.seconds:6.1f} s  {test.test}"


def _wrong(run: Run) -> Iterator[str]:
    failed = run.failed()
    yield f"✗ {run.step.name}" + (f": {len(failed)} failed" if failed else f" ended with {run.code}")
    yield from (f"    {PYTEST} {shlex.quote(test.test)}" for test in failed)
    if not failed:
        yield f"    {shlex.join(run.step.command)}"
        if run.tests and run.now != run.tests[-1].test:
            yield f"    while {run.now} ran"


def _count(tests: Sequence[Over]) -> str:
    counts = {outcome: sum(test.outcome == outcome for test in tests) for outcome in ("passed", "failed", "skipped")}
    return ", ".join(f"{count} {outcome}" for outcome, count in counts.items() if count) or "no tests"


def _progress(run: Run) -> str:
    return f"{run.step.name} {len(run.tests)}/{run.collected or '?'}" if run.now else run.step.name


def clock(seconds: float) -> str:
    """Minutes and seconds."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02}"
