"""The document about what was spent."""

from typing import Literal, TypedDict

from tgp.api.values import rfc3339
from tgp.core.model.text import plain
from tgp.core.reports.cost_report import CostBill, CostLine
from tgp.services.documents import API_VERSION, ApiVersion, Moment, usd


class CostItem(TypedDict):
    group: str
    machines: int
    gpuHours: float
    usd: float
    runningUsd: float
    savedUsd: float


class CostReport(TypedDict):
    apiVersion: ApiVersion
    kind: Literal["CostReport"]
    by: str
    since: Moment | None
    until: Moment | None
    items: list[CostItem]
    total: CostItem
    usdPerHourNow: float
    unreadable: list[str]


def cost_report(bill: CostBill) -> CostReport:
    begin, end = bill.window.begin, bill.window.end
    return CostReport(
        apiVersion=API_VERSION,
        kind="CostReport",
        by=bill.by,
        since=rfc3339(begin) if begin is not None else None,
        until=rfc3339(end) if end is not None else None,
        items=[_cost_item(line) for line in bill.lines],
        total=_cost_item(bill.total),
        usdPerHourNow=usd(bill.hourly_microusd),
        unreadable=list(bill.unreadable),
    )


def _cost_item(line: CostLine) -> CostItem:
    return {
        "group": plain(line.group),
        "machines": line.machines,
        "gpuHours": round(line.gpu_seconds / 3600, 4),
        "usd": usd(line.microusd),
        "runningUsd": usd(line.running_microusd),
        "savedUsd": usd(line.saved_microusd),
    }
