"""What the operator itself sees, for its HTTP API: what commands show, from its own caches.

The right of the user to one namespace, or to all of them (`namespace` is empty), was looked at before. What belongs to
another namespace is left out here.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Any, TypeVar

from tgp.adapters.kube.connect import Connection
from tgp.adapters.kube.list import ListTarget
from tgp.adapters.kube.store import Store
from tgp.api.resource import Resource
from tgp.controllers.deps import Stores
from tgp.controllers.instances.spend_log import SpendLog
from tgp.controllers.pools.observe import WorldObserver
from tgp.controllers.requests.indexes import PODS_BY_NODE
from tgp.core.budgets.admission import GATE
from tgp.core.classes.default_class import class_name
from tgp.core.model.cluster_inventory import ClusterInventory
from tgp.core.model.event import Event
from tgp.core.model.hold import Hold, hold_of
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.record import ObjectRecord
from tgp.core.model.spend import month_of
from tgp.core.pools.planner.world import NO_POOL, PoolReason, Unserved
from tgp.core.reports.cost_report import bill_of, costs, month_window
from tgp.core.reports.machine_costs import hourly_total, machine_costs
from tgp.ports.cluster import ClusterBusy, NotFound
from tgp.ports.compute import Compute
from tgp.services.budgets import BudgetService
from tgp.services.cluster_reads import ClusterReads
from tgp.services.documents.budgets import BudgetEnquiryDocument, BudgetList, budget_enquiry, budget_list
from tgp.services.documents.costs import CostReport, cost_report
from tgp.services.documents.kinds import ClassList, PoolList, class_list, pool_list
from tgp.services.documents.nodes import NodesReportDocument, nodes_report
from tgp.services.documents.plans import PodPlanDocument, pod_plan
from tgp.services.documents.reasons import (
    NodeReason,
    PodReason,
    PoolReasonDocument,
    node_reason,
    pod_reason,
    pool_reason,
)
from tgp.services.documents.requests import RequestReason, StatusReport, request_reason, status_report
from tgp.services.nodes import gpu_nodes
from tgp.services.plan_answers import PlanQuestion, PodPlan
from tgp.services.request_answers import ClusterStatus, Enquiry
from tgp.services.requests import gaps_in_status, holders_of

R = TypeVar("R", bound=ObjectRecord)

MOST_MONTHS_BACK = 12  # of a cost report: the lines of each month are read from the API server

ELSEWHERE = PoolReason(NO_POOL, "NoPoolInNamespace", "no pool of this namespace or of another one serves the pod")


class OperatorReads(ClusterReads):
    """The same reads as a terminal's, from the caches of the operator: they cost the API server nothing."""

    def __init__(self, connection: Connection, stores: Stores) -> None:
        super().__init__(connection)
        self._clock = connection.clock
        self._namespaces = stores.namespaces
        known: tuple[Store[Any], ...] = (stores.requests, stores.classes, stores.nodes, stores.pods, stores.budgets)
        self._stores: Mapping[Resource, Store[Any]] = {store.resource: store for store in known}

    def now(self) -> datetime:
        return self._clock.now()

    async def listed(self, subject: ListTarget[R]) -> list[R]:
        store = self._stores[subject.projection.resource]
        if not store.synced:
            raise ClusterBusy(f"{subject.name} are not listed yet")
        found = (record for record in store.values() if subject.namespace in ("", record.key.namespace))
        return sorted(found, key=lambda record: record.key)

    async def events(self, namespace: str, uid: str) -> tuple[Event, ...] | None:  # noqa: ARG002 - none are cached
        """The operator may not read Events."""
        return None

    async def hold(self) -> Hold | None:
        home = self._namespaces.get(ObjectKey("", self.operator_namespace))
        return hold_of(home.annotations) if home is not None else None


