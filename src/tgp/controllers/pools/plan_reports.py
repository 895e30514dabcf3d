"""Says what a plan means: on pools, on pods, and to the journal."""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

import msgspec

from tgp.api.nodepool import GPUNodePool
from tgp.api.resource import GPU_NODE_POOL, POD
from tgp.controllers.pools.memory import POOL_SAID, PlanReport, PoolMemory
from tgp.controllers.pools.observe import PlanObservation
from tgp.controllers.requests.purchase_gatherer import Views
from tgp.core.market.ranking_messages import machine
from tgp.core.model.facts import AnnotationIgnored, FactSubject, ScaleUpNotTriggered, ScaleUpTriggered
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.pod import Pod
from tgp.core.model.record import uid_text
from tgp.core.pools.nodepool import SOON_KNOWN
from tgp.core.pools.orders import AnchoredOrder
from tgp.core.pools.planner.world import NO_POOL, Order, Plan, Unserved
from tgp.core.requests.node_metadata import pool_key
from tgp.ports.journal import Journal

EVENTS_PER_OWNER = 10  # in one plan


class PlanReporter:
    def __init__(
        self, views: Views, memory: PoolMemory, *, journal: Journal, announce: Callable[[ObjectKey], None]
    ) -> None:
        self._views = views
        self._memory = memory
        self._journal = journal
        self._announce = announce  # that a plan says something new of this pool

    def report(
        self, seen: PlanObservation, plan: Plan, ordered: Iterable[AnchoredOrder], observed: Plan, now: datetime
    ) -> None:
        made = list(ordered)
        coming = self._pods_on_their_way(seen)
        nearest = _counted_at(plan, sorted(seen.pools))
        for pool in seen.pools:
            orders = [each.order for each in made if each.order.pool == pool]
            waiting = nearest[pool] + coming.get(pool, 0) + sum(len(each.pods) for each in orders)
            self._keep(pool, _report_of(pool, plan, now, orders=len(orders), waiting=waiting))
        observers = sorted(each.key for each in seen.observing)
        nearest = _counted_at(observed, observers)
        for pool in observers:
            would_buy = tuple(order for order in observed.orders if order.pool == pool)
            waiting = nearest[pool] + sum(len(each.pods) for each in would_buy)
            self._keep(pool, _report_of(pool, observed, now, waiting=waiting, would_buy=would_buy))
        self._left_out({*seen.pools, *observers}, now)
        self._tell(seen, plan, made, now)

    def report_filled(self, filled: Iterable[AnchoredOrder], now: datetime) -> None:
        """Of machines for replicas. What pods wait for is planned, and told, next."""
        for pool, orders in Counter(each.order.pool for each in filled).items():
            before = self._memory.reports.get(pool, PlanReport(now))
            self._keep(pool, replace(before, at=now, gap=None, orders=orders))

    def _pods_on_their_way(self, seen: PlanObservation) -> Mapping[ObjectKey, int]:
        """By pool: pods for which a machine was ordered before, and is not there yet."""
        owners: dict[str, ObjectKey] = {}
        for room in seen.world.capacity:
            record = self._views.requests.get(room.coming) if room.coming is not None else None
            pool = pool_key(record) if record is not None else None
            if pool is not None:
                owners[room.name] = pool
        return Counter(owners[name] for name in self._memory.placed.values() if name in owners)

    def _keep(self, pool: ObjectKey, report: PlanReport) -> None:
        before = self._memory.reports.get(pool)
        if before is not None and report.says_nothing_new(before):
            report = replace(before, waiting=report.waiting)
        if report != before:
            self._memory.reports[pool] = report
            self._announce(pool)

    def nothing_waits(self, now: datetime) -> None:
        self._left_out(frozenset(), now)

    def _left_out(self, planned: Collection[ObjectKey], now: datetime) -> None:
        """Of the other pools: no pod waits for them."""
        for pool in self._views.pools.values():
            if pool.key in planned:
                continue
            report, status = self._memory.reports.get(pool.key), pool.value.status if pool.value is not None else None
            if report is not None:
                stale = bool(report.waiting or report.would_buy or report.limited)
            else:  # what a process before this one wrote
                stale = status is not None and bool(status.waiting_pods or status.would_buy)
            if stale:
                self._keep(pool.key, PlanReport(now))

    def _tell(self, seen: PlanObservation, plan: Plan, made: Iterable[AnchoredOrder], now: datetime) -> None:
        told: dict[str, int] = {}
        for each in made:
            order = each.order
            ordered = machine(msgspec.structs.replace(order.offer, hourly_microusd=order.hourly_microusd))
            text = f"Pool {order.pool} orders {ordered}; {order.compared or 'no offer is cheaper'}"
            for pod in order.pods:
                if self._views.pods.get(pod.key) is not None and self._may_tell(pod, told):
                    self._memory.ordered_for(uid_text(pod.uid))
                    self._journal.note(ScaleUpTriggered(_subject(pod), text))
        for unserved in (*seen.demand.refused, *plan.unserved):
            self._tell_unserved(unserved, told, now)
        for ignored in seen.demand.ignored:
            pair = (uid_text(ignored.pod.uid), ignored.message)
            if pair not in self._memory.ignored and self._may_tell(ignored.pod, told):
                self._memory.ignored.add(pair)
                self._journal.note(AnnotationIgnored(_subject(ignored.pod), ignored.message))

    def _tell_unserved(self, unserved: Unserved, told: dict[str, int], now: datetime) -> None:
        pod = unserved.pod
        if unserved.reasons and all(each.reason in SOON_KNOWN for each in unserved.reasons):
            return  # the operator has just started, or the class is new: the next plan says more
        reasons = ",".join(f"{each.pool}={each.reason}" for each in unserved.reasons)
        if self._memory.news(uid_text(pod.uid), reasons, now) and self._may_tell(pod, told):
            self._journal.note(ScaleUpNotTriggered(_subject(pod), unserved.message))

    @staticmethod
    def _may_tell(pod: Pod, told: dict[str, int]) -> bool:
        owner = pod.controller.uid if pod.controller is not None and pod.controller.uid else uid_text(pod.uid)
        told[owner] = told.get(owner, 0) + 1
        return told[owner] <= EVENTS_PER_OWNER

    def tell_pool(self, pool: KubeObject[GPUNodePool], unserved: tuple[Unserved, ...], now: datetime) -> None:
        """Why it has too few replicas: of the first that gets no machine."""
        for each in unserved[:1]:
            reasons = ",".join(reason.reason for reason in each.reasons)
            if self._memory.news(f"{POOL_SAID}{pool.uid_text}", reasons, now):
                text = f"No machine for {len(unserved)} replica{'s' if len(unserved) != 1 else ''} now. {each.message}"
                self._journal.note(ScaleUpNotTriggered(FactSubject(GPU_NODE_POOL, pool.key, pool.uid_text), text))


def _counted_at(plan: Plan, pools: Sequence[ObjectKey]) -> Counter[ObjectKey]:
    """Each pod that no pool serves counts once: at the pool that came nearest, or at the first pool.

    So the pods that wait for each pool add up to all pods that wait.
    """
    first = pools[0] if pools else NO_POOL
    return Counter(next((why.pool for why in each.reasons if why.pool != NO_POOL), first) for each in plan.unserved)


def _report_of(
    pool: ObjectKey, plan: Plan, now: datetime, *, waiting: int, orders: int = 0, would_buy: tuple[Order, ...] = ()
) -> PlanReport:
    unserved = [each for each in plan.unserved if any(reason.pool in (pool, NO_POOL) for reason in each.reasons)]
    limits = (reason.limit for each in unserved for reason in each.reasons if reason.pool == pool)
    return PlanReport(now, plan.gap, orders, len(unserved), waiting, would_buy, next(filter(None, limits), ""))


def _subject(pod: Pod) -> FactSubject:
    return FactSubject(POD, pod.key, uid_text(pod.uid))
