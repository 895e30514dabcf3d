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
LIST_QUERY = ("after", "limit", "orderBy", "order", "name", "region", "machineType", "machineId")
MOST_ROWS = 120


def issues(body: Any, known: dict[str, Check], required: tuple[str, ...]) -> list[str]:
    if not isinstance(body, dict):
        return ["Expected object"]
    missing = [f"{key}: Required" for key in required if key not in body]
    unknown = [f"{key}: Unrecognized key" for key in body if key not in known]
    wrong = [f"{key}: Invalid input" for key, value in body.items() if key in known and not known[key](value)]
    return missing + unknown + wrong


def query_issues(query: dict[str, str]) -> list[str]:
    found = [f"{key}: Unrecognized key" for key in query if key not in LIST_QUERY]
    limit = query.get("limit", "10")
    if not limit.isdigit() or not 1 <= int(limit) <= MOST_ROWS:
        found.append(f"limit: Number must be between 1 and {MOST_ROWS}")
    return found