@dataclass(frozen=True, slots=True)
class OperatorView:
    stores: Stores
    reads: OperatorReads
    observer: WorldObserver
    spend_log: SpendLog
    compute: Compute

    # -- lists ---------------------------------------------------------------------------------------------------------

    async def requests(self, namespace: str) -> StatusReport:
        records = [each for each in await self.reads.requests() or () if namespace in ("", each.key.namespace)]
        requests = tuple(record.value for record in records if record.value is not None)
        nodes = {request.status.node_name for request in requests}
        pods = {name: self._pods_on(name) for name in nodes if name}
        return status_report(ClusterStatus(self.reads.now(), requests, pods))

    def _pods_on(self, node: str) -> int:
        there = self.stores.pods.by_index(PODS_BY_NODE, node)
        return sum(not pod.finished and not pod.of_daemon_set for pod in there)

    def pools(self, namespace: str) -> PoolList:
        there = (each for each in self.stores.pools.values() if namespace in ("", each.key.namespace))
        return pool_list(sorted(there, key=lambda each: each.key), self.reads.now())

    def classes(self) -> ClassList:
        return class_list(sorted(self.stores.classes.values(), key=lambda each: each.key), self.reads.now())

    async def nodes(self) -> NodesReportDocument:
        return nodes_report(await gpu_nodes(self.reads))

    async def budgets(self, namespace: str) -> BudgetList:
        return budget_list(await BudgetService(self.reads).board(namespace))

    async def cost(self, namespace: str, month: str, by: str) -> CostReport:
        """Of one month. Raises ClusterError, and ValueError for a month of which the lines are not read."""
        now = self.reads.now()
        month = month or month_of(now)
        window = month_window(month)
        recorded = await self.spend_log.of_months(months_since(month, now))
        requests = [each for each in self.stores.requests.values() if namespace in ("", each.key.namespace)]
        mine = [entry for entry in recorded if namespace in ("", entry.namespace)]
        inventory = ClusterInventory("", self.reads.operator_namespace, now, None, requests=tuple(requests))
        return cost_report(bill_of(costs(mine, requests, now), by, window, hourly_total(machine_costs(inventory))))

    # -- plans ---------------------------------------------------------------------------------------------------------

    async def plan(self, namespace: str) -> PodPlanDocument:
        from tgp.services.plans import plan_of  # loads the planner

        world = await self._world()
        return pod_plan(narrowed(await self.compute.run(lambda: plan_of(world, PlanQuestion())), namespace), None, None)

    async def _world(self) -> Any:
        """With copies of what the plan reads in another thread."""
        from tgp.services.plan_world import TerminalWorld, VisibleCluster, fill

        now, copied = self.reads.now(), Stores()
        await fill(copied.pools, self.stores.pools.values())
        await fill(copied.requests, self.stores.requests.values())
        visible = VisibleCluster(copied, now, await self.reads.hold(), schedulers=self.observer.scheduler_names)
        return TerminalWorld(visible, self.observer.observe(now))

    # -- why -----------------------------------------------------------------------------------------------------------

    async def why_request(self, key: ObjectKey) -> RequestReason:
        record = _found("GPURequest", key, self.stores.requests)
        if record.value is None:
            raise NotFound(f"GPURequest {key} was written by a newer version and cannot be read")
        meant = class_name(record.value, self.stores.classes.values())
        name = meant if isinstance(meant, str) else ""
        known = self.stores.classes.get(ObjectKey("", name))
        node_class = known.value if known is not None else None
        hold = await self.reads.hold()
        others = holders_of(self.stores.requests.values(), name) if name else ()
        return request_reason(
            Enquiry(
                record.value,
                self.reads.now(),
                name,
                node_class,
                str(hold) if hold is not None else "",
                hold is not None,
                tuple(each for each in others if each.key.namespace == key.namespace),
                gaps_in_status(node_class) if node_class is not None else (),
            )
        )

    async def why_pod(self, key: ObjectKey) -> PodReason:
        from tgp.services.plan_enquiries import WAITS, behind_budget_gate, pod_enquiry, state_of
        from tgp.services.plan_world import VisibleCluster
        from tgp.services.plans import plan_of

        pod = _found("pod", key, self.stores.pods)
        schedulers = self.observer.scheduler_names
        if state_of(pod, schedulers)[0] != WAITS:
            visible = VisibleCluster(self.stores, self.reads.now(), await self.reads.hold(), schedulers=schedulers)
            home = self.stores.namespaces.get(ObjectKey("", key.namespace))
            gated = GATE in pod.gates and not (pod.node or pod.finished or pod.deleting)
            labels = home.labels if home is not None else None
            why = behind_budget_gate(pod, labels, self.stores.budgets.values()) if gated else None
            return pod_reason(pod_enquiry(visible, pod, None, None, why))
        world = await self._world()
        made = await self.compute.run(lambda: plan_of(world, PlanQuestion()))
        refused = (each for each in world.observation.demand.refused if each.pod.uid == pod.uid)
        why = next(((each.reasons[0].reason, each.reasons[0].message) for each in refused), None)
        return pod_reason(pod_enquiry(world.visible, pod, narrowed(made, key.namespace), None, why))

    async def why_node(self, name: str) -> NodeReason:
        from tgp.services.plan_enquiries import node_enquiry
        from tgp.services.plan_world import VisibleCluster

        visible = VisibleCluster(self.stores, self.reads.now(), await self.reads.hold())
        return node_reason(node_enquiry(visible, _found("Node", ObjectKey("", name), self.stores.nodes)))

    async def why_pool(self, key: ObjectKey) -> PoolReasonDocument:
        from tgp.services.plan_enquiries import pool_enquiry
        from tgp.services.plans import plan_of

        pool = _found("GPUNodePool", key, self.stores.pools)
        world = await self._world()
        made = narrowed(await self.compute.run(lambda: plan_of(world, PlanQuestion())), key.namespace)
        note = next((each for each in made.pools if each.key == key), None)
        if note is None:
            raise NotFound(f"GPUNodePool {key} was deleted just now")
        return pool_reason(pool_enquiry(world, pool, made, note))

    async def why_budget(self, key: ObjectKey) -> BudgetEnquiryDocument:
        _found("GPUWorkloadBudget", key, self.stores.budgets)
        return budget_enquiry(await BudgetService(self.reads).enquire(key))


