"""`make check`: what is quick enough to run before every commit."""

import sys
import time

from tools.lanes import side_by_side, width
from tools.screen import LiveScreen, summary
from tools.steps import STATIC, Step

QUICK = Step("quick tests", (sys.executable, "-m", "pytest", "-p", "tools.told", "tests/core", "tests/house"))

if __name__ == "__main__":
    began = time.perf_counter()
    runs = side_by_side([QUICK, *STATIC], LiveScreen(), width())
    print("\n".join(summary(runs, time.perf_counter() - began)))
    sys.exit(0 if all(run.good for run in runs) else 1)
