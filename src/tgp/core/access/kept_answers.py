"""Answers that are kept for a while: bounded in time and in number."""

from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

KEPT = 10.0  # seconds: how long a right that was taken away may still be used
MOST_KEPT = 1024


class KeptAnswers(Generic[K, V]):
    """`now` is in seconds of one monotonic clock."""

    def __init__(self, kept: float = KEPT, most: int = MOST_KEPT) -> None:
        self._kept = kept
        self._most = most
        self._answers: dict[K, tuple[float, V]] = {}  # with the moment it was asked; the oldest first

    def __len__(self) -> int:
        return len(self._answers)

    def get(self, key: K, now: float) -> V | None:
        """None: it was not asked, or too long ago."""
        found = self._answers.get(key)
        if found is None or now - found[0] >= self._kept:
            return None
        return found[1]

    def put(self, key: K, answer: V, asked_at: float) -> None:
        self._answers.pop(key, None)
        self._answers[key] = (asked_at, answer)
        while len(self._answers) > self._most:
            del self._answers[next(iter(self._answers))]
