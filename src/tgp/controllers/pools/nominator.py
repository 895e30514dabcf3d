"""Writes `status.nominatedNodeName`: the scheduler keeps room for a pod on the Node that was bought for it.

The scheduler removes a nomination whenever it tries the pod and finds no room, which is when some other Node changes.
So it is written again for as long as the machine has no GPUs yet.
"""

import asyncio
from collections.abc import Iterable

from tgp.api.resource import GPU_NODE_POOL, POD
from tgp.controllers.pools.memory import PoolMemory, WrittenNomination
from tgp.core.model.facts import FactSubject, NominationUnsupported, PodNominated
from tgp.core.model.pod import Pod
from tgp.core.model.record import uid_text
from tgp.core.pools.nominations import Nomination, PricedRoom, nominations, supports_nominations
from tgp.core.requests.node_metadata import pool_key, pool_owner
from tgp.ports.clock import Clock
from tgp.ports.cluster import Cluster, ClusterError, Forbidden, NotFound, Refused
from tgp.ports.journal import Journal

VERSION_KEPT_S = 3600.0  # an upgrade of the control plane is noticed within the hour
MOST_WRITTEN = 50  # times for one pod and Node: the scheduler tries a pod every 10 s at most, when it has failed often
AT_ONCE = 16  # writes side by side


class Nominator:
    def __init__(self, memory: PoolMemory, *, cluster: Cluster, journal: Journal, clock: Clock) -> None:
        self._memory = memory
        self._cluster = cluster
        self._journal = journal
        self._clock = clock
        self._server: tuple[str, float] | None = None  # the API server's version, and when it was read (boottime)

    async def nominate(self, waiting: Iterable[Pod], machines: tuple[PricedRoom, ...]) -> bool:
        """Pods that are not nominated, as the view shows them. False: an answer is missing; try again soon."""
        wanted = [each for each in nominations(waiting, machines) if self._may_write(each)]
        if not wanted:
            return True
        try:
            version = await self._version()
        except ClusterError:
            return False
        if not supports_nominations(version):
            for each in wanted:
                self._say_unsupported(each, version)
            return True
        done = []
        for start in range(0, len(wanted), AT_ONCE):
            done += await asyncio.gather(*map(self._write, wanted[start : start + AT_ONCE]))
        return all(done)

    def _may_write(self, wanted: Nomination) -> bool:
        written = self._memory.nominated.get(_pair(wanted))
        if written is None:
            return True
        unseen = written.resource_version == wanted.pod.resource_version  # the view does not show our own write yet
        return not unseen and written.times < MOST_WRITTEN

    async def _write(self, wanted: Nomination) -> bool:
        """Conditional on the pod as it was seen: unbound, not deleted, not nominated."""
        pod = wanted.pod
        try:
            await self._cluster.write_status(
                POD,
                pod.key,
                uid=uid_text(pod.uid),
                seen={},
                status={"nominatedNodeName": wanted.node},
                resource_version=str(pod.resource_version),
            )
        except (NotFound, Refused, Forbidden):  # repeating does not help
            self._memory.nominated[_pair(wanted)] = WrittenNomination(pod.resource_version, MOST_WRITTEN)
            return True
        except ClusterError:  # the pod has changed, or the outcome is unknown: the view will show it
            return False
        before = self._memory.nominated.get(_pair(wanted))
        times = before.times if before is not None else 0
        self._memory.nominated[_pair(wanted)] = WrittenNomination(pod.resource_version, times + 1)
        if not times:
            self._journal.note(PodNominated(FactSubject(POD, pod.key, uid_text(pod.uid)), wanted.node))
        return True

    async def _version(self) -> str:
        now = self._clock.boottime()
        if self._server is None or now - self._server[1] > VERSION_KEPT_S:
            self._server = await self._cluster.version(), now
        return self._server[0]

    def _say_unsupported(self, wanted: Nomination, version: str) -> None:
        """Once per pool."""
        key, owner = pool_key(wanted.request), pool_owner(wanted.request)
        if key is None or owner is None or owner.uid in self._memory.told_unsupported:
            return
        self._memory.told_unsupported.add(owner.uid)
        self._journal.note(NominationUnsupported(FactSubject(GPU_NODE_POOL, key, owner.uid), version))


def _pair(wanted: Nomination) -> tuple[str, str]:
    return uid_text(wanted.pod.uid), wanted.node
