"""How this program is called from the current directory, for hints that the user can paste."""

import os
import shlex
import shutil
import sys
from functools import cache
from pathlib import Path

NAME = "tgp"


@cache
def program() -> str:
    return called(Path(sys.executable), Path.cwd(), shutil.which(NAME))


def called(python: Path, here: Path, found: str | None) -> str:
    """`tgp` if the shell finds this program; `.venv/bin/tgp` in a clone. `found`: the one on the PATH, if any."""
    own = python.parent / NAME  # where installing puts it, beside its Python
    if not os.access(own, os.X_OK) or (found is not None and Path(found).samefile(own)):
        return NAME
    return shlex.quote(str(own.relative_to(here) if own.is_relative_to(here) else own))
