"""How the lines of a screen are distributed: problems first, then events, then machines."""

from dataclasses import dataclass

from tgp.interfaces.terminal.snapshot import Snapshot, waiting_groups

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
