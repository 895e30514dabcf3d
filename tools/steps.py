"""Named steps with a line each while they run: what `make check` and `make test` show a person."""

import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BIN = Path(sys.executable).parent


@dataclass(frozen=True)
class Step:
    name: str
    command: tuple[str, ...]
    loud: bool = False  # its own output is the show: not captured
    waits: bool = False  # for real time to pass, mostly: it leaves the cores to others
    after: str = ""  # the name of a step that must have ended, however it ended


def tool(name: str) -> str:
    return str(BIN / name)


FORMAT = Step("format", (tool("ruff"), "format", "--check", "--quiet", "."))
LINT = Step("lint", (tool("ruff"), "check", "--quiet", "."))
TYPES = Step("types", (tool("mypy"), "--no-error-summary"))
IMPORTS = Step("imports", (tool("lint-imports"), "--no-cache"))
STATIC = (FORMAT, LINT, TYPES, IMPORTS)


def run(steps: Sequence[Step]) -> int:
    """Run all of them, also after one failed, and give back 0 only if every one passed."""
    failed = [step.name for step in steps if not _run(step)]
    if failed:
        print(f"✗ failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def _run(step: Step) -> bool:
    began = time.perf_counter()
    print(f"· {step.name} …", flush=True)
    ended = subprocess.run(step.command, cwd=ROOT, capture_output=not step.loud, text=True, check=False)
    good = ended.returncode == 0
    if not good and not step.loud:
        print(ended.stdout + ended.stderr)
    print(f"{'✓' if good else '✗'} {step.name} ({time.perf_counter() - began:.1f} s)", flush=True)
    return good
