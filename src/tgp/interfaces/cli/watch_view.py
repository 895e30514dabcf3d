"""One machine from plan to ready to gone: drawn for a terminal, as lines for a pipe, or as JSON for programs."""

from collections.abc import Iterator, Sequence
from datetime import datetime

from rich.console import Group
from rich.text import Text

from tgp.api.values import rfc3339
from tgp.core.model.event import Event
from tgp.core.model.money import dollars, total
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.text import plain
from tgp.core.reports.request_timeline import RequestTimeline, StepMark, TimelineStep
from tgp.interfaces.cli.output import wrapped
from tgp.interfaces.terminal.snapshot import age, moment
from tgp.services.request_answers import Look

EVENTS_SHOWN = 6  # the newest; older ones are on the object
MARKS = {
    StepMark.DONE: ("✓", "green"),
    StepMark.NOW: ("…", "yellow"),
    StepMark.LATER: (" ", "dim"),
    StepMark.NEVER: ("-", "dim"),
}
ASCII_MARKS = {StepMark.DONE: "+", StepMark.NOW: ".", StepMark.LATER: " ", StepMark.NEVER: "-"}
NAME = 12  # columns of a step's name
TIME = 9  # 14:02:10Z
TOOK = 7
MARGIN = 2 + NAME + 1 + TIME + 1 + TOOK + 2


def render(timeline: RequestTimeline, look: Look, width: int, *, ascii_only: bool = False) -> Group:
    """All steps on one screen."""
    lines = [*_heading(timeline, look.now, width), Text()]
    for step in timeline.steps:
        lines += _step(step, look.now, width, ascii_only=ascii_only)
    if look.events:
        lines += [Text(), Text("last events", style="dim")]
        for event in look.events[-EVENTS_SHOWN:]:
            sign, style = ("!", "yellow") if event.warning else (".", "")
            when = f"{event.at:%H:%M:%SZ}" if event.at is not None else " " * TIME
            words = f"{event.reason}: {event.message}" + (f" (x{event.times})" if event.times > 1 else "")
            lines += wrapped(words, width, first=f"  {when} {sign} ", rest=" " * (TIME + 5), style=style)
    if look.trouble:
        lines += [Text(), *wrapped(f"! the cluster does not answer: {look.trouble}", width, rest="  ", style="red")]
    return Group(*lines)


def money_words(timeline: RequestTimeline) -> str:
    """$0.34/h, $0.02 so far."""
    rate = f"{dollars(timeline.hourly_microusd)}/h, " if timeline.hourly_microusd is not None else ""
    return f"{rate}{total(timeline.spent_microusd)} {'in total' if timeline.over else 'so far'}"


def ends_words(timeline: RequestTimeline, now: datetime) -> str:
    return f"ends at {when_words(timeline.ends_at, now)}" if timeline.ends_at is not None else ""


def when_words(at: datetime, now: datetime) -> str:
    """18:02:10Z, in 179m."""
    return moment(at, now) + (f", in {age(at - now)}" if at > now else "")


def _heading(timeline: RequestTimeline, now: datetime, width: int) -> Iterator[Text]:
    facts = (money_words(timeline), ends_words(timeline, now), f"node {timeline.node}" if timeline.node else "")
    said = "; ".join(fact for fact in facts if fact)
    style = "red" if timeline.failed else "green" if timeline.ready else "yellow"
    yield Text.assemble((f"request {timeline.key}", "bold"), "   ", (timeline.phase, style))
    yield from wrapped(said, width, style="")


def _step(step: TimelineStep, now: datetime, width: int, *, ascii_only: bool) -> list[Text]:
    sign, style = MARKS[step.mark]
    sign = ASCII_MARKS[step.mark] if ascii_only else sign
    took = step.took if step.mark is StepMark.DONE else now - step.at if step.mark is StepMark.NOW and step.at else None
    when = f"{step.at:%H:%M:%SZ}" if step.at is not None and step.mark is StepMark.DONE else ""
    length = "" if took is None else age(took)
    head = f"{sign} {step.name:<{NAME}} {when:<{TIME}} {length:>{TOOK}}  "
    shade = "dim" if step.mark in {StepMark.LATER, StepMark.NEVER} else ""
    if not step.note:
        line = Text(head.rstrip(), style=shade, no_wrap=True)
        line.stylize(style, 0, 1)
        return [line]
    lines = wrapped(step.note, width, first=head, rest=" " * MARGIN, style="dim" if step.mark is StepMark.DONE else "")
    lines[0].stylize(style, 0, 1)
    return lines


class WatchPrinter:
    """As lines: only what is new since the last call, each with the time at which it happened."""

    def __init__(self) -> None:
        self._done: dict[str, datetime] = {}
        self._waits = ("", "")
        self._events: frozenset[tuple[ObjectKey, int]] = frozenset()
        self._trouble = False

    def lines(self, timeline: RequestTimeline, look: Look) -> list[str]:
        if look.trouble:
            return self._troubled(look)
        lines = [f"{rfc3339(look.now)} the cluster answers again"] if self._trouble else []
        self._trouble = False
        dated = sorted([*self._steps(timeline), *self._new_events(look.events)], key=lambda each: each[0])
        lines += [f"{rfc3339(at)} {words}" for at, words in dated]
        return [plain(line) for line in (*lines, *self._waiting(timeline, look.now))]

    def _troubled(self, look: Look) -> list[str]:
        first, self._trouble = not self._trouble, True
        return [plain(f"{rfc3339(look.now)} ! the cluster does not answer: {look.trouble}")] if first else []

    def _steps(self, timeline: RequestTimeline) -> Iterator[tuple[datetime, str]]:
        """Each once; again only if a later attempt did it again."""
        for step in timeline.steps:
            if step.mark is not StepMark.DONE or step.at is None:
                continue
            before = self._done.get(step.name)
            if before is None or step.at > before:
                self._done[step.name] = step.at
                took = f" after {age(step.took)}" if step.took is not None else ""
                note = f": {step.note}" if step.note else ""
                yield step.at, f"{step.name}{took}{note}"

    def _new_events(self, events: Sequence[Event]) -> Iterator[tuple[datetime, str]]:
        for event in events:
            if (event.key, event.times) not in self._events and event.at is not None:
                yield event.at, f"{'!' if event.warning else '.'} {event.reason}: {event.message}"
        self._events = frozenset((event.key, event.times) for event in events)

    def _waiting(self, timeline: RequestTimeline, now: datetime) -> Iterator[str]:
        """The state, whenever its reason changes: numbers in a message change all the time."""
        reason = timeline.cause.reason if timeline.cause is not None else ""
        at, self._waits = self._waits, (timeline.phase, reason)
        if at != self._waits:
            why = f" ({reason})" if reason else ""
            said = f": {timeline.message}" if timeline.message else ""
            money = f" [{money_words(timeline)}]" if timeline.spent_microusd or timeline.hourly_microusd else ""
            yield f"{rfc3339(now)} = {timeline.phase}{why}{said}{money}"
