"""Looks after the requests that pools wrote: deletes what cannot buy, to plan again, and what is over."""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import assert_never

from tgp.api.nodepool import GPUNodePool
from tgp.api.request import GPURequest
from tgp.api.resource import GPU_REQUEST
from tgp.controllers.pools.memory import PoolMemory
from tgp.controllers.requests.indexes import BY_POOL_UID
from tgp.controllers.requests.purchase_gatherer import Views
from tgp.core.model.conditions import condition_in
from tgp.core.model.facts import RequestReplanned, subject_of
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.offer import Offer
from tgp.core.pools.runaway import left_unused
from tgp.core.pools.upkeep import MOST_FAILED, Leave, PoolRequest, Remove, Replan, care_for
from tgp.core.requests.node_metadata import pool_key, pool_uid
from tgp.core.requests.purchase import takes_over
from tgp.ports.clock import Clock
from tgp.ports.cluster import Cluster
from tgp.ports.journal import Journal


class PoolRequestReconciler:
    """A reconciler whose keys are requests; those of users are left alone."""

    def __init__(
        self,
        views: Views,
        *,
        memory: PoolMemory,
        offer_for: Callable[[KubeObject[GPURequest]], Offer | None],
        cluster: Cluster,
        journal: Journal,
        clock: Clock,
        announce: Callable[[ObjectKey], None],
    ) -> None:
        self._views = views
        self._memory = memory
        self._offer_for = offer_for  # what a request was to buy
        self._cluster = cluster
        self._journal = journal
        self._clock = clock
        self._announce = announce  # that something of this pool has changed

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

    # -- one reconcile -------------------------------------------------------------------------------------------------

    async def reconcile(self, key: ObjectKey) -> datetime | None:
        seen = self._observe(key)
        if seen is None:
            return None
        self._note_unused(seen)
        care = care_for(seen)
        match care:
            case Leave():
                return care.until
            case Replan():
                offer = self._offer_for(seen.record)
                await self._delete(seen.record)
                if offer is not None and not care.spared and not takes_over(seen.record):
                    self._leave_out(seen.pool.key, offer, care, seen.now)
                self._memory.note_replanned(key, care.why)
                self._journal.note(RequestReplanned(subject_of(seen.record), care.why))
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
        now = self._clock.now().replace(microsecond=0)
        return PoolRequest(
            record,
            pool,
            now,
            given_up=self._memory.given_up.get(key, ""),
            oldest_failed=self._is_oldest_failed(record, pool),
        )

    def _leave_out(self, pool: ObjectKey, offer: Offer, care: Replan, now: datetime) -> None:
        if care.market:
            self._memory.leave_out(offer, care.why, now)
        else:
            self._memory.leave_out_for(pool, offer, care.why, now)

    def _note_unused(self, seen: PoolRequest) -> None:
        """A machine that goes without having served a pod."""
        disrupted = condition_in(seen.record.status, "Disrupted")
        ends = seen.record.deleting or (disrupted is not None and disrupted.status is True)
        found = left_unused(seen.record, seen.pool.generation, seen.now) if ends else None
        if found is not None and self._memory.runaways.learn(found, seen.now):
            self._announce(seen.pool.key)

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

    async def _delete(self, record: KubeObject[GPURequest]) -> None:
        """Only as it was seen: a request that has reserved something meanwhile is looked at again."""
        await self._cluster.delete(
            GPU_REQUEST, record.key, uid=record.uid_text, resource_version=str(record.resource_version)
        )
