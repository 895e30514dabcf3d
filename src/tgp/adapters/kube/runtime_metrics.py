"""What the runtime counts, as a port for the exporter. Names of controllers and kinds are few: labels stay bounded."""

from typing import Protocol

DONE = "success"
DEFERRED = "requeue"  # the API server or the network did not answer, or our term is over: ordinary, tried again later
FAILED = "error"  # the reconcile raised an unexpected exception
OVERDUE = "overdue"  # the reconcile was cancelled after its timeout; exported as an error and as a timeout


class RuntimeMetrics(Protocol):
    def reconciled(self, controller: str, outcome: str, seconds: float) -> None: ...

    def depth(self, controller: str, waiting: int, failing: int) -> None: ...

    def lag(self, seconds: float) -> None:
        """How late the event loop ran a due callback."""
        ...


class NoRuntimeMetrics:
    """Counts nothing."""

    def reconciled(self, controller: str, outcome: str, seconds: float) -> None:
        pass

    def depth(self, controller: str, waiting: int, failing: int) -> None:
        pass

    def lag(self, seconds: float) -> None:
        pass
