"""Randomness as a dependency, so that a simulation can seed it."""

from typing import Protocol


class Entropy(Protocol):
    def token(self, size: int) -> bytes:
        """`size` unpredictable bytes (in production; equal seeds give equal bytes in simulation)."""
        ...

    def jitter(self) -> float:
        """A number in [0, 1) for spreading retries. Never for anything that must stay secret."""
        ...
