"""A snapshot on a terminal: problems on top, the newest events at the bottom, nothing scrolls away."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TypeVar

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from tgp.core.model.money import to_the_cent, total
from tgp.core.model.text import plain
from tgp.interfaces.terminal.keys import HELP, Glance
from tgp.interfaces.terminal.snapshot import (
    KINDS,
    CostRow,
    EventRow,
    MarketSummary,
    NodeRow,
    ObjectRow,
    PlanSummary,
    Snapshot,
    age,
    waiting_groups,
)

T = TypeVar("T")

NARROW = 100  # columns; below it the message is left out, the reason stays
ROOMY = 140  # columns; from there on the end time is shown, too
TIGHT = 64  # columns; below it only names and states fit
SHADES = {True: "green", False: "red", None: "yellow"}
LONGEST_NAME = 34  # columns of the screen for one name; the rest is cut
MONEY = ("$/h", "spent")
GAUGE = 8  # machines with more GPUs show the number only

UNREAD = "not read yet"  # the troubles say why
TRENDS = {1: ("▲", "red"), -1: ("▼", "green"), 0: ("", "")}
HEADER = 5  # a panel of three lines, and one more while purchases are paused
FOOTER = 1
SECTIONS = 3  # objects, nodes, events: a heading and a line of column names each
MOST_TROUBLES = 4
MOST_WAITING = 4
FEWEST_EVENTS = 3  # while there is any room at all
AIRY_EVENTS = 6  # with room for this many events, there is room for empty lines, too


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows below each section's headings. 0: only the heading."""

    troubles: int
    objects: int
    machines: int
    events: int
    waiting: int = 0  # groups of pods that wait for a GPU
    plan: int = 0  # lines about the last plan of the pools: none; the plan; also what their pods cost
    market: bool = False  # its one line
    scenario: bool = False  # the last scenario step, in one line
    gaps: bool = False  # an empty line before each section
    look: bool = True  # the line with the command for another terminal


class TerminalScreen:
    """Draws one snapshot in the current size of the terminal."""

    def __init__(self, snapshot: Snapshot, glance: Glance | None = None) -> None:
        self._snapshot = snapshot
        self._glance = glance  # None: there are no keys

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield draw(self._snapshot, options.max_width, options.height or console.height, self._glance)


def draw(snapshot: Snapshot, width: int, height: int, glance: Glance | None = None) -> RenderableType:
    """At most `height` lines."""
    look = glance or Glance()
    shown = tuple(row for row in snapshot.objects if look.fits(row))
    rows = share(height, replace(snapshot, objects=shown))
    parts: list[RenderableType] = [_header(snapshot, width, look=rows.look)]
    parts += [_line((" ! ", "bold red"), (trouble, "red")) for trouble in snapshot.troubles[: rows.troubles]]
    parts += _if(rows.market, _market(snapshot.market))
    parts += [Text()] if rows.gaps else []
    parts += _help(rows) if look.help else _objects(snapshot, shown, look, rows, width)
    parts += _waiting(snapshot, rows) if rows.plan and not look.help else []
    for section in (_machines, _events):
        parts += [Text()] if rows.gaps else []
        parts += section(snapshot, rows, width)
    parts.append(_footer(snapshot, glance, width))
    return Group(*parts)


def _footer(snapshot: Snapshot, glance: Glance | None, width: int) -> Text:
    if glance is not None and glance.typing:
        return _line(
            (" next: ", "dim"), ("filter objects by /", ""), (f"{glance.filter}_", "bold"), ("   Enter, Esc", "dim")
        )
    ends = "Ctrl-C ends" if glance is None else "q ends, ? shows keys"
    # A command that is cut cannot be copied: what stands beside it goes first.
    room, label, rest = width - len(snapshot.hint), " next: ", f"   {ends}"
    label = "" if 0 <= room < len(label) else label
    return _line((label, "dim"), (snapshot.hint, "bold"), (rest if len(label + rest) <= room else "", "dim"))


