"""What `tgp status` prints: every request with its machine, cost, end time and pods."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rich.console import Group
from rich.text import Text

from tgp.api.request import GPURequest
from tgp.api.values import rfc3339
from tgp.core.model.attempts import open_attempt
from tgp.core.model.money import dollars, total
from tgp.interfaces.cli.next_step import next_lines
from tgp.interfaces.cli.output import Cell, TableColumn, document, fits, table, usd, wrapped
from tgp.interfaces.cli.story import RequestStory, story_of
from tgp.interfaces.terminal.snapshot import age, plain
from tgp.services.request_documents import ClusterStatus

NOTHING: Cell = ("-", "dim")
PHASES = {"Ready": "green", "Failed": "red", "Terminating": "yellow", "Finished": "dim"}
LONGEST_REASON = 24
LONGEST_NODE = 30


@dataclass(frozen=True, slots=True)
class StatusRow:
    story: RequestStory
    gpu: str
    provider: str
    pods: int | None  # None: no Node, or pods may not be listed


def rows_of(standing: ClusterStatus) -> list[StatusRow]:
    return [_row(standing, request) for request in standing.requests]


def _row(standing: ClusterStatus, request: GPURequest) -> StatusRow:
    story = story_of(request, standing.now)
    attempt = open_attempt(request.status.attempts)
    offer = attempt.offer if attempt is not None else None
    gpu = (offer.gpu_type if offer is not None else None) or request.spec.gpu_type or ""
    node = "" if story.over else story.node
    pods = None if standing.pods is None or not node else standing.pods.get(node, 0)
    provider = offer.provider if offer is not None else ""
    return StatusRow(story, f"{request.spec.gpu_count}x {gpu}" if gpu else "", provider, pods)


def render(standing: ClusterStatus, width: int, *, every: bool = False) -> Group:
    rows = rows_of(standing)
    shown = [row for row in rows if every or not row.story.over]
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
        "request": TableColumn("REQUEST", tuple((str(row.story.key), "") for row in rows), longest=60),
        "phase": TableColumn("PHASE", tuple((row.story.phase, PHASES.get(row.story.phase, "")) for row in rows)),
        "reason": TableColumn("REASON", tuple(_reason(row.story) for row in rows), longest=LONGEST_REASON),
        "gpu": TableColumn("GPU", tuple((row.gpu, "") if row.gpu else NOTHING for row in rows)),
        "provider": TableColumn("PROVIDER", tuple((row.provider, "") if row.provider else NOTHING for row in rows)),
        "node": TableColumn(
            "NODE", tuple((row.story.node, "") if row.story.node else NOTHING for row in rows), longest=LONGEST_NODE
        ),
        "hourly": TableColumn("$/H", tuple(_hourly(row.story) for row in rows), right=True),
        "spent": TableColumn("SPENT", tuple((total(row.story.spent_microusd), "") for row in rows), right=True),
        "ends": TableColumn("ENDS IN", tuple(_ends(row.story, now) for row in rows), right=True),
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
    rented = [row for row in rows if row.story.hourly_microusd is not None and not row.story.over]
    if not rows:
        return "There are no requests, so no machine is rented."
    if not rented:
        return f"No machine is rented; the cost is $0.00 an hour. As of {rfc3339(standing.now)}."
    hourly = sum(row.story.hourly_microusd or 0 for row in rented)
    verb = "costs" if len(rented) == 1 else "cost"
    return f"{_many(len(rented), 'machine')} {verb} {dollars(hourly)} an hour. As of {rfc3339(standing.now)}."


def next_command(shown: Sequence[StatusRow]) -> str:
    """Explain the first request that is not ready; else watch the first one."""
    waiting = [row.story for row in shown if row.story.phase != "Ready"]
    if waiting:
        return f"tgp why request/{waiting[0].key}"
    return f"tgp watch request/{shown[0].story.key}" if shown else "tgp rent --help"


def as_document(standing: ClusterStatus) -> dict[str, Any]:
    """For programs: every request, the finished ones too; fields are added, never renamed."""
    rows = rows_of(standing)
    living = [row for row in rows if not row.story.over]
    return document(
        "StatusReport",
        asOf=rfc3339(standing.now),
        usdPerHour=usd(sum(row.story.hourly_microusd or 0 for row in living)),
        requests=[_item(row) for row in rows],
    )


def _item(row: StatusRow) -> dict[str, Any]:
    story = row.story
    return {
        "namespace": story.key.namespace,
        "name": story.key.name,
        "phase": story.phase,
        "reason": story.cause.reason if story.cause is not None else None,
        "message": plain(story.message),
        "gpu": row.gpu or None,
        "provider": row.provider or None,
        "node": story.node or None,
        "usdPerHour": usd(story.hourly_microusd),
        "usdSpent": usd(story.spent_microusd),
        "endsAt": rfc3339(story.ends_at) if story.ends_at is not None else None,
        "pods": row.pods,
    }


def _reason(story: RequestStory) -> Cell:
    return (story.cause.reason, "dim") if story.cause is not None else NOTHING


def _hourly(story: RequestStory) -> Cell:
    return NOTHING if story.over or story.hourly_microusd is None else (dollars(story.hourly_microusd), "")


def _ends(story: RequestStory, now: datetime) -> Cell:
    if story.over or story.ends_at is None:
        return NOTHING
    left = story.ends_at - now
    return ("due", "yellow") if left.total_seconds() <= 0 else (age(left), "")


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
