"""`make test`: the static checks, the tools the tests need (built once, then cached), and every test.

The tests run in parts, side by side; those that need no tools begin while tools are built. With arguments, only what
they say, by one pytest: `make test T=tests/core`.
"""

import sys
import time

from tools.lanes import side_by_side, width
from tools.parts import PARTS, TOOLS, step
from tools.screen import LiveScreen, summary
from tools.steps import STATIC, Step, run
from tools.toolbox.find import first_build
from tools.toolbox.pins import EVERYDAY, JUDGES, MESH

BUILD = Step(TOOLS, (sys.executable, "-m", "tools.toolbox", "--judges", "--mesh"))


def main(chosen: list[str]) -> int:
    if chosen:
        return run([Step("tests", (sys.executable, "-m", "pytest", "--durations=15", *chosen), loud=True)])
    began = time.perf_counter()
    lanes = width()
    for line in first_build((*EVERYDAY, *MESH, *JUDGES)):
        print(f"· {line}", flush=True)
    print(f"· {len(PARTS)} parts of tests and {len(STATIC)} checks, on {lanes} cores …", flush=True)
    # What takes half a minute on one core comes first: at the end the others would wait for it.
    runs = side_by_side([BUILD, *STATIC, *(step(part) for part in PARTS)], LiveScreen(), lanes)
    print("\n".join(summary(runs, time.perf_counter() - began)))
    return int(not all(one.good for one in runs))


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
