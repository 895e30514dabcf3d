"""Documents about GPU-hour budgets."""

from typing import Literal, NotRequired, TypedDict

from tgp.interfaces.documents import ApiVersion, Moment


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
