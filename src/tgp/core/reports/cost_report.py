"""What was spent, grouped as asked: from the monthly records, and from requests whose cost is still growing."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import msgspec

from tgp.api.request import GPURequest
from tgp.core.model.attempts import attempts_of, copied
from tgp.core.model.costs import entry_of
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.spend import INSTANT, MOST_MONTHS, SpendEntry, month_of

HOUR = timedelta(hours=1)
NONE = "(none)"
GROUPS: dict[str, Callable[[SpendEntry], str]] = {  # by month is not a property of a machine, but of its hours
    "pool": lambda entry: entry.pool,
    "provider": lambda entry: entry.provider,
    "namespace": lambda entry: entry.namespace,
    "class": lambda entry: entry.node_class,
    "gpu": lambda entry: entry.gpu,
}
BY = ("month", *GROUPS)


@dataclass(frozen=True, slots=True)
class Window:
    """From a moment on, up to another and not including it."""

    begin: datetime | None = None  # None: from the first record on
    end: datetime | None = None  # None: until now


@dataclass(frozen=True, slots=True)
class Cost:
    """One machine's."""

    entry: SpendEntry
    running: bool = False  # an estimate that grows


class CostPart(NamedTuple):
    """Of one machine's cost, within a month."""

    month: str
    gpu_seconds: int
    microusd: int
    saved_microusd: int


@dataclass(frozen=True, slots=True)
class CostLine:
    """One group of the bill."""

    group: str
    machines: int
    gpu_seconds: int
    microusd: int
    running_microusd: int  # the part that is an estimate for running machines
    saved_microusd: int = 0  # by machines that replaced more expensive ones; negative: they cost more than those would


@dataclass(frozen=True, slots=True)
class CostBill:
    by: str
    window: Window
    lines: tuple[CostLine, ...]
    total: CostLine
    hourly_microusd: int  # of what runs now
    unreadable: tuple[str, ...] = ()  # damaged records


def bill_of(
    found: tuple[Cost, ...], by: str, window: Window, hourly_microusd: int, unreadable: tuple[str, ...] = ()
) -> CostBill:
    return CostBill(by, window, lines(found, by, window), total(found, window), hourly_microusd, unreadable)


def costs(
    recorded: Iterable[SpendEntry], requests: Iterable[KubeObject[GPURequest]], now: datetime
) -> tuple[Cost, ...]:
    """Every machine once: from the spend record, else from its request."""
    known = {entry.key: Cost(entry) for entry in recorded}
    for cost in _unrecorded(requests, now):
        known.setdefault(cost.entry.key, cost)
    return tuple(known[key] for key in sorted(known))


def _unrecorded(requests: Iterable[KubeObject[GPURequest]], now: datetime) -> Iterator[Cost]:
    for record in requests:
        for attempt in attempts_of(record) if not copied(record) else ():
            running = attempt.ended_at is None
            entry = entry_of(record, msgspec.structs.replace(attempt, ended_at=now) if running else attempt)
            if entry is not None:
                yield Cost(entry, running)


def lines(found: Iterable[Cost], by: str, window: Window) -> tuple[CostLine, ...]:
    """The most expensive first; months in their order."""
    groups: dict[str, list[tuple[Cost, CostPart]]] = {}
    for cost in found:
        for part in _parts(cost.entry, window):
            group = part.month if by == "month" else GROUPS[by](cost.entry) or NONE
            groups.setdefault(group, []).append((cost, part))
    made = [_line(group, rows) for group, rows in groups.items()]
    return tuple(sorted(made, key=lambda line: (line.group if by == "month" else "", -line.microusd, line.group)))


def total(found: Iterable[Cost], window: Window) -> CostLine:
    """Each machine counted once, over whatever groups it is spread."""
    return _line("total", [(cost, part) for cost in found for part in _parts(cost.entry, window)])


def _line(group: str, rows: Sequence[tuple[Cost, CostPart]]) -> CostLine:
    return CostLine(
        group,
        len({cost.entry.key for cost, _ in rows}),
        sum(part.gpu_seconds for _, part in rows),
        sum(part.microusd for _, part in rows),
        sum(part.microusd for cost, part in rows if cost.running),
        sum(part.saved_microusd for _, part in rows),
    )


def _parts(entry: SpendEntry, window: Window) -> Iterator[CostPart]:
    """Within the window. All parts of a life add up to its cost, exactly."""
    begin = max(entry.began, window.begin) if window.begin is not None else entry.began
    end = min(entry.ended, window.end) if window.end is not None else entry.ended
    if entry.began == entry.ended and begin == end:  # no time passed, but a cost was charged
        yield CostPart(month_of(begin), 0, entry.microusd, entry.saved_microusd)
    if begin >= end:
        return
    for _ in range(MOST_MONTHS):
        upto = min(_next_month(begin), end)
        seconds = int((upto - begin).total_seconds()) * max(entry.gpus, 1)
        spent, saved = (
            _until(amount, entry, upto) - _until(amount, entry, begin)
            for amount in (entry.microusd, entry.saved_microusd)
        )
        yield CostPart(month_of(begin), seconds, spent, saved)
        if upto >= end:
            return
        begin = upto


def _until(amount: int, entry: SpendEntry, moment: datetime) -> int:
    """Of an amount for its whole life, the part until then."""
    if moment >= entry.ended:
        return amount
    passed, length = (moment - entry.began) // INSTANT, (entry.ended - entry.began) // INSTANT
    return amount * passed // length  # integers: a timedelta times so many micro-dollars overflows


def month_window(month: str) -> Window:
    """Raises ValueError unless it reads like 2026-11."""
    begin = datetime.strptime(month, "%Y-%m").replace(tzinfo=UTC)
    return Window(begin, _next_month(begin))


def _next_month(moment: datetime) -> datetime:
    there = moment.astimezone(UTC)
    year, month = divmod(there.year * 12 + there.month, 12)
    return datetime(year, month + 1, 1, tzinfo=UTC)
