"""Documents about why a pod, a Node or a pool is as it is."""

from datetime import datetime
from typing import Literal, TypedDict

from tgp.api.request import GPURequest
from tgp.api.values import rfc3339
from tgp.core.model.attempts import attempts_of, open_attempt
from tgp.core.model.costs import hourly_of, read_amount
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.text import plain
from tgp.core.pools.status import would_have_paid
from tgp.services.documents import API_VERSION, ApiVersion, Moment, ObjectName, usd
from tgp.services.documents.plans import (
    ClassPriceItem,
    OrderItem,
    PodReasonItem,
    ReasonItem,
    StoppedItem,
    order_item,
    pod_item,
    pod_plan,
    reason_item,
)
from tgp.services.plan_answers import NodeEnquiry, PodEnquiry, PoolEnquiry, PoolNote


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
    ignored: list[str]
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


def reason_of_pod(asked: PodEnquiry) -> str:
    """For an alert: of a pod that no pool serves, the reason of the first pool."""
    unserved = asked.unserved
    return unserved.reasons[0].reason if unserved is not None and unserved.reasons else asked.reason


def state_of_pod(asked: PodEnquiry) -> str:
    if asked.reason != "Waits":
        return asked.message
    if (placed := asked.placed) is not None:
        if placed.coming and asked.bought:
            return f"the machine of request {asked.bought[0].key}, which was ordered for it"
        if placed.coming:
            return f"the machine of request {placed.where}, which is on its way: it has room for the pod"
        return f"the scheduler: Node {placed.where} has room for the pod"
    if asked.order is not None:
        only = any(each.key == asked.order.pool and each.observes for each in asked.plan.pools) if asked.plan else False
        return f"a machine: pool {asked.order.pool}{', which only observes,' if only else ''} would buy one now"
    return "a machine: no pool serves the pod now"


def next_for_pod(asked: PodEnquiry) -> str:
    if asked.bought:
        return f"tgp watch {asked.bought[0].key}"
    if asked.plan is not None and asked.plan.hold:
        return "tgp release"
    if asked.pod.node:
        return f"tgp why node/{asked.pod.node}"
    if asked.reason in ("BudgetGate", "BudgetUsedUp"):
        return f"kubectl get gwb -n {asked.pod.key.namespace}"
    return (
        "tgp plan"
        if asked.plan is not None
        else f"kubectl describe pod {asked.pod.key.name} -n {asked.pod.key.namespace}"
    )


def pod_reason(asked: PodEnquiry) -> PodReason:
    """For programs; fields are added, never renamed."""
    placed, unserved = asked.placed, asked.unserved
    return PodReason(
        apiVersion=API_VERSION,
        kind="PodReason",
        **pod_item(asked.pod),
        at=rfc3339(asked.now),
        phase=asked.pod.phase,
        reason=reason_of_pod(asked),
        message=plain(state_of_pod(asked)),
        since=_when(asked.pod.unplaced_since),
        node=asked.pod.node or None,
        machine=_rented_item(asked.machine) if asked.machine is not None else None,
        ordered=[_rented_item(record) for record in asked.bought],
        wouldBuy=order_item(asked.order) if asked.order is not None else None,
        hasRoomOn=None if placed is None else {"where": placed.where, "onItsWay": placed.coming},
        unserved=None if unserved is None else [reason_item(each) for each in unserved.reasons],
        ownUsdPerGpuHour=usd(asked.own_price_microusd),
        ownPriceUntil=_when(asked.own_price_until),
        gang=asked.gang or None,
        ignored=[plain(words) for words in asked.ignored],
        events=[
            {"at": _when(event.at), "reason": event.reason, "message": plain(event.message)} for event in asked.events
        ],
        unseen=list(asked.plan.unseen) if asked.plan is not None else [],
        next=next_for_pod(asked),
    )


def next_for_node(asked: NodeEnquiry) -> str:
    return (
        f"tgp why request/{asked.request.key}"
        if asked.request is not None
        else f"kubectl describe node {asked.node.name}"
    )


