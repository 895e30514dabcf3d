"""`make check`: what is quick enough to run before every commit."""

import sys
import time

from tools.lanes import side_by_side, width
from tools.screen import LiveScreen, summary
from tools.steps import COLLECTION, STATIC, Step

# Collecting imports every file of tests: what a rename left behind shows, also where the test itself is not quick.
PYTEST = ("env", "TGP_QUICK=1", sys.executable, "-m", "pytest", "-p", "tools.told")
LONG = ("tests/core/talos", "tests/core/market")  # half of all that tests/core takes
QUICK = (
    Step("quick tests", (*PYTEST, "tests/core", *(f"--ignore={path}" for path in LONG))),
    Step("more quick tests", (*PYTEST, *LONG, "tests/project")),
)

if __name__ == "__main__":
    began = time.perf_counter()
    runs = side_by_side([*QUICK, COLLECTION, *STATIC], LiveScreen(), width())
    print("\n".join(summary(runs, time.perf_counter() - began)))
    sys.exit(0 if all(run.good for run in runs) else 1)
