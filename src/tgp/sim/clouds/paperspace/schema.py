"""Bodies and queries judged as v1 judges them: BAD_REQUEST, with an issue for everything that is wrong."""

from collections.abc import Callable
from typing import Any, TypeAlias

Check: TypeAlias = Callable[[Any], bool]


def _text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _flag(value: Any) -> bool:
    return isinstance(value, bool)


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _one_of(*words: str) -> Check:
    return lambda value: isinstance(value, str) and value in words


MACHINE: dict[str, Check] = {
    "name": _text,
    "machineType": _text,
    "templateId": _text,
    "region": _text,
    "diskSize": _number,
    "networkId": _text,
    "publicIpType": _one_of("static", "dynamic", "none"),
    "startupScriptId": _text,
    "startOnCreate": _flag,
    "enableNvlink": _flag,
    "autoShutdownEnabled": _flag,
    "autoShutdownTimeout": _number,
    "autoShutdownForce": _flag,
    "emailPassword": _flag,
    "takeInitialSnapshot": _flag,
    "autoSnapshotEnabled": _flag,
    "autoSnapshotFrequency": _one_of("hourly", "daily", "weekly", "monthly"),
    "autoSnapshotSaveCount": _number,
    "restorePointEnabled": _flag,
    "restorePointFrequency": _one_of("shutdown"),
    "accessorIds": _texts,
}
MACHINE_REQUIRED = ("name", "machineType", "templateId", "region", "diskSize")
SCRIPT: dict[str, Check] = {"name": _text, "script": _text, "isRunOnce": _flag, "description": _text}
SCRIPT_REQUIRED = ("name", "script")
ORDERS = ("asc", "desc")
MOST_ROWS = 120
LIMIT_DIGITS = 9


def issues(body: Any, known: dict[str, Check], required: tuple[str, ...]) -> list[str]:
    if not isinstance(body, dict):
        return ["Expected object"]
    missing = [f"{key}: Required" for key in required if key not in body]
    unknown = [f"{key}: Unrecognized key" for key in body if key not in known]
    wrong = [f"{key}: Invalid input" for key, value in body.items() if key in known and not known[key](value)]
    return missing + unknown + wrong


def query_issues(query: dict[str, str], order_by: tuple[str, ...]) -> list[str]:
    """What is wrong with the query of a list. Unknown keys are ignored: a document of queries forbids none."""
    found = []
    limit = query.get("limit", "10")
    if not (limit.isascii() and limit.isdigit() and len(limit) <= LIMIT_DIGITS and 1 <= int(limit) <= MOST_ROWS):
        found.append(f"limit: Number must be between 1 and {MOST_ROWS}")
    for key, words in (("orderBy", order_by), ("order", ORDERS)):
        if key in query and query[key] not in words:
            found.append(f"{key}: Invalid enum value")
    return found
