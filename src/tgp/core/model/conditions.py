"""Conditions: what is true of an object, since when, and why; written only when they change."""

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import msgspec

from tgp.api.values import rfc3339

MAX_MESSAGE = 1024  # the schema's bound is 32768; a readable message is shorter
ENDS = (".", "!", "?", "…")  # of a sentence
PROGRAMS = ("tgp", "kubectl", "helm")
# A command at the end has no full stop behind it: people copy it.
_COMMAND = re.compile(r"(?:Try: |(?:: |\bsee |\brun )(?:tgp|kubectl|helm) )[^;]*$")


# Not digits within a name, an id, an address or a version (RTX4090, gpu-1, 10.0.0.1), nor the code of an answer.
_AMOUNT = re.compile(
    r"(?<![\w.:/@#-])(?<!answered )(?<!HTTP )(?<!code )"
    r"(?:\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?)?Z?|\d\d:\d\d(?::\d\d)?Z?"  # a moment
    r"|(?:\d+(?:\.\d+)?(?:ms|[smhd]))+"  # a duration
    r"|\d+(?:,\d{3})*(?:\.\d+)?%?)"  # a count, a price
    r"(?![\w-]|[.,:]\w)"
)


class ConditionUpdate(msgspec.Struct, frozen=True):
    """One condition as a rule decides it: what holds, without when it began to hold."""

    type: str
    status: bool | None  # None: Unknown
    reason: str
    message: str
    longest: int = MAX_MESSAGE  # characters of the message; more only where it is a list that has to be whole

    @property
    def word(self) -> str:
        return {True: "True", False: "False", None: "Unknown"}[self.status]


def merge_conditions(
    held: Iterable[dict[str, object]],
    updates: Iterable[ConditionUpdate],
    generation: int,
    now: datetime,
    owned: frozenset[str],
) -> list[dict[str, object]]:
    """The condition list with `updates` merged in, keeping the time of each whose status did not change.

    Conditions outside `owned` belong to other controllers and stay as they are; one of ours without an update is
    dropped. Equal updates return an equal list, so that an unchanged object is never written.
    """
    before = {str(condition.get("type")): condition for condition in held}
    ours = {verdict.type: _settled(before.get(verdict.type), verdict, generation, now) for verdict in updates}
    assert ours.keys() <= owned, f"updates of conditions that are not owned: {sorted(ours.keys() - owned)}"
    kept = [
        ours.pop(name) if name in ours else condition
        for name, condition in before.items()
        if name in ours or name not in owned
    ]
    return kept + list(ours.values())


def without_amounts(message: str) -> str:
    """For comparing: messages that differ only in counts, prices, durations and moments say the same."""
    return _AMOUNT.sub("#", message)


def _settled(
    before: dict[str, object] | None, verdict: ConditionUpdate, generation: int, now: datetime
) -> dict[str, object]:
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


def sentence(text: str) -> str:
    """With a capital letter first and a full stop last: for what begins or ends with words that others wrote.

    A command at the end stays as it is.
    """
    text = begun(text.strip())
    return text if not text or text.endswith(ENDS) or ends_with_command(text) else f"{text}."


def followed(text: str, more: str) -> str:
    """Two sentences: the fixed one first where the other ends with a command, which people copy."""
    said = sentence(text)
    return f"{more} {said}" if ends_with_command(said) else f"{said} {more}"


def ends_with_command(text: str) -> bool:
    return _COMMAND.search(text) is not None


def begun(text: str) -> str:
    """With a capital letter first, unless the first word is a path, a name with digits or a program."""
    first = text.split(maxsplit=1)[0].rstrip(",:;") if text.strip() else ""
    plain = first.isalpha() and first not in PROGRAMS
    return text[0].upper() + text[1:] if plain else text


def shortened(text: str, bound: int = MAX_MESSAGE) -> str:
    return text if len(text) <= bound else text[: bound - 1] + "…"


def conditions_in(status: Mapping[str, Any]) -> list[dict[str, Any]]:
    held = status.get("conditions")
    return [condition for condition in held if isinstance(condition, dict)] if isinstance(held, list) else []


def condition_in(status: Mapping[str, Any], name: str) -> ConditionUpdate | None:
    """A condition as it is stored in a status; None: there is none."""
    for condition in conditions_in(status):
        if condition.get("type") == name:
            value = {"True": True, "False": False}.get(str(condition.get("status")))
            return ConditionUpdate(name, value, str(condition.get("reason", "")), str(condition.get("message", "")))
    return None


def generation_in(status: Mapping[str, Any], name: str) -> int | None:
    """The generation that a stored condition was last computed for; None: there is none."""
    for condition in conditions_in(status):
        if condition.get("type") == name:
            observed = condition.get("observedGeneration")
            return observed if isinstance(observed, int) else None
    return None
