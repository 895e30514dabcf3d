"""Leadership: who may act: one replica at a time, and only while it can prove it.

A lease is not a lock: a paused process may wake up after another has taken over. So leadership ends by this process's
own clock (`Clock.boottime`), counted from the *start* of the last renewal that surely succeeded, well before another
replica may start; and every writer asks the fence right before it sends.
"""

from typing import Protocol


class NotLeading(Exception):
    """This replica may not act now. Nothing was sent."""


class LeadershipLost(Exception):
    """Leadership was lost: the process must exit, not become a candidate again."""


class Fence(Protocol):
    def deadline(self) -> float | None:
        """The `Clock.boottime` after which nothing may be sent; None: this replica does not lead."""
        ...

    def epoch(self) -> str:
        """This term of leadership, unique. Raises NotLeading outside of a term."""
        ...

    def check(self) -> None:
        """Raises NotLeading unless we lead and the deadline is in the future."""
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
        """Release the Lease, so that another replica may start at once. Only after everything that acts has stopped.

        `run` then returns.
        """
        ...
