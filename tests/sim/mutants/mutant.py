"""A copy of the package with one thing broken in it, and what a history does to it."""

import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
PATCHES = HERE / "patches"
BOUND_S = 120.0  # of one history; they take about a second
_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+\d+(?:,\d+)? @@")


class DoesNotApply(Exception):
    """The code has moved on: a mutant that is never made proves nothing."""


@dataclass(frozen=True, slots=True)
class Trial:
    code: int  # 0: every promise was kept; 1: one was broken
    said: str
    seconds: float


def names() -> list[str]:
    return sorted(path.stem for path in PATCHES.glob("*.patch"))


def about(name: str) -> str:
    """Its first line: what it does."""
    return (PATCHES / f"{name}.patch").read_text().splitlines()[0]


def make(name: str, into: Path) -> Path:
    """The shipped package under `into`, with the patch of this name applied. Without a name: as it is."""
    copy = into / (name or "unmutated")
    # Of links: quickly made, and with the bytecode beside it only what is patched has to be compiled again.
    shutil.copytree(ROOT / "src", copy, copy_function=os.symlink)
    if name:
        apply((PATCHES / f"{name}.patch").read_text(), copy, name)
    return copy


def apply(patch: str, onto: Path, name: str) -> None:
    """A unified diff, to the letter: each hunk has to be found once, where or near where it says."""
    for part in re.split(r"^--- a/", patch, flags=re.MULTILINE)[1:]:
        lines = part.splitlines(keepends=True)
        path = onto / lines[0].strip()
        text = path.read_text()
        for hunk in _hunks(lines[2:]):
            before = "".join(line[1:] for line in hunk if line[0] in " -")
            after = "".join(line[1:] for line in hunk if line[0] in " +")
            if text.count(before) != 1:
                raise DoesNotApply(f"{name}.patch: {lines[0].strip()} has not, once and only once:\n{before}")
            text = text.replace(before, after)
        path.unlink()  # the link; what it points to stays as it is
        path.write_text(text)


def _hunks(lines: list[str]) -> list[list[str]]:
    found: list[list[str]] = []
    for line in lines:
        if _HUNK.match(line):
            found.append([])
        elif line.strip("\n") or found:
            found[-1].append(line if line.strip("\n") else " \n")
    return found


def try_on(package: Path, history: str, seed: str) -> Trial:
    """Let a history happen to this package, in a process of its own."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join((str(package), str(ROOT))),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "tests.sim.mutants.histories", history, seed],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=BOUND_S,
        check=False,
    )
    words = done.stdout.strip() or done.stderr.strip()[-600:]
    return Trial(done.returncode, words, time.perf_counter() - began)
