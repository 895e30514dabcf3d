"""Five cron fields: can they be read, and do they ever match?

Fields are minute, hour, day of month, month, day of week; each a list of numbers, names, ranges and steps. As in cron,
Sunday is 0 and 7. `@daily` and the like stand for their five fields.
"""

from itertools import product

import msgspec

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_LONGEST_MONTH = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)  # years until a leap day recurs

MACROS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}


class NotASchedule(ValueError):
    """The schedule cannot be read; the message names the field and the cause."""


class _Field(msgspec.Struct, frozen=True):
    title: str
    low: int
    high: int
    names: tuple[str, ...] = ()
    name_offset: int = 0


_FIELDS = (
    _Field("minute", 0, 59),
    _Field("hour", 0, 23),
    _Field("day of month", 1, 31),
    _Field("month", 1, 12, _MONTHS, 1),
    _Field("day of week", 0, 7, _DAYS),
)


class CronSchedule(msgspec.Struct, frozen=True):
    """The values at which a schedule matches, per field. Days follow cron: if both are narrowed, either suffices."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]  # 0 is Sunday
    either_day: bool  # day of month and day of week are both narrowed


def read_schedule(text: str) -> CronSchedule:
    """Raises NotASchedule, also for one that never matches, such as the 30th of February."""
    fields = MACROS.get(text, text).split()
    if len(fields) != len(_FIELDS):
        raise NotASchedule(f"has {len(fields)} fields instead of 5: minute, hour, day of month, month, day of week")
    minutes, hours, days, months, weekdays = (_values(part, field) for part, field in zip(fields, _FIELDS, strict=True))
    narrow_days, narrow_weekdays = not _is_any(fields[2]), not _is_any(fields[4])
    if not narrow_weekdays and not any(day <= _LONGEST_MONTH[month - 1] for day, month in product(days, months)):
        raise NotASchedule("never matches: none of its months has such a day")
    return CronSchedule(
        minutes, hours, days, months, frozenset(day % 7 for day in weekdays), narrow_days and narrow_weekdays
    )


def _is_any(part: str) -> bool:
    return part in {"*", "?"}


def _values(part: str, field: _Field) -> frozenset[int]:
    found: set[int] = set()
    for piece in part.split(","):
        span, slash, step_text = piece.partition("/")
        step = _number(step_text, field, "step") if slash else 1
        if step < 1:
            raise NotASchedule(f"{field.title}: the step in {piece!r} must be at least 1")
        low, high = _bounds(span, field, open_end=bool(slash))
        found.update(range(low, high + 1, step))
    return frozenset(found)


def _bounds(span: str, field: _Field, *, open_end: bool) -> tuple[int, int]:
    if _is_any(span):
        return field.low, field.high
    first, dash, last = span.partition("-")
    low = _value(first, field)
    high = _value(last, field) if dash else field.high if open_end else low
    if low > high:
        raise NotASchedule(f"{field.title}: {span!r} ends before it begins")
    return low, high


def _value(text: str, field: _Field) -> int:
    name = text.lower()
    if name in field.names:
        return field.names.index(name) + field.name_offset
    value = _number(text, field, "value")
    if not field.low <= value <= field.high:
        raise NotASchedule(f"{field.title}: {value} is not between {field.low} and {field.high}")
    return value


def _number(text: str, field: _Field, what: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 3):
        raise NotASchedule(f"{field.title}: {text!r} is not a {what}")
    return int(text)
