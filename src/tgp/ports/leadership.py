"""Who may act: one replica at a time, and only while it can prove it.

A lease is not a lock: a paused process may wake up after another has taken over. So leadership ends by this process's
own clock (`Clock.boottime`), counted from the *start* of the last renewal that surely succeeded, well before anybody
else may begin; and whoever changes the world asks the fence at the last moment.
"""

from typing import Protocol


class NotLeading(Exception):
    """This replica may not act now. Nothing was sent."""


class LeadershipLost(Exception):
    """It led and does not any more: the process must end, not go back to being a candidate."""


class Fence(Protocol):
    def deadline(self) -> float | None:
        """The moment on `Clock.boottime` after which nothing may leave; None: we do not lead at all."""
        ...

    def epoch(self) -> str:
        """This term of leadership, unlike any before or after it. Raises NotLeading outside of a term."""
        ...

    def check(self) -> None:
        """Raises NotLeading unless we lead and the deadline lies ahead."""
        ...


class Elector(Protocol):
    @property
    def fence(self) -> Fence: ...

    async def run(self) -> None:
        """Stand for election, then lead. Raises LeadershipLost when a term ends; cancel it to stop standing."""
        ...

    async def won(self) -> None:
        """Wait for the beginning of our term."""
        ...

    async def release(self) -> None:
        """Give the lease back, so that another may begin at once. Only after everything that acts has stopped.

        `run` then comes to its end by itself.
        """
        ...
