"""Offers as people and programs read them: what it costs, how sure that is, and whether it can become a node.

Plain values in, text out. As many columns as the terminal has room for; what is never left out is what an offer is,
what it costs, how sure it is, and how it could join.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from tgp.core.model.offer import BootMode, Offer, Stock
from tgp.surfaces.cli.next_step import next_lines
from tgp.surfaces.cli.output import (
    GAP,
    TIGHT_GAP,
    UNBOUNDED,
    Cell,
    Column,
    document,
    dollar_cells,
    fits,
    table,
    usd,
    wrapped,
)
from tgp.surfaces.terminal.scene import age, plain

SHOWN = 25  # rows of a table unless somebody asks for more: a screen, with what is said below it
LONGEST_GPU = 18
SHORTEST_GPU = 13
LONGEST_PLACE = 24
STALE_AFTER_SECONDS = 600  # five missed looks at the usual pace: the age is then worth a colour
INDENT = "  "
VIRTUAL = "-VM"  # ends the type's name of a marketplace's virtual machine

STOCK = {Stock.CONFIRMED: "confirmed", Stock.LIKELY: "likely", Stock.UNKNOWN: "unknown", Stock.NONE: "sold out"}
STOCK_STYLES = {"confirmed": "green", "likely": "yellow", "unknown": "dim", "sold out": "red"}
JOINS = {
    BootMode.NATIVE: "talos-node (native)",
    BootMode.TAKEOVER: "talos-node (takeover, unproven)",
    BootMode.CONTAINER: "no (container)",
    BootMode.POWER: "owned machine",
}
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
NO_DRIVER = "no (no GPU driver)"
CONTAINER, WITHOUT_DRIVER = "container offer", "vGPU offer"  # in the plural with an s
UNPROVEN = "talos?: Talos is written over the vendor's Linux; nobody is known to have done it there."
CONTAINERS = "no: rents containers, which cannot boot Talos; tgp buys none for a Talos cluster by itself."


@dataclass(frozen=True, slots=True)
class OfferRow:
    name: str  # names it among all offers: `-o name`
    provider: str
    gpu: str
    count: int
    gpu_memory_gib: int
    vcpus: int  # 0: not told
    memory_gib: int  # 0: not told
    region: str
    place: str  # in the provider's words
    spot: bool
    hourly_microusd: int
    per_gpu_microusd: int
    age_seconds: float
    stock: Stock
    boot: BootMode
    failed_seconds_ago: float | None = None  # we tried to rent it, in vain; None: not lately
    priced_on: str = ""  # not empty: the price is from a table of that date
    left: int | None = None  # how many; None: not told
    no_driver: str = ""  # why the driver of a Talos node cannot drive its GPUs; empty: nothing speaks against it
    virtual: bool = False  # a marketplace's virtual machine, beside the container that the same host offers

    @property
    def kind(self) -> str:
        return "spot" if self.spot else "on-demand"

    @property
    def joins(self) -> bool:
        """Could a machine of it become a node of a Talos cluster?"""
        return self.boot is not BootMode.CONTAINER and not self.no_driver

    @property
    def join(self) -> str:
        return NO_DRIVER if self.no_driver else JOINS[self.boot]

    @property
    def availability(self) -> str:
        """Never "available": nobody knows that before the machine runs."""
        if self.failed_seconds_ago is not None:
            return f"failed {max(int(self.failed_seconds_ago // 60), 1)} min ago"
        return STOCK[self.stock]

    @property
    def source(self) -> str:
        return f"table of {self.priced_on}" if self.priced_on else "live"


def row_of(
    offer: Offer, *, age_seconds: float, failed_seconds_ago: float | None = None, priced_on: str = ""
) -> OfferRow:
    return OfferRow(
        name=offer.key.replace(" ", "_"),  # one word, for shells
        provider=offer.provider,
        gpu=offer.gpu,
        virtual=offer.type_name.endswith(VIRTUAL),
        count=offer.gpu_count,
        gpu_memory_gib=offer.gpu_memory_gib,
        vcpus=offer.vcpus,
        memory_gib=offer.memory_gib,
        region=offer.region,
        place=offer.place,
        spot=offer.spot,
        hourly_microusd=offer.hourly_microusd,
        per_gpu_microusd=offer.per_gpu_microusd,
        age_seconds=age_seconds,
        stock=offer.stock,
        boot=offer.boot,
        no_driver=offer.no_driver,
        failed_seconds_ago=failed_seconds_ago,
        priced_on=priced_on,
        left=offer.left,
    )


@dataclass(frozen=True, slots=True)
class NoKey:
    """A provider that was not asked, or only for what is public."""

    title: str
    variable: str
    public: bool = False  # its prices could be read all the same


@dataclass(frozen=True, slots=True)
class Trouble:
    """A provider that did not answer as it should."""

    title: str
    why: str
    stale_seconds: float | None = None  # age of the listing still shown; None: nothing of it is shown


@dataclass(frozen=True, slots=True)
class Notes:
    """What stands below the rows: nothing is left out in silence."""

    passed_over: Mapping[str, int] = field(default_factory=dict)  # why → how many do not fit what was asked
    dropped: Mapping[str, int] = field(default_factory=dict)  # why → how many made no sense
    no_key: tuple[NoKey, ...] = ()
    troubles: tuple[Trouble, ...] = ()
    advice: tuple[str, ...] = ()  # about the question itself
    folded: Mapping[str, int] = field(default_factory=dict)  # what could not become a node, and is not among the rows
    next_command: str = ""


def render(rows: Sequence[OfferRow], notes: Notes, width: int, *, wide: bool = False, limit: int = SHOWN) -> Group:
    """`limit` 0: every row. No line is longer than `width`, unless `wide` needs more."""
    shown = rows[:limit] if limit else rows
    lines: list[RenderableType] = []
    if shown:
        columns = _wide(shown) if wide else columns_within(shown, width)
        lines += table(columns, UNBOUNDED if wide else width)
    else:
        known = bool(notes.passed_over or notes.dropped or notes.folded)
        lines.append(Text("Nothing on sale fits." if known else "No offers are known.", style="bold"))
    return Group(*lines, Text(), *footer(rows, len(shown), notes, width, legend=not wide))


def as_document(rows: Sequence[OfferRow], notes: Notes) -> dict[str, Any]:
    return document(
        "OfferList",
        items=[_item(row) for row in rows],
        passedOver=_counts(notes.passed_over),
        dropped=_counts(notes.dropped),
        withoutKey=[{"provider": one.title, "set": one.variable, "publicPrices": one.public} for one in notes.no_key],
        troubles=[
            {"provider": one.title, "message": plain(one.why), "staleSeconds": one.stale_seconds}
            for one in notes.troubles
        ],
        advice=list(notes.advice),
    )


def folded(rows: Sequence[OfferRow], notes: Notes) -> tuple[tuple[OfferRow, ...], Notes]:
    """Only what can become a node, and how many cannot; all of them where none can."""
    joining = tuple(row for row in rows if row.joins)
    rest = Counter(WITHOUT_DRIVER if row.no_driver else CONTAINER for row in rows if not row.joins)
    return (joining, replace(notes, folded=rest)) if joining else (tuple(rows), notes)


def _item(row: OfferRow) -> dict[str, Any]:
    return {
        "name": row.name,
        "provider": row.provider,
        "gpu": row.gpu,
        "gpuCount": row.count,
        "gpuMemoryGiB": row.gpu_memory_gib,
        "vcpus": row.vcpus or None,
        "memoryGiB": row.memory_gib or None,
        "region": row.region,
        "place": row.place,
        "kind": row.kind,
        "virtualMachine": row.virtual,
        "usdPerHour": usd(row.hourly_microusd),
        "usdPerGpuHour": usd(row.per_gpu_microusd),
        "ageSeconds": round(row.age_seconds, 1),
        "availability": STOCK[row.stock],
        "left": row.left,
        "failedSecondsAgo": None if row.failed_seconds_ago is None else round(row.failed_seconds_ago, 1),
        "bootMode": str(row.boot),
        "join": row.join,
        "source": row.source,
    }


def columns_within(rows: Sequence[OfferRow], width: int) -> list[Column]:
    """Everything in long words; then, until it fits: short words, fewer columns, cut words."""
    columns = _all(rows)
    for gap, smaller in _smaller(rows):
        if fits(list(columns.values()), width, gap):
            break
        steps = {name: smaller.get(name, column) for name, column in columns.items()}
        columns = {name: column for name, column in steps.items() if column is not None}
    return list(columns.values())


def _smaller(rows: Sequence[OfferRow]) -> list[tuple[int, dict[str, Column | None]]]:
    """Each step replaces columns, or drops them (None), in the order in which they are missed least.

    It is taken where columns that are a gap apart do not fit: room between them goes before the last ones do.
    """
    return [
        (GAP, {"join": Column("JOIN", tuple((_short_join(row), _join_style(row)) for row in rows))}),
        (GAP, {"vcpus": None, "memory": None}),
        (GAP, {"source": None}),
        (GAP, {"place": None}),
        (GAP, {"kind": Column("SPOT", tuple(("spot" if row.spot else "", "") for row in rows))}),
        (GAP, {"stock": Column("STOCK", tuple(_stock(row, short=True) for row in rows))}),
        (GAP, {"vram": None}),
        (TIGHT_GAP, {"gpu": _gpu(rows, LONGEST_GPU)}),
        (TIGHT_GAP, {"per_gpu": None}),  # what rows are sorted by stays
        (TIGHT_GAP, {"region": None}),
        (TIGHT_GAP, {"age": None}),
        (TIGHT_GAP, {"kind": None}),
        (TIGHT_GAP, {"gpu": _gpu(rows, SHORTEST_GPU)}),
    ]


def _all(rows: Sequence[OfferRow]) -> dict[str, Column]:
    columns = {
        "provider": Column("PROVIDER", tuple((row.provider, "") for row in rows)),
        "gpu": _gpu(rows, 0),
        "vram": Column("VRAM", tuple((f"{row.gpu_memory_gib}G", "") for row in rows), right=True),
        "vcpus": Column("VCPU", tuple((_told(row.vcpus), "") for row in rows), right=True),
        "memory": Column("MEMORY", tuple((_told(row.memory_gib, "G"), "") for row in rows), right=True),
        "region": Column("REGION", tuple((row.region, "") for row in rows)),
        "place": Column("PLACE", tuple((row.place, "dim") for row in rows), longest=LONGEST_PLACE),
        "kind": Column("KIND", tuple((row.kind, "") for row in rows)),
        "per_gpu": Column("$/GPU-H", dollar_cells([row.per_gpu_microusd for row in rows], "bold"), right=True),
        "hourly": Column("$/H", dollar_cells([row.hourly_microusd for row in rows]), right=True),
        "age": Column("AGE", tuple(_age(row) for row in rows), right=True),
        "stock": Column("STOCK", tuple(_stock(row) for row in rows)),
        "join": Column("JOIN", tuple((row.join, _join_style(row)) for row in rows)),
        "source": Column("PRICE FROM", tuple((row.source, "dim") for row in rows)),
    }
    return columns if any(row.place not in {row.region, ""} for row in rows) else _without(columns, "place")


def _wide(rows: Sequence[OfferRow]) -> list[Column]:
    return [*_all(rows).values(), Column("NAME", tuple((row.name, "dim") for row in rows))]


def _gpu(rows: Sequence[OfferRow], longest: int) -> Column:
    cells = ((f"{row.count}x {row.gpu}{' VM' if row.virtual else ''}", "") for row in rows)
    return Column("GPU", tuple(cells), longest=longest)


def _short_join(row: OfferRow) -> str:
    return SHORT_JOINS[row.boot] if row.joins else "no"


def _join_style(row: OfferRow) -> str:
    return JOIN_STYLES[row.boot] if row.joins else "dim"


def _told(amount: int, unit: str = "") -> str:
    return f"{amount}{unit}" if amount else "-"


def _age(row: OfferRow) -> Cell:
    return age(timedelta(seconds=row.age_seconds)), "yellow" if row.age_seconds > STALE_AFTER_SECONDS else ""


def _stock(row: OfferRow, *, short: bool = False) -> Cell:
    if row.failed_seconds_ago is None:
        return row.availability, STOCK_STYLES[row.availability]
    minutes = max(int(row.failed_seconds_ago // 60), 1)
    return (f"failed {minutes}m" if short else row.availability), "red"


def _without(columns: Mapping[str, Column], name: str) -> dict[str, Column]:
    return {key: column for key, column in columns.items() if key != name}


def footer(rows: Sequence[OfferRow], shown: int, notes: Notes, width: int, *, legend: bool = True) -> list[Text]:
    """What is not in the table and why, who could not be asked, and what to do next."""
    lines: list[Text] = []
    if shown:
        lines += wrapped(_tally(rows, shown), width, rest=INDENT)
    lines += fold_line(notes.folded, width)
    for words, counts in (("Left out", notes.passed_over), ("Not listed", notes.dropped)):
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
    told = " and ".join(f"{count:,} {what}{'' if count == 1 else 's'}" for what, count in sorted(counts.items()))
    return wrapped(f"+ {told}, which cannot join a Talos cluster: --join any", width, rest=INDENT, style="dim")


def _tally(rows: Sequence[OfferRow], shown: int) -> str:
    number = f"{len(rows):,} offer{'' if len(rows) == 1 else 's'}"
    if shown < len(rows):
        return f"The best {shown:,} of {number}; --limit 0 shows all."
    return f"{number}."


def _keys(missing: Sequence[NoKey], width: int) -> list[Text]:
    lines: list[Text] = []
    for public, words in ((False, "Not asked, no key"), (True, "Public prices only, no key")):
        each = [f"{one.title}: set {one.variable}" for one in missing if one.public is public]
        if each:
            lines += wrapped(f"{words}. {'; '.join(each)}.", width, rest=INDENT)
    return lines


def _tables(rows: Sequence[OfferRow], width: int) -> list[Text]:
    dated: dict[str, list[str]] = {}
    for provider, date in dict.fromkeys((row.provider, row.priced_on) for row in rows if row.priced_on):
        dated.setdefault(date, []).append(provider)
    lines: list[Text] = []
    for date, providers in sorted(dated.items()):
        told = f"Prices of {' and '.join(sorted(providers))} are from a table of {date}: the provider tells none."
        lines += wrapped(told, width, rest=INDENT, style="dim")
    return lines


def _trouble(trouble: Trouble) -> str:
    words = trouble.why if trouble.why.startswith(trouble.title) else f"{trouble.title}: {trouble.why}"
    sentence = words if words.endswith((".", "!", "?")) else f"{words}."
    if trouble.stale_seconds is None:
        return f"{sentence} What it sells is unknown."
    return f"{sentence} Its offers are {age(timedelta(seconds=trouble.stale_seconds))} old."


def _list(counts: Mapping[str, int]) -> str:
    """Most frequent first, then by name."""
    return ", ".join(f"{why} ({count:,})" for why, count in _sorted(counts))


def _counts(counts: Mapping[str, int]) -> dict[str, int]:
    return {str(why): count for why, count in _sorted(counts)}


def _sorted(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
