"""A scene on a terminal: what is wrong is on top, what happened last is at the bottom, nothing scrolls away."""

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from tgp.surfaces.terminal.scene import KINDS, Happening, Machine, Scene, Thing, age

FIXED_LINES = 13  # borders, headings and the header: the rest of the height is shared out
FEWEST_ROWS = 3
NARROW = 100  # columns; below it the least important columns go


class Screen:
    """Draws one scene into whatever size the terminal has now."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield draw(self._scene, options.max_width, options.height or console.height)


def draw(scene: Scene, width: int, height: int) -> RenderableType:
    room = max(height - FIXED_LINES, 3 * FEWEST_ROWS)
    things = scene.things[: max(FEWEST_ROWS, min(len(scene.things), room // 2))]
    machines = scene.machines[: max(FEWEST_ROWS, min(len(scene.machines), (room - len(things)) // 3))]
    left = max(room - max(len(things), 1) - max(len(machines), 1), FEWEST_ROWS)
    parts = [
        _header(scene, width),
        _things(things, len(scene.things), scene, width),
        _machines(machines, len(scene.machines), scene),
        _happenings(scene.happenings[-left:], scene, width),
        Text.assemble((" next: ", "dim"), (scene.hint, "bold"), no_wrap=True, overflow="ellipsis"),
    ]
    return Group(*parts)


def _header(scene: Scene, width: int) -> RenderableType:
    clock = scene.now.strftime("%a %d %b %H:%M:%S UTC")
    facts = "   ".join(f"{name} {value}" for name, value in scene.operator.items())
    lines = [
        Text.assemble((clock, "bold"), (f"   {scene.pace}" if scene.pace else "", "dim")),
        Text(facts, no_wrap=True, overflow="ellipsis"),
        Text.assemble(("look: ", "dim"), (scene.look, "cyan"), no_wrap=True, overflow="ellipsis"),
    ]
    return Panel(Group(*lines), title=f"[bold]{scene.title}[/]", title_align="left", border_style="blue", width=width)


def _things(things: tuple[Thing, ...], total: int, scene: Scene, width: int) -> RenderableType:
    table = _table(
        f"Objects ({total})", "kind", "name", "state", "reason", *(["message"] if width >= NARROW else []), "since"
    )
    for thing in things:
        shade = {True: "green", False: "red", None: "yellow"}[thing.good]
        message = [Text(thing.message, no_wrap=True, overflow="ellipsis")] if width >= NARROW else []
        table.add_row(
            KINDS.get(thing.kind, thing.kind),
            thing.name,
            Text(thing.state or "?", style=shade),
            Text(thing.reason, no_wrap=True, overflow="ellipsis"),
            *message,
            age(scene.now - thing.since),
        )
    return _or_nothing(table, "no objects of tgp yet")


def _machines(machines: tuple[Machine, ...], total: int, scene: Scene) -> RenderableType:
    pods = ", ".join(f"{count} {phase.lower()}" for phase, count in scene.pods.items()) or "no pods"
    table = _table(f"Nodes ({total}), pods: {pods}", "name", "state", "GPUs used", "pods")
    for machine in machines:
        state = Text("Ready", style="green") if machine.ready else Text("NotReady", style="red")
        table.add_row(machine.name, state, _gauge(machine), str(machine.pods))
    return _or_nothing(table, "no nodes")


def _happenings(happenings: tuple[Happening, ...], scene: Scene, width: int) -> RenderableType:
    table = _table("Events", "ago", "about", "reason", "message")
    for happening in happenings:
        shade = "yellow" if happening.warning else ""
        times = f" (x{happening.times})" if happening.times > 1 else ""
        table.add_row(
            age(scene.now - happening.at),
            Text(happening.about, no_wrap=True, overflow="ellipsis"),
            Text(happening.reason, style=shade, no_wrap=True),
            Text(happening.message + times, no_wrap=True, overflow="ellipsis"),
        )
    del width
    return _or_nothing(table, "nothing happened yet")


def _gauge(machine: Machine) -> Text:
    if not machine.gpus:
        return Text("-", style="dim")
    used = min(machine.gpus_used, machine.gpus)
    return Text.assemble(("■" * used, "green"), ("□" * (machine.gpus - used), "dim"), f" {used}/{machine.gpus}")


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=None, expand=True, padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column, header_style="dim", no_wrap=True, ratio=1 if column == "message" else None)
    return table


def _or_nothing(table: Table, words: str) -> RenderableType:
    if table.row_count:
        return table
    return Group(Text(str(table.title), style="bold"), Text(words, style="dim"))
