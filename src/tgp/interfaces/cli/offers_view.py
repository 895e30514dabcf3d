"""Offers in a table or a document: price, availability, and whether the machine can become a node.

Plain values in, text out. As many columns as fit the terminal; the GPU, the price, the availability and the way to
join are never left out.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

from rich.console import Group, RenderableType
from rich.text import Text

from tgp.core.model.money import amount
from tgp.core.model.offer import BootMode
from tgp.interfaces.cli.next_step import next_lines
from tgp.interfaces.cli.output import (
    GAP,
    TIGHT_GAP,
    UNBOUNDED,
    Cell,
    TableColumn,
    dollar_cells,
    fits,
    table,
    wrapped,
)
from tgp.interfaces.terminal.snapshot import age
from tgp.services.documents.market import counted
from tgp.services.market_answers import STOCK, GpuModelRow, NoKey, OfferItem, OfferNotes, ProviderTrouble

SHOWN = 25  # rows of a table by default: one screen, with the footer
LONGEST_GPU = 18
SHORTEST_GPU = 13
LONGEST_PLACE = 24
AGE_COLOURED_AFTER = 600  # seconds; five missed refreshes at the usual pace
INDENT = "  "

STOCK_STYLES = {"confirmed": "green", "likely": "yellow", "unknown": "dim", "sold out": "red"}
SHORT_JOINS = {
    BootMode.NATIVE: "talos",
    BootMode.TAKEOVER: "talos?",
    BootMode.CONTAINER: "no",
    BootMode.POWER: "owned",
}
JOIN_STYLES = {
    BootMode.NATIVE: "green",
    BootMode.TAKEOVER: "yellow",
    BootMode.CONTAINER: "dim",
    BootMode.POWER: "cyan",
}
CONTAINER, WITHOUT_DRIVER = "container offer", "vGPU offer"  # in the plural with an s
UNPROVEN = "talos?: Talos is written over the vendor's Linux; not yet proven there."
CONTAINERS = "no: containers, which cannot boot Talos; tgp does not buy them for a Talos cluster."


def render(
    rows: Sequence[OfferItem], notes: OfferNotes, width: int, *, wide: bool = False, limit: int = SHOWN
) -> Group:
    """`limit` 0: every row. No line is longer than `width`, unless `wide` needs more."""
    shown = rows[:limit] if limit else rows
    lines: list[RenderableType] = []
    if shown:
        columns = _wide(shown) if wide else columns_within(shown, width)
        lines += table(columns, UNBOUNDED if wide else width)
    else:
        known = bool(notes.rejected or notes.dropped or notes.folded)
        lines.append(Text("No offer fits." if known else "No offers are known.", style="bold"))
    return Group(*lines, Text(), *footer(rows, len(shown), notes, width, legend=not wide))


def folded(rows: Sequence[OfferItem], notes: OfferNotes) -> tuple[tuple[OfferItem, ...], OfferNotes]:
    """Only offers that can become a node, and the number of others; all offers if none can."""
    joining = tuple(row for row in rows if row.joins)
    rest = Counter(WITHOUT_DRIVER if row.no_driver else CONTAINER for row in rows if not row.joins)
    return (joining, replace(notes, folded=rest)) if joining else (tuple(rows), notes)


def columns_within(rows: Sequence[OfferItem], width: int) -> list[TableColumn]:
    """All columns with long texts; then, until they fit: short texts, fewer columns, cut texts."""
    columns = _all(rows)
    for gap, smaller in _smaller(rows):
        if fits(list(columns.values()), width, gap):
            break
        steps = {name: smaller.get(name, column) for name, column in columns.items()}
        columns = {name: column for name, column in steps.items() if column is not None}
    return list(columns.values())


def _smaller(rows: Sequence[OfferItem]) -> list[tuple[int, dict[str, TableColumn | None]]]:
    """Each step replaces columns, or drops them (None), the least important first.

    A step is taken if the columns do not fit with its gap between them: the gap shrinks before the last columns go.
    """
    return [
        (GAP, {"join": TableColumn("JOIN", tuple((_short_join(row), _join_style(row)) for row in rows))}),
        (GAP, {"vcpus": None, "memory": None}),
        (GAP, {"source": None}),
        (GAP, {"place": None}),
        (GAP, {"kind": TableColumn("SPOT", tuple(("spot" if row.spot else "", "") for row in rows))}),
        (GAP, {"stock": TableColumn("STOCK", tuple(_stock(row, short=True) for row in rows))}),
        (GAP, {"vram": None}),
        (TIGHT_GAP, {"gpu": _gpu(rows, LONGEST_GPU)}),
        (TIGHT_GAP, {"per_gpu": None}),  # the price that rows are sorted by stays
        (TIGHT_GAP, {"region": None}),
        (TIGHT_GAP, {"age": None}),
        (TIGHT_GAP, {"kind": None}),
        (TIGHT_GAP, {"gpu": _gpu(rows, SHORTEST_GPU)}),
    ]


def _all(rows: Sequence[OfferItem]) -> dict[str, TableColumn]:
    columns = {
        "provider": TableColumn("PROVIDER", tuple((row.provider, "") for row in rows)),
        "gpu": _gpu(rows, 0),
        "vram": TableColumn("VRAM", tuple((f"{row.gpu_memory_gib}G", "") for row in rows), right=True),
        "vcpus": TableColumn("VCPU", tuple((_amount(row.vcpus), "") for row in rows), right=True),
        "memory": TableColumn("MEMORY", tuple((_amount(row.memory_gib, "G"), "") for row in rows), right=True),
        "region": TableColumn("REGION", tuple((row.region, "") for row in rows)),
        "place": TableColumn("PLACE", tuple((row.place, "dim") for row in rows), longest=LONGEST_PLACE),
        "kind": TableColumn("KIND", tuple((row.kind, "") for row in rows)),
        "per_gpu": TableColumn("$/GPU-H", dollar_cells([row.per_gpu_microusd for row in rows], "bold"), right=True),
        "hourly": TableColumn("$/H", dollar_cells([row.hourly_microusd for row in rows]), right=True),
        "age": TableColumn("AGE", tuple(_age(row) for row in rows), right=True),
        "stock": TableColumn("STOCK", tuple(_stock(row) for row in rows)),
        "join": TableColumn("JOIN", tuple((row.join, _join_style(row)) for row in rows)),
        "source": TableColumn("PRICE FROM", tuple((row.source, "dim") for row in rows)),
    }
    return columns if any(row.place not in {row.region, ""} for row in rows) else _without(columns, "place")


def _wide(rows: Sequence[OfferItem]) -> list[TableColumn]:
    """With what marketplaces say of their hosts, where one of the rows has it."""
    host = {
        "PORTS": [_amount(row.open_ports) for row in rows],
        "CUDA": [row.cuda or "-" for row in rows],
        "DOWN": [_amount(row.download_mbps, "M") for row in rows],
    }
    said = {name: cells for name, cells in host.items() if set(cells) - {"-"}}
    told = [TableColumn(name, tuple((each, "") for each in cells), right=True) for name, cells in said.items()]
    return [*_all(rows).values(), *told, TableColumn("NAME", tuple((row.name, "dim") for row in rows))]


def _gpu(rows: Sequence[OfferItem], longest: int) -> TableColumn:
    cells = ((f"{row.count}x {row.gpu}{' VM' if row.virtual else ''}", "") for row in rows)
    return TableColumn("GPU", tuple(cells), longest=longest)


def _short_join(row: OfferItem) -> str:
    return SHORT_JOINS[row.boot] if row.joins else "no"


def _join_style(row: OfferItem) -> str:
    return JOIN_STYLES[row.boot] if row.joins else "dim"


def _amount(amount: int, unit: str = "") -> str:
    return f"{amount}{unit}" if amount else "-"


def _age(row: OfferItem) -> Cell:
    return age(timedelta(seconds=row.age_seconds)), "yellow" if row.age_seconds > AGE_COLOURED_AFTER else ""


def _stock(row: OfferItem, *, short: bool = False) -> Cell:
    if row.failed_seconds_ago is None:
        return row.availability, STOCK_STYLES[row.availability]
    minutes = max(int(row.failed_seconds_ago // 60), 1)
    return (f"failed {minutes}m" if short else row.availability), "red"


def _without(columns: Mapping[str, TableColumn], name: str) -> dict[str, TableColumn]:
    return {key: column for key, column in columns.items() if key != name}


def footer(rows: Sequence[OfferItem], shown: int, notes: OfferNotes, width: int, *, legend: bool = True) -> list[Text]:
    """What is not in the table and why, which providers could not be asked, and the next command."""
    lines: list[Text] = []
    if shown:
        lines += wrapped(_tally(rows, shown), width, rest=INDENT)
    lines += fold_line(notes.folded, width)
    for words, counts in (("Left out", notes.rejected), ("Not listed", notes.dropped)):
        if counts:
            lines += wrapped(f"{words}: {_list(counts)}.", width, rest=INDENT)
    lines += _keys(notes.no_key, width)
    for words in notes.advice:
        lines += wrapped(words, width, first="! ", rest=INDENT, style="yellow")
    for trouble in notes.troubles:
        lines += wrapped(_trouble(trouble), width, first="! ", rest=INDENT, style="yellow")
    lines += _tables(rows[:shown], width)
    boots = {row.boot for row in rows[:shown]}
    if legend and BootMode.TAKEOVER in boots:
        lines += wrapped(UNPROVEN, width, rest=INDENT, style="dim")
    if legend and BootMode.CONTAINER in boots:
        lines += wrapped(CONTAINERS, width, rest=INDENT, style="dim")
    lines += next_lines(notes.next_command)
    return lines


def fold_line(counts: Mapping[str, int], width: int) -> list[Text]:
    if not counts:
        return []
    others = " and ".join(f"{count:,} {what}{'' if count == 1 else 's'}" for what, count in sorted(counts.items()))
    return wrapped(f"+ {others}, which cannot join a Talos cluster: --join any", width, rest=INDENT, style="dim")


def _tally(rows: Sequence[OfferItem], shown: int) -> str:
    number = f"{len(rows):,} offer{'' if len(rows) == 1 else 's'}"
    if shown < len(rows):
        return f"The best {shown:,} of {number}; --limit 0 shows all."
    return f"{number}."


def _keys(missing: Sequence[NoKey], width: int) -> list[Text]:
    lines: list[Text] = []
    for public, words in ((False, "Not asked, no API key"), (True, "Public prices only, no API key")):
        each = [f"{one.title}: set {one.variable}" for one in missing if one.public is public]
        if each:
            lines += wrapped(f"{words}. {'; '.join(each)}.", width, rest=INDENT)
    return lines


def _tables(rows: Sequence[OfferItem], width: int) -> list[Text]:
    dated: dict[str, list[str]] = {}
    for provider, date in dict.fromkeys((row.provider, row.priced_on) for row in rows if row.priced_on):
        dated.setdefault(date, []).append(provider)
    lines: list[Text] = []
    for date, providers in sorted(dated.items()):
        words = f"Prices of {' and '.join(sorted(providers))} are from a table of {date}: the API has no prices."
        lines += wrapped(words, width, rest=INDENT, style="dim")
    return lines


def _trouble(trouble: ProviderTrouble) -> str:
    words = trouble.why if trouble.why.startswith(trouble.title) else f"{trouble.title}: {trouble.why}"
    sentence = words if words.endswith((".", "!", "?")) else f"{words}."
    if trouble.stale_seconds is None:
        return f"{sentence} Its offers are unknown."
    return f"{sentence} Its offers are {age(timedelta(seconds=trouble.stale_seconds))} old."


def _list(counts: Mapping[str, int]) -> str:
    """Most frequent first, then by name."""
    return ", ".join(f"{why} ({count:,})" for why, count in counted(counts))


NONE: Cell = ("-", "dim")


def render_models(models: Sequence[GpuModelRow], notes: OfferNotes, width: int) -> Group:
    columns = (
        TableColumn("GPU", tuple((model.gpu, "") for model in models)),
        TableColumn(
            "VRAM",
            tuple(_memory(model) for model in models),
            right=True,
        ),
        TableColumn("$/GPU-H", tuple(_price(model.on_demand, "bold") for model in models), right=True),
        TableColumn("FROM", tuple(_provider(model.on_demand) for model in models)),
        TableColumn("SPOT", tuple(_price(model.spot) for model in models), right=True),
        TableColumn("FROM", tuple(_provider(model.spot) for model in models)),
        TableColumn("STOCK", tuple((STOCK[model.stock], STOCK_STYLES[STOCK[model.stock]]) for model in models)),
        TableColumn("OFFERS", tuple((f"{model.offers:,}", "dim") for model in models), right=True),
    )
    lines = table(columns, width) if models else [Text("No offer fits.", style="bold")]
    return Group(*lines, Text(), *footer((), 0, notes, width))


def _memory(model: GpuModelRow) -> Cell:
    return (f"{model.gpu_memory_gib}G", "") if model.gpu_memory_gib else NONE


def _price(row: OfferItem | None, style: str = "") -> Cell:
    return NONE if row is None else (amount(row.per_gpu_microusd), style)


def _provider(row: OfferItem | None) -> Cell:
    return NONE if row is None else (row.provider, "dim")
