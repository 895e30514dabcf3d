"""How the API server words ages, selectors and lists in a table's cells."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

NONE = "<none>"
UNKNOWN = "<unknown>"

_MINUTE = 60
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR
_YEAR = 365 * _DAY


def human_duration(length: timedelta) -> str:
    """Two or three significant figures, as `kubectl get` shows an age: 90s, 5m10s, 3h, 2d4h, 400d."""
    seconds = int(length.total_seconds())  # towards zero: up to two seconds ahead still counts as now
    if seconds < -1:
        return "<invalid>"
    if seconds < 2 * _MINUTE:
        return f"{max(seconds, 0)}s"
    if seconds < 10 * _MINUTE:
        return _two(seconds, _MINUTE, "m", 1, "s")
    if seconds < 3 * _HOUR:
        return f"{seconds // _MINUTE}m"
    if seconds < 8 * _HOUR:
        return _two(seconds, _HOUR, "h", _MINUTE, "m")
    if seconds < 2 * _DAY:
        return f"{seconds // _HOUR}h"
    if seconds < 8 * _DAY:
        return _two(seconds, _DAY, "d", _HOUR, "h")
    if seconds < 2 * _YEAR:
        return f"{seconds // _DAY}d"
    if seconds < 8 * _YEAR:
        return _two(seconds, _YEAR, "y", _DAY, "d")
    return f"{seconds // _YEAR}y"


def name(obj: Mapping[str, Any]) -> str:
    return str(obj["metadata"]["name"])


def born(obj: Mapping[str, Any], now: datetime) -> str:
    """An object's age."""
    return age(obj["metadata"].get("creationTimestamp"), now)


def age(stamp: str | None, now: datetime) -> str:
    """How long ago a timestamp of the wire was; `<unknown>` without one."""
    moment = parse_time(stamp)
    return UNKNOWN if moment is None else human_duration(now - moment)


def parse_time(stamp: str | None) -> datetime | None:
    """A timestamp of the wire; None: there is none, or it is not one."""
    if not stamp:
        return None
    try:
        return datetime.fromisoformat(stamp)
    except ValueError:
        return None


def pairs(labels: Mapping[str, str] | None) -> str:
    """`a=1,b=2` in key order, or `<none>`."""
    return ",".join(f"{key}={value}" for key, value in sorted((labels or {}).items())) or NONE


def selector_text(selector: Mapping[str, Any] | None) -> str:
    """A label selector as one writes it after `-l`; empty for one that selects everything."""
    if not selector:
        return ""
    clauses = [(key, f"{key}={value}") for key, value in (selector.get("matchLabels") or {}).items()]
    clauses += [(clause["key"], _clause(clause)) for clause in selector.get("matchExpressions") or []]
    return ",".join(text for _, text in sorted(clauses))


def containers(template_spec: Mapping[str, Any]) -> list[str]:
    """Names and images of a pod template's containers: two cells."""
    listed = template_spec.get("containers") or []
    return [",".join(c.get("name", "") for c in listed), ",".join(c.get("image", "") for c in listed)]


def at(document: Mapping[str, Any], *path: str) -> Any:
    """The value at a path of keys; None as soon as one is missing."""
    value: Any = document
    for key in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(key)
    return value


def count(document: Mapping[str, Any], *path: str) -> int:
    """The whole number at a path, and 0 where there is none."""
    value = at(document, *path)
    return value if isinstance(value, int) else 0


def has_true(conditions: Sequence[Mapping[str, Any]] | None, kind: str) -> bool:
    return any(c.get("type") == kind and c.get("status") == "True" for c in conditions or ())


def _two(seconds: int, big: int, big_name: str, small: int, small_name: str) -> str:
    rest = seconds % big // small
    return f"{seconds // big}{big_name}" + (f"{rest}{small_name}" if rest else "")


def _clause(clause: Mapping[str, Any]) -> str:
    key = str(clause["key"])
    values = ",".join(sorted(clause.get("values") or ()))
    match clause.get("operator"):
        case "Exists":
            return key
        case "DoesNotExist":
            return f"!{key}"
        case "NotIn":
            return f"{key} notin ({values})"
        case _:
            return f"{key} in ({values})"
