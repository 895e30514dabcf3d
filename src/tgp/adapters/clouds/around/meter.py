"""What is counted of the calls to providers, for whoever exports it. Every label has few values."""

from typing import Protocol

WENT_WELL = "ok"
CANCELLED = "Cancelled"  # whoever asked went away
UNFORESEEN = "Unforeseen"  # no error of a provider: ours


class Meter(Protocol):
    def called(self, provider: str, verb: str, outcome: str, seconds: float) -> None:
        """One call reached the provider, or tried to. `outcome`: "ok", or the error's class name."""
        ...

    def waited(self, provider: str, verb: str, seconds: float, *, refused: bool) -> None:
        """One call had to wait for its turn here, so long; `refused`: the line was too long, nothing was sent."""
        ...


class Unmetered:
    """Counts nothing."""

    def called(self, provider: str, verb: str, outcome: str, seconds: float) -> None:
        pass

    def waited(self, provider: str, verb: str, seconds: float, *, refused: bool) -> None:
        pass
