"""Writes `status.nominatedNodeName`: the scheduler keeps room for a pod on the Node that was bought for it."""

from collections.abc import Collection, Iterable

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

    async def nominate(self, waiting: Iterable[Pod], machines: tuple[PricedRoom, ...], nodes: Collection[str]) -> bool:
        """Each pod at most once to each Node. False: the API server did not answer as it should; try again soon.

        `nodes`: the names of all Nodes.
        """
        pods = tuple(waiting)
        written = self._memory.nominated
        wanted = [each for each in nominations(pods, machines, nodes) if (_uid(each.pod), each.node) not in written]
        again = {_uid(each.pod) for each in wanted}
        gone = [
            pod
            for pod in pods
            if (_uid(pod), pod.nominated_node) in written and pod.nominated_node not in nodes and _uid(pod) not in again
        ]
        cleared = [await self._write(pod, None) for pod in gone]
        return await self._nominate(wanted) and all(cleared)

    async def _nominate(self, wanted: list[Nomination]) -> bool:
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
        results = [await self._write(each.pod, each.node) for each in wanted]
        return all(results)

    async def _write(self, pod: Pod, node: str | None) -> bool:
        """Conditional on the pod as it was seen: unbound, not deleted, not nominated elsewhere. None: to no Node."""
        try:
            await self._cluster.write_status(
                POD,
                pod.key,
                uid=_uid(pod),
                seen={"nominatedNodeName": pod.nominated_node} if pod.nominated_node else {},
                status={"nominatedNodeName": node} if node is not None else {},
                resource_version=str(pod.resource_version),
            )
        except (NotFound, Refused, Forbidden):  # repeating does not help
            self._note(pod, node)
            return True
        except ClusterError:  # the pod has changed, or the outcome is unknown: the view will show it
            return False
        self._note(pod, node)
        if node is not None:
            self._journal.note(PodNominated(FactSubject(POD, pod.key, _uid(pod)), node))
        return True

    def _note(self, pod: Pod, node: str | None) -> None:
        if node is None:
            self._memory.nominated.discard((_uid(pod), pod.nominated_node))
        else:
            self._memory.nominated.add((_uid(pod), node))

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


def _uid(pod: Pod) -> str:
    return uid_text(pod.uid)
