"""`make check`: what is quick enough to run before every commit."""

import sys

from tools.steps import STATIC, Step, run

QUICK = Step("quick tests", (sys.executable, "-m", "pytest", "tests/core", "tests/house"), loud=True)

if __name__ == "__main__":
    sys.exit(run((*STATIC, QUICK)))
