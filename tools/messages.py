"""Print every sentence in the code that a user may read, with its place: `python -m tools.messages [path …]`.

Sentences are string literals of three words or more that are no docstring: messages of conditions and Events, errors,
output of the command line, help texts and field docs. What is filled in later is shown as {…}.
"""

import ast
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from tools.steps import ROOT

SOURCE = Path("src/tgp")
LEFT_OUT = ("src/tgp/sim/",)  # simulators speak as the real servers do
WORDS = 3


def messages(file: Path) -> Iterator[tuple[int, str]]:
    """(line, sentence) in the order of the file."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    passed = _docstrings(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            passed |= {id(part) for part in ast.walk(node) if part is not node}
    found = []
    for node in ast.walk(tree):
        if id(node) in passed or not isinstance(node, ast.JoinedStr | ast.Constant):
            continue
        text = " ".join(_shown(node).split())
        if len(text.split()) >= WORDS:
            found.append((node.lineno, text))
    yield from sorted(found)


def _docstrings(tree: ast.AST) -> set[int]:
    """Strings that stand alone: docstrings of modules, classes, functions and fields."""
    return {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}


def _shown(node: ast.AST) -> str:
    if isinstance(node, ast.JoinedStr):
        return "".join(_shown(part) for part in node.values)
    if isinstance(node, ast.FormattedValue):
        return "{…}"
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def main(chosen: list[str]) -> int:
    roots = [Path(each) for each in chosen] or [SOURCE]
    for root in roots:
        files = sorted(root.rglob("*.py")) if root.is_dir() else [root]
        for file in files:
            if not str(file).startswith(LEFT_OUT):
                for line, text in messages(file):
                    print(f"{file}:{line}: {text}")
    return 0


if __name__ == "__main__":
    os.chdir(ROOT)
    sys.exit(main(sys.argv[1:]))
