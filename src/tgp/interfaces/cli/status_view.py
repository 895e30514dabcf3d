"""What `tgp status` prints: every request with its machine, cost, end time and pods."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from rich.console import Group
from rich.text import Text

from tgp.api.values import rfc3339
from tgp.core.model.money import dollars, total
from tgp.core.reports.request_timeline import RequestTimeline
from tgp.interfaces.cli.next_step import next_lines
from tgp.interfaces.cli.output import Cell, TableColumn, fits, table, wrapped
from tgp.interfaces.terminal.snapshot import age
from tgp.services.documents.requests import StatusRow, status_rows
from tgp.services.request_answers import ClusterStatus

NOTHING: Cell = ("-", "dim")
PHASES = {"Ready": "green", "Failed": "red", "Terminating": "yellow", "Finished": "dim"}
LONGEST_REASON = 24
LONGEST_NODE = 30


def render(standing: ClusterStatus, width: int, *, every: bool = False) -> Group:
    rows = status_rows(standing)
    shown = [row for row in rows if every or not row.timeline.over]
    lines: list[Text] = table(columns(shown, standing.now, width), width) if shown else []
    lines += [Text()] if shown else []
    lines += wrapped(summary(rows, standing), width, style="" if shown else "bold")
    if len(shown) < len(rows):
        over = len(rows) - len(shown)
        lines += wrapped(f"{_many(over, 'request')} finished or failed; --all shows them.", width, style="dim")
    if standing.only:
        lines += wrapped(f"Only namespace {standing.only}: you may not list requests in others.", width, style="yellow")
    return Group(*lines, *next_lines(next_command(shown)))


def columns(rows: Sequence[StatusRow], now: datetime, width: int) -> list[TableColumn]:
    """Phase, cost and end time stay however narrow the terminal is."""
    every = {
        "request": TableColumn("REQUEST", tuple((str(row.timeline.key), "") for row in rows), longest=60),
        "phase": TableColumn("PHASE", tuple((row.timeline.phase, PHASES.get(row.timeline.phase, "")) for row in rows)),
        "reason": TableColumn("REASON", tuple(_reason(row.timeline) for row in rows), longest=LONGEST_REASON),
        "gpu": TableColumn("GPU", tuple((row.gpu, "") if row.gpu else NOTHING for row in rows)),
        "provider": TableColumn("PROVIDER", tuple((row.provider, "") if row.provider else NOTHING for row in rows)),
        "node": TableColumn(
            "NODE",
            tuple((row.timeline.node, "") if row.timeline.node else NOTHING for row in rows),
            longest=LONGEST_NODE,
        ),
        "hourly": TableColumn("$/H", tuple(_hourly(row.timeline) for row in rows), right=True),
        "spent": TableColumn("SPENT", tuple((total(row.timeline.spent_microusd), "") for row in rows), right=True),
        "ends": TableColumn("ENDS IN", tuple(_ends(row.timeline, now) for row in rows), right=True),
        "pods": TableColumn(
            "PODS", tuple(NOTHING if row.pods is None else (str(row.pods), "") for row in rows), right=True
        ),
    }
    for name in ("provider", "node", "pods", "gpu", "reason"):
        if fits(list(every.values()), width):
            break
        del every[name]
    return list(every.values())


def summary(rows: Sequence[StatusRow], standing: ClusterStatus) -> str:
    as_of = f"As of {rfc3339(standing.now)}."
    if rented := _rented(rows):
        return f"{_cost(rented, f' in namespace {standing.namespace}' if standing.namespace else '')}. {as_of}"
    if standing.namespace:
        has = "no machine" if rows else "no requests"
        return f"Namespace {standing.namespace} has {has}. {_elsewhere(standing)}{as_of}"
    if not rows:
        return "There are no requests, so no machine is rented."
    return f"No machine is rented; the cost is $0.00 an hour. {as_of}"


def _rented(rows: Sequence[StatusRow]) -> list[StatusRow]:
    return [row for row in rows if row.timeline.hourly_microusd is not None and not row.timeline.over]


def _cost(rented: Sequence[StatusRow], where: str) -> str:
    hourly = sum(row.timeline.hourly_microusd or 0 for row in rented)
    verb = "costs" if len(rented) == 1 else "cost"
    return f"{_many(len(rented), 'machine')}{where} {verb} {dollars(hourly)} an hour"


def _elsewhere(standing: ClusterStatus) -> str:
    """What other namespaces have, where one was asked for."""
    if standing.only:
        return ""  # the next line says that others may not be listed
    if standing.elsewhere is None:
        return "You may not list requests in all namespaces, so machines of others are not counted. "
    rented = _rented(status_rows(replace(standing, requests=standing.elsewhere)))
    if not rented:
        return "No machine is rented in other namespaces; the cost is $0.00 an hour. "
    return f"{_cost(rented, ' in other namespaces')}; without -n they are shown. "


def next_command(shown: Sequence[StatusRow]) -> str:
    """Explain the first request that is not ready; else watch the first one."""
    waiting = [row.timeline for row in shown if row.timeline.phase != "Ready"]
    if waiting:
        return f"tgp why request/{waiting[0].key}"
    return f"tgp watch request/{shown[0].timeline.key}" if shown else "tgp rent --help"


def _reason(timeline: RequestTimeline) -> Cell:
    return (timeline.cause.reason, "dim") if timeline.cause is not None else NOTHING


def _hourly(timeline: RequestTimeline) -> Cell:
    return NOTHING if timeline.over or timeline.hourly_microusd is None else (dollars(timeline.hourly_microusd), "")


def _ends(timeline: RequestTimeline, now: datetime) -> Cell:
    if timeline.over or timeline.ends_at is None:
        return NOTHING
    left = timeline.ends_at - now
    return ("due", "yellow") if left.total_seconds() <= 0 else (age(left), "")


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
