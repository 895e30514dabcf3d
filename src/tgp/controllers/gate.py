"""The one way to pay. Every order and every end passes here, while this replica can prove that it leads."""

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
        """Raises NotLeading when nothing was sent for want of leadership; else as the port says.

        An order may wait in line for a slow provider, so its last moment is set where its bytes leave: by the dial.
        """
        self._check()
        return await cloud.launch(order)

    async def terminate(self, cloud: Cloud, instance_id: str) -> None:
        self._check()
        await cloud.terminate(instance_id)

    def _check(self) -> None:
        if self._observing:
            raise NotLeading("a replica that only looks orders nothing and ends nothing")
        if self._fence is not None:
            self._fence.check()
