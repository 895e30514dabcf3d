"""What a table's column is, and what turns an object into cells."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeAlias

Cells: TypeAlias = Callable[[Mapping[str, Any], datetime], list[Any]]


@dataclass(frozen=True, slots=True)
class TableColumnSpec:
    name: str
    type: str = "string"
    priority: int = 0  # 0: always shown; more: only with `-o wide`
    format: str = ""
    description: str = ""

    def as_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": self.description or f"{self.name} of the object.",
            "priority": self.priority,
        }


@dataclass(frozen=True, slots=True)
class Printer:
    columns: tuple[TableColumnSpec, ...]
    cells: Cells


def columns(shown: str, wide: str = "") -> tuple[TableColumnSpec, ...]:
    """Columns from their titles, separated by `|`; `:i` and `:b` mark integers and booleans. `Name` names the row."""
    titles = [(title, 0) for title in shown.split("|")] + [(title, 1) for title in wide.split("|")]
    return tuple(_column(title, priority) for title, priority in titles if title)


def _column(title: str, priority: int) -> TableColumnSpec:
    name, _, mark = title.partition(":")
    kind = {"": "string", "i": "integer", "b": "boolean"}[mark]
    return TableColumnSpec(name, kind, priority, "name" if name == "Name" else "")
