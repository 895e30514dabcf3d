"""Documents about requests: all of them, one over time, and why one is as it is."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NotRequired, TypedDict

from tgp.api.request import Attempt, GPURequest
from tgp.api.values import rfc3339
from tgp.core.model.attempts import open_attempt
from tgp.core.model.text import plain
from tgp.core.reports.request_timeline import RequestTimeline, money, offer_words, timeline_of
from tgp.services.documents import API_VERSION, ApiVersion, Moment, usd
from tgp.services.request_advice import advice, next_command, obstacles
from tgp.services.request_answers import ClusterStatus, Enquiry


class RequestItem(TypedDict):
    namespace: str
    name: str
    phase: str
    reason: str | None
    message: str
    gpu: str | None
    provider: str | None
    node: str | None
    usdPerHour: float | None
    usdSpent: float
    endsAt: Moment | None
    pods: int | None


class StatusReport(TypedDict):
    """Every request with its machine, the finished ones too."""

    apiVersion: ApiVersion
    kind: Literal["StatusReport"]
    asOf: Moment
    usdPerHour: float
    requests: list[RequestItem]
    more: NotRequired[bool]  # of the HTTP API: rows follow, for `after` with the last one's name


class TimelineStepItem(TypedDict):
    name: str
    state: str
    at: Moment | None
    tookSeconds: float | None
    note: str


class RequestTimelineDocument(TypedDict):
    apiVersion: ApiVersion
    kind: Literal["RequestTimeline"]
    namespace: str
    name: str
    at: Moment
    phase: str
    reason: str | None
    message: str
    ready: bool
    over: bool
    node: str | None
    usdPerHour: float | None
    usdSpent: float
    endsAt: Moment | None
    steps: list[TimelineStepItem]


class AttemptItem(TypedDict):
    number: int
    offer: str
    outcome: str | None
    message: str
    reservedAt: Moment | None
    launchedAt: Moment | None
    endedAt: Moment | None
    usdPerHour: float | None
    usdSpent: float | None


class HolderItem(TypedDict):
    namespace: str
    name: str
    phase: str
    usdPerHour: float


class RequestReason(TypedDict):
    """Why a request is as it is, and what would help."""

    apiVersion: ApiVersion
    kind: Literal["RequestReason"]
    namespace: str
    name: str
    at: Moment
    phase: str
    condition: str | None
    reason: str | None
    message: str
    since: Moment | None
    until: Moment | None
    obstacles: list[str]
    advice: list[str]
    usdPerHour: float | None
    usdSpent: float
    nodeClass: str | None
    purchasesPaused: bool
    suspended: bool
    attempts: list[AttemptItem]
    holders: list[HolderItem] | None
    next: str


@dataclass(frozen=True, slots=True)
class StatusRow:
    timeline: RequestTimeline
    gpu: str
    provider: str
    pods: int | None  # None: no Node, or pods may not be listed


def status_rows(standing: ClusterStatus) -> list[StatusRow]:
    return [_status_row(standing, request) for request in standing.requests]


def _status_row(standing: ClusterStatus, request: GPURequest) -> StatusRow:
    timeline = timeline_of(request, standing.now)
    attempt = open_attempt(request.status.attempts)
    offer = attempt.offer if attempt is not None else None
    gpu = (offer.gpu_type if offer is not None else None) or request.spec.gpu_type or ""
    node = "" if timeline.over else timeline.node
    pods = None if standing.pods is None or not node else standing.pods.get(node, 0)
    provider = offer.provider if offer is not None else ""
    return StatusRow(timeline, f"{request.spec.gpu_count}x {gpu}" if gpu else "", provider, pods)


def status_report(standing: ClusterStatus) -> StatusReport:
    """For programs: every request, the finished ones too; fields are added, never renamed."""
    rows = status_rows(standing)
    living = [row for row in rows if not row.timeline.over]
    return StatusReport(
        apiVersion=API_VERSION,
        kind="StatusReport",
        asOf=rfc3339(standing.now),
        usdPerHour=usd(sum(row.timeline.hourly_microusd or 0 for row in living)),
        requests=[_request_item(row) for row in rows],
    )


def _request_item(row: StatusRow) -> RequestItem:
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


def request_reason(asked: Enquiry) -> RequestReason:
    """For programs; fields are added, never renamed."""
    timeline = timeline_of(asked.request, asked.now)
    cause, since = timeline.cause, since_of(timeline)
    return RequestReason(
        apiVersion=API_VERSION,
        kind="RequestReason",
        namespace=timeline.key.namespace,
        name=timeline.key.name,
        at=rfc3339(asked.now),
        phase=timeline.phase,
        condition=cause.type if cause is not None else None,
        reason=cause.reason if cause is not None else None,
        message=plain(timeline.message),
        since=rfc3339(since) if since is not None else None,
        until=rfc3339(timeline.ends_at) if timeline.ends_at is not None else None,
        obstacles=[plain(words) for words in obstacles(asked)],
        advice=[plain(words) for words in advice(timeline, asked)],
        usdPerHour=usd(timeline.hourly_microusd),
        usdSpent=usd(timeline.spent_microusd),
        nodeClass=asked.class_name or None,
        purchasesPaused=asked.held,
        suspended=bool(asked.node_class is not None and asked.node_class.spec.suspend),
        attempts=[_attempt_item(attempt) for attempt in timeline.attempts],
        holders=None
        if asked.holders is None
        else [
            {
                "namespace": each.key.namespace,
                "name": each.key.name,
                "phase": each.phase,
                "usdPerHour": usd(each.hourly_microusd),
            }
            for each in asked.holders
        ],
        next=next_command(timeline, asked),
    )


def since_of(timeline: RequestTimeline) -> datetime | None:
    if timeline.cause is not None and timeline.cause.last_transition_time is not None:
        return timeline.cause.last_transition_time
    return timeline.steps[0].at


def _attempt_item(attempt: Attempt) -> AttemptItem:
    return {
        "number": attempt.number,
        "offer": offer_words(attempt.offer),
        "outcome": attempt.outcome,
        "message": plain(attempt.message or ""),
        "reservedAt": rfc3339(attempt.reserved_at) if attempt.reserved_at is not None else None,
        "launchedAt": rfc3339(attempt.launched_at) if attempt.launched_at is not None else None,
        "endedAt": rfc3339(attempt.ended_at) if attempt.ended_at is not None else None,
        "usdPerHour": usd(money(attempt.hourly_price)),
        "usdSpent": usd(money(attempt.spent)),
    }


def request_timeline(timeline: RequestTimeline, now: datetime) -> RequestTimelineDocument:
    """For programs; fields are added, never renamed."""
    cause = timeline.cause
    return RequestTimelineDocument(
        apiVersion=API_VERSION,
        kind="RequestTimeline",
        namespace=timeline.key.namespace,
        name=timeline.key.name,
        at=rfc3339(now),
        phase=timeline.phase,
        reason=cause.reason if cause is not None else None,
        message=plain(timeline.message),
        ready=timeline.ready,
        over=timeline.over,
        node=timeline.node or None,
        usdPerHour=usd(timeline.hourly_microusd),
        usdSpent=usd(timeline.spent_microusd),
        endsAt=rfc3339(timeline.ends_at) if timeline.ends_at is not None else None,
        steps=[
            {
                "name": step.name,
                "state": str(step.mark),
                "at": rfc3339(step.at) if step.at is not None else None,
                "tookSeconds": step.took.total_seconds() if step.took is not None else None,
                "note": plain(step.note),
            }
            for step in timeline.steps
        ],
    )
