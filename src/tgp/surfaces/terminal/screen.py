"""A scene on a terminal: what is wrong is on top, what happened last is at the bottom, nothing scrolls away."""

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from tgp.surfaces.terminal.keys import HELP, Glance
from tgp.surfaces.terminal.layout import Rows, share
from tgp.surfaces.terminal.scene import KINDS, Happening, Machine, Purse, Scene, Stall, Thing, age, dollars, plain

T = TypeVar("T")

NARROW = 100  # columns; below it an object's message goes, its reason stays
ROOMY = 140  # columns; from there on there is room for when a machine ends, too
TIGHT = 64  # columns; below it only names and states fit
SHADES = {True: "green", False: "red", None: "yellow"}
LONGEST_NAME = 34  # columns of the screen for one name; the rest is cut
MONEY = ("$/h", "spent")
GAUGE = 8  # machines with more GPUs are shown by number alone

UNREAD = "not read yet"  # what keeps it from being read stands among the troubles


class Screen:
    """Draws one scene into whatever size the terminal has now."""

    def __init__(self, scene: Scene, glance: Glance | None = None) -> None:
        self._scene = scene
        self._glance = glance  # None: there are no keys

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield draw(self._scene, options.max_width, options.height or console.height, self._glance)


def draw(scene: Scene, width: int, height: int, glance: Glance | None = None) -> RenderableType:
    """At most `height` lines."""
    look = glance or Glance()
    shown = tuple(thing for thing in scene.things if look.fits(thing))
    rows = share(height, replace(scene, things=shown))
    parts: list[RenderableType] = [_header(scene, width, look=rows.look)]
    parts += [_line((" ! ", "bold red"), (trouble, "red")) for trouble in scene.troubles[: rows.troubles]]
    parts += _if(rows.market, _market(scene.stall))
    parts += [Text()] if rows.gaps else []
    parts += _help(rows) if look.help else _things(scene, shown, look, rows, width)
    for section in (_machines, _happenings):
        parts += [Text()] if rows.gaps else []
        parts += section(scene, rows, width)
    parts.append(_footer(scene, glance))
    return Group(*parts)


def _footer(scene: Scene, glance: Glance | None) -> Text:
    if glance is not None and glance.typing:
        return _line(
            (" next: ", "dim"), ("filter objects by /", ""), (f"{glance.filter}_", "bold"), ("   Enter, Esc", "dim")
        )
    ends = "Ctrl-C ends" if glance is None else "q ends, ? helps"
    return _line((" next: ", "dim"), (scene.hint, "bold"), (f"   {ends}", "dim"))


def _help(rows: Rows) -> list[RenderableType]:
    """In the place of the objects."""
    width = max(len(keys) for keys, _ in HELP)
    lines = [_line((f"  {keys:<{width}}  ", "bold"), (does, "")) for keys, does in HELP]
    return [_heading("Keys", "", ""), *lines[: max(rows.things, 0)]]


def _header(scene: Scene, width: int, *, look: bool) -> RenderableType:
    clock = scene.now.strftime("%a %d %b %H:%M:%S UTC")
    facts: list[tuple[str, str]] = []
    for name, value in scene.operator.items():
        facts += [("   " if facts else "", ""), (f"{name} ", "dim"), (value, "bold" if value != "0" else "")]
    if scene.rented:
        machines = "1 machine" if scene.rented == 1 else f"{scene.rented} machines"
        facts += [("   costs ", "dim"), (f"{dollars(scene.hourly_microusd)}/h", "bold"), (f" for {machines}", "dim")]
    lines = [
        _line((clock, "bold"), (f"   {scene.pace}" if scene.pace else "", "dim")),
        *_if(
            bool(scene.held),
            _line(("HELD", "bold reverse yellow"), ("  nothing is bought: ", ""), (scene.held, "bold")),
        ),
        _line(*facts),
        *_if(look, _line(("look  ", "dim"), (scene.look, "cyan"))),
    ]
    title = Text(plain(scene.title), style="bold")
    return Panel(Group(*lines), title=title, title_align="left", border_style="blue", width=width)


WAYS = {1: ("▲", "red"), -1: ("▼", "green"), 0: ("", "")}


def _market(stall: Stall) -> Text:
    parts = [("Market", "bold"), (f" ({stall.offers:,} offers) ", "dim")]
    for ware in stall.wares:
        way, shade = WAYS[ware.way]
        kind = " spot" if ware.spot else ""
        parts += [(f"  {ware.gpu} ", ""), (f"${ware.microusd / 1_000_000:.2f}", "bold"), (way, shade)]
        parts += [(f" {ware.provider}{kind}", "dim")]
    return _line(*parts)


