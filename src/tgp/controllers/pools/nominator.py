"""Writes `status.nominatedNodeName`: the scheduler keeps room for a pod on the Node that was bought for it.

The scheduler removes a nomination whenever it tries the pod and finds no room, which is when some other Node changes.
So it is written again, as `RenominationPace` says, for as long as the machine has no GPUs yet.
"""

import asyncio
from collections.abc import Collection, Iterable

from tgp.api.resource import GPU_NODE_POOL, POD
from tgp.controllers.pools.memory import PoolMemory, WrittenNomination
from tgp.core.model.facts import FactSubject, NominationUnsupported, PodNominated
from tgp.core.model.pod import Pod
from tgp.core.model.record import uid_text
from tgp.core.pools.nominations import Nomination, PricedRoom, RenominationPace, nominations, supports_nominations
from tgp.core.requests.node_metadata import pool_key, pool_owner
from tgp.ports.clock import Clock
from tgp.ports.cluster import Cluster, ClusterError, Forbidden, NotFound, Refused
from tgp.ports.journal import Journal

VERSION_KEPT_S = 3600.0  # an upgrade of the control plane is noticed within the hour
AT_ONCE = 16  # writes side by side


class Nominator:
    def __init__(self, memory: PoolMemory, *, cluster: Cluster, journal: Journal, clock: Clock) -> None:
        self._memory = memory
        self._cluster = cluster
        self._journal = journal
        self._clock = clock
        self._server: tuple[str, float] | None = None  # the API server's version, and when it was read (boottime)
        self.pace = RenominationPace()

    async def nominate(self, waiting: Iterable[Pod], machines: tuple[PricedRoom, ...], nodes: Collection[str]) -> None:
        """`waiting`: as the view shows them. `nodes`: the names of all Nodes.

        `pace` says when to try again what the scheduler removed, or what could not be written.
        """
        pods, now = tuple(waiting), self._clock.boottime()
        due = self.pace.due
        quiet = due is None or due <= now
        if due is not None and quiet:
            self.pace.written(now)
        wanted = [each for each in nominations(pods, machines, nodes) if self._may_write(each, quiet=quiet)]
        again = {_uid(each.pod) for each in wanted}
        gone = [
            pod
            for pod in pods
            if (_uid(pod), pod.nominated_node) in self._memory.nominated
            and pod.nominated_node not in nodes
            and _uid(pod) not in again
        ]
        cleared = [await self._write(pod, None) for pod in gone]
        if not (await self._nominate(wanted) and all(cleared)):
            self.pace.removed(self._clock.boottime())

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
        done = []
        for start in range(0, len(wanted), AT_ONCE):
            done += await asyncio.gather(
                *(self._write(each.pod, each.node) for each in wanted[start : start + AT_ONCE])
            )
        return all(done)

    def _may_write(self, wanted: Nomination, *, quiet: bool) -> bool:
        written = self._memory.nominated.get((_uid(wanted.pod), wanted.node))
        if written is None:
            return True
        unseen = written.resource_version == wanted.pod.resource_version  # the view does not show our own write yet
        return quiet and not unseen and not written.refused

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
            self._note(pod, node, refused=True)
            return True
        except ClusterError:  # the pod has changed, or the outcome is unknown: the view will show it
            return False
        first = (_uid(pod), node) not in self._memory.nominated
        self._note(pod, node)
        if node is not None and first:
            self._journal.note(PodNominated(FactSubject(POD, pod.key, _uid(pod)), node))
        return True

    def _note(self, pod: Pod, node: str | None, *, refused: bool = False) -> None:
        if node is None:
            self._memory.nominated.pop((_uid(pod), pod.nominated_node), None)
        else:
            self._memory.nominated[_uid(pod), node] = WrittenNomination(pod.resource_version, refused)

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
