"""The `filter` parameter of Compute's lists, as far as anybody here uses it.

Two languages that do not mix: `field eq "regular expression"` (or `ne`), and comparisons (`=`, `!=`, `:`) in
parentheses that all must hold.
"""

import re
from collections.abc import Callable
from typing import Any, TypeAlias

Test: TypeAlias = Callable[[Any], bool]

_CLAUSE = re.compile(
    r"""\s*(?P<field>[A-Za-z][\w.-]*)\s*(?:(?P<word>\beq\b|\bne\b)\s*|(?P<sign>!=|=|:)\s*)(?P<value>"[^"]*"|'[^']*'|\S+)\s*\Z"""
)
_PARENTHESES = re.compile(r"\s*\(([^()]*)\)\s*(?:AND\b)?")


class BadFilter(Exception):
    """It cannot be read."""


def parse(text: str) -> Test:
    clauses = _clauses(text)
    tests = [_clause(clause) for clause in clauses]
    return lambda row: all(test(row) for test in tests)


def _clauses(text: str) -> list[str]:
    if not text.lstrip().startswith("("):
        return [text]
    found, rest = [], text
    while rest.strip():
        match = _PARENTHESES.match(rest)
        if match is None:
            raise BadFilter(text)
        found.append(match[1])
        rest = rest[match.end() :]
    return found


def _clause(text: str) -> Test:
    found = _CLAUSE.match(text)
    if found is None:
        raise BadFilter(text)
    path, told = found["field"].split("."), found["value"]
    value = told[1:-1] if told[:1] in "\"'" and len(told) > 1 else told
    if found["word"]:
        pattern = _pattern(value)
        wanted = found["word"] == "eq"
        return lambda row: (pattern.fullmatch(_text(row, path)) is not None) is wanted
    return _comparison(path, found["sign"], value)


def _comparison(path: list[str], sign: str, value: str) -> Test:
    if sign == ":":
        if value == "*":
            return lambda row: _text(row, path) != ""
        if value.endswith("*"):
            return lambda row: _text(row, path).startswith(value[:-1])
        return lambda row: value in _text(row, path)
    return lambda row: (_text(row, path) == value) is (sign == "=")


def _pattern(value: str) -> re.Pattern[str]:
    try:
        return re.compile(value)
    except re.error:
        raise BadFilter(value) from None


def _text(row: Any, path: list[str]) -> str:
    for name in path:
        row = row.get(name) if isinstance(row, dict) else None
    if isinstance(row, bool):
        return str(row).lower()
    return "" if row is None else str(row)
