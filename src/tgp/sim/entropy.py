"""Seeded randomness. Every name has a stream of its own, so a new consumer does not change the draws of others."""

from random import Random


def stream(seed: int | str, name: str) -> Random:
    """The same draws for the same seed and name, on every machine and under every hash seed."""
    return Random(f"{seed}/{name}")  # a str is digested (SHA-512), not hash()ed


class SeededEntropy:
    def __init__(self, seed: int | str, name: str) -> None:
        self._tokens = stream(seed, f"{name}/token")
        self._jitter = stream(seed, f"{name}/jitter")

    def token(self, size: int) -> bytes:
        return self._tokens.randbytes(size)

    def jitter(self) -> float:
        return self._jitter.random()
