"""Conditions: what is true of an object, since when, and why; written only when they change."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from tgp.api.values import rfc3339

MAX_MESSAGE = 1024  # the schema's bound is 32768; a screen's is smaller


@dataclass(frozen=True, slots=True)
class Verdict:
    """One condition as a rule decides it: what holds, without when it began to hold."""

    type: str
    status: bool | None  # None: Unknown
    reason: str
    message: str
    longest: int = MAX_MESSAGE  # characters of the message; more only where it is a list that has to be whole

    @property
    def word(self) -> str:
        return {True: "True", False: "False", None: "Unknown"}[self.status]


def settle(
    held: Iterable[dict[str, object]],
    verdicts: Iterable[Verdict],
    generation: int,
    now: datetime,
    owned: frozenset[str],
) -> list[dict[str, object]]:
    """The condition list that says `verdicts`, keeping the time of each that did not turn.

    Conditions outside `owned` are somebody else's and stay as they are; one of ours without a verdict is dropped.
    Equal verdicts give back an equal list, so that a quiet object is never written.
    """
    before = {str(condition.get("type")): condition for condition in held}
    ours = {verdict.type: _settled(before.get(verdict.type), verdict, generation, now) for verdict in verdicts}
    assert ours.keys() <= owned, f"verdicts on conditions that are not ours: {sorted(ours.keys() - owned)}"
    kept = [
        ours.pop(name) if name in ours else condition
        for name, condition in before.items()
        if name in ours or name not in owned
    ]
    return kept + list(ours.values())


def _settled(before: dict[str, object] | None, verdict: Verdict, generation: int, now: datetime) -> dict[str, object]:
    turned = before is None or before.get("status") != verdict.word
    since = rfc3339(now) if turned or before is None else before.get("lastTransitionTime", rfc3339(now))
    return {
        "type": verdict.type,
        "status": verdict.word,
        "reason": verdict.reason,
        "message": shortened(verdict.message, verdict.longest),
        "lastTransitionTime": since,
        "observedGeneration": generation,
    }


def shortened(text: str, bound: int = MAX_MESSAGE) -> str:
    return text if len(text) <= bound else text[: bound - 1] + "…"
