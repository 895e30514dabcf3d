"""One name, one thing: a public class name is defined once in the package."""

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "tgp"


def _is_wire(path: Path) -> bool:
    """A provider's own structs have the provider's own names."""
    return "clouds" in path.parts and "adapters" in path.parts and path.stem.startswith("wire")


def definitions() -> dict[str, list[str]]:
    """Public top-level classes of the package, each with the files that define it."""
    found = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        if _is_wire(path.relative_to(PACKAGE)):
            continue
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(path.relative_to(PACKAGE).as_posix())
    return found


def test_a_class_name_is_defined_once():
    assert {name: files for name, files in definitions().items() if len(files) > 1} == {}
