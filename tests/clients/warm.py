"""Run by a vendor's own Python: what its program imports is imported once, and each run of the program is a copy of us.

python warm.py <program> <its own package, or -> <module to import> …

A line of JSON on standard input is one run; the line that answers it has the exit code. Modules of the program's own
package are imported again by each run: they read their environment while they are imported.
"""

import importlib
import json
import os
import runpy
import sys
from typing import Any


def become(program: str, run: dict[str, Any]) -> None:
    """What a shell would have started: these words, this environment, nothing to read, and files to write to."""
    os.chdir(run["home"])
    os.environ.clear()
    os.environ.update(run["environment"])
    for number, path, how in ((0, os.devnull, os.O_RDONLY), (1, run["out"], os.O_WRONLY), (2, run["err"], os.O_WRONLY)):
        opened = os.open(path, how)
        os.dup2(opened, number)
        os.close(opened)
    sys.stdin, sys.stdout, sys.stderr = open(0), open(1, "w"), open(2, "w")  # noqa: SIM115 - for good
    sys.argv = [program, *run["words"]]
    runpy.run_path(program, run_name="__main__")


def main() -> None:
    program, own, *modules = sys.argv[1:]
    for name in modules:
        importlib.import_module(name)
    for name in [name for name in sys.modules if f"{name}.".startswith(f"{own}.")]:
        del sys.modules[name]
    for line in sys.stdin:
        child = os.fork()
        if not child:
            become(program, json.loads(line))
            return
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print(code, flush=True)


if __name__ == "__main__":
    main()
