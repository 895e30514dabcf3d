"""What `tgp status` prints: every request with its machine, cost, end time and pods."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from rich.console import Group
from rich.text import Text

from tgp.api.request import GPURequest
from tgp.api.values import rfc3339
from tgp.core.model.attempts import open_attempt
from tgp.core.model.money import dollars, total
from tgp.interfaces.cli.next_step import next_lines
from tgp.interfaces.cli.output import Cell, TableColumn, fits, table, usd, wrapped
from tgp.interfaces.cli.timeline import RequestTimeline, timeline_of
from tgp.interfaces.documents import API_VERSION
from tgp.interfaces.documents.machines import RequestItem, StatusReport
from tgp.interfaces.terminal.snapshot import age, plain
from tgp.services.request_documents import ClusterStatus

NOTHING: Cell = ("-", "dim")
PHASES = {"Ready": "green", "Failed": "red", "Terminating": "yellow", "Finished": "dim"}
LONGEST_REASON = 24
LONGEST_NODE = 30


@dataclass(frozen=True, slots=True)
class StatusRow:
    timeline: RequestTimeline
    gpu: str
    provider: str
    pods: int | None  # None: no Node, or pods may not be listed


def rows_of(standing: ClusterStatus) -> list[StatusRow]:
    return [_row(standing, request) for request in standing.requests]


def _row(standing: ClusterStatus, request: GPURequest) -> StatusRow:
    timeline = timeline_of(request, standing.now)
    attempt = open_attempt(request.status.attempts)
    offer = attempt.offer if attempt is not None else None
    gpu = (offer.gpu_type if offer is not None else None) or request.spec.gpu_type or ""
    node = "" if timeline.over else timeline.node
    pods = None if standing.pods is None or not node else standing.pods.get(node, 0)
    provider = offer.provider if offer is not None else ""
    return StatusRow(timeline, f"{request.spec.gpu_count}x {gpu}" if gpu else "", provider, pods)


def render(standing: ClusterStatus, width: int, *, every: bool = False) -> Group:
    rows = rows_of(standing)
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
    rented = [row for row in rows if row.timeline.hourly_microusd is not None and not row.timeline.over]
    if not rows:
        return "There are no requests, so no machine is rented."
    if not rented:
        return f"No machine is rented; the cost is $0.00 an hour. As of {rfc3339(standing.now)}."
    hourly = sum(row.timeline.hourly_microusd or 0 for row in rented)
    verb = "costs" if len(rented) == 1 else "cost"
    return f"{_many(len(rented), 'machine')} {verb} {dollars(hourly)} an hour. As of {rfc3339(standing.now)}."


def next_command(shown: Sequence[StatusRow]) -> str:
    """Explain the first request that is not ready; else watch the first one."""
    waiting = [row.timeline for row in shown if row.timeline.phase != "Ready"]
    if waiting:
        return f"tgp why request/{waiting[0].key}"
    return f"tgp watch request/{shown[0].timeline.key}" if shown else "tgp rent --help"


def as_document(standing: ClusterStatus) -> StatusReport:
    """For programs: every request, the finished ones too; fields are added, never renamed."""
    rows = rows_of(standing)
    living = [row for row in rows if not row.timeline.over]
    return StatusReport(
        apiVersion=API_VERSION,
        kind="StatusReport",
        asOf=rfc3339(standing.now),
        usdPerHour=usd(sum(row.timeline.hourly_microusd or 0 for row in living)),
        requests=[_item(row) for row in rows],
    )


def _item(row: StatusRow) -> RequestItem:
    timeline = row.timeline
    return {
        "namespace": timeline.key.namespace,
        "name": timeline.key.name,
        "phase": timeline.phase,
        "reason": timeline.cause.reason if timeline.cause is not None else None,
        "message": plain(timeline.message),
        "gpu": row.gpu or None,
        "provider": row.provider or None,
        "node": timeline.node or None,
        "usdPerHour": usd(timeline.hourly_microusd),
        "usdSpent": usd(timeline.spent_microusd),
        "endsAt": rfc3339(timeline.ends_at) if timeline.ends_at is not None else None,
        "pods": row.pods,
    }


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