def _help(rows: Rows) -> list[RenderableType]:
    """In place of the objects."""
    width = max(len(keys) for keys, _ in HELP)
    lines = [_line((f"  {keys:<{width}}  ", "bold"), (does, "")) for keys, does in HELP]
    return [_heading("Keys", "", ""), *lines[: max(rows.objects, 0)]]


def _header(snapshot: Snapshot, width: int, *, look: bool) -> RenderableType:
    clock = snapshot.now.strftime("%a %d %b %H:%M:%S UTC")
    facts: list[tuple[str, str]] = []
    for name, value in snapshot.operator.items():
        facts += [("   " if facts else "", ""), (f"{name} ", "dim"), (value, "bold" if value != "0" else "")]
    if snapshot.rented:
        machines = "1 machine" if snapshot.rented == 1 else f"{snapshot.rented} machines"
        facts += [("   costs ", "dim"), (f"{total(snapshot.hourly_microusd)}/h", "bold"), (f" for {machines}", "dim")]
    lines = [
        _line((clock, "bold"), (f"   {snapshot.pace}" if snapshot.pace else "", "dim")),
        *_if(
            bool(snapshot.held),
            _line(("PAUSED", "bold reverse yellow"), ("  no purchases: ", ""), (snapshot.held, "bold")),
        ),
        _line(*facts),
        *_if(look, _line(("look  ", "dim"), (snapshot.look, "cyan"))),
    ]
    title = Text(plain(snapshot.title), style="bold")
    return Panel(Group(*lines), title=title, title_align="left", border_style="blue", width=width)


def _market(market: MarketSummary) -> Text:
    parts = [("Market", "bold"), (f" ({market.offers:,} offers) ", "dim")]
    for price in market.prices:
        trend, shade = TRENDS[price.trend]
        kind = " spot" if price.spot else ""
        parts += [(f"  {price.gpu} ", ""), (f"${to_the_cent(price.microusd)}", "bold"), (trend, shade)]
        parts += [(f" {price.provider}{kind}", "dim")]
    return _line(*parts)


def _objects(
    snapshot: Snapshot, shown: tuple[ObjectRow, ...], glance: Glance, rows: Rows, width: int
) -> list[RenderableType]:
    need = "needs" if snapshot.problems == 1 else "need"
    unhappy = (
        f", {snapshot.problems} {need} attention" if snapshot.problems else ", no problems" if snapshot.objects else ""
    )
    heading = _heading(f"Objects ({len(snapshot.objects)})", unhappy, "red" if snapshot.problems else "green")
    if glance.filter:
        heading.append(f", {len(shown)} with {glance.filter!r}", style="bold")
    if not rows.objects:
        return [heading]
    table = _table(
        "kind",
        "name",
        "state",
        *_if(width >= TIGHT, "reason"),
        *(MONEY if width >= NARROW else ()),
        *_if(width >= ROOMY, "ends in"),
        *_if(width >= NARROW, "message"),
        "since",
    )
    above = max(min(glance.scroll, len(shown) - rows.objects), 0)
    for row in shown[above : above + rows.objects]:
        table.add_row(*_object_cells(row, snapshot, width))
    if above:
        heading.append(f" ({above} more above)", style="dim")
    nothing = "no match" if glance.filter else "no objects of tgp yet" if snapshot.objects_known else UNREAD
    return _section(heading, table, len(shown) - above - rows.objects, nothing)


def _object_cells(row: ObjectRow, snapshot: Snapshot, width: int) -> Iterable[Text]:
    yield Text(KINDS.get(row.kind, row.kind))
    yield _cut(row.name, LONGEST_NAME)
    yield Text(row.state or "?", style=SHADES[row.good])
    if width >= TIGHT:
        yield Text(plain(row.reason), style="dim" if row.good else "")
    if width >= NARROW:
        yield from cost_cells(row.cost)
    if width >= ROOMY:
        ends_at = row.cost.ends_at if row.cost is not None else None
        yield Text(age(ends_at - snapshot.now) if ends_at is not None else "", style="dim")
    if width >= NARROW:
        yield Text(plain(row.message), style="" if row.good is False else "dim")
    yield Text(age(snapshot.now - row.since))


