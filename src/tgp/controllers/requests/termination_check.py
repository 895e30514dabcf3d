"""The check before a machine is terminated for what the caches show: a silent watch may have missed a change."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from tgp.api.resource import NODE
from tgp.controllers.requests.memo import RequestMemo
from tgp.controllers.requests.observe import RequestObserver
from tgp.core.model.node import Node
from tgp.core.model.object_key import ObjectKey
from tgp.core.requests.lifecycle import next_step
from tgp.core.requests.observation import RequestObservation
from tgp.core.requests.own_node import reserved_node_name
from tgp.core.requests.steps import StartTermination, TerminationReason
from tgp.ports.cluster import Cluster, ClusterBusy, NotFound, View

SHOWN_BY_ITS_NODE = frozenset(
    {TerminationReason.NODE_LOST, TerminationReason.LOST, TerminationReason.BROKEN}
)  # a Node that became Ready contradicts these
REFRESHED_WITHIN = 20.0  # seconds; a slower API server is asked in a later reconcile


class TerminationCheck:
    def __init__(
        self, observer: RequestObserver, nodes: View[Node], cluster: Cluster, list_pods: Callable[[], Awaitable[None]]
    ) -> None:
        self._observer = observer
        self._nodes = nodes
        self._cluster = cluster
        self._list_pods = list_pods  # the view of pods, from a list begun after the call

    async def confirms(self, observation: RequestObservation, step: StartTermination, memory: RequestMemo) -> bool:
        """Whether the reason for the termination still holds. Raises ClusterBusy while that is unknown."""
        if step.end is TerminationReason.IDLE:
            return await self._confirm_idle(observation, memory)
        if step.end in SHOWN_BY_ITS_NODE:
            await self._confirm_loss(observation)
        return True

    async def _confirm_idle(self, observation: RequestObservation, memory: RequestMemo) -> bool:
        """Pods are listed again first: one may have started."""
        try:
            async with asyncio.timeout(REFRESHED_WITHIN):
                await self._list_pods()
        except TimeoutError as error:
            raise ClusterBusy(
                "Pods could not be listed before the termination of an idle machine; retrying."
            ) from error
        step = next_step(self._observer.observe(observation.record, memory))
        return isinstance(step, StartTermination) and step.end is TerminationReason.IDLE

    async def _confirm_loss(self, observation: RequestObservation) -> None:
        """The Node is read by name before its machine is terminated: a list may have omitted it."""
        key = ObjectKey("", reserved_node_name(observation.record))
        try:
            found = await self._cluster.read(NODE, key)
        except NotFound:
            return
        seen = self._nodes.get(key)
        if seen is None or (observation.node.node is not None and seen.ready is not True and _is_ready(found)):
            raise ClusterBusy(f"Cache is behind the API server for Node {key.name}; retrying before termination.")


def _is_ready(node: dict[str, Any]) -> bool:
    conditions = node.get("status", {}).get("conditions") or ()
    return any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)
