"""`python -m tests.sim.mutants [NAME …]`: make the mutants, let their histories kill them, and print the table."""

import sys
import tempfile
from pathlib import Path

from tests.sim.mutants.histories import PROMISE_BROKEN
from tests.sim.mutants.kills import KILLS
from tests.sim.mutants.mutant import make, try_on


def main(chosen: list[str]) -> int:
    alive = 0
    print("| mutant | killed by | seed | promise | seconds |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as place:
        for name in chosen or sorted(KILLS):
            kill = KILLS[name]
            trial = try_on(make(name, Path(place)), kill.history, kill.seed)
            killed = trial.code == PROMISE_BROKEN
            alive += not killed
            promise = trial.said.partition(":")[0][:60] if killed else "SURVIVED"
            print(f"| {name} | {kill.history} | {kill.seed} | {promise} | {trial.seconds:.1f} |", flush=True)
    print(f"mutants={len(chosen or KILLS)} survived={alive}")
    return 1 if alive else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