def node_reason(asked: NodeEnquiry) -> NodeReason:
    """For programs; fields are added, never renamed."""
    return NodeReason(
        apiVersion=API_VERSION,
        kind="NodeReason",
        name=asked.node.name,
        at=rfc3339(asked.now),
        ready=asked.node.ready,
        machine=_rented_item(asked.request) if asked.request is not None else None,
        pool=str(asked.pool) if asked.pool is not None else None,
        usedBy=[pod_item(pod) for pod in asked.users],
        otherPods=asked.others,
        ends=plain(asked.ends) or None,
        kept=[plain(words) for words in asked.kept],
        idleSince=_when(asked.idle_since),
        deletedAt=_when(asked.deleted_at),
        unseen=list(asked.unseen),
        next=next_for_node(asked),
    )


def next_for_pool(asked: PoolEnquiry) -> str:
    if asked.plan.hold:
        return "tgp release"
    if asked.note.stopped:
        return next_for_stopped(asked.note)
    return f"tgp why pod/{asked.unserved[0][0].key}" if asked.unserved else "tgp plan"


def next_for_stopped(note: PoolNote) -> str:
    """By the reason why the pool buys nothing: what has to be read, or done."""
    match note.stopped.partition(": ")[0]:
        case "NodeClassNotFound":
            return "kubectl get gpunodeclasses"
        case "NodeClassSuspended":
            return f"tgp release class/{note.class_name}"
        case reason if reason.startswith("NodeClass") or reason == "NamespaceNotAllowed":
            return f"kubectl describe gpunodeclass {note.class_name}"
        case _:
            return f"kubectl describe gpunodepool {note.key.name} -n {note.key.namespace}"


def pool_reason(asked: PoolEnquiry) -> PoolReasonDocument:
    """For programs; fields are added, never renamed."""
    reason, _, message = asked.note.stopped.partition(": ")
    return PoolReasonDocument(
        apiVersion=API_VERSION,
        kind="PoolReason",
        namespace=asked.pool.key.namespace,
        name=asked.pool.key.name,
        at=rfc3339(asked.now),
        nodeClass=asked.note.class_name,
        observes=asked.note.observes,
        stopped={"reason": reason, "message": plain(message)} if asked.note.stopped else None,
        pauseReason=asked.plan.hold or None,
        waitingPods=asked.plan.pods,
        wouldBuy=[order_item(order) for order in asked.orders],
        wouldHaveCost=_would_have_cost_item(asked),
        unserved=[{"pod": pod_item(pod), **reason_item(each)} for pod, each in asked.unserved],
        machines=[_rented_item(record) for record in asked.machines],
        limits=[{"name": room.name, "resource": room.resource, "left": room.left} for room in asked.limits],
        prices=pod_plan(asked.plan, None, None)["prices"],
        unseen=list(asked.plan.unseen),
        next=next_for_pool(asked),
    )


def _would_have_cost_item(asked: PoolEnquiry) -> WouldHaveCostItem | None:
    cost = asked.pool.value.status.would_have_cost if asked.pool.value is not None else None
    if cost is None:
        return None
    paid = usd(would_have_paid(cost, asked.now))
    return {"usd": paid, "usdPerHour": usd(read_amount(cost.hourly_cost)), "since": rfc3339(cost.since)}


def _when(at: datetime | None) -> str | None:
    return None if at is None else rfc3339(at)


def hourly_of_machine(record: KubeObject[GPURequest]) -> int | None:
    attempt = open_attempt(attempts_of(record))
    return hourly_of(attempt) if attempt is not None else None


def phase_of(record: KubeObject[GPURequest]) -> str:
    return (record.value.status.phase if record.value is not None else None) or "Pending"


def _rented_item(record: KubeObject[GPURequest]) -> RentedItem:
    return {
        "namespace": record.key.namespace,
        "name": record.key.name,
        "phase": phase_of(record),
        "node": record.value.status.node_name if record.value is not None else None,
        "usdPerHour": usd(hourly_of_machine(record)),
    }