def cost_cells(cost: CostRow | None) -> Iterable[Text]:
    yield Text(total(cost.hourly_microusd) if cost is not None and cost.hourly_microusd else "", style="bold")
    yield Text(total(cost.spent_microusd) if cost is not None and cost.spent_microusd else "")


def _waiting(snapshot: Snapshot, rows: Rows) -> list[RenderableType]:
    """The last plan, what the pods of pools cost, and the pods that wait, each group with its reason."""
    plan = snapshot.plan
    assert plan is not None, "the layout has no line for it otherwise"
    groups = waiting_groups(snapshot.waiting)
    heading = _line(("Pools", "bold"), (f"  plan {age(snapshot.now - plan.at)} ago: ", "dim"), (_plan_words(plan), ""))
    lines = [heading]
    if rows.plan > 1:
        cost = [("  pods of pools cost ", "dim"), (f"{total(plan.hourly_microusd)}/h", "bold")]
        alone = f"; with one machine per pod they would cost {total(plan.alone_microusd)}/h"
        lines.append(_line(*cost, (alone if plan.alone_microusd else "", "dim")))
    for same in groups[: rows.waiting]:
        first, more = same[0], len(same) - 1
        who = f"pod {first.name} waits" if not more else f"pods {first.name} and {more} more wait"
        why = first.reason or "no Event of a pool yet"
        shade = "dim" if first.ordered else "yellow"
        lines.append(_line((f"  {who} ", ""), (age(snapshot.now - first.since), "bold"), (f"  {why}", shade)))
    if hidden := sum(map(len, groups[rows.waiting :])):
        further = "more " if rows.waiting else ""
        heading.append(f"; {hidden} {further}{'pod waits' if hidden == 1 else 'pods wait'}", style="yellow")
    return list(lines)


def _plan_words(plan: PlanSummary) -> str:
    ordered = "no machine" if not plan.orders else "1 machine" if plan.orders == 1 else f"{plan.orders} machines"
    left = f", {plan.unserved} not served" if plan.unserved else ""
    without = f" without {plan.gap_without}" if plan.gap_without else ""
    exact = "the cheapest possible" if plan.gap == "0%" else f"within {plan.gap} of the best{without}"
    return f"{ordered} ordered{left}{f', {exact}' if plan.gap and plan.orders else ''}"


def _machines(snapshot: Snapshot, rows: Rows, width: int) -> list[RenderableType]:
    pods = ", ".join(f"{count} {words}" for words, count in snapshot.pods.items()) or "none"
    heading = _heading(f"Nodes ({len(snapshot.machines)})", f", pods: {pods}", "")
    if not rows.machines:
        return [heading]
    table = _table("name", "state", "GPUs used", "pods", *_if(width >= TIGHT, "machine"))
    for machine in snapshot.machines[: rows.machines]:
        state = Text("Ready", style="green") if machine.ready else Text("NotReady", style="red")
        note = _if(width >= TIGHT, Text(plain(machine.note), style="dim"))
        table.add_row(_cut(machine.name, LONGEST_NAME), state, _gauge(machine), Text(str(machine.pods)), *note)
    return _section(
        heading, table, len(snapshot.machines) - rows.machines, "no nodes" if snapshot.machines_known else UNREAD
    )


def _events(snapshot: Snapshot, rows: Rows, width: int) -> list[RenderableType]:
    parts = list(_if(rows.scenario, _scenario(snapshot)))
    heading = _heading("Events", ", newest last", "dim")
    if not rows.events:
        return [*parts, heading]
    table = _table("ago", "about", "reason", *_if(width >= TIGHT, "message"))
    for event in snapshot.events[-rows.events :]:
        table.add_row(*_event_cells(event, snapshot, width))
    return [*parts, *_section(heading, table, 0, "no events yet")]


def _scenario(snapshot: Snapshot) -> Text:
    if not snapshot.scenario_lines:
        return Text()
    last = snapshot.scenario_lines[-1]
    return _line(("scenario: ", "bold magenta"), (last.text, ""), (f"  ({age(snapshot.now - last.at)} ago)", "dim"))


