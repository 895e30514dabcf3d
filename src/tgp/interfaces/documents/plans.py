"""Documents about plans: what would be bought, and why a pod, a Node or a pool is as it is."""

from typing import Any, Literal, NotRequired, TypedDict

from tgp.interfaces.documents import ApiVersion, Moment
from tgp.interfaces.documents.machines import ObjectName


class OrderItem(TypedDict):
    pool: ObjectName
    provider: str
    instanceType: str
    region: str | None
    gpu: str
    gpuCount: int
    kind: str
    usdPerHour: float
    pods: list[ObjectName]
    compared: str


class ReasonItem(TypedDict):
    pool: str | None
    reason: str
    message: str


class PodReasonItem(ReasonItem):
    pod: ObjectName


class PlacedItem(TypedDict):
    pod: ObjectName
    where: str
    onItsWay: bool
    replica: bool


class LimitEffectItem(TypedDict):
    name: str
    resource: str
    leftBefore: int
    leftAfter: int


class UnservedItem(TypedDict):
    pod: ObjectName
    reasons: list[ReasonItem]


class NotPlannedItem(TypedDict):
    pod: ObjectName
    message: str


class PreferenceItem(TypedDict):
    pods: int
    usdPerHour: float
    unserved: int


class StoppedItem(TypedDict):
    reason: str
    message: str


class PlannedPoolItem(TypedDict):
    namespace: str
    name: str
    nodeClass: str
    observes: bool
    stopped: StoppedItem | None
    missingReplicas: int


class PriceSourceItem(TypedDict):
    provider: str
    live: bool
    seenAt: Moment | None
    message: str


class ClassPriceItem(PriceSourceItem):
    nodeClass: str


class PodPlanDocument(TypedDict):
    """What would be bought now. Nothing is bought."""

    apiVersion: ApiVersion
    kind: Literal["PodPlan"]
    at: Moment
    pods: int
    served: bool
    usdPerHour: float
    usdForHours: float | None
    hours: float | None
    bestPossibleUsdPerHour: float | None
    bestPossibleWithout: list[str]
    gap: float | None
    machines: list[OrderItem]
    observedUsdPerHour: float
    replicaMachines: list[OrderItem]
    replicaUsdPerHour: float
    placed: list[PlacedItem]
    limits: list[LimitEffectItem]
    unserved: list[UnservedItem]
    notPlanned: list[NotPlannedItem]
    preference: PreferenceItem | None
    pools: list[PlannedPoolItem]
    stoppedBy: list[str]
    skipped: list[str]
    notes: list[str]
    unseen: list[str]
    prices: list[ClassPriceItem]


class RentedItem(TypedDict):
    namespace: str
    name: str
    phase: str
    node: str | None
    usdPerHour: float | None


class RoomItem(TypedDict):
    where: str
    onItsWay: bool


class PodEvent(TypedDict):
    at: Moment | None
    reason: str
    message: str


class PodReason(TypedDict):
    """Why a pod waits, and what would be bought for it."""

    apiVersion: ApiVersion
    kind: Literal["PodReason"]
    namespace: str
    name: str
    at: Moment
    phase: str
    reason: str
    message: str
    since: Moment | None
    node: str | None
    machine: RentedItem | None
    ordered: list[RentedItem]
    wouldBuy: OrderItem | None
    hasRoomOn: RoomItem | None
    unserved: list[ReasonItem] | None
    ownUsdPerGpuHour: float | None
    ownPriceUntil: Moment | None
    gang: str | None
    events: list[PodEvent]
    unseen: list[str]
    next: str


class NodeReason(TypedDict):
    """Why a Node is kept, or ends."""

    apiVersion: ApiVersion
    kind: Literal["NodeReason"]
    name: str
    at: Moment
    ready: bool | None
    machine: RentedItem | None
    pool: str | None
    usedBy: list[ObjectName]
    otherPods: int
    ends: str | None
    kept: list[str]
    idleSince: Moment | None
    deletedAt: Moment | None
    unseen: list[str]
    next: str


class WouldHaveCostItem(TypedDict):
    usd: float
    usdPerHour: float | None
    since: Moment


class LimitRoomItem(TypedDict):
    name: str
    resource: str
    left: int


class PoolReasonDocument(TypedDict):
    """What a pool has, would buy, and does not serve."""

    apiVersion: ApiVersion
    kind: Literal["PoolReason"]
    namespace: str
    name: str
    at: Moment
    nodeClass: str
    observes: bool
    stopped: StoppedItem | None
    pauseReason: str | None
    waitingPods: int
    wouldBuy: list[OrderItem]
    wouldHaveCost: WouldHaveCostItem | None
    unserved: list[PodReasonItem]
    machines: list[RentedItem]
    limits: list[LimitRoomItem]
    prices: list[ClassPriceItem]
    unseen: list[str]
    next: str


class LeavingItem(TypedDict):
    node: str
    usdPerHour: float


class ExchangeOrderItem(OrderItem):
    worthUpToUsdPerHour: float


class MovedPodItem(ObjectName):
    node: str | None


class ExchangeItem(TypedDict):
    pool: str
    pools: list[str]
    leaving: list[LeavingItem]
    machines: list[ExchangeOrderItem]
    pods: list[MovedPodItem]
    usdPerHourBefore: float
    usdPerHourAfter: float
    usdOnce: float
    savesUsdPerHour: float
    message: str
    waitsFor: str | None


class ConsolidationPlanDocument(TypedDict):
    apiVersion: ApiVersion
    kind: Literal["ConsolidationPlan"]
    at: Moment
    pools: list[str]
    savesUsdPerHour: float
    exchanges: list[ExchangeItem]
    tooLittle: dict[str, str]
    limited: dict[str, str]
    left: dict[str, str]
    unseen: list[str]


class RentOfferItem(TypedDict):
    provider: str
    instanceType: str
    region: str
    place: str
    gpu: str
    gpuCount: int
    kind: str
    bidUsdPerHour: float | None
    bootMode: str
    availability: str | None


class RentPlanDocument(TypedDict):
    apiVersion: ApiVersion
    kind: Literal["RentPlan"]
    namespace: str
    name: str
    created: bool
    fits: bool
    reason: str | None
    message: str | None
    offer: RentOfferItem | None
    usdPerHour: float | None
    usdForItsLife: float | None
    usdAtMost: float | None
    nodeClass: str | None
    stoppedBy: str | None
    prices: list[PriceSourceItem]
    exclusive: bool
    job: dict[str, Any]
    notes: list[str]


# -- pools and classes, of the HTTP API --------------------------------------------------------------------------------


class ConditionItem(TypedDict):
    type: str
    status: str
    reason: str
    message: str


class PoolItem(TypedDict):
    namespace: str
    name: str
    nodeClass: str
    mode: str
    replicas: int | None
    machines: int
    usdPerHour: float
    waitingPods: int
    conditions: list[ConditionItem]


class PoolList(TypedDict):
    apiVersion: ApiVersion
    kind: Literal["PoolList"]
    asOf: Moment
    items: list[PoolItem]
    more: NotRequired[bool]


class ClassItem(TypedDict):
    name: str
    providers: list[str]
    suspended: bool
    machines: int
    usdPerHour: float
    maxMachines: int | None
    maxUsdPerHour: float | None
    conditions: list[ConditionItem]


class ClassList(TypedDict):
    apiVersion: ApiVersion
    kind: Literal["ClassList"]
    asOf: Moment
    items: list[ClassItem]
    more: NotRequired[bool]
