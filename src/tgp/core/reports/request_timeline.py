"""The steps of one request: which are done, since when, how long each took, and the cost.

Everything is read from the object. Steps that happened between two looks are shown, too: conditions carry the time of
their last transition.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from tgp.api.common import Condition
from tgp.api.field_error import Invalid
from tgp.api.request import Attempt, ChosenOffer, GPURequest
from tgp.api.values import microusd
from tgp.core.model import costs
from tgp.core.model.attempts import open_attempt
from tgp.core.model.money import dollars
from tgp.core.model.object_key import ObjectKey
from tgp.core.requests.steps import LOST, UNUSABLE

OVER = frozenset({"Finished", "Failed"})

# Steps of the start and of the end: the name, and the condition that is True once the step is done.
UP = (("rented", "Launched"), ("joined", "Registered"), ("GPUs seen", "Initialized"), ("ready", "Ready"))
DOWN = (("terminating", "Terminating"), ("drained", "Drained"), ("gone", "Ended"))
_UP_NAMES = frozenset(name for name, _ in UP)


class StepMark(StrEnum):
    DONE = "done"
    NOW = "now"  # under way
    LATER = "later"
    NEVER = "never"  # the request ended before


@dataclass(frozen=True, slots=True)
class TimelineStep:
    name: str
    mark: StepMark
    at: datetime | None = None  # of a step that is done; of one under way: since when
    took: timedelta | None = None  # since the step before; None: not known, or not done
    note: str = ""


@dataclass(frozen=True, slots=True)
class RequestTimeline:
    key: ObjectKey
    phase: str
    steps: tuple[TimelineStep, ...]
    cause: Condition | None  # the condition that explains the state
    message: str  # of the status, else of that condition
    hourly_microusd: int | None  # None: nothing is rented
    spent_microusd: int  # so far, an estimate
    ends_at: datetime | None  # when the machine will be terminated as things stand
    node: str
    attempts: tuple[Attempt, ...]

    @property
    def ready(self) -> bool:
        return any(step.name == "ready" and step.mark is StepMark.DONE for step in self.steps)

    @property
    def over(self) -> bool:
        """The request has ended and costs nothing any more."""
        return self.phase in OVER

    @property
    def final(self) -> bool:
        """The request ends, and no other machine follows. An unusable machine is replaced, and a lost one may be."""
        cause = self.cause
        return cause is not None and cause.type == "Terminating" and cause.reason not in UNUSABLE | LOST

    @property
    def failed(self) -> bool:
        return self.phase == "Failed"

    @property
    def current(self) -> TimelineStep | None:
        return next((step for step in self.steps if step.mark is StepMark.NOW), None)


def timeline_of(request: GPURequest, now: datetime) -> RequestTimeline:
    status = request.status
    cause = cause_of(request)
    attempts = tuple(sorted(status.attempts, key=lambda attempt: attempt.number))
    return RequestTimeline(
        key=ObjectKey(request.metadata.namespace, request.metadata.name),
        phase=_phase(request),
        steps=tuple(_with_times(_steps(request))),
        cause=cause,
        message=status.message or (cause.message if cause is not None else ""),
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
    """The request is ending or has ended."""
    deleted = request.metadata.deletion_timestamp is not None
    return deleted or request.status.phase in {*OVER, "Terminating"} or is_true(request, "Terminating")


def cause_of(request: GPURequest) -> Condition | None:
    """Ending: why. Starting: the first condition that is not True. Else: Ready."""
    if ending(request):
        names = ("Ended", "Terminating") if request.status.phase in OVER else ("Terminating",)
        found = (condition_of(request, name) for name in names)
        return next((condition for condition in found if condition is not None and condition.status == "True"), None)
    held = (condition_of(request, name) for _, name in UP)
    waits = next((condition for condition in held if condition is not None and condition.status != "True"), None)
    return waits or condition_of(request, "Ready")


def hourly(request: GPURequest) -> int | None:
    """The price per hour now; None: no machine is known."""
    attempt = open_attempt(request.status.attempts)
    if attempt is None:
        return None
    return costs.hourly_of(attempt) or money(request.status.hourly_price) or None


def money(text: str | None) -> int | None:
    """None: absent, or not an amount: other clients may write a status, too."""
    try:
        return None if text is None else microusd(text, "status")
    except Invalid:
        return None


def sentences(message: str) -> list[str]:
    """A message of several parts, such as the nearest misses, split into one part per line."""
    parts: list[str] = []
    for part in message.split("; "):
        if parts and parts[-1].count("(") > parts[-1].count(")"):  # text in brackets stays together
            parts[-1] += f"; {part}"
        elif part:
            parts.append(part)
    return parts


def offer_words(offer: ChosenOffer | None) -> str:
    """1x RTX4090 at $0.34/h from acme in us-west."""
    if offer is None:
        return ""
    count = f"{offer.gpu_count}x " if offer.gpu_count else ""
    what = f"{count}{offer.gpu_type or offer.instance_type}" + (" spot" if offer.spot else "")
    hour = money(offer.hourly_price)
    price = f" at {dollars(hour)}/h" if hour is not None else ""
    place = f" in {offer.place or offer.region}" if offer.place or offer.region else ""
    return f"{what}{price} from {offer.provider}{place}"


def _phase(request: GPURequest) -> str:
    deleting = request.metadata.deletion_timestamp is not None
    return request.status.phase or ("Terminating" if deleting else "Pending")


def _steps(request: GPURequest) -> Iterator[TimelineStep]:
    """The steps of the start; and those of the end, once it has begun."""
    down, newest = ending(request), _newest(request)
    yield TimelineStep("asked", StepMark.DONE, request.metadata.creation_timestamp)
    rest = [_planned(request, newest), *(_reached(request, name, condition) for name, condition in UP)]
    waits = False
    for step in rest:
        if step.mark is StepMark.DONE or down:
            yield step if step.mark is StepMark.DONE else TimelineStep(step.name, StepMark.NEVER)
        else:
            yield TimelineStep(
                step.name, StepMark.LATER if waits else StepMark.NOW, step.at, None, "" if waits else step.note
            )
            waits = True
    if down:
        yield from _ending_steps(request)


def _ending_steps(request: GPURequest) -> Iterator[TimelineStep]:
    """A started step is shown with its start time; the current step is the first one that is not done."""
    over, waits, newest = request.status.phase in OVER, False, _newest(request)
    had_machine = newest is not None and newest.launched_at is not None
    for name, condition in DOWN:
        step = _reached(request, name, condition)
        if step.mark is StepMark.DONE:
            yield step
        elif over:  # these conditions are removed at the end
            done = name == "gone" or (name == "terminating" and had_machine)
            yield TimelineStep(name, StepMark.DONE if done else StepMark.NEVER)
        elif name == "drained" and condition_of(request, condition) is None:  # there is nothing to drain
            yield TimelineStep(name, StepMark.NEVER)
        else:
            yield TimelineStep(
                name, StepMark.LATER if waits else StepMark.NOW, step.at, None, "" if waits else step.note
            )
            waits = True


def _planned(request: GPURequest, newest: Attempt | None) -> TimelineStep:
    """An offer is reserved; whether the provider was asked for it is the next step."""
    if newest is None or (newest.ended_at is not None and not ending(request)):
        waiting = condition_of(request, "Launched")
        note = request.status.message or (waiting.message if waiting is not None else "")
        return TimelineStep(
            "planned", StepMark.LATER, waiting.last_transition_time if waiting is not None else None, None, note
        )
    again = f", attempt {newest.number}" if newest.number > 1 else ""
    return TimelineStep("planned", StepMark.DONE, newest.reserved_at, None, offer_words(newest.offer) + again)


def _reached(request: GPURequest, name: str, condition_name: str) -> TimelineStep:
    condition = condition_of(request, condition_name)
    if condition is not None and condition.status == "True":
        return TimelineStep(name, StepMark.DONE, condition.last_transition_time, None, _done_note(request, condition))
    if ending(request) and name in _UP_NAMES and (was := _was_once(request, condition_name)) is not None:
        return was
    if condition is None:
        return TimelineStep(name, StepMark.LATER)
    return TimelineStep(name, StepMark.LATER, condition.last_transition_time, None, condition.message)


def _was_once(request: GPURequest, condition_name: str) -> TimelineStep | None:
    """A step that a terminating or terminated machine had reached; its conditions may no longer be True."""
    newest, status = _newest(request), request.status
    if condition_name == "Launched" and newest is not None and newest.launched_at is not None:
        return TimelineStep(
            "rented", StepMark.DONE, newest.launched_at, None, f"instance {newest.instance_id or status.instance_id}"
        )
    if status.ready_at is None:
        return None
    name = next(words for words, condition in UP if condition == condition_name)
    return TimelineStep(name, StepMark.DONE, status.ready_at if condition_name == "Ready" else None)


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


def _with_times(steps: Iterator[TimelineStep]) -> Iterator[TimelineStep]:
    """With the time since the step before. Clocks differ by a second, so a negative time becomes zero."""
    before: datetime | None = None
    for step in steps:
        if step.mark is not StepMark.DONE or step.at is None:
            yield step
            continue
        took = max(step.at - before, timedelta(0)) if before is not None else None
        yield TimelineStep(step.name, step.mark, step.at, took, step.note)
        before = step.at
