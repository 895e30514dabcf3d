"""docs/market.md says what the code says: conditions, reasons, words of the table, keys."""

import ast
import re
from pathlib import Path

import pytest

from tgp.app.clouds import PROVIDERS, facts_of
from tgp.app.counters import GOOGLE_FILE, OTHER_NAMES
from tgp.core.rules.class_market import OF_THE_MARKET
from tgp.surfaces.cli.offers_view import JOINS, SHORT_JOINS, STOCK, Stock

HOUSE = Path(__file__).resolve().parents[2]
RULES = HOUSE / "src" / "tgp" / "core" / "rules"
PAGE = (HOUSE / "docs" / "market.md").read_text(encoding="utf-8")
STATUSES = {"True": "True", "False": "False", "None": "Unknown"}  # as the rules write them → as a condition has them


def verdicts() -> set[tuple[str, str, str]]:
    """(condition, status, reason) of every verdict on the market that the rules can give, from their source."""
    found = set()
    for name in ("class_market.py", "nodeclass.py", "can_buy.py"):
        for node in ast.walk(ast.parse((RULES / name).read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Verdict":
                kind, status, reason = map(ast.unparse, node.args[:3])
                if ast.literal_eval(kind) in OF_THE_MARKET:
                    found.add((ast.literal_eval(kind), STATUSES[status], ast.literal_eval(reason)))
    return found


def documented() -> set[tuple[str, str, str]]:
    found, kind = set(), ""
    for line in PAGE.partition("## What a class says")[2].splitlines():
        if row := re.match(r"\| (?:`(\w+)`)? ?\| (True|False|Unknown) `(\w+)` \|", line):
            kind = row[1] or kind
            found.add((kind, row[2], row[3]))
    return found


def test_every_verdict_on_the_market_is_explained_and_no_other():
    assert documented() == verdicts()
    assert {kind for kind, _, _ in verdicts()} == OF_THE_MARKET


@pytest.mark.parametrize("word", [*JOINS.values(), *SHORT_JOINS.values(), *(STOCK[each] for each in Stock)])
def test_every_word_of_the_table_is_explained(word):
    assert f"`{word}`" in PAGE


def test_every_variable_that_may_hold_a_key_is_named():
    others = [name for names in OTHER_NAMES.values() for name in names]
    for variable in (*(facts_of(name).key_variable for name in PROVIDERS), *others, GOOGLE_FILE):
        assert not variable or f"`{variable}`" in PAGE, variable
