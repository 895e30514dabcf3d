"""Reconciles GPUNodePools: what their class lets them be, what they have, what the last plan said, and their end."""

from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

from tgp.api.nodepool import GPUNodePool
from tgp.api.request import GPURequest
from tgp.api.resource import GPU_NODE_POOL
from tgp.controllers.count_pace import CountPace
from tgp.controllers.pools.indexes import BY_CLASS
from tgp.controllers.pools.memory import PoolMemory
from tgp.controllers.pools.observe import WorldObserver
from tgp.controllers.pools.order_creation import POOL_FINALIZER
from tgp.controllers.requests.indexes import BY_POOL_UID
from tgp.controllers.requests.purchase_gatherer import Views
from tgp.controllers.status_writer import StatusWriter
from tgp.core.model.conditions import ConditionUpdate
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.workload import Namespace
from tgp.core.pools.nodepool import judge_pool
from tgp.core.pools.status import (
    COUNTED_EVERY,
    cost_of,
    limited,
    machine_parts,
    move_parts,
    plan_parts,
    what_remains,
    would_buy_parts,
    would_have_cost,
    would_have_cost_parts,
)
from tgp.core.requests.node_metadata import pool_uid
from tgp.ports.clock import Clock
from tgp.ports.cluster import Cluster, NotFound

STOP_SHOWN = timedelta(seconds=30)


class NodePoolReconciler:
    def __init__(
        self,
        views: Views,
        observer: WorldObserver,
        memory: PoolMemory,
        status_writer: StatusWriter,
        *,
        cluster: Cluster,
        clock: Clock,
    ) -> None:
        self._views = views
        self._observer = observer
        self._memory = memory
        self._status_writer = status_writer
        self._cluster = cluster
        self._clock = clock
        self._pace = CountPace(clock)

    async def reconcile(self, key: ObjectKey) -> datetime | None:
        record = self._views.pools.get(key)
        if record is None:
            self._memory.reports.pop(key, None)
            self._pace.forget(key)
            return None
        if record.deleting:
            await self._leave(record)
            return None
        if record.value is None:
            return None  # unreadable: written by a newer version, perhaps. Skipped; the store has reported it already.
        if (later := self._pace.wait(record, lambda: self._requests(record))) is not None:
            return later
        return await self._status(record, record.value, self._requests(record))

    async def _status(
        self, record: KubeObject[GPUNodePool], pool: GPUNodePool, requests: list[KubeObject[GPURequest]]
    ) -> datetime | None:
        """When to write again although nothing has changed."""
        node_class = self._views.classes.get(ObjectKey("", pool.spec.node_class_ref.name))
        updates = list(judge_pool(self._observer.pool_observation(record.key, pool, node_class)))
        report = self._memory.reports.get(record.key)
        parts = {**machine_parts(requests), "moves": move_parts(requests)}
        counted = before = pool.status.would_have_cost
        if not any(each.type == "Observing" for each in updates):
            counted = None
        elif report is not None:
            counted = would_have_cost(before, cost_of(report.would_buy), self._clock.now())
        if counted is not before:
            parts["wouldHaveCost"] = would_have_cost_parts(counted)
        if report is not None:
            parts["lastPlan"] = plan_parts(report.at, report.gap, report.orders, report.unserved)
            parts["waitingPods"] = report.waiting
            parts["wouldBuy"] = would_buy_parts(report.would_buy)
            if (limit := limited(report.limited)) is not None:
                updates.append(limit)
        stop = self._memory.stop_of(record, self._clock.now())
        if stop is not None:
            updates = [each for each in updates if each.type != "Limited"]
            updates.append(ConditionUpdate("Limited", True, stop.reason, stop.message))
        await self._status_writer.write(record, updates, _changed(record.status, parts))
        if stop is not None:
            return stop.until + STOP_SHOWN  # another try may be refused as well: its condition does not come and go
        return counted.at + COUNTED_EVERY if counted is not None and report is not None and report.would_buy else None

    async def _leave(self, record: KubeObject[GPUNodePool]) -> None:
        """Machines first. Their requests are deleted one by one, and each shows that its machine is gone."""
        left = self._requests(record)
        expected = any(pool_uid(each.record) == record.uid_text for each in self._memory.expected.values())
        if left or expected:
            await self._status_writer.write(record, (what_remains(left),), _changed(record.status, machine_parts(left)))
            return
        if POOL_FINALIZER in record.finalizers:
            others = [each for each in record.finalizers if each != POOL_FINALIZER]
            change = {"metadata": {"finalizers": others}}
            version = str(record.resource_version)
            with suppress(NotFound):  # already deleted
                await self._cluster.patch(
                    GPU_NODE_POOL, record.key, change, resource_version=version, uid=record.uid_text
                )

    def _requests(self, record: KubeObject[GPUNodePool]) -> list[KubeObject[GPURequest]]:
        return list(self._views.requests.by_index(BY_POOL_UID, record.uid_text))

    # -- what wakes it -------------------------------------------------------------------------------------------------

    def of_class(self, old: KubeObject[Any] | None, new: KubeObject[Any] | None) -> Iterable[ObjectKey]:
        """Pools that a change of this class concerns."""
        changed = new or old
        assert changed is not None, "a change has a before or an after"
        return [record.key for record in self._views.pools.by_index(BY_CLASS, changed.key.name)]

    def of_namespace(self, old: Namespace | None, new: Namespace | None) -> Iterable[ObjectKey]:
        """Pools that a change of this Namespace's labels concerns."""
        changed = new or old
        assert changed is not None, "a change has a before or an after"
        if old is not None and new is not None and old.labels == new.labels:
            return []
        return [record.key for record in self._views.pools.by_index("namespace", changed.key.name)]

    def of_request(self, old: KubeObject[GPURequest] | None, new: KubeObject[GPURequest] | None) -> Iterable[ObjectKey]:
        """The pool that wrote it."""
        changed = new or old
        assert changed is not None, "a change has a before or an after"
        uid = pool_uid(changed)
        owner = next((each.name for each in changed.owners if each.uid == uid), "") if uid else ""
        return (ObjectKey(changed.key.namespace, owner),) if owner else ()


def _changed(status: dict[str, Any], parts: dict[str, Any]) -> dict[str, Any] | None:
    """Parts that differ from what is held; None: none does. What is absent is 0, or nothing."""
    changed = {name: part for name, part in parts.items() if status.get(name) != part}
    return changed if any(part or status.get(name) for name, part in changed.items() if part != "0.00") else None
