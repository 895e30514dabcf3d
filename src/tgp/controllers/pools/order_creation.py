"""Creates the GPURequest of an ordered machine, once; what was created and is not seen yet is expected meanwhile."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from tgp.api.nodepool import GPUNodePool
from tgp.api.request import GPURequest
from tgp.api.resource import GPU_NODE_POOL, GPU_REQUEST
from tgp.controllers.deps import FeatureSettings
from tgp.controllers.pools.memory import EXPECTED_FOR, ExpectedRequest, PoolMemory
from tgp.controllers.pools.observe import PlanObservation
from tgp.controllers.requests.memo import RequestMemos
from tgp.controllers.requests.purchase_gatherer import Views
from tgp.core.disruption.drift import STAMP, stamp_of
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.object_key import ObjectKey
from tgp.core.pools.orders import AnchoredOrder, free_names, is_ours, manifest_of, record_of
from tgp.ports.clock import Clock
from tgp.ports.cluster import AlreadyExists, Cluster, ClusterError, NotFound, Refused, WriteUnknown

POOL_FINALIZER = "tgp.io/machines"
SPARE = 1.0  # seconds after a request will not come any more, before it is asked for by name


class OrderCreator:
    def __init__(
        self,
        views: Views,
        policy: FeatureSettings,
        memory: PoolMemory,
        memos: RequestMemos,
        *,
        cluster: Cluster,
        clock: Clock,
        announce: Callable[[ObjectKey], None],
    ) -> None:
        self._views = views
        self._policy = policy
        self._memory = memory
        self._memos = memos
        self._cluster = cluster
        self._clock = clock
        self._announce = announce  # that something of this pool has changed
        self._guarding = asyncio.Lock()  # of concurrent creates one adds the pool's finalizer

    async def create(self, wanted: AnchoredOrder, seen: PlanObservation, now: datetime) -> bool:
        """Whether the request is there, or may be."""
        pool = self._views.pools.get(wanted.order.pool)
        before = seen.pools.get(wanted.order.pool)
        if (
            pool is None
            or before is None
            or pool.deleting
            or pool.value is None
            or pool.generation != before.generation
        ):
            return False  # it changed while the plan was made
        if (refused := self._memory.refused.get(pool.key)) is not None and now < refused.until:
            return False  # so was another request of this plan
        if not await self._guard(pool.key, pool.uid_text):
            return False
        class_name = pool.value.spec.node_class_ref.name
        node_class = self._views.classes.get(ObjectKey("", class_name))
        if node_class is not None and node_class.value is not None:
            stamp = stamp_of(pool.value, node_class.value, wanted.order.offer, self._policy.default_backend)
            wanted = replace(wanted, marks={**wanted.marks, STAMP: stamp}) if stamp else wanted
        for key in free_names(pool, wanted.anchor, self._known):
            manifest = manifest_of(key, wanted, pool, class_name, f"{now:%Y%m%dT%H%M%SZ}")
            self._expect(key, wanted, record_of(manifest, pool))
            try:
                await self._create(key, manifest)
            except AlreadyExists:
                if await self._is_there(key, pool, wanted.anchor):
                    return True
                self._forget(key)
                continue
            except Refused as error:
                self._forget(key)
                self._memory.refuse(pool.key, str(error), now)
                self._announce(pool.key)
                return False
            except WriteUnknown:
                return True  # it may exist: it counts until that is known
            except ClusterError:  # nothing was created
                self._forget(key)
                raise
            if self._memory.refused.pop(pool.key, None) is not None:
                self._announce(pool.key)
            return True
        return False

    async def _create(self, key: ObjectKey, manifest: Mapping[str, object]) -> None:
        """Without an answer it is not known to be new: then every provider is listed before anything is bought."""
        uid = ""
        self._memos.creating(key)
        try:
            uid = (await self._cluster.create(GPU_REQUEST, manifest)).uid
        finally:
            self._memos.created(key, uid)

    def _expect(self, key: ObjectKey, wanted: AnchoredOrder, record: KubeObject[GPURequest]) -> None:
        memory = self._memory
        memory.expected[key] = ExpectedRequest(record, wanted.order, self._clock.boottime())
        memory.offers[key] = wanted.order.offer

    def _forget(self, key: ObjectKey) -> None:
        self._memory.expected.pop(key, None)
        self._memory.offers.pop(key, None)

    async def _is_there(self, key: ObjectKey, pool: KubeObject[GPUNodePool], anchor: str) -> bool:
        try:
            return is_ours(await self._cluster.read(GPU_REQUEST, key), pool, anchor)
        except NotFound:
            return False

    async def _guard(self, key: ObjectKey, uid: str) -> bool:
        """A pool that has machines is deleted after them. False: it is gone, or being deleted."""
        async with self._guarding:
            pool = self._views.pools.get(key)
            if pool is None or pool.uid_text != uid or pool.deleting:
                return False
            if POOL_FINALIZER not in pool.finalizers:
                change = {"metadata": {"finalizers": [*pool.finalizers, POOL_FINALIZER]}}
                version = str(pool.resource_version)
                await self._cluster.patch(GPU_NODE_POOL, key, change, resource_version=version, uid=uid)
                await self._views.pools.wait_for_own_write(key)
            return True

    def _known(self, key: ObjectKey) -> bool:
        return key in self._memory.expected or self._views.requests.get(key) is not None

    async def settle_expected(self, tick: float) -> None:
        """Forget what the view shows, and what was never created."""
        for key, each in list(self._memory.expected.items()):
            if self._views.requests.get(key) is not None:
                del self._memory.expected[key]
            elif tick - each.since > EXPECTED_FOR:
                try:
                    await self._cluster.read(GPU_REQUEST, key)
                except NotFound:
                    self._forget(key)
                    self._announce(each.order.pool)  # its deletion may wait for that

    def settled_at(self, now: datetime, tick: float) -> datetime | None:
        """When the first request that is expected is asked for by name; None: none is."""
        since = min((each.since for each in self._memory.expected.values()), default=None)
        return None if since is None else now + timedelta(seconds=max(since + EXPECTED_FOR - tick, 0.0) + SPARE)
