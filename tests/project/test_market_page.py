"""docs/market.md agrees with the code: conditions, reasons, texts of the table, keys."""

import ast
import re
from pathlib import Path

import pytest

from tgp.adapters.clouds.registry import facts_of
from tgp.api.common import PROVIDERS
from tgp.core.model.offer import Stock
from tgp.interfaces.cli.offers_view import SHORT_JOINS
from tgp.services.market_answers import JOINS, STOCK

ROOT = Path(__file__).resolve().parents[2]
RULES = ROOT / "src" / "tgp" / "core" / "classes"
PAGE = (ROOT / "docs" / "market.md").read_text(encoding="utf-8")
OF_THE_MARKET = frozenset({"CanBuy", "CredentialsValid", "OffersFresh", "SpotUnavailable"})
STATUSES = {"True": "True", "False": "False", "None": "Unknown"}  # as the rules write them → as a condition has them


def condition_updates() -> set[tuple[str, str, str]]:
    """(condition, status, reason) of every condition about the market that the code can set, from its source."""
    found = set()
    for name in ("market_status.py", "nodeclass.py", "can_buy.py"):
        for node in ast.walk(ast.parse((RULES / name).read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "ConditionUpdate":
                kind, status, reason = map(ast.unparse, node.args[:3])
                if ast.literal_eval(kind) in OF_THE_MARKET:
                    found.add((ast.literal_eval(kind), STATUSES[status], ast.literal_eval(reason)))
    return found


def documented() -> set[tuple[str, str, str]]:
    found, kind = set(), ""
    for line in PAGE.partition("## Conditions of a class")[2].splitlines():
        if row := re.match(r"\| (?:`(\w+)`)? ?\| (True|False|Unknown) `(\w+)` \|", line):
            kind = row[1] or kind
            found.add((kind, row[2], row[3]))
    return found


def test_every_condition_of_the_market_is_explained_and_no_other():
    assert documented() == condition_updates()
    assert {kind for kind, _, _ in condition_updates()} == OF_THE_MARKET


@pytest.mark.parametrize("text", [*JOINS.values(), *SHORT_JOINS.values(), *(STOCK[each] for each in Stock)])
def test_every_text_of_the_table_is_explained(text):
    assert f"`{text}`" in PAGE


def test_every_variable_that_may_hold_a_key_is_named():
    for facts in map(facts_of, PROVIDERS):
        for variable in (facts.key_variable, *facts.other_key_variables, facts.key_file_variable):
            assert not variable or f"`{variable}`" in PAGE, variable
