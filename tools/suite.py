"""`make test`: the static checks, the tools the tests need (built once, then cached), and every test."""

import sys

from tools.steps import STATIC, Step, run

if __name__ == "__main__":
    chosen = sys.argv[1:]
    tests = Step("tests", (sys.executable, "-m", "pytest", "--durations=15", *chosen), loud=True)
    tools = Step("tools", (sys.executable, "-m", "tools.toolbox"), loud=True)
    sys.exit(run((tests,) if chosen else (*STATIC, tools, tests)))
