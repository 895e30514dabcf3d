"""Snapshots as lines, for pipes and logs: only what changed since the last call."""

from tgp.core.model.text import plain
from tgp.interfaces.terminal.snapshot import EventRow, ObjectRow, ScenarioLine, Snapshot, moment

EVENTS_REMEMBERED = 10_000  # far more than a snapshot has


class SnapshotLines:
    def __init__(self) -> None:
        self._printed_objects: dict[str, ObjectRow] = {}
        # Also those that left the snapshot's window: they come back when newer ones are deleted.
        self._printed_events: dict[EventRow, None] = {}  # the last one printed is the last
        self._printed_troubles: frozenset[str] = frozenset()
        self._printed_held = ""
        self._printed_scenario: frozenset[ScenarioLine] = frozenset()

    def lines(self, snapshot: Snapshot) -> list[str]:
        """One line for each new trouble, event and scenario step, each changed state, and for a pause of purchases."""
        lines = [
            *self._scenario_lines(snapshot),
            *self._held(snapshot),
            *self._troubles(snapshot),
            *self._events(snapshot),
            *self._objects(snapshot),
        ]
        self._printed_scenario = frozenset(snapshot.scenario_lines)
        self._printed_held = snapshot.held
        self._printed_troubles = frozenset(snapshot.troubles)
        self._printed_events |= dict.fromkeys(snapshot.events)
        while len(self._printed_events) > EVENTS_REMEMBERED:
            del self._printed_events[next(iter(self._printed_events))]
        self._printed_objects = {row.label: row for row in snapshot.objects}
        return [plain(line) for line in lines]

    def _scenario_lines(self, snapshot: Snapshot) -> list[str]:
        return [
            f"{moment(one.at, snapshot.now)} scenario: {one.text}"
            for one in snapshot.scenario_lines
            if one not in self._printed_scenario
        ]

    def _held(self, snapshot: Snapshot) -> list[str]:
        if snapshot.held == self._printed_held:
            return []
        return [
            f"{snapshot.now:%H:%M:%SZ} "
            + (f"! purchases are paused: {snapshot.held}" if snapshot.held else "= purchases are not paused any more")
        ]

    def _troubles(self, snapshot: Snapshot) -> list[str]:
        return [
            f"{snapshot.now:%H:%M:%SZ} ! {trouble}"
            for trouble in snapshot.troubles
            if trouble not in self._printed_troubles
        ]

    def _events(self, snapshot: Snapshot) -> list[str]:
        return [_event_line(one) for one in snapshot.events if one not in self._printed_events]

    def _objects(self, snapshot: Snapshot) -> list[str]:
        lines = []
        for row in snapshot.objects:
            before = self._printed_objects.get(row.label)
            if before is None or (before.state, before.reason) != (row.state, row.reason):
                lines.append(f"{snapshot.now:%H:%M:%SZ} = {row.label}: {_state(row)}")
        now_there = frozenset(row.label for row in snapshot.objects)
        lines += [
            f"{snapshot.now:%H:%M:%SZ} = {label}: gone" for label in self._printed_objects if label not in now_there
        ]
        return lines


def _event_line(event: EventRow) -> str:
    sign = "!" if event.warning else "·"
    times = f" (x{event.times})" if event.times > 1 else ""
    return f"{event.at:%H:%M:%SZ} {sign} {event.about}: {event.reason}: {event.message}{times}"


def _state(row: ObjectRow) -> str:
    words = [row.state, f"({row.reason})" if row.reason else ""]
    state = " ".join(word for word in words if word)
    return ": ".join(part for part in (state, row.message) if part)
