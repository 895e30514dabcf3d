"""Every field that is accepted has a tested effect."""

import ast
import tomllib
from functools import cache
from pathlib import Path

import pytest

from tgp.api.kinds import KINDS, LEGACY, Kind
from tools.reference import leaves

ROOT = Path(__file__).parents[3]
TABLE = tomllib.loads((ROOT / "docs" / "field-tests.toml").read_text(encoding="utf-8"))


def chapter(kind: Kind) -> str:
    return "LegacyBudget" if kind is LEGACY else kind.resource.kind


@pytest.mark.parametrize("kind", KINDS, ids=chapter)
def test_every_field_has_a_row_and_every_row_a_field(kind):
    """A new field without a row fails here, and so does a row whose field is gone."""
    rows = TABLE[chapter(kind)]

    assert list(rows) == leaves(kind)


def test_a_row_names_a_test():
    for kind in KINDS:
        for path, row in TABLE[chapter(kind)].items():
            assert list(row) == ["test"], f"{path}: {row}"
            assert exists(row["test"]), f"{path}: no such test: {row['test']}"


def test_a_test_that_does_not_exist_is_noticed():
    here = Path(__file__).relative_to(ROOT)

    assert exists(f"{here}::test_a_test_that_does_not_exist_is_noticed")
    assert not exists(f"{here}::test_of_nothing")
    assert not exists("tests/no_such_file.py::test_of_nothing")


def exists(named: str) -> bool:
    file, _, function = named.partition("::")
    return function in functions(file)


@cache
def functions(file: str) -> frozenset[str]:
    path = ROOT / file
    if not path.is_file():
        return frozenset()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return frozenset(node.name for node in found if node.name.startswith("test"))