def _event_cells(event: EventRow, snapshot: Snapshot, width: int) -> Iterable[Text]:
    times = f" (x{event.times})" if event.times > 1 else ""
    yield Text(age(snapshot.now - event.at), style="dim")
    yield _cut(event.about, LONGEST_NAME)
    yield Text(plain(event.reason), style="yellow" if event.warning else "")
    if width >= TIGHT:
        yield Text(plain(event.message) + times, style="dim")


def _gauge(machine: NodeRow) -> Text:
    if not machine.gpus:
        return Text("-", style="dim")
    used = min(machine.gpus_used, machine.gpus)
    numbers = f"{used}/{machine.gpus}"
    if machine.gpus > GAUGE:
        return Text(numbers)
    return Text.assemble(("■" * used, "green"), ("□" * (machine.gpus - used), "dim"), f" {numbers}")


def _table(*columns: str) -> Table:
    table = Table(box=None, expand=True, padding=(0, 2, 0, 0), pad_edge=False)
    last = columns[-1] if columns[-1] in {"message", "machine"} else "message"
    for column in columns:
        table.add_column(
            column, header_style="dim", no_wrap=True, overflow="ellipsis", ratio=1 if column == last else None
        )
    return table


def _section(heading: Text, table: Table, hidden: int, nothing: str) -> list[RenderableType]:
    if not table.row_count:
        return [heading, Text(f"  {nothing}", style="dim")]
    if hidden > 0:
        heading.append(f" (and {hidden} more below)", style="dim")
    return [heading, table]


def _heading(title: str, rest: str, style: str) -> Text:
    return _line((title, "bold"), (rest, style))


def _line(*parts: tuple[str, str]) -> Text:
    """One line, cut at the edge of the screen."""
    return Text.assemble(*((plain_part(text), style) for text, style in parts), no_wrap=True, overflow="ellipsis")


def plain_part(text: str) -> str:
    """As `plain`, but spaces at the edges stay: they separate the parts."""
    return "".join(character if character.isprintable() else " " for character in text)


def _cut(text: str, length: int) -> Text:
    shown = plain(text)
    return Text(shown if len(shown) <= length else shown[: length - 1] + "…")


def _if(condition: bool, value: T) -> tuple[T, ...]:
    return (value,) if condition else ()


def share(height: int, snapshot: Snapshot) -> Rows:
    """Never more than fits: `height` lines include the header, the headings and the hint."""
    look = not snapshot.held or height > HEADER + FOOTER + SECTIONS
    header = HEADER + (bool(snapshot.held) and look)
    market = bool(snapshot.market.prices) and height > header + FOOTER + 3 * SECTIONS
    scenario = bool(snapshot.scenario_lines) and height > header + FOOTER + 3 * SECTIONS + market
    plan = 0 if snapshot.plan is None else 1 + bool(snapshot.plan.hourly_microusd)
    plan = max(0, min(plan, height - header - FOOTER - 3 * SECTIONS - market - scenario))
    room = height - header - FOOTER - SECTIONS - market - scenario - plan
    troubles = max(0, min(len(snapshot.troubles), MOST_TROUBLES, room))
    room -= troubles + SECTIONS  # the lines of column names, or of "nothing"
    if room < SECTIONS:  # too small for three tables: objects only, and the other headings
        return Rows(troubles, max(room + SECTIONS - 1, 0), 0, 0, 0, plan, market, scenario, look=look)
    gaps = room - SECTIONS >= len(snapshot.objects) + len(snapshot.machines) + AIRY_EVENTS
    if gaps:
        room -= SECTIONS
    waiting = min(len(waiting_groups(snapshot.waiting)), MOST_WAITING, room // 4) if plan else 0
    room -= waiting
    events = min(FEWEST_EVENTS, room // 3)
    objects = min(max(len(snapshot.objects), 1), max((room - events) * 2 // 3, 1))
    machines = min(max(len(snapshot.machines), 1), max(room - events - objects, 1))
    events = max(room - objects - machines, 1)
    return Rows(troubles, objects, machines, events, waiting, plan, market, scenario, gaps, look)
