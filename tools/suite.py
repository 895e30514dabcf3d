"""`make test`: the static checks, the tools the tests need (built once, then cached), and every test.

The tests run in parts, side by side. With arguments, only what they say, by one pytest: `make test T=tests/core`.
"""

import sys
import time

from tools.lanes import side_by_side, width
from tools.parts import PARTS, step
from tools.screen import LiveScreen, summary
from tools.steps import STATIC, Step, run

TOOLS = Step("tools", (sys.executable, "-m", "tools.toolbox", "--judges", "--mesh"), loud=True)


def main(chosen: list[str]) -> int:
    if chosen:
        return run([Step("tests", (sys.executable, "-m", "pytest", "--durations=15", *chosen), loud=True)])
    began = time.perf_counter()
    lacking = run([TOOLS])  # first, and with all cores; what needs none of them is tried in any case
    lanes = width()
    print(f"· {len(PARTS)} parts of tests and {len(STATIC)} checks, on {lanes} cores …", flush=True)
    runs = side_by_side([*(step(part) for part in PARTS), *STATIC], LiveScreen(), lanes)
    print("\n".join(summary(runs, time.perf_counter() - began)))
    return lacking or int(not all(one.good for one in runs))


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
