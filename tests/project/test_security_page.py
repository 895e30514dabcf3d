"""Every threat in docs/security.md names a test that exists."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
ROWS = [row for row in re.findall(r"^\| (.+) \|$", PAGE, re.MULTILINE) if not row.startswith(("threat ", "---"))]
LEAST = 20  # rows: as many threats were listed when the page was planned


def functions_of(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_no_threat_was_lost():
    assert len(ROWS) >= LEAST


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[:40])
def test_a_threat_names_its_tests(row):
    threat, answer, shown = row.split(" | ")
    named = re.findall(r"`tests/([\w/.]+)(?:::(\w+))?`", shown)

    assert threat
    assert answer
    assert named, "no test is named"
    assert len(named) == shown.count("`") // 2, "something else is named"
    for path, function in named:
        assert (ROOT / "tests" / path).is_file(), path
        assert not function or function in functions_of(ROOT / "tests" / path), f"{path}::{function}"
