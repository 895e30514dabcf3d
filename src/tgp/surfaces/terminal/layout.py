"""How the lines of a screen are shared out: problems first, then what happened, then machines."""

from dataclasses import dataclass

from tgp.surfaces.terminal.scene import Scene

HEADER = 5  # a panel of three lines, and one more while everything is held
FOOTER = 1
SECTIONS = 3  # objects, nodes, events: a heading and a line of column names each
MOST_TROUBLES = 4
FEWEST_HAPPENINGS = 3  # while there is any room at all
AIRY_HAPPENINGS = 6  # with room for so many below everything else, there is room for empty lines too


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows below each section's headings. None at all: the section is its heading alone."""

    troubles: int
    things: int
    machines: int
    happenings: int
    market: bool = False  # its one line
    story: bool = False  # the last thing the script did, in one line
    gaps: bool = False  # an empty line before each section
    look: bool = True  # the line that says how to look from another terminal


def share(height: int, scene: Scene) -> Rows:
    """Never more than fits: `height` lines include the header, the headings and the hint."""
    look = not scene.held or height > HEADER + FOOTER + SECTIONS
    header = HEADER + (bool(scene.held) and look)
    market = bool(scene.stall.wares) and height > header + FOOTER + 3 * SECTIONS
    story = bool(scene.stories) and height > header + FOOTER + 3 * SECTIONS + market
    room = height - header - FOOTER - SECTIONS - market - story
    troubles = max(0, min(len(scene.troubles), MOST_TROUBLES, room))
    room -= troubles + SECTIONS  # the lines of column names, or of "nothing"
    if room < SECTIONS:  # too small for three tables: the objects' alone, below it the other headings
        return Rows(troubles, max(room + SECTIONS - 1, 0), 0, 0, market, story, look=look)
    gaps = room - SECTIONS >= len(scene.things) + len(scene.machines) + AIRY_HAPPENINGS
    if gaps:
        room -= SECTIONS
    happenings = min(FEWEST_HAPPENINGS, room // 3)
    things = min(max(len(scene.things), 1), max((room - happenings) * 2 // 3, 1))
    machines = min(max(len(scene.machines), 1), max(room - happenings - things, 1))
    return Rows(troubles, things, machines, max(room - things - machines, 1), market, story, gaps, look)
