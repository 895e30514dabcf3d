"""One object's conditions in a line: a word, whether it is well, and the reason that matters most to its owner."""

from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec

from tgp.api.resource import Resource
from tgp.core.model.key import Key
from tgp.surfaces.terminal.scene import Thing

IN_THE_WAY = ("Unsatisfiable", "Restored", "Degraded", "QuotaExceeded")  # trouble when true, whatever Ready says
ENDED_BADLY = frozenset({"Failed"})
OVER = frozenset({"Finished", "Failed"})
WAITING = frozenset({"Pending"})  # for something to rent: neither well nor wrong, and at no cost
STUCK_AFTER = timedelta(minutes=10)  # a request that has waited so long needs attention, whatever it waits for
# Nothing that a market does ends these: a person has to change something.
WAITS_FOR_A_PERSON = frozenset(
    {
        "DevicePluginMissing",
        "InvalidSpec",
        "NamespaceNotAllowed",
        "NodeClassNotFound",
        "NotInClass",
        "SeveralDefaultClasses",
        "SpotNotAllowed",
    }
)


class _Condition(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None


class _Status(msgspec.Struct, frozen=True, gc=False):
    conditions: tuple[_Condition, ...] | None = None
    phase: str | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True)
class Sight:
    """What a cluster shows of one object of ours."""

    resource: Resource
    key: Key
    created_at: datetime | None
    deleting: bool
    status_document: bytes


def thing_of(sight: Sight, now: datetime) -> Thing:
    """Total: a status that cannot be read is one that nobody has written."""
    status = _read(sight.status_document)
    conditions = {row.type: row for row in status.conditions or ()}
    state, good, row = _judged(status, conditions)
    since = (row.last_transition_time if row is not None else None) or sight.created_at or now
    if state in WAITING and (now - since > STUCK_AFTER or (row is not None and row.reason in WAITS_FOR_A_PERSON)):
        good = False
    if sight.deleting:
        state = "Deleting"
    return Thing(
        kind=sight.resource.kind,
        name=str(sight.key),
        state=state,
        good=good,
        reason=row.reason if row is not None else "",
        message=(row.message if row is not None else status.message) or _unjudged(state),
        since=since,
        over=status.phase in OVER,
    )


def _judged(status: _Status, conditions: dict[str, _Condition]) -> tuple[str, bool | None, _Condition | None]:
    ready = conditions.get("Ready")
    for name in IN_THE_WAY:
        row = conditions.get(name)
        if row is not None and row.status == "True" and (ready is None or ready.status == "True"):
            return name, False, row
    if status.phase:
        return status.phase, None if status.phase in WAITING else status.phase not in ENDED_BADLY, ready
    if ready is None:
        return "", None, None
    match ready.status:
        case "True":
            observing = conditions.get("Observing")
            return ("Observing" if observing is not None and observing.status == "True" else "Ready"), True, ready
        case "False":
            return "NotReady", False, ready
        case _:
            return "Unknown", None, ready


def _unjudged(state: str) -> str:
    return "" if state else "nobody has judged it yet"


def _read(document: bytes) -> _Status:
    try:
        return _STATUS.decode(document or b"{}") or _Status()
    except msgspec.DecodeError:
        return _Status()


_STATUS: msgspec.json.Decoder[_Status | None] = msgspec.json.Decoder(_Status | None)
