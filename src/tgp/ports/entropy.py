"""Luck, handed in, so that a simulation can seed it."""

from typing import Protocol


class Entropy(Protocol):
    def token(self, size: int) -> bytes:
        """`size` bytes nobody can guess (in production; equal seeds give equal bytes in simulation)."""
        ...

    def jitter(self) -> float:
        """A number in [0, 1) for spreading retries. Never for anything that must stay secret."""
        ...
