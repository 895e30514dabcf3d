"""`make check`: what is quick enough to run before every commit."""

import sys
import time

from tools.lanes import side_by_side, width
from tools.screen import LiveScreen, summary
from tools.steps import STATIC, Step

PYTEST = ("env", "TGP_QUICK=1", sys.executable, "-m", "pytest", "-p", "tools.told")
LONG = ("tests/core/talos", "tests/core/market")  # a third of all that tests/core takes
# Each takes more than five seconds, or a program that is built first, and is about the runner, recordings, the site,
# charts or a release: `make test` runs them.
SLOW = tuple(f"tests/project/test_{name}.py" for name in ("suite", "recording", "day", "site", "chart", "release"))
QUICK = (
    Step("quick tests", (*PYTEST, "tests/core", *(f"--ignore={path}" for path in LONG))),
    Step("more quick tests", (*PYTEST, *LONG, "tests/project", *(f"--ignore={path}" for path in SLOW))),
)
# Collecting imports every file of the other tests: what a rename left behind shows, also where the test is not quick.
COLLECTION = Step(
    "collection",
    (sys.executable, "-m", "pytest", "--collect-only", "-qq", "tests", "--ignore=tests/core"),
)

if __name__ == "__main__":
    began = time.perf_counter()
    runs = side_by_side([*QUICK, COLLECTION, *STATIC], LiveScreen(), width())
    print("\n".join(summary(runs, time.perf_counter() - began)))
    sys.exit(0 if all(run.good for run in runs) else 1)
