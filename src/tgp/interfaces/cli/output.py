"""How every command prints: tables as wide as the terminal for people, JSON or YAML for programs."""

import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

import click
from rich.cells import cell_len, set_cell_size
from rich.console import Console, RenderableType
from rich.text import Text

from tgp.core.model.money import amount, digits_of
from tgp.core.model.text import plain

UNBOUNDED = 1 << 16  # columns: nothing is cut
PIPED_WIDTH = 200  # columns without a terminal: wide enough for every table
NARROWEST = 40  # columns; below it lines are cut by the terminal
GAP = 2
TIGHT_GAP = 1

TABLES = frozenset({"table", "wide"})  # for people; the others are for programs
ROW_FORMATS = ("table", "wide", "json", "yaml", "name", "csv")  # -o of commands that print rows


class Formats(click.Choice[str]):
    """For -o. `text` is another word for `table`."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return super().convert("table" if value == "text" else value, param, ctx)


Cell: TypeAlias = tuple[str, str]  # text and its style


@dataclass(frozen=True, slots=True)
class TableColumn:
    head: str
    cells: tuple[Cell, ...]
    right: bool = False  # numbers are right-aligned
    longest: int = 0  # cells are cut to this width; 0: not cut

    @property
    def width(self) -> int:
        widest = max((cell_len(words) for words, _ in self.cells), default=0)
        return max(cell_len(self.head), min(widest, self.longest or widest))


def fits(columns: Sequence[TableColumn], width: int, gap: int = GAP) -> bool:
    return sum(column.width for column in columns) + gap * (len(columns) - 1) <= width


def table(columns: Sequence[TableColumn], width: int) -> list[Text]:
    """A header line and a line for every row, none longer than `width` and none with trailing blanks."""
    gap = GAP if fits(columns, width) else TIGHT_GAP
    heads = [(column.head, "dim") for column in columns]
    rows = zip(*(column.cells for column in columns), strict=True)
    shapes = [(column.width, column.right) for column in columns]
    return [_row(shapes, row, width, gap) for row in (heads, *rows)]


def _row(shapes: Sequence[tuple[int, bool]], cells: Sequence[Cell], width: int, gap: int) -> Text:
    """`shapes` are each column's width, and whether it is right-aligned."""
    line = Text(no_wrap=True, overflow="ellipsis")
    for number, ((column_width, right), (words, style)) in enumerate(zip(shapes, cells, strict=True)):
        shown = cut(words, column_width)
        padding = " " * (column_width - cell_len(shown))
        line.append(" " * gap if number else "")
        line.append(padding if right else "")
        line.append(shown, style)
        line.append("" if right else padding)
    line.rstrip()
    line.truncate(width, overflow="ellipsis")
    return line


def cut(words: str, width: int) -> str:
    shown = plain(words)
    return shown if cell_len(shown) <= width else set_cell_size(shown, width - 1).rstrip() + "…"


def wrapped(words: str, width: int, *, first: str = "", rest: str = "", style: str = "") -> list[Text]:
    """A paragraph within `width`; `first` starts its first line, `rest` the others."""
    lines, line = [], first
    room = max(width, NARROWEST)
    for word in plain(words).split(" "):
        blank = "" if line in {first, rest} else " "
        if blank and cell_len(line) + 1 + cell_len(word) > room:
            lines.append(line)
            line, blank = rest, ""
        line += blank + word
    lines.append(line)
    return [_prefixed(line, first if number == 0 else rest, style) for number, line in enumerate(lines)]


def _prefixed(line: str, prefix: str, style: str) -> Text:
    text = Text(prefix, no_wrap=True, overflow="ellipsis")
    text.append(line[len(prefix) :], style)
    return text


def dollar_cells(prices: Sequence[int], style: str = "") -> tuple[Cell, ...]:
    """All with as many digits as one of them needs, so that decimal points are aligned."""
    digits = max(map(digits_of, prices), default=2)
    return tuple((amount(price, digits=digits), style) for price in prices)


def terminal_width() -> int:
    """Of the terminal; `COLUMNS` if it is set."""
    columns = os.environ.get("COLUMNS", "")
    if columns.isascii() and columns.isdigit() and int(columns):
        return max(int(columns), NARROWEST)
    return max(Console().width, NARROWEST) if sys.stdout.isatty() else PIPED_WIDTH


def show(renderable: RenderableType, width: int) -> None:
    """With colours only on a terminal, and without if NO_COLOR is set."""
    Console(width=width, highlight=False).print(renderable)


@contextmanager
def waiting(words: str) -> Iterator[None]:
    """A spinner while the block runs, on a terminal only."""
    if not sys.stderr.isatty():
        yield
        return
    with Console(stderr=True).status(words, spinner="dots"):
        yield


def _utf8() -> bool:
    return (getattr(sys.stdout, "encoding", None) or "utf-8").lower().replace("-", "").startswith("utf")


def as_json(value: Mapping[str, Any]) -> str:
    return json.dumps(value, indent=2, ensure_ascii=not _utf8())


def write(value: Mapping[str, Any], how: str) -> None:
    """As `json` or `yaml`."""
    if how == "json":
        click.echo(as_json(value))
        return
    from tgp.api.crds import as_yaml  # imports all kinds: not needed for a table

    click.echo(as_yaml(value), nl=False)


def write_rows(value: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], names: Sequence[str], how: str) -> None:
    """A document of rows as `json`, `yaml`, `name` (one per line, as other commands take it) or `csv`."""
    if how in {"json", "yaml"}:
        write(value, how)
    elif how == "name":
        for name in names:
            click.echo(name)
    else:
        click.echo(_as_csv([dict(_flat(row)) for row in rows]), nl=False)


def print_rows(
    render: Callable[[int], RenderableType], made: Mapping[str, Any], rows: str, names: Sequence[str], how: str
) -> None:
    """What one of ROW_FORMATS asks for: a table by `render` for a width, or the document with its rows."""
    if how in TABLES:
        width = UNBOUNDED if how == "wide" else terminal_width()
        show(render(width), width)
    else:
        write_rows(made, made[rows], names, how)


def _as_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    """A column for each field that any row has, in the order of the first row; no row: nothing at all."""
    import csv  # not needed for a table
    import io

    named = list(dict.fromkeys(head for row in rows for head in row))
    heads = [head for head in named if not any(other.startswith(f"{head}.") for other in named)]  # null in some rows
    out = io.StringIO()
    writer = csv.DictWriter(out, heads, restval="", extrasaction="ignore", lineterminator="\n")
    if heads:
        writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def _flat(row: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """`request.name` for a field of a field; null is empty, and a list is its items in JSON."""
    for key, value in row.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{before}{key}.")
        elif isinstance(value, list | bool):
            yield f"{before}{key}", json.dumps(value, ensure_ascii=False)
        else:
            yield f"{before}{key}", "" if value is None else value
