"""One name, one thing: a public class name is defined once in the package, and words that were replaced stay away."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
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


def with_such_words() -> Iterator[tuple[str, ast.AST]]:
    """Of all files only those in which one of the words stands at all: to parse two thousand takes ten seconds."""
    words = re.compile("|".join(sorted(REPLACED | ARGUMENTS)))
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            for node in ast.walk(ast.parse(text)) if words.search(text) else ():
                yield path.relative_to(ROOT).as_posix(), node


def words_of(name: str) -> set[str]:
    """`NoVault` is No and Vault."""
    return {name.strip("_"), *re.findall(r"[A-Z][a-z]+", name)}


def test_no_name_is_a_word_that_was_replaced():
    found = [
        f"{place}: {name}"
        for place, node in with_such_words()
        for name, bad in (
            (node.name, words_of(node.name) & REPLACED)
            if isinstance(node, ast.ClassDef)
            else (node.arg, {node.arg} & ARGUMENTS)
            if isinstance(node, ast.arg)
            else ("", set()),
        )
        if bad
    ]

    assert found == []
