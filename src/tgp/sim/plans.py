"""Enumerated fault plans: one side effect, one thing that goes wrong exactly there.

Record a run without faults, then run once for every plan: chance rarely meets the one moment between a purchase and
its record, a plan always does.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum


class Act(StrEnum):
    CRASH_BEFORE = "crash-before"  # the power goes as the call is about to leave
    CRASH_AFTER = "crash-after"  # it happened; the power goes before the answer comes
    PAUSE = "pause"  # the process stands still before the call leaves, longer than a lease lives
    LOST_ANSWER = "lost-answer"  # it happened; the caller gets no answer
    FREEZE = "freeze"  # from here on the process sees an old world: its streams bring no news for a while


@dataclass(frozen=True, slots=True)
class Effect:
    """A call that changes things, as its process sent it."""

    process: str
    number: int  # from 1, through all starts of the process
    endpoint: str
    method: str
    path: str

    def __str__(self) -> str:
        return f"{self.process}#{self.number} {self.method} {self.endpoint}{self.path}"


@dataclass(frozen=True, slots=True)
class FaultPlan:
    process: str
    number: int
    act: Act

    def __str__(self) -> str:
        return f"{self.act} at {self.process}#{self.number}"


def every_plan(
    effects: Sequence[Effect], worth: Callable[[Effect], bool] | None = None, acts: Sequence[Act] = tuple(Act)
) -> Iterator[FaultPlan]:
    """One plan per act and side effect; `worth` leaves out those that teach nothing (the hundredth renewal)."""
    for effect in effects:
        if worth is None or worth(effect):
            for act in acts:
                yield FaultPlan(effect.process, effect.number, act)
