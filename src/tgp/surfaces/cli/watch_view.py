"""One machine from plan to ready to gone: drawn for a terminal, told in lines for a pipe, or as JSON for programs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from rich.console import Group
from rich.text import Text

from tgp.api.request import GPURequest
from tgp.api.values import rfc3339
from tgp.core.model.event import Event
from tgp.core.model.key import Key
from tgp.surfaces.cli.output import document, dollars, usd, wrapped
from tgp.surfaces.cli.story import Mark, Step, Story, total
from tgp.surfaces.terminal.scene import age, plain

EVENTS_SHOWN = 6  # the newest; older ones are on the object
MARKS = {Mark.DONE: ("✓", "green"), Mark.NOW: ("…", "yellow"), Mark.LATER: (" ", "dim"), Mark.NEVER: ("-", "dim")}
ASCII_MARKS = {Mark.DONE: "+", Mark.NOW: ".", Mark.LATER: " ", Mark.NEVER: "-"}
NAME = 12  # columns of a step's name
TIME = 9  # 14:02:10Z
TOOK = 7
MARGIN = 2 + NAME + 1 + TIME + 1 + TOOK + 2


@dataclass(frozen=True, slots=True)
class Look:
    """What was seen at one moment."""

    request: GPURequest | None  # None: it is not there (any more)
    now: datetime  # by the API server's clock
    events: tuple[Event, ...] = ()  # the oldest first
    trouble: str = ""  # why the cluster could not be asked; the rest is from the last time it could


def render(story: Story, look: Look, width: int, *, ascii_only: bool = False) -> Group:
    """The whole story on a screen."""
    lines = [*_heading(story, look.now, width), Text()]
    for step in story.steps:
        lines += _step(step, look.now, width, ascii_only=ascii_only)
    if look.events:
        lines += [Text(), Text("last events", style="dim")]
        for event in look.events[-EVENTS_SHOWN:]:
            sign, style = ("!", "yellow") if event.warning else (".", "")
            when = f"{event.at:%H:%M:%SZ}" if event.at is not None else " " * TIME
            words = f"{event.reason}: {event.message}" + (f" (x{event.times})" if event.times > 1 else "")
            lines += wrapped(words, width, first=f"  {when} {sign} ", rest=" " * (TIME + 5), style=style)
    if look.trouble:
        lines += [Text(), *wrapped(f"! the cluster cannot be asked: {look.trouble}", width, rest="  ", style="red")]
    return Group(*lines)


def money_words(story: Story) -> str:
    """$0.34/h, $0.02 so far."""
    rate = f"${dollars(story.hourly_microusd)}/h, " if story.hourly_microusd is not None else ""
    return f"{rate}{total(story.spent_microusd)} {'in all' if story.over else 'so far'}"


def ends_words(story: Story, now: datetime) -> str:
    if story.ends_at is None:
        return ""
    left = story.ends_at - now
    return f"ends at {moment(story.ends_at, now)}" + (f", in {age(left)}" if left > timedelta(0) else "")


def moment(at: datetime, now: datetime) -> str:
    """The time of day, and the date where it is another."""
    return f"{at:%H:%M:%SZ}" if at.date() == now.date() else f"{at:%Y-%m-%d %H:%MZ}"


def _heading(story: Story, now: datetime, width: int) -> Iterator[Text]:
    facts = (money_words(story), ends_words(story, now), f"node {story.node}" if story.node else "")
    said = "; ".join(fact for fact in facts if fact)
    style = "red" if story.failed else "green" if story.ready else "yellow"
    yield Text.assemble((f"request {story.key}", "bold"), "   ", (story.phase, style))
    yield from wrapped(said, width, style="")


def _step(step: Step, now: datetime, width: int, *, ascii_only: bool) -> list[Text]:
    sign, style = MARKS[step.mark]
    sign = ASCII_MARKS[step.mark] if ascii_only else sign
    took = step.took if step.mark is Mark.DONE else now - step.at if step.mark is Mark.NOW and step.at else None
    when = f"{step.at:%H:%M:%SZ}" if step.at is not None and step.mark is Mark.DONE else ""
    length = "" if took is None else age(took)
    head = f"{sign} {step.name:<{NAME}} {when:<{TIME}} {length:>{TOOK}}  "
    shade = "dim" if step.mark in {Mark.LATER, Mark.NEVER} else ""
    if not step.note:
        line = Text(head.rstrip(), style=shade, no_wrap=True)
        line.stylize(style, 0, 1)
        return [line]
    lines = wrapped(step.note, width, first=head, rest=" " * MARGIN, style="dim" if step.mark is Mark.DONE else "")
    lines[0].stylize(style, 0, 1)
    return lines


class Teller:
    """In lines: only what is new since the last telling, each with the time at which it became so."""

    def __init__(self) -> None:
        self._done: dict[str, datetime] = {}
        self._waits = ("", "")
        self._events: frozenset[tuple[Key, int]] = frozenset()
        self._trouble = False

    def tell(self, story: Story, look: Look) -> list[str]:
        if look.trouble:
            return self._troubled(look)
        lines = [f"{rfc3339(look.now)} the cluster answers again"] if self._trouble else []
        self._trouble = False
        dated = sorted([*self._steps(story), *self._new_events(look.events)], key=lambda each: each[0])
        lines += [f"{rfc3339(at)} {words}" for at, words in dated]
        return [plain(line) for line in (*lines, *self._waiting(story, look.now))]

    def _troubled(self, look: Look) -> list[str]:
        first, self._trouble = not self._trouble, True
        return [plain(f"{rfc3339(look.now)} ! the cluster cannot be asked: {look.trouble}")] if first else []

    def _steps(self, story: Story) -> Iterator[tuple[datetime, str]]:
        """Each once; again only if it was done again, later: the next attempt."""
        for step in story.steps:
            if step.mark is not Mark.DONE or step.at is None:
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

    def _waiting(self, story: Story, now: datetime) -> Iterator[str]:
        """What it is at, whenever that changes: the reason counts, numbers in a message move all the time."""
        reason = story.telling.reason if story.telling is not None else ""
        at, self._waits = self._waits, (story.phase, reason)
        if at != self._waits:
            why = f" ({reason})" if reason else ""
            said = f": {story.message}" if story.message else ""
            money = f" [{money_words(story)}]" if story.spent_microusd or story.hourly_microusd else ""
            yield f"{rfc3339(now)} = {story.phase}{why}{said}{money}"


def as_document(story: Story, now: datetime) -> dict[str, Any]:
    """For programs; fields are added, never renamed."""
    telling = story.telling
    return document(
        "RequestStory",
        namespace=story.key.namespace,
        name=story.key.name,
        at=rfc3339(now),
        phase=story.phase,
        reason=telling.reason if telling is not None else None,
        message=plain(story.message),
        ready=story.ready,
        over=story.over,
        node=story.node or None,
        usdPerHour=usd(story.hourly_microusd),
        usdSpent=usd(story.spent_microusd),
        endsAt=rfc3339(story.ends_at) if story.ends_at is not None else None,
        steps=[
            {
                "name": step.name,
                "state": str(step.mark),
                "at": rfc3339(step.at) if step.at is not None else None,
                "tookSeconds": step.took.total_seconds() if step.took is not None else None,
                "note": plain(step.note),
            }
            for step in story.steps
        ],
    )
