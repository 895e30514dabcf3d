"""Reads the dated tables. A file that says something twice, points at nothing or has no date is refused as a whole.

Every refusal names the file and the entry, so that an editor of the file finds the line.
"""

import tomllib
from collections.abc import Iterable, Mapping
from datetime import date
from pathlib import Path
from typing import Any

FIRST_DATE = date(2026, 1, 1)  # older than the project itself: a mistake


class BadTable(ValueError):
    """A data file with an error. The message names the file and the entry."""


class Table:
    """One data file, with its name for error messages."""

    def __init__(self, name: str, content: Mapping[str, Any]) -> None:
        self.name = name
        self._content = content
        self.dated = self._date()
        self.sources = tuple(self.texts(content, "sources", "the file"))
        if not self.sources:
            raise self.bad("the file", "names no source")

    def bad(self, entry: str, why: str) -> BadTable:
        return BadTable(f"{self.name}: {entry}: {why}")

    def expect(self, mapping: Mapping[str, Any], allowed: Iterable[str], entry: str) -> None:
        """Refuse an unknown key: it is a misspelt one."""
        permitted = frozenset(allowed)
        for key in mapping:
            if key not in permitted:
                raise self.bad(entry, f"{key} is not a field here")

    def text(self, mapping: Mapping[str, Any], key: str, entry: str) -> str:
        value = mapping.get(key)
        if not isinstance(value, str) or not value.strip():
            raise self.bad(entry, f"{key} must be a text")
        return value

    def texts(self, mapping: Mapping[str, Any], key: str, entry: str) -> tuple[str, ...]:
        """A list of texts without repetition; absent: empty."""
        value = mapping.get(key, [])
        if not isinstance(value, list) or not all(isinstance(each, str) and each.strip() for each in value):
            raise self.bad(entry, f"{key} must be a list of texts")
        if len(set(value)) != len(value):
            raise self.bad(entry, f"{key} contains a value twice")
        return tuple(value)

    def section(self, *keys: str) -> Mapping[str, Any]:
        """A table of the file; absent: empty."""
        found: Any = self._content
        for key in keys:
            found = found.get(key, {})
            if not isinstance(found, dict):
                raise self.bad(".".join(keys), "must be a table")
        return dict(found)

    def sections(self) -> tuple[str, ...]:
        """The names of the tables of the file."""
        return tuple(key for key, value in self._content.items() if isinstance(value, dict))

    def rows(self, key: str) -> tuple[Mapping[str, Any], ...]:
        """The [[entries]] of the file; none at all is refused."""
        found = self._content.get(key)
        if not isinstance(found, list) or not found or not all(isinstance(row, dict) for row in found):
            raise self.bad(key, "must be a list of entries, and not an empty one")
        return tuple(found)

    def top(self, key: str) -> tuple[str, ...]:
        return self.texts(self._content, key, "the file")

    def only(self, *keys: str) -> None:
        """Refuse unknown sections."""
        self.expect(self._content, ("dated", "sources", *keys), "the file")

    def _date(self) -> date:
        dated = self._content.get("dated")
        if type(dated) is not date:  # a datetime is a date too, and no day
            raise self.bad("dated", "must be the day of the last check, such as 2026-11-15")
        if dated < FIRST_DATE:
            raise self.bad("dated", f"{dated} is before the project began")
        return dated


def parse(name: str, text: str) -> Table:
    """The table a file's text holds; `BadTable` where it is none."""
    try:
        return Table(name, tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:  # its text names line and column; a key said twice is one too
        raise BadTable(f"{name}: {error}") from error


def load(name: str) -> Table:
    """A table that ships with the package."""
    return parse(name, Path(__file__).with_name(name).read_text(encoding="utf-8"))
