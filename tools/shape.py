"""Print the shape of a Python tree: `python -m tools.shape [folder]`, by default src/tgp.

Lengths of files and functions, how many modules have one importer, how much of the controllers is imports, and how many
functions a purchase goes through. They are a compass, not a ruler: nothing is cut to size for a number.
"""

import ast
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from statistics import median

from tools.steps import ROOT

LAST_TENTH = 0.9
USUAL = "src/tgp"


def modules(root: Path) -> dict[str, Path]:
    """By dotted name, beginning with the folder's own."""
    found = {}
    for file in sorted(root.rglob("*.py")):
        parts = file.relative_to(root.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return found


def importers(found: dict[str, Path]) -> Counter[str]:
    """How many modules of the tree import each of them."""
    counted: Counter[str] = Counter()
    for name, file in found.items():
        wanted = set()
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                whole = {f"{node.module}.{alias.name}" for alias in node.names}
                wanted |= {each if each in found else node.module for each in whole}
            elif isinstance(node, ast.Import):
                wanted |= {alias.name for alias in node.names}
        counted.update(each for each in wanted if each in found and each != name)
    return counted


def lengths_of_functions(files: list[Path]) -> list[int]:
    return [
        node.end_lineno - node.lineno + 1
        for file in files
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno is not None
    ]


def share_of_imports(files: list[Path]) -> float:
    imports = lines = 0
    for file in files:
        text = file.read_text(encoding="utf-8")
        lines += len(text.splitlines())
        for node in ast.parse(text).body:
            if isinstance(node, ast.Import | ast.ImportFrom) and node.end_lineno is not None:
                imports += node.end_lineno - node.lineno + 1
    return imports / lines if lines else 0.0


def class_names(files: list[Path]) -> Counter[str]:
    return Counter(
        node.name
        for file in files
        for node in ast.parse(file.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )


def _spread(lengths: list[int]) -> str:
    return f"p50 {median(lengths):.0f} lines, p90 {lengths[int(len(lengths) * LAST_TENTH)]}, longest {lengths[-1]}"


def main(chosen: list[str]) -> int:
    root = Path(chosen[0] if chosen else USUAL)
    found = modules(root)
    if not found:
        sys.exit(f"✗ {root}: there are no Python files")
    files = list(found.values())
    lengths = sorted(length for file in files if (length := len(file.read_text(encoding="utf-8").splitlines())))
    functions = sorted(lengths_of_functions(files))
    counted = importers(found)
    used = [name for name in found if counted[name]]
    once = sum(counted[name] == 1 for name in used)
    controllers = [file for file in files if "controllers" in file.parts]
    twice = [name for name, times in class_names(files).items() if times > 1]
    print(f"{root}: {len(files)} modules, {sum(lengths)} lines")
    print(f"  file       {_spread(lengths)}")
    print(f"  function   {_spread(functions)}")
    print(f"  modules with one importer   {once / len(used):.1%} of {len(used)}")
    print(f"  import lines in controllers   {share_of_imports(controllers):.1%}")
    print(f"  public class names defined more than once   {len(twice)}")
    if root == Path(USUAL):  # only this tree can be run
        said = subprocess.run((sys.executable, "-m", "tests.sim.hops"), capture_output=True, text=True, check=True)
        print(f"  hops from watch event to launch call   {said.stdout.strip()}")
    return 0


if __name__ == "__main__":
    os.chdir(ROOT)
    sys.exit(main(sys.argv[1:]))
