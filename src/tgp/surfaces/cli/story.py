"""The life of one request as people follow it: which steps are done, since when, how long each took, and the money.

Everything is read from the object itself. Steps that came and went between two looks are told all the same: conditions
carry the time at which they turned.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from tgp.api.common import Condition
from tgp.api.problem import Invalid
from tgp.api.request import Attempt, ChosenOffer, GPURequest
from tgp.api.values import microusd
from tgp.core.model.attempts import open_attempt
from tgp.core.model.key import Key
from tgp.core.rules import costs
from tgp.core.rules.steps import LOSSES, NO_USE
from tgp.surfaces.cli.output import dollars

CENT = 10_000  # micro-dollars
OVER = frozenset({"Finished", "Failed"})

# The way up and the way down: the step in words, and the condition that is True once it is done.
UP = (("rented", "Launched"), ("joined", "Registered"), ("GPUs seen", "Initialized"), ("ready", "Ready"))
DOWN = (("giving back", "Terminating"), ("drained", "Drained"), ("gone", "Ended"))
_UP_NAMES = frozenset(name for name, _ in UP)


class Mark(StrEnum):
    DONE = "done"
    NOW = "now"  # under way
    LATER = "later"
    NEVER = "never"  # it ended before


@dataclass(frozen=True, slots=True)
class Step:
    name: str
    mark: Mark
    at: datetime | None = None  # of a step that is done; of one under way: since when
    took: timedelta | None = None  # since the step before; None: not known, or not done
    note: str = ""


@dataclass(frozen=True, slots=True)
class Story:
    key: Key
    phase: str
    steps: tuple[Step, ...]
    telling: Condition | None  # the condition that says why it is where it is
    message: str  # of the status, else of that condition
    hourly_microusd: int | None  # None: nothing is rented
    spent_microusd: int  # so far, an estimate
    ends_at: datetime | None  # when it will be given back as things stand
    node: str
    attempts: tuple[Attempt, ...]

    @property
    def ready(self) -> bool:
        return any(step.name == "ready" and step.mark is Mark.DONE for step in self.steps)

    @property
    def over(self) -> bool:
        """Nothing of it is left to pay for."""
        return self.phase in OVER

    @property
    def final(self) -> bool:
        """It ends, and no other machine follows: one that was no use is replaced, and a lost one may be."""
        telling = self.telling
        return telling is not None and telling.type == "Terminating" and telling.reason not in NO_USE | LOSSES

    @property
    def failed(self) -> bool:
        return self.phase == "Failed"

    @property
    def current(self) -> Step | None:
        return next((step for step in self.steps if step.mark is Mark.NOW), None)


def story_of(request: GPURequest, now: datetime) -> Story:
    status = request.status
    telling = telling_condition(request)
    attempts = tuple(sorted(status.attempts, key=lambda attempt: attempt.number))
    return Story(
        key=Key(request.metadata.namespace, request.metadata.name),
        phase=_phase(request),
        steps=tuple(_with_times(_steps(request))),
        telling=telling,
        message=status.message or (telling.message if telling is not None else ""),
        hourly_microusd=hourly(request),
        spent_microusd=costs.spent_by(request.status, now),
        ends_at=None if status.phase in OVER else status.termination_scheduled_at,
        node=status.node_name or "",
        attempts=attempts,
    )


def condition_of(request: GPURequest, name: str) -> Condition | None:
    return next((condition for condition in request.status.conditions if condition.type == name), None)


def is_true(request: GPURequest, name: str) -> bool:
    condition = condition_of(request, name)
    return condition is not None and condition.status == "True"


def ending(request: GPURequest) -> bool:
    """It is on its way down, or there already."""
    deleted = request.metadata.deletion_timestamp is not None
    return deleted or request.status.phase in {*OVER, "Terminating"} or is_true(request, "Terminating")


def telling_condition(request: GPURequest) -> Condition | None:
    """On the way down: why it ends, or ended. On the way up: the first that does not hold. Else that it is ready."""
    if ending(request):
        names = ("Ended", "Terminating") if request.status.phase in OVER else ("Terminating",)
        found = (condition_of(request, name) for name in names)
        return next((condition for condition in found if condition is not None and condition.status == "True"), None)
    held = (condition_of(request, name) for _, name in UP)
    waits = next((condition for condition in held if condition is not None and condition.status != "True"), None)
    return waits or condition_of(request, "Ready")


def hourly(request: GPURequest) -> int | None:
    """What an hour costs now; None: there is no machine, as far as is known."""
    attempt = open_attempt(request.status.attempts)
    if attempt is None:
        return None
    return money(request.status.hourly_price) or costs.hourly_of(attempt) or None


def money(text: str | None) -> int | None:
    """None: not told, or no amount: others write statuses, too."""
    try:
        return None if text is None else microusd(text, "status")
    except Invalid:
        return None


def total(microusd: int) -> str:
    """What something cost, to the cent; further only where the cents would hide it."""
    return f"${dollars(microusd)}" if microusd < CENT else f"${microusd / 1_000_000:,.2f}"


def sentences(message: str) -> list[str]:
    """A message of several parts, such as the nearest misses, in pieces that each deserve a line."""
    parts: list[str] = []
    for part in message.split("; "):
        if parts and parts[-1].count("(") > parts[-1].count(")"):  # what stands in brackets belongs together
            parts[-1] += f"; {part}"
        elif part:
            parts.append(part)
    return parts


def offer_words(offer: ChosenOffer | None) -> str:
    """1x RTX4090 at $0.34/h from vast in us-west."""
    if offer is None:
        return ""
    count = f"{offer.gpu_count}x " if offer.gpu_count else ""
    what = f"{count}{offer.gpu_type or offer.instance_type}" + (" spot" if offer.spot else "")
    hour = money(offer.hourly_price)
    price = f" at ${dollars(hour)}/h" if hour is not None else ""
    place = f" in {offer.place or offer.region}" if offer.place or offer.region else ""
    return f"{what}{price} from {offer.provider}{place}"


def _phase(request: GPURequest) -> str:
    deleting = request.metadata.deletion_timestamp is not None
    return request.status.phase or ("Terminating" if deleting else "Pending")


def _steps(request: GPURequest) -> Iterator[Step]:
    """The way up; and the way down, once it has begun."""
    down, newest = ending(request), _newest(request)
    yield Step("asked", Mark.DONE, request.metadata.creation_timestamp)
    rest = [_planned(request, newest), *(_reached(request, name, condition) for name, condition in UP)]
    waits = False
    for step in rest:
        if step.mark is Mark.DONE or down:
            yield step if step.mark is Mark.DONE else Step(step.name, Mark.NEVER)
        else:
            yield Step(step.name, Mark.LATER if waits else Mark.NOW, step.at, None, "" if waits else step.note)
            waits = True
    if down:
        yield from _way_down(request)


def _way_down(request: GPURequest) -> Iterator[Step]:
    """What has begun is told when it began; what it is at is the first that is not done."""
    over, waits, newest = request.status.phase in OVER, False, _newest(request)
    had_machine = newest is not None and newest.launched_at is not None
    for name, condition in DOWN:
        step = _reached(request, name, condition)
        if step.mark is Mark.DONE:
            yield step
        elif over:  # conditions on the way are taken down at the end
            done = name == "gone" or (name == "giving back" and had_machine)
            yield Step(name, Mark.DONE if done else Mark.NEVER)
        elif name == "drained" and condition_of(request, condition) is None:  # there is nothing to drain
            yield Step(name, Mark.NEVER)
        else:
            yield Step(name, Mark.LATER if waits else Mark.NOW, step.at, None, "" if waits else step.note)
            waits = True


def _planned(request: GPURequest, newest: Attempt | None) -> Step:
    """A price is on paper; whether anybody was asked for it is the next step."""
    if newest is None or (newest.ended_at is not None and not ending(request)):
        waiting = condition_of(request, "Launched")
        note = request.status.message or (waiting.message if waiting is not None else "")
        return Step("planned", Mark.LATER, waiting.last_transition_time if waiting is not None else None, None, note)
    again = f", attempt {newest.number}" if newest.number > 1 else ""
    return Step("planned", Mark.DONE, newest.reserved_at, None, offer_words(newest.offer) + again)


def _reached(request: GPURequest, name: str, condition_name: str) -> Step:
    condition = condition_of(request, condition_name)
    if condition is not None and condition.status == "True":
        return Step(name, Mark.DONE, condition.last_transition_time, None, _done_note(request, condition))
    if ending(request) and name in _UP_NAMES and (was := _was_once(request, condition_name)) is not None:
        return was
    if condition is None:
        return Step(name, Mark.LATER)
    return Step(name, Mark.LATER, condition.last_transition_time, None, condition.message)


def _was_once(request: GPURequest, condition_name: str) -> Step | None:
    """Of a machine that is going or gone, whose conditions may no longer hold: what it had reached."""
    newest, status = _newest(request), request.status
    if condition_name == "Launched" and newest is not None and newest.launched_at is not None:
        return Step(
            "rented", Mark.DONE, newest.launched_at, None, f"instance {newest.instance_id or status.instance_id}"
        )
    if status.ready_at is None:
        return None
    name = next(words for words, condition in UP if condition == condition_name)
    return Step(name, Mark.DONE, status.ready_at if condition_name == "Ready" else None)


def _done_note(request: GPURequest, condition: Condition) -> str:
    status = request.status
    match condition.type:
        case "Launched":
            return f"instance {status.instance_id}" if status.instance_id else ""
        case "Registered":
            return f"node {status.node_name}" if status.node_name else ""
        case "Terminating":
            return f"{condition.reason}: {condition.message}" if condition.message else condition.reason
        case "Ended":
            return condition.message
        case _:
            return ""


def _newest(request: GPURequest) -> Attempt | None:
    return max(request.status.attempts, key=lambda attempt: attempt.number, default=None)


def _with_times(steps: Iterator[Step]) -> Iterator[Step]:
    """With how long each took since the one before. Clocks differ by a second: nothing takes less than nothing."""
    before: datetime | None = None
    for step in steps:
        if step.mark is not Mark.DONE or step.at is None:
            yield step
            continue
        took = max(step.at - before, timedelta(0)) if before is not None else None
        yield Step(step.name, step.mark, step.at, took, step.note)
        before = step.at
