"""docs/glossary.md names only what exists."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")


def rows() -> list[tuple[str, str]]:
    """(word, last column) of every row of every table."""
    lines = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith("| word |")]
    return [
        (cells[0], cells[-1]) for cells in ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
    ]


def defined_in(path: Path) -> set[str]:
    """Classes and type aliases at the top level of a module."""
    names = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        match node:
            case ast.ClassDef(name=name) | ast.AnnAssign(target=ast.Name(id=name)):
                names.add(name)
            case ast.Assign(targets=[ast.Name(id=name)]):
                names.add(name)
    return names


def test_the_glossary_is_a_dictionary_and_not_a_book():
    assert 20 <= len(rows()) <= 40
    words = [word for word, _ in rows()]
    assert len(words) == len(set(words))


@pytest.mark.parametrize(("word", "where"), rows(), ids=[word for word, _ in rows()])
def test_every_name_in_it_exists(word, where):
    (path,) = re.findall(r"`(src/[\w/]+\.py)`", where)
    classes = re.findall(r"`([A-Z]\w+)`", where)

    assert (ROOT / path).is_file(), word
    assert set(classes) <= defined_in(ROOT / path), word
