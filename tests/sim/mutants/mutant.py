"""The package with one thing broken in it, and what a history does to it."""

import re
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
    """A folder under `into` with the files that the patch of this name changes, as it changes them."""
    changed = into / name
    apply((PATCHES / f"{name}.patch").read_text(), ROOT / "src", changed, name)
    return changed


def apply(patch: str, shipped: Path, into: Path, name: str) -> None:
    """A unified diff, to the letter: each hunk has to be found once, where or near where it says."""
    for part in re.split(r"^--- a/", patch, flags=re.MULTILINE)[1:]:
        lines = part.splitlines(keepends=True)
        path = lines[0].strip()
        text = (shipped / path).read_text()
        for hunk in _hunks(lines[2:]):
            before = "".join(line[1:] for line in hunk if line[0] in " -")
            after = "".join(line[1:] for line in hunk if line[0] in " +")
            if text.count(before) != 1:
                raise DoesNotApply(f"{name}.patch: {path} has not, once and only once:\n{before}")
            text = text.replace(before, after)
        (into / path).parent.mkdir(parents=True, exist_ok=True)
        (into / path).write_text(text)


def _hunks(lines: list[str]) -> list[list[str]]:
    found: list[list[str]] = []
    for line in lines:
        if _HUNK.match(line):
            found.append([])
        elif line.strip("\n") or found:
            found[-1].append(line if line.strip("\n") else " \n")
    return found


def command(changed: Path, module: str, *words: str) -> tuple[str, ...]:
    """What runs a module on a mutant that was made there."""
    return (sys.executable, "-m", "tests.sim.mutants.overlay", str(changed), module, *words)


def try_on(changed: Path, history: str, seed: str) -> Trial:
    """Let a history happen to this mutant, in a process of its own."""
    began = time.perf_counter()
    done = subprocess.run(
        command(changed, "tests.sim.mutants.histories", history, seed),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=BOUND_S,
        check=False,
    )
    words = done.stdout.strip() or done.stderr.strip()[-600:]
    return Trial(done.returncode, words, time.perf_counter() - began)
