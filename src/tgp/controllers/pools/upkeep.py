"""Looks after the requests that pools wrote: withdraws what cannot buy, deletes what is empty, over or surplus."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime
from typing import assert_never

from tgp.api.nodepool import GPUNodePool
from tgp.api.request import GPURequest
from tgp.api.resource import GPU_REQUEST
from tgp.controllers.pools.memory import PoolMemory
from tgp.controllers.requests.indexes import BY_NODE, BY_POOL_UID, PODS_BY_NODE
from tgp.controllers.requests.purchase_gatherer import Views
from tgp.controllers.status_writer import StatusWriter
from tgp.core.model.conditions import ConditionUpdate
from tgp.core.model.facts import RequestWithdrawn, subject_of
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.node import Node
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.offer import Offer
from tgp.core.model.pod import Pod
from tgp.core.pools.upkeep import (
    DISRUPTED,
    MOST_FAILED,
    Disrupt,
    Leave,
    PoolRequest,
    Remove,
    Withdraw,
    care_for,
    marked_disrupted,
)
from tgp.core.requests.node_metadata import pool_key, pool_uid
from tgp.ports.clock import Clock
from tgp.ports.cluster import Cluster, ClusterBusy
from tgp.ports.journal import Journal
from tgp.ports.reconciler import SOON

REFRESHED_WITHIN = 20.0  # seconds; a slower API server is asked in a later reconcile


class PoolRequestReconciler:
    """A reconciler whose keys are requests; those of users are left alone."""

    def __init__(
        self,
        views: Views,
        *,
        memory: PoolMemory,
        offer_for: Callable[[KubeObject[GPURequest]], Offer | None],
        status_writer: StatusWriter,
        list_pods: Callable[[], Awaitable[None]],
        cluster: Cluster,
        journal: Journal,
        clock: Clock,
    ) -> None:
        self._views = views
        self._memory = memory
        self._offer_for = offer_for  # what a request was to buy
        self._status_writer = status_writer  # of the condition Disrupted
        self._list_pods = list_pods  # the view of pods, from a list begun after the call
        self._cluster = cluster
        self._journal = journal
        self._clock = clock

    # -- what wakes it -------------------------------------------------------------------------------------------------

    def of_pool(self, old: KubeObject[GPUNodePool] | None, new: KubeObject[GPUNodePool] | None) -> Iterable[ObjectKey]:
        """Its requests, when its spec changes or its deletion begins."""
        changed = new or old
        assert changed is not None, "a change has a before or an after"
        if old is not None and new is not None and (old.generation, old.deleting) == (new.generation, new.deleting):
            return ()
        return sorted(record.key for record in self._views.requests.by_index(BY_POOL_UID, changed.uid_text))

    def of_plan(self, _old: object, _new: object) -> Iterable[ObjectKey]:
        """Requests that the plan has given up."""
        return sorted(self._memory.given_up)

    def of_pod(self, old: Pod | None, new: Pod | None) -> Iterable[ObjectKey]:
        names = {pod.node for pod in (old, new) if pod is not None and pod.node}
        return [key for name in sorted(names) for key in self._on(name)]

    def of_node(self, old: Node | None, new: Node | None) -> Iterable[ObjectKey]:
        node = new or old
        assert node is not None, "a change has a before or an after"
        return () if new is not None and new.repeats(old) else self._on(node.name)

    def _on(self, node: str) -> list[ObjectKey]:
        return [record.key for record in self._views.requests.by_index(BY_NODE, node) if pool_uid(record)]

    # -- one reconcile -------------------------------------------------------------------------------------------------

    async def reconcile(self, key: ObjectKey) -> datetime | None:
        seen = self._observe(key)
        if seen is None:
            return None
        care = care_for(seen)
        match care:
            case Leave():
                if marked_disrupted(seen.record) is not None and not seen.record.deleting:
                    await self._status_writer.write(seen.record, ())
                return care.until
            case Withdraw():
                offer = self._offer_for(seen.record)
                await self._delete(seen.record)
                if offer is not None and not care.paused:
                    self._memory.leave_out(offer, care.why, seen.now)
                self._journal.note(RequestWithdrawn(subject_of(seen.record), care.why))
            case Disrupt():
                return await self._disrupt(seen, care)
            case Remove():
                await self._delete(seen.record)
            case _:
                assert_never(care)
        return None

    def _observe(self, key: ObjectKey) -> PoolRequest | None:
        record = self._views.requests.get(key)
        pool = self._pool_of(record) if record is not None else None
        if record is None or pool is None:
            return None
        name = (record.value.status.node_name or "") if record.value is not None else ""
        return PoolRequest(
            record,
            pool,
            self._clock.now().replace(microsecond=0),
            self._views.nodes.get(ObjectKey("", name)) if name else None,
            tuple(self._views.pods.by_index(PODS_BY_NODE, name)) if name else (),
            awaited=bool(name) and name in self._memory.placed.values(),
            given_up=self._memory.given_up.get(key, ""),
            oldest_failed=self._is_oldest_failed(record, pool),
        )

    def _pool_of(self, record: KubeObject[GPURequest]) -> KubeObject[GPUNodePool] | None:
        """By uid: a pool of the same name that was created later is another one."""
        key = pool_key(record)
        pool = self._views.pools.get(key) if key is not None else None
        return pool if pool is not None and pool.uid_text == pool_uid(record) else None

    def _is_oldest_failed(self, record: KubeObject[GPURequest], pool: KubeObject[GPUNodePool]) -> bool:
        if record.value is None or record.value.status.phase != "Failed":
            return False
        failed = [
            each
            for each in self._views.requests.by_index(BY_POOL_UID, pool.uid_text)
            if each.value is not None and each.value.status.phase == "Failed" and not each.deleting
        ]
        newer = sum((each.created_at, each.key) > (record.created_at, record.key) for each in failed)
        return newer >= MOST_FAILED

    async def _disrupt(self, seen: PoolRequest, care: Disrupt) -> datetime | None:
        """The mark first; then, in a reconcile of its own, the deletion."""
        record, marked = seen.record, marked_disrupted(seen.record)
        if marked is None or marked.reason != care.reason:
            await self._status_writer.write(record, (ConditionUpdate(DISRUPTED, True, care.reason, care.message),))
            return self._clock.now() + SOON
        await self._refresh_pods()
        fresh = self._observe(record.key)
        if fresh is None or fresh.record.resource_version != record.resource_version:
            return self._clock.now() + SOON
        if isinstance(care_for(fresh), Disrupt):
            await self._delete(fresh.record)
            return None
        return self._clock.now() + SOON

    async def _refresh_pods(self) -> None:
        """A silent watch may have missed a pod that was bound there."""
        try:
            async with asyncio.timeout(REFRESHED_WITHIN):
                await self._list_pods()
        except TimeoutError as error:
            raise ClusterBusy("Pods could not be listed before an empty machine is terminated; retrying.") from error

    async def _delete(self, record: KubeObject[GPURequest]) -> None:
        """Only as it was seen: a request that has reserved something meanwhile is looked at again."""
        await self._cluster.delete(
            GPU_REQUEST, record.key, uid=record.uid_text, resource_version=str(record.resource_version)
        )
