"""`python -m tests.sim.mutants.random_faults [NAME …]`: which broken protocols the safety bench notices by itself.

Histories aim at one moment; runs with random faults do not. A mutant that such a run kills
shows that a clean score of the benchmark means something.
"""

import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from bench.safety.run import PER_WORLD, Plan, run_world
from tests.sim.mutants.mutant import ROOT, command, make

WORLDS = 4  # of a day each, half of them with pools, before a mutant counts as alive
# The promise that each breaks first. Where several stand there, it is a matter of luck which.
NOTICED: dict[str, tuple[str, ...]] = {
    "end-believed-at-once": ("I9",),
    "empty-list-believed": ("I9",),
    "finalizer-early": ("I13",),
    "limit-outside-the-ledger": ("I3",),
    "no-collector": ("I2", "I1"),
    "no-compare-and-swap": ("I14",),
    "no-fence": ("I19",),
    "no-finalizer": ("I13",),
    "one-list-is-enough": ("I9", "I1"),
    "orders-again-at-once": ("I6",),
    "orders-for-another-epoch": ("I6", "I19"),
    "stopped-is-gone": ("I9",),
    "unknown-is-refusal": ("I9", "I1"),
    "wiped-status-buys": ("I1", "I3"),
}
# Within four hours of faults: `make test` tries these, `make prove` all.
NOTICED_SOON = (
    "end-believed-at-once",
    "finalizer-early",
    "no-collector",
    "no-compare-and-swap",
    "no-fence",
    "no-finalizer",
    "orders-again-at-once",
    "stopped-is-gone",
    "unknown-is-refusal",
)


@dataclass(frozen=True, slots=True)
class Death:
    seed: int
    said: str  # the first accusation

    @property
    def promise(self) -> str:
        return self.said.partition(":")[0]

    @property
    def when(self) -> str:
        """How long the faults took; empty: the accusation names no moment."""
        found = re.search(r"\[([0-9.]+) s\]", self.said)
        if found is None:
            return ""
        minutes = round(float(found[1]) / 60)
        return f"{minutes} min" if minutes < 60 else f"{round(minutes / 60)} h"


def try_on(name: str, worlds: int = WORLDS) -> Death | None:
    """Let runs with faults happen to a mutant, each in a process of its own; None: it survives them all."""
    with tempfile.TemporaryDirectory() as place:
        changed = make(name, Path(place))
        for seed in range(1, worlds + 1):
            done = subprocess.run(
                command(changed, "tests.sim.mutants.random_faults", "--world", str(seed)),
                cwd=ROOT,
                capture_output=True,
                text=True,
                check=False,
            )
            if said := done.stdout.strip() or done.stderr.strip()[-600:]:
                return Death(seed, said)
    return None


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["--world"]:
        print(run_world(Plan(int(arguments[1]), PER_WORLD)).failure)
        return 0
    alive = 0
    print("| mutant | seed | promise, and when |\n|---|---|---|")
    for name in arguments or sorted(NOTICED):
        death = try_on(name)
        alive += death is None
        print(f"| {name} | {death.seed} | {death.promise}, {death.when} |" if death else f"| {name} | survived | |")
    return 1 if alive else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