def months_since(month: str, now: datetime) -> Iterator[str]:
    """A machine's line is in the month of its end: so all from that month until now. Raises ValueError."""
    first, last = month_window(month).begin, now.astimezone(UTC)
    assert first is not None, "a month begins"
    count = (last.year - first.year) * 12 + last.month - first.month
    if not 0 <= count <= MOST_MONTHS_BACK:
        raise ValueError(
            f"{month} is not within the last {MOST_MONTHS_BACK} months; older ones: tgp cost --month {month}"
        )
    start = first.year * 12 + first.month - 1
    return (f"{each // 12:04}-{each % 12 + 1:02}" for each in range(start, start + count + 1))


def narrowed(plan: PodPlan, namespace: str) -> PodPlan:
    """Only what concerns pods and pools of one namespace. What a limit leaves says what others have."""
    if not namespace:
        return plan
    mine = [(order, tuple(pod for pod in order.pods if pod.key.namespace == namespace)) for order in plan.orders]
    orders = tuple(replace(order, pods=pods) for order, pods in mine if pods)
    placed = tuple(each for each in plan.placed if each.pod.key.namespace == namespace)
    unserved = tuple(
        Unserved(each.pod, tuple(why for why in each.reasons if why.pool.namespace in ("", namespace)) or (ELSEWHERE,))
        for each in plan.unserved
        if each.pod.key.namespace == namespace
    )
    return PodPlan(
        plan.now,
        sum(len(order.pods) for order in orders) + len(placed) + len(unserved),
        tuple(each for each in plan.pools if each.key.namespace == namespace),
        orders,
        placed,
        unserved,
        cost_microusd=sum(order.hourly_microusd for order in orders),
        hold=plan.hold,
        ignored=tuple(words for words in plan.ignored if words.startswith(f"pod {namespace}/")),
        replicas=tuple(each for each in plan.replicas if each.pool.namespace == namespace),
    )


def _found(kind: str, key: ObjectKey, there: Store[R]) -> R:
    """Near names are those of the same namespace: of others the user may know nothing."""
    found = there.get(key)
    if found is not None:
        return found
    here = [each.key.name for each in there.values() if each.key.namespace == key.namespace]
    near = get_close_matches(key.name, here)
    hint = f"; did you mean {', '.join(near)}?" if near else ""
    raise NotFound(f"there is no {kind} {key}{hint}")
