"""Randomness from the operating system."""

import random
import secrets


class SystemEntropy:
    def __init__(self) -> None:
        self._random = random.Random()  # seeded by the system; only for spreading retries

    def token(self, size: int) -> bytes:
        return secrets.token_bytes(size)

    def jitter(self) -> float:
        return self._random.random()
