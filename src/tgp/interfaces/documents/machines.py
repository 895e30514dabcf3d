"""Documents about requests, machines, Nodes and what they cost."""

from typing import Literal, NotRequired, TypedDict

from tgp.interfaces.documents import ApiVersion, Moment


class ObjectName(TypedDict):
    namespace: str
    name: str


# -- requests ----------------------------------------------------------------------------------------------------------


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


# -- machines ----------------------------------------------------------------------------------------------------------


class NodeItem(TypedDict):
    name: str
    kind: str
    provider: str | None
    state: str
    gpu: str | None
    gpus: int
    gpusUsed: int | None
    usdPerHour: float | None
    bootSeconds: int | None
    createdAt: Moment | None
    address: str | None
    request: ObjectName | None


class NodesReportDocument(TypedDict):
    apiVersion: ApiVersion
    kind: Literal["NodesReport"]
    asOf: Moment
    nodes: list[NodeItem]
    more: NotRequired[bool]


class MachineItem(TypedDict):
    request: str | None
    provider: str
    token: str
    instanceId: str | None
    machine: str
    state: str | None
    usdPerHour: float | None
    spentUsd: float
    since: Moment | None


class PendingPurchaseItem(TypedDict):
    object: str
    why: str
    atOnce: bool
    writtenAgainBy: str | None


class MachineTestReport(TypedDict):
    """What `tgp node test` found of a machine you own."""

    apiVersion: ApiVersion
    kind: Literal["MachineTestReport"]
    machine: str
    request: ObjectName
    works: bool
    onSeconds: float | None  # null: it was not ready
    offSeconds: float | None  # null: it was not seen to power off
    problem: str


class HoldReport(TypedDict):
    apiVersion: ApiVersion
    kind: Literal["HoldReport"]
    purchasesPaused: bool
    reason: str | None
    since: Moment | None
    suspendedClasses: list[str]
    message: str
    usdPerHour: float
    machines: list[MachineItem]
    pendingPurchases: list[PendingPurchaseItem]


class ProviderNotAsked(TypedDict):
    provider: str
    message: str


class DownReport(TypedDict):
    apiVersion: ApiVersion
    kind: Literal["DownReport"]
    cluster: str
    context: str
    proven: bool
    message: str
    left: list[MachineItem]
    leftUsdPerHour: float
    notAsked: list[ProviderNotAsked]
    bill: list[MachineItem]
    billUsd: float
    requests: list[str]
    purchasesPaused: bool
    freedPods: int
    pendingPurchases: list[PendingPurchaseItem]
    exitCode: int


# -- cost --------------------------------------------------------------------------------------------------------------


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


# -- doctor ------------------------------------------------------------------------------------------------------------


class AskedProviderItem(TypedDict):
    provider: str
    credentials: str | None
    account: str | None
    answered: bool
    machines: int | None
    message: str


class FindingItem(TypedDict):
    problem: str
    kind: str
    about: str
    message: str
    usdPerHour: float | None
    since: Moment | None
    fix: str | None
    fixable: bool
    instanceId: str | None


class DoctorReportDocument(TypedDict):
    apiVersion: ApiVersion
    kind: Literal["DoctorReport"]
    cluster: str
    context: str
    providers: list[AskedProviderItem]
    findings: list[FindingItem]
    machines: list[MachineItem]
    usdPerHour: float
    done: list[str]
    failed: list[str]
    summary: str
    exitCode: int


class LinkItem(TypedDict):
    name: str
    kind: str
    message: str
    fix: str | None


class ConnectivityReport(TypedDict):
    """What `tgp doctor KIND/NAME` examined, link by link."""

    apiVersion: ApiVersion
    kind: Literal["ConnectivityReport"]
    cluster: str
    about: str
    links: list[LinkItem]
    summary: str
    exitCode: int


class MarkedMachineItem(TypedDict):
    cluster: str
    provider: str
    instanceId: str
    state: str
    usdPerHour: float | None


class ProviderWithoutKey(TypedDict):
    provider: str
    variable: str


class MarkedMachineList(TypedDict):
    """Machines that tgp bought, for whichever cluster, as the providers list them."""

    apiVersion: ApiVersion
    kind: Literal["MarkedMachineList"]
    machines: list[MarkedMachineItem]
    notAsked: list[ProviderNotAsked]
    withoutKey: list[ProviderWithoutKey]
