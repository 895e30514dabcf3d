"""Writes `status.nominatedNodeName`: the scheduler keeps room for a pod on the Node that was bought for it."""

from collections.abc import Iterable

from tgp.api.resource import GPU_NODE_POOL, POD
from tgp.controllers.pools.memory import PoolMemory
from tgp.core.model.facts import FactSubject, NominationUnsupported, PodNominated
from tgp.core.model.pod import Pod
from tgp.core.model.record import uid_text
from tgp.core.pools.nominations import Nomination, PricedRoom, nominations, supports_nominations
from tgp.core.requests.node_metadata import pool_key, pool_owner
from tgp.ports.clock import Clock
from tgp.ports.cluster import Cluster, ClusterError, Forbidden, NotFound, Refused
from tgp.ports.journal import Journal

VERSION_KEPT_S = 3600.0  # an upgrade of the control plane is noticed within the hour


class Nominator:
    def __init__(self, memory: PoolMemory, *, cluster: Cluster, journal: Journal, clock: Clock) -> None:
        self._memory = memory
        self._cluster = cluster
        self._journal = journal
        self._clock = clock
        self._server: tuple[str, float] | None = None  # the API server's version, and when it was read (boottime)

    async def nominate(self, waiting: Iterable[Pod], machines: tuple[PricedRoom, ...]) -> bool:
        """Each pod at most once to each Node. False: the API server did not answer as it should; try again soon."""
        wanted = [each for each in nominations(waiting, machines) if _pair(each) not in self._memory.nominated]
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
        results = [await self._write(each) for each in wanted]
        return all(results)

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
            self._memory.nominated.add(_pair(wanted))
            return True
        except ClusterError:  # the pod has changed, or the outcome is unknown: the view will show it
            return False
        self._memory.nominated.add(_pair(wanted))
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
