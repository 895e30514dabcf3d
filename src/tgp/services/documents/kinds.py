"""Lists of pools and classes, as the HTTP API answers them."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Literal, NotRequired, TypedDict

from tgp.api.common import Condition
from tgp.api.nodeclass import GPUNodeClass
from tgp.api.nodepool import GPUNodePool
from tgp.api.values import rfc3339
from tgp.core.model.costs import read_amount
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.prices import MICRO
from tgp.services.documents import API_VERSION, ApiVersion, Moment


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


def pool_list(records: Iterable[KubeObject[GPUNodePool]], now: datetime) -> PoolList:
    items = [_pool_item(record, record.value) for record in records if record.value is not None]
    return PoolList(apiVersion=API_VERSION, kind="PoolList", asOf=rfc3339(now), items=items)


def class_list(records: Iterable[KubeObject[GPUNodeClass]], now: datetime) -> ClassList:
    items = [_class_item(record, record.value) for record in records if record.value is not None]
    return ClassList(apiVersion=API_VERSION, kind="ClassList", asOf=rfc3339(now), items=items)


def _pool_item(record: KubeObject[GPUNodePool], pool: GPUNodePool) -> PoolItem:
    spec, status = pool.spec, pool.status
    return PoolItem(
        namespace=record.key.namespace,
        name=record.key.name,
        nodeClass=spec.node_class_ref.name,
        mode=spec.mode,
        replicas=spec.replicas,
        machines=status.node_count,
        usdPerHour=_amount(status.hourly_cost) or 0.0,
        waitingPods=status.waiting_pods,
        conditions=_conditions(status.conditions),
    )


def _class_item(record: KubeObject[GPUNodeClass], node_class: GPUNodeClass) -> ClassItem:
    spec, status = node_class.spec, node_class.status
    return ClassItem(
        name=record.key.name,
        providers=[each.name for each in spec.providers if each.enabled],
        suspended=spec.suspend,
        machines=status.active_nodes,
        usdPerHour=_amount(status.hourly_cost) or 0.0,
        maxMachines=spec.limits.max_nodes if spec.limits is not None else None,
        maxUsdPerHour=_amount(spec.limits.max_hourly_cost) if spec.limits is not None else None,
        conditions=_conditions(status.conditions),
    )


def _conditions(rows: Sequence[Condition]) -> list[ConditionItem]:
    return [
        ConditionItem(type=row.type, status=row.status, reason=row.reason or "", message=row.message or "")
        for row in rows
    ]


def _amount(text: str | None) -> float | None:
    """None: it is not set, or not an amount."""
    found = read_amount(text) if text is not None else None
    return found / MICRO if found is not None else None
