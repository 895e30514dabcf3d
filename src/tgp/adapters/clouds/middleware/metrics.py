"""What is counted about calls to providers, as a port for the exporter. Every label has few values."""

from typing import Protocol

WENT_WELL = "ok"
CANCELLED = "Cancelled"  # the caller was cancelled
UNFORESEEN = "Unforeseen"  # not an error of a provider: a bug of ours


class CloudMetrics(Protocol):
    def called(self, provider: str, verb: str, outcome: str, seconds: float) -> None:
        """One call reached the provider, or tried to. `outcome`: "ok", or the error's class name."""
        ...

    def waited(self, provider: str, verb: str, seconds: float, *, refused: bool) -> None:
        """One call waited this long for a rate limit; `refused`: the queue was too long, nothing was sent."""
        ...


class NoCloudMetrics:
    """Counts nothing."""

    def called(self, provider: str, verb: str, outcome: str, seconds: float) -> None:
        pass

    def waited(self, provider: str, verb: str, seconds: float, *, refused: bool) -> None:
        pass