def _things(scene: Scene, shown: tuple[Thing, ...], glance: Glance, rows: Rows, width: int) -> list[RenderableType]:
    need = "needs" if scene.unhappy == 1 else "need"
    unhappy = f", {scene.unhappy} {need} attention" if scene.unhappy else ", all well" if scene.things else ""
    heading = _heading(f"Objects ({len(scene.things)})", unhappy, "red" if scene.unhappy else "green")
    if glance.filter:
        heading.append(f", {len(shown)} with {glance.filter!r}", style="bold")
    if not rows.things:
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
    above = max(min(glance.scroll, len(shown) - rows.things), 0)
    for thing in shown[above : above + rows.things]:
        table.add_row(*_thing(thing, scene, width))
    if above:
        heading.append(f" ({above} more above)", style="dim")
    nothing = "none of them" if glance.filter else "no objects of tgp yet" if scene.things_known else UNREAD
    return _section(heading, table, len(shown) - above - rows.things, nothing)


def _thing(thing: Thing, scene: Scene, width: int) -> Iterable[Text]:
    yield Text(KINDS.get(thing.kind, thing.kind))
    yield _cut(thing.name, LONGEST_NAME)
    yield Text(thing.state or "?", style=SHADES[thing.good])
    if width >= TIGHT:
        yield Text(plain(thing.reason), style="dim" if thing.good else "")
    if width >= NARROW:
        yield from _purse(thing.purse)
    if width >= ROOMY:
        ends_at = thing.purse.ends_at if thing.purse is not None else None
        yield Text(age(ends_at - scene.now) if ends_at is not None else "", style="dim")
    if width >= NARROW:
        yield Text(plain(thing.message), style="" if thing.good is False else "dim")
    yield Text(age(scene.now - thing.since))


def _purse(purse: Purse | None) -> Iterable[Text]:
    yield Text(dollars(purse.hourly_microusd) if purse is not None and purse.hourly_microusd else "", style="bold")
    yield Text(dollars(purse.spent_microusd) if purse is not None and purse.spent_microusd else "")


def _machines(scene: Scene, rows: Rows, width: int) -> list[RenderableType]:
    pods = ", ".join(f"{count} {words}" for words, count in scene.pods.items()) or "none"
    heading = _heading(f"Nodes ({len(scene.machines)})", f", pods: {pods}", "")
    if not rows.machines:
        return [heading]
    table = _table("name", "state", "GPUs used", "pods", *_if(width >= TIGHT, "what it is"))
    for machine in scene.machines[: rows.machines]:
        state = Text("Ready", style="green") if machine.ready else Text("NotReady", style="red")
        note = _if(width >= TIGHT, Text(plain(machine.note), style="dim"))
        table.add_row(_cut(machine.name, LONGEST_NAME), state, _gauge(machine), Text(str(machine.pods)), *note)
    return _section(heading, table, len(scene.machines) - rows.machines, "no nodes" if scene.machines_known else UNREAD)


def _happenings(scene: Scene, rows: Rows, width: int) -> list[RenderableType]:
    parts = list(_if(rows.story, _story(scene)))
    heading = _heading("Events", ", newest last", "dim")
    if not rows.happenings:
        return [*parts, heading]
    table = _table("ago", "about", "reason", *_if(width >= TIGHT, "message"))
    for happening in scene.happenings[-rows.happenings :]:
        table.add_row(*_happening(happening, scene, width))
    return [*parts, *_section(heading, table, 0, "nothing happened yet")]


def _story(scene: Scene) -> Text:
    if not scene.stories:
        return Text()
    last = scene.stories[-1]
    return _line(("story: ", "bold magenta"), (last.text, ""), (f"  ({age(scene.now - last.at)} ago)", "dim"))


def _happening(happening: Happening, scene: Scene, width: int) -> Iterable[Text]:
    times = f" (x{happening.times})" if happening.times > 1 else ""
    yield Text(age(scene.now - happening.at), style="dim")
    yield _cut(happening.about, LONGEST_NAME)
    yield Text(plain(happening.reason), style="yellow" if happening.warning else "")
    if width >= TIGHT:
        yield Text(plain(happening.message) + times, style="dim")


def _gauge(machine: Machine) -> Text:
    if not machine.gpus:
        return Text("-", style="dim")
    used = min(machine.gpus_used, machine.gpus)
    numbers = f"{used}/{machine.gpus}"
    if machine.gpus > GAUGE:
        return Text(numbers)
    return Text.assemble(("■" * used, "green"), ("□" * (machine.gpus - used), "dim"), f" {numbers}")


def _table(*columns: str) -> Table:
    table = Table(box=None, expand=True, padding=(0, 2, 0, 0), pad_edge=False)
    last = columns[-1] if columns[-1] in {"message", "what it is"} else "message"
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
    """One line, cut where the screen ends."""
    return Text.assemble(*((plain_part(text), style) for text, style in parts), no_wrap=True, overflow="ellipsis")


def plain_part(text: str) -> str:
    """As `plain`, but spaces at the edges of a part are its distance from the next."""
    return "".join(character if character.isprintable() else " " for character in text)


def _cut(text: str, length: int) -> Text:
    shown = plain(text)
    return Text(shown if len(shown) <= length else shown[: length - 1] + "…")


def _if(condition: bool, value: T) -> tuple[T, ...]:
    return (value,) if condition else ()
