"""Every launch and every termination passes here, and only while this replica can prove that it leads."""

from tgp.core.model.instance import Instance
from tgp.ports.cloud import Cloud, LaunchOrder
from tgp.ports.leadership import Fence, NotLeading


class LeaderGuard:
    """`fence` None: the administrator guarantees that there is no second replica."""

    def __init__(self, fence: Fence | None, *, observing: bool = False) -> None:
        self._fence = fence
        self._observing = observing

    def epoch(self, otherwise: str) -> str:
        """This term of leadership; `otherwise` where there is no Lease."""
        return self._fence.epoch() if self._fence is not None else otherwise

    async def launch(self, cloud: Cloud, order: LaunchOrder) -> Instance:
        """Raises NotLeading when nothing was sent because this replica does not lead; else as the port says.

        An order may queue for a slow provider, so its deadline is enforced where it is sent: by the HTTP client.
        """
        self._check()
        return await cloud.launch(order)

    async def terminate(self, cloud: Cloud, instance_id: str) -> None:
        self._check()
        await cloud.terminate(instance_id)

    def _check(self) -> None:
        if self._observing:
            raise NotLeading("Operator runs with --observe and neither launches nor terminates machines.")
        if self._fence is not None:
            self._fence.check()
