"""What keys do on the live screen: a filter, scrolling, help, or the end."""

from dataclasses import dataclass, replace

from tgp.interfaces.terminal.snapshot import ObjectRow

UP, DOWN, PAGE_UP, PAGE_DOWN, ESCAPE, ENTER, BACKSPACE = "up", "down", "page up", "page down", "esc", "enter", "back"
SEQUENCES = {
    "\x1b[A": UP,
    "\x1bOA": UP,
    "\x1b[B": DOWN,
    "\x1bOB": DOWN,
    "\x1b[5~": PAGE_UP,
    "\x1b[6~": PAGE_DOWN,
}
SINGLE = {"\x1b": ESCAPE, "\r": ENTER, "\n": ENTER, "\x7f": BACKSPACE, "\b": BACKSPACE}
STEPS = {UP: -1, DOWN: 1, PAGE_UP: -10, PAGE_DOWN: 10}
LONGEST_FILTER = 64
HELP = (
    ("q, Ctrl-C", "end"),
    ("?", "show or hide this help"),
    ("/", "filter objects by text: type it, then Enter; Esc removes the filter"),
    ("arrows, PgUp, PgDn", "scroll the objects"),
)


@dataclass(frozen=True, slots=True)
class Glance:
    """The user's view: filter and scroll position."""

    filter: str = ""  # only objects with this text are shown; empty: all
    typing: bool = False  # the filter is being typed
    scroll: int = 0  # objects above the first one shown
    help: bool = False
    ends: bool = False

    def after(self, key: str) -> "Glance":
        if self.typing:
            return self._typed(key)
        if key in STEPS:
            return replace(self, scroll=max(self.scroll + STEPS[key], 0))
        match key:
            case "q":
                return replace(self, ends=True)
            case "?":
                return replace(self, help=not self.help)
            case "/":
                return replace(self, typing=True, help=False)
            case "esc":
                return Glance()
            case _:
                return self

    def _typed(self, key: str) -> "Glance":
        if key == ENTER:
            return replace(self, typing=False)
        if key == ESCAPE:
            return Glance()
        if key == BACKSPACE:
            return replace(self, filter=self.filter[:-1], scroll=0)
        if len(key) == 1 and key.isprintable():
            return replace(self, filter=(self.filter + key)[:LONGEST_FILTER], scroll=0)
        return self

    def fits(self, row: ObjectRow) -> bool:
        words = f"{row.label} {row.state} {row.reason} {row.message}"
        return self.filter.casefold() in words.casefold()

    def within(self, objects: tuple[ObjectRow, ...]) -> "Glance":
        """Scrolled to the last object at most."""
        last = max(sum(self.fits(row) for row in objects) - 1, 0)
        return self if self.scroll <= last else replace(self, scroll=last)


def keys_in(text: str) -> list[str]:
    """One name or character for each key; an unknown sequence is left out whole."""
    found = []
    while text:
        if text.startswith(("\x1b[", "\x1bO")):
            end = next((place for place in range(2, len(text)) if "@" <= text[place] <= "~"), len(text) - 1)
            sequence, text = text[: end + 1], text[end + 1 :]
            found += [SEQUENCES[sequence]] if sequence in SEQUENCES else []
        else:
            key, text = text[0], text[1:]
            found.append(SINGLE.get(key, key))
    return found
