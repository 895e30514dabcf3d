"""What the runtime counts, for whoever exports it. Names of controllers and kinds are few, so labels stay bounded."""

from typing import Protocol

DONE = "done"
PUT_OFF = "put-off"  # the API server or the network was not willing, or our term is over: ordinary
FAILED = "failed"  # the turn raised what nobody expected
OVERDUE = "overdue"  # it did not end within its limit


class Meter(Protocol):
    def turn(self, controller: str, outcome: str, seconds: float) -> None: ...

    def depth(self, controller: str, waiting: int, failing: int) -> None: ...

    def lag(self, seconds: float) -> None:
        """How late the event loop ran what was due."""
        ...


class Unmetered:
    """Counts nothing."""

    def turn(self, controller: str, outcome: str, seconds: float) -> None:
        pass

    def depth(self, controller: str, waiting: int, failing: int) -> None:
        pass

    def lag(self, seconds: float) -> None:
        pass
