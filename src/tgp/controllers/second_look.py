"""The second look before a machine is ended for what the views show: they may have been silent while that changed."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from tgp.api.resource import NODE
from tgp.controllers.memory import Memory
from tgp.controllers.request_sight import Lookout
from tgp.core.model.key import Key
from tgp.core.model.node import Node
from tgp.core.rules.lifecycle import next_step
from tgp.core.rules.sight import Sight
from tgp.core.rules.steps import Begin, End
from tgp.ports.cluster import Cluster, ClusterBusy, NotFound, View

SHOWN_BY_ITS_NODE = frozenset({End.NODE_LOST, End.LOST, End.BROKEN})  # a Node that became Ready speaks against these
REFRESHED_WITHIN = 20.0  # seconds; an API server that takes longer is asked in a later turn


class SecondLook:
    def __init__(
        self, lookout: Lookout, nodes: View[Node], cluster: Cluster, list_pods: Callable[[], Awaitable[None]]
    ) -> None:
        self._lookout = lookout
        self._nodes = nodes
        self._cluster = cluster
        self._list_pods = list_pods  # the view of pods, from a list begun after the call

    async def confirms(self, sight: Sight, step: Begin, memory: Memory) -> bool:
        """Whether the reason to end it still holds. Raises ClusterBusy while nobody can tell."""
        if step.end is End.IDLE:
            return await self._surely_idle(sight, memory)
        if step.end in SHOWN_BY_ITS_NODE:
            await self._be_sure_of_loss(sight)
        return True

    async def _surely_idle(self, sight: Sight, memory: Memory) -> bool:
        """Pods are listed anew before anybody's work is ended: one may have come."""
        try:
            async with asyncio.timeout(REFRESHED_WITHIN):
                await self._list_pods()
        except TimeoutError as error:
            raise ClusterBusy("the pods could not be listed before an idle machine is given back") from error
        step = next_step(self._lookout.see(sight.record, memory))
        return isinstance(step, Begin) and step.end is End.IDLE

    async def _be_sure_of_loss(self, sight: Sight) -> None:
        """The Node is asked for by its name before its machine is ended for it: a list may have left it out."""
        key = Key("", sight.status.node_name or "")
        try:
            found = await self._cluster.read(NODE, key)
        except NotFound:
            return
        seen = self._nodes.get(key)
        if seen is None or (sight.node.node is not None and seen.ready is not True and _is_ready(found)):
            raise ClusterBusy(f"the view does not show Node {key.name} as it is")


def _is_ready(node: dict[str, Any]) -> bool:
    conditions = node.get("status", {}).get("conditions") or ()
    return any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)
