"""Documents about GPU-hour budgets."""

from datetime import UTC, datetime
from typing import Literal, NotRequired, TypedDict

from tgp.api.quantity import exact
from tgp.api.values import rfc3339
from tgp.core.budgets.assess import gpus_text, hours_text, usd_text
from tgp.core.budgets.reset import ResetAsked
from tgp.services.budget_answers import BudgetBoard, BudgetEnquiry, BudgetLine, BudgetReport, SimulatedFit, Simulation
from tgp.services.documents import API_VERSION, ApiVersion, Moment


class ExtraHoursItem(TypedDict):
    gpuHours: float
    until: Moment
    reason: str


class BudgetItem(TypedDict):
    namespace: str
    name: str
    quotaGpuHours: float
    usedGpuHours: float | None
    leftGpuHours: float | None
    uncertainGpuHours: float | None
    usedUsd: float | None
    gpus: float | None
    exceeded: bool | None
    exhaustedAt: Moment | None
    hoursBackAt: Moment | None
    action: str
    admission: str
    extra: list[ExtraHoursItem]
    problem: str


class BudgetList(TypedDict):
    apiVersion: ApiVersion
    kind: Literal["BudgetList"]
    at: Moment
    items: list[BudgetItem]
    more: NotRequired[bool]


class BudgetDocument(BudgetItem):
    apiVersion: ApiVersion
    kind: Literal["Budget"]


class BudgetReset(BudgetItem):
    """As it was before the reset."""

    apiVersion: ApiVersion
    kind: Literal["BudgetReset"]
    resetAt: Moment
    by: str


class RunningPod(TypedDict):
    pod: str
    gpus: float
    usedGpuHours: float
    started: bool
    uncertain: bool


class PastPod(TypedDict):
    pod: str
    usedGpuHours: float


class NextActItem(TypedDict):
    at: Moment | None
    action: str
    pods: list[str]


class BudgetEnquiryDocument(BudgetItem):
    """What a budget has counted, and what it does next."""

    apiVersion: ApiVersion
    kind: Literal["BudgetEnquiry"]
    at: Moment
    running: list[RunningPod]
    notShown: int
    ended: list[PastPod]
    next: NextActItem | None


SimulatedItem = TypedDict(
    "SimulatedItem", {"budget": str, "needsGpuHours": float | None, "from": str | None, "never": bool}
)


class BudgetSimulation(TypedDict):
    apiVersion: ApiVersion
    kind: Literal["BudgetSimulation"]
    at: Moment
    namespace: str
    labels: dict[str, str]
    fitsNow: bool
    items: list[SimulatedItem]


class BudgetDayItem(TypedDict):
    day: str
    namespace: str
    name: str
    usedGpuHours: float
    uncertainGpuHours: float
    unpricedGpuHours: float
    usd: float


class BudgetReportDocument(TypedDict):
    apiVersion: ApiVersion
    kind: Literal["BudgetReport"]
    month: str
    items: list[BudgetDayItem]


def _time(when: int | None) -> str | None:
    return None if when is None else rfc3339(datetime.fromtimestamp(when, UTC))


def budget_list(board: BudgetBoard) -> BudgetList:
    return BudgetList(
        apiVersion=API_VERSION,
        kind="BudgetList",
        at=rfc3339(board.now),
        items=[_budget_item(line) for line in board.lines],
    )


def one_budget(line: BudgetLine) -> BudgetDocument:
    return BudgetDocument(apiVersion=API_VERSION, kind="Budget", **_budget_item(line))


def budget_reset(line: BudgetLine, asked: ResetAsked) -> BudgetReset:
    """As it was before the reset."""
    return BudgetReset(
        apiVersion=API_VERSION, kind="BudgetReset", resetAt=rfc3339(asked.at), by=asked.who, **_budget_item(line)
    )


def _budget_item(line: BudgetLine) -> BudgetItem:
    seen, spec = line.seen, line.budget.spec
    return {
        "namespace": line.key.namespace,
        "name": line.key.name,
        "quotaGpuHours": float(hours_text(line.limits.used)),
        "usedGpuHours": None if seen is None else float(hours_text(seen.used)),
        "leftGpuHours": None if seen is None else float(hours_text(seen.left)),
        "uncertainGpuHours": None if seen is None else float(hours_text(seen.unsure)),
        "usedUsd": None if seen is None else float(usd_text(seen.usd)),
        "gpus": None if seen is None else float(gpus_text(seen.milli)),
        "exceeded": None if seen is None else seen.exceeded,
        "exhaustedAt": None if seen is None else _time(seen.exhausted_at),
        "hoursBackAt": None if seen is None or not seen.exceeded else _time(seen.next_change_at),
        "action": spec.enforcement.action,
        "admission": spec.enforcement.admission,
        "extra": [
            {"gpuHours": float(exact(each.gpu_hours)), "until": rfc3339(each.until), "reason": each.reason}
            for each in spec.quota.extra
        ],
        "problem": line.not_ready or line.trouble,
    }


def budget_enquiry(asked: BudgetEnquiry) -> BudgetEnquiryDocument:
    act = asked.act
    return BudgetEnquiryDocument(
        apiVersion=API_VERSION,
        kind="BudgetEnquiry",
        at=rfc3339(asked.now),
        **_budget_item(asked.line),
        running=[
            {
                "pod": pod.name,
                "gpus": float(gpus_text(pod.milli)),
                "usedGpuHours": float(hours_text(pod.used)),
                "started": pod.started,
                "uncertain": pod.unsure_since is not None,
            }
            for pod in asked.running
        ],
        notShown=asked.unknown,
        ended=[{"pod": row.pod, "usedGpuHours": float(str(row.gpu_hours))} for row in asked.ended],
        next=None
        if act is None
        else {"at": _time(act.at), "action": act.action, "pods": [str(pod.key) for pod in act.pods]},
    )


def fits_now(answer: Simulation) -> bool:
    return all(each.fit is None or each.fit.at == asked_at(each) for each in answer.fits)


def asked_at(each: SimulatedFit) -> int | None:
    return each.line.seen.now if each.line.seen is not None else None


def budget_simulation(answer: Simulation) -> BudgetSimulation:
    return BudgetSimulation(
        apiVersion=API_VERSION,
        kind="BudgetSimulation",
        at=rfc3339(answer.now),
        namespace=answer.namespace,
        labels=answer.labels,
        fitsNow=fits_now(answer),
        items=[
            {
                "budget": str(each.line.key),
                "needsGpuHours": None if each.fit is None else float(hours_text(each.fit.needs)),
                "from": None if each.fit is None else _time(each.fit.at),
                "never": each.fit is not None and each.fit.too_large,
            }
            for each in answer.fits
        ],
    )


def budget_report(answer: BudgetReport) -> BudgetReportDocument:
    return BudgetReportDocument(
        apiVersion=API_VERSION,
        kind="BudgetReport",
        month=answer.month,
        items=[
            {
                "day": row.day,
                "namespace": row.namespace,
                "name": row.name,
                "usedGpuHours": float(hours_text(row.used)),
                "uncertainGpuHours": float(hours_text(row.unsure)),
                "unpricedGpuHours": float(hours_text(row.unpriced)),
                "usd": float(usd_text(row.usd)),
            }
            for row in answer.days
        ],
    )
