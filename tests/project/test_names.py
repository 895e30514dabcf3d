"""One name, one thing: a public class name is defined once in the package, and words that were replaced stay away."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

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
        for name in re.findall(r"^class ([A-Za-z]\w*)", path.read_text(encoding="utf-8"), re.MULTILINE):
            found[name].append(path.relative_to(PACKAGE).as_posix())
    return found


def test_a_class_name_is_defined_once():
    assert {name: files for name, files in definitions().items() if len(files) > 1} == {}


FOLDERS = ("src", "tests", "tools", "bench")
# Metaphors that docs/glossary.md has plain words for. As a class, and as a part of its name.
REPLACED = {
    *("Till", "Hallway", "Desk", "Wish", "Shelf", "Shelves", "Shop", "House", "Sight", "Papers", "Patience", "Dress"),
    *("Story", "Storyteller", "Scribe", "Lookout", "Roster", "Rosters", "Rounds", "Ghosts", "Wardrobe", "Luggage"),
    *(
        "Birth",
        "Vault",
        "Door",
        "Scene",
        "Teller",
        "Purse",
        "Twin",
        "Lack",
        "Stake",
        "Seller",
        "Switchboard",
        "Premises",
    ),
    *("Farewell", "PassedOver", "BootBook", "Turnstile"),
}
ARGUMENTS = {word.lower() for word in REPLACED} - {"rounds"} | {"visit"}  # a loop has rounds


# Where a class is defined, or one of the words stands as an argument may: only there is a file parsed.
CLASS = re.compile(r"^\s*class ([A-Za-z_]\w*)", re.MULTILINE)
ARGUMENT = re.compile(rf"\b(?:{'|'.join(sorted(ARGUMENTS))})\s*[:,=)#]")


def names(text: str) -> Iterator[tuple[str, set[str]]]:
    """Each class and argument of a file, with the replaced words in it."""
    for name in CLASS.findall(text):
        yield name, words_of(name) & REPLACED
    for node in ast.walk(ast.parse(text)) if ARGUMENT.search(text) else ():
        if isinstance(node, ast.arg):
            yield node.arg, {node.arg} & ARGUMENTS


def words_of(name: str) -> set[str]:
    """`NoVault` is No and Vault."""
    return {name.strip("_"), *re.findall(r"[A-Z][a-z]+", name)}


def test_no_name_is_a_word_that_was_replaced():
    found = [
        f"{path.relative_to(ROOT).as_posix()}: {name}"
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*.py"))
        for name, bad in names(path.read_text(encoding="utf-8"))
        if bad
    ]

    assert found == []


@pytest.mark.parametrize(
    "written",
    [
        "class Till: ...",
        "def f():\n    class _NoVault(Exception): ...",
        "def f(till): ...",
        "def f(a, *, till=1): ...",
        "def f(a, till: int) -> None: ...",
        "print(lambda a, *till: a)",
        "def f(\n    a,\n    till\n): ...",
    ],
)
def test_such_a_name_is_found_wherever_it_is_given(written):
    assert [bad for _, bad in names(written) if bad] != []
