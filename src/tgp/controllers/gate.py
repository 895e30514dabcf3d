"""The one way to pay. Every order and every end passes here, while this replica can prove that it leads."""

from dataclasses import replace

from tgp.core.model.instance import Instance
from tgp.ports.cloud import Cloud, LaunchOrder
from tgp.ports.leadership import Fence, NotLeading


class Gate:
    """`fence` None: there can be no second replica, by the administrator's word."""

    def __init__(self, fence: Fence | None, *, observing: bool = False) -> None:
        self._fence = fence
        self._observing = observing

    def epoch(self, otherwise: str) -> str:
        """This term of leadership; `otherwise` where there is no Lease."""
        return self._fence.epoch() if self._fence is not None else otherwise

    async def launch(self, cloud: Cloud, order: LaunchOrder) -> Instance:
        """Raises NotLeading when nothing was sent for want of leadership; else as the port says."""
        return await cloud.launch(replace(order, not_after=self._deadline()))

    async def terminate(self, cloud: Cloud, instance_id: str) -> None:
        self._deadline()
        await cloud.terminate(instance_id)

    def _deadline(self) -> float | None:
        if self._observing:
            raise NotLeading("a replica that only looks orders nothing and ends nothing")
        if self._fence is None:
            return None
        self._fence.check()
        return self._fence.deadline()
