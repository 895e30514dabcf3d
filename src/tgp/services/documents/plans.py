"""Documents about plans: what would be bought, and why a pod, a Node or a pool is as it is."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, TypedDict

from tgp.api.values import rfc3339
from tgp.core.model.offer import UNKNOWN_REGION
from tgp.core.model.pod import Pod
from tgp.core.model.record import uid_text
from tgp.core.model.text import plain
from tgp.core.pools.planner.world import Order, PoolReason
from tgp.services.documents import API_VERSION, ApiVersion, Moment, ObjectName, usd
from tgp.services.manifest_pods import ManifestPods
from tgp.services.plan_answers import ConsolidationPlan, PlannedExchange, PodPlan, PoolNote


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


# -- pools and classes, of the HTTP API --------------------------------------------------------------------------------


def pod_plan(made: PodPlan, manifest: ManifestPods | None, hours: float | None) -> PodPlanDocument:
    """For programs; fields are added, never renamed."""
    return PodPlanDocument(
        apiVersion=API_VERSION,
        kind="PodPlan",
        at=rfc3339(made.now),
        pods=made.pods,
        served=made.all_served,
        usdPerHour=usd(made.cost_microusd),
        usdForHours=None if hours is None else usd(int(made.cost_microusd * hours)),
        hours=hours,
        bestPossibleUsdPerHour=usd(made.bound_microusd) if made.gap is not None else None,
        bestPossibleWithout=list(made.bound_without),
        gap=made.gap,
        machines=[order_item(each) for each in made.orders],
        observedUsdPerHour=usd(cost_of(made.observed)),
        replicaMachines=[{**order_item(each), "pods": []} for each in made.replicas],
        replicaUsdPerHour=usd(cost_of(made.replicas)),
        placed=[
            {"pod": pod_item(each.pod), "where": each.where, "onItsWay": each.coming, "replica": each.replica}
            for each in made.placed
        ],
        limits=[
            {"name": each.name, "resource": each.resource, "leftBefore": each.before, "leftAfter": each.after}
            for each in made.limits
        ],
        unserved=[
            {"pod": pod_item(each.pod), "reasons": [reason_item(one) for one in each.reasons]} for each in made.unserved
        ],
        notPlanned=[{"pod": pod_item(each.pod), "message": each.why} for each in made.not_planned],
        preference=None
        if made.preference is None
        else {
            "pods": made.preference.pods,
            "usdPerHour": usd(made.preference.hourly_microusd),
            "unserved": made.preference.unserved,
        },
        pools=[_planned_pool_item(each) for each in made.pools],
        stoppedBy=list(stops(made)),
        skipped=list(manifest.skipped) if manifest is not None else [],
        notes=[plain(words) for words in (*notes(made, manifest), *made.ignored)],
        unseen=list(made.unseen),
        prices=[
            {
                "nodeClass": name,
                "provider": each.provider,
                "live": each.live,
                "seenAt": rfc3339(each.seen_at) if each.seen_at is not None else None,
                "message": plain(each.why),
            }
            for name, sources in sorted((made.price_sources or {}).items())
            for each in sources
        ],
    )


def cost_of(orders: Iterable[Order]) -> int:
    return sum(each.hourly_microusd for each in orders)


def stops(made: PodPlan) -> Iterator[str]:
    if made.hold:
        yield f"all purchases are paused ({made.hold}). Resume: tgp release"


def notes(made: PodPlan, manifest: ManifestPods | None) -> Iterator[str]:
    stopped: dict[str, list[str]] = {}
    pools_meant = _pools_meant(made)
    for each in pools_meant:
        if each.stopped:
            stopped.setdefault(each.stopped.partition(": ")[2], []).append(str(each.key))
    if stopped and not made.unserved and len(stopped) < len(pools_meant):
        names = [name for pools in stopped.values() for name in pools]
        yield f"{_pools(names)} {'buys' if len(names) == 1 else 'buy'} nothing now: see tgp why pool/{names[0]}"
        stopped = {}
    for why, pools in stopped.items():
        yield f"{_pools(pools)} {'buys' if len(pools) == 1 else 'buy'} nothing now: {why}"
    if observing := [str(each.key) for each in pools_meant if each.observes and not each.stopped]:
        one = len(observing) == 1
        does = "it reports what it would buy, and buys" if one else "they report what they would buy, and buy"
        yield f"{_pools(observing)} only {'observes' if one else 'observe'}: {does} nothing (spec.mode)"
    if manifest is not None:
        if manifest.skipped:
            yield f"not read from the file, as they make no pods here: {', '.join(manifest.skipped)}"
        yield from (f"not looked at: {each}" for each in manifest.ignored)


def _pools_meant(made: PodPlan) -> Sequence[PoolNote]:
    """Of all namespaces, unless only pods of one were planned for, and each is served."""
    if not made.namespace or not made.all_served:
        return made.pools
    buying = {each.pool for each in made.orders}
    return [each for each in made.pools if each.key.namespace == made.namespace or each.key in buying]


def _pools(names: Sequence[str]) -> str:
    return f"{'pool' if len(names) == 1 else 'pools'} {', '.join(names)}"


def pod_item(pod: Pod) -> ObjectName:
    return {"namespace": pod.key.namespace, "name": pod.key.name}


def reason_item(reason: PoolReason) -> ReasonItem:
    return {
        "pool": str(reason.pool) if reason.pool.name else None,
        "reason": reason.reason,
        "message": plain(reason.message),
    }


def _planned_pool_item(pool: PoolNote) -> PlannedPoolItem:
    reason, _, message = pool.stopped.partition(": ")
    return {
        "namespace": pool.key.namespace,
        "name": pool.key.name,
        "nodeClass": pool.class_name,
        "observes": pool.observes,
        "stopped": {"reason": reason, "message": plain(message)} if pool.stopped else None,
        "missingReplicas": pool.missing_replicas,
    }


def order_item(order: Order) -> OrderItem:
    offer = order.offer
    return {
        "pool": {"namespace": order.pool.namespace, "name": order.pool.name},
        "provider": offer.provider,
        "instanceType": offer.instance_type,
        "region": None if offer.region == UNKNOWN_REGION else offer.region,
        "gpu": offer.gpu,
        "gpuCount": offer.gpu_count,
        "kind": "spot" if offer.spot else "on-demand",
        "usdPerHour": usd(order.hourly_microusd),
        "pods": [pod_item(pod) for pod in order.pods],
        "compared": plain(order.compared),
    }


def consolidation_plan(made: ConsolidationPlan) -> ConsolidationPlanDocument:
    """For programs; fields are added, never renamed."""
    return ConsolidationPlanDocument(
        apiVersion=API_VERSION,
        kind="ConsolidationPlan",
        at=rfc3339(made.now),
        pools=[str(each) for each in made.pools],
        savesUsdPerHour=usd(made.saving_microusd),
        exchanges=[_exchange_item(each) for each in made.exchanges],
        tooLittle=dict(made.too_little),
        limited=dict(made.limited),
        left=dict(made.left),
        unseen=list(made.unseen),
    )


def _exchange_item(each: PlannedExchange) -> ExchangeItem:
    exchange = each.exchange
    return {
        "pool": str(each.pools[0]),
        "pools": [str(pool) for pool in each.pools],
        "leaving": [{"node": node, "usdPerHour": usd(price)} for node, price in each.leaving],
        "machines": [
            {**order_item(order), "worthUpToUsdPerHour": usd(order.most_microusd or order.hourly_microusd)}
            for order in exchange.orders
        ],
        "pods": [{**pod_item(pod), "node": exchange.placed.get(uid_text(pod.uid))} for pod in exchange.pods],
        "usdPerHourBefore": usd(exchange.savings.before),
        "usdPerHourAfter": usd(exchange.savings.after),
        "usdOnce": usd(exchange.savings.once),
        "savesUsdPerHour": usd(exchange.savings.net),
        "message": exchange.message,
        "waitsFor": each.waits_for or None,
    }
