"""`python -m tests.sim.mutants.overlay FOLDER MODULE …`: run a module while files under FOLDER stand for shipped ones.

FOLDER holds only what a patch changed, under the same paths as in `src`. Everything else is imported from where it is,
with its bytecode: nothing has to be copied or compiled again to try a mutant.
"""

import runpy
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType


class Overlay(MetaPathFinder):
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        place = self._folder.joinpath(*fullname.split("."))
        if (package := place / "__init__.py").is_file():
            assert path is not None, "the top of the package is never patched"
            inside = [str(Path(each) / place.name) for each in path]
            return spec_from_file_location(fullname, package, submodule_search_locations=inside)
        module = place.with_suffix(".py")
        return spec_from_file_location(fullname, module) if module.is_file() else None


if __name__ == "__main__":
    _, folder, module, *rest = sys.argv
    sys.meta_path.insert(0, Overlay(Path(folder)))
    sys.argv = [module, *rest]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
