"""The `filter` parameter of Compute's lists, as far as it is used here.

Two languages that do not mix: `field eq "regular expression"` (or `ne`), and comparisons (`=`, `!=`, `:`) joined by
AND (which may be left out), OR and NOT, with parentheses: `(labels.team = x) AND ((status = STAGING) OR (name:a*))`.
"""

import re
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

Test: TypeAlias = Callable[[Any], bool]

_CLAUSE = re.compile(
    r"""\s*(?P<field>[A-Za-z][\w.-]*)\s*(?:(?P<word>\beq\b|\bne\b)\s*|(?P<sign>!=|=|:)\s*)(?P<value>"[^"]*"|'[^']*'|\S+)\s*\Z"""
)
_PIECE = re.compile(
    r"""\s*(?P<sign>[()]|(?:AND|OR|NOT)\b)|\s*(?P<clause>[A-Za-z][\w.-]*\s*(?:!=|=|:)\s*(?:"[^"]*"|'[^']*'|[^\s()"']+))"""
)
DEEPEST = 16  # parentheses in parentheses


class BadFilter(Exception):
    """It cannot be read."""


def parse(text: str) -> Test:
    whole = _CLAUSE.match(text)
    if whole is not None and whole["word"]:
        return _clause(text)
    reader = _Reader(_pieces(text))
    test = reader.any_of(0)
    if reader.pieces:
        raise BadFilter(text)
    return test


def _pieces(text: str) -> deque[str]:
    found: deque[str] = deque()
    place = 0
    while text[place:].strip():
        match = _PIECE.match(text, place)
        if match is None:
            raise BadFilter(text)
        found.append(match["sign"] or match["clause"])
        place = match.end()
    return found


@dataclass(slots=True)
class _Reader:
    pieces: deque[str]

    def any_of(self, level: int) -> Test:
        tests = [self._all_of(level)]
        while self._take("OR"):
            tests.append(self._all_of(level))
        return lambda row: any(test(row) for test in tests)

    def _all_of(self, level: int) -> Test:
        tests = [self._one(level)]
        while self.pieces and self.pieces[0] not in ("OR", ")"):
            self._take("AND")
            tests.append(self._one(level))
        return lambda row: all(test(row) for test in tests)

    def _one(self, level: int) -> Test:
        if not self.pieces or level > DEEPEST:
            raise BadFilter("it ends too early, or is nested too deeply")
        if self._take("NOT"):
            refused = self._one(level + 1)
            return lambda row: not refused(row)
        if not self._take("("):
            return _clause(self.pieces.popleft())
        inner = self.any_of(level + 1)
        if not self._take(")"):
            raise BadFilter("a parenthesis is not closed")
        return inner

    def _take(self, sign: str) -> bool:
        if not self.pieces or self.pieces[0] != sign:
            return False
        self.pieces.popleft()
        return True


def _clause(text: str) -> Test:
    found = _CLAUSE.match(text)
    if found is None:
        raise BadFilter(text)
    path, raw = found["field"].split("."), found["value"]
    value = raw[1:-1] if raw[:1] in "\"'" and len(raw) > 1 else raw
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
