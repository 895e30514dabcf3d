"""What happened, in order: the evidence of a run. Equal seeds must give equal digests.

A line holds the virtual time, who, what, and words that mean the same in every run: never an `id()`, a task name,
a `hash()`, the order of a set, or a secret. The digest covers every line; only the last ones are kept to be read.
"""

from collections import deque
from collections.abc import Callable
from hashlib import blake2b

KEPT_LINES = 20_000  # a stormy simulated hour of one operator is a few thousand


class RunTrace:
    def __init__(self, time: Callable[[], float], kept: int = KEPT_LINES) -> None:
        self._time = time
        self._digest = blake2b(digest_size=16)
        self._lines: deque[str] = deque(maxlen=kept)
        self.length = 0

    def note(self, who: str, what: str, *words: object) -> None:
        line = f"{self._time():.6f} {who} {what} {' '.join(map(str, words))}".rstrip()
        self._digest.update(f"{line}\n".encode())
        self._lines.append(line)
        self.length += 1

    def digest(self) -> str:
        """Stands for every line so far."""
        return self._digest.hexdigest()

    def lines(self) -> tuple[str, ...]:
        """The last lines, oldest first."""
        return tuple(self._lines)

    def by_index(self, *words: str) -> tuple[str, ...]:
        """Kept lines that contain every one of these words."""
        return tuple(line for line in self._lines if all(word in line for word in words))


def first_difference(one: RunTrace, other: RunTrace) -> str:
    """Where two runs that should be equal parted, for the message of a failed comparison. Empty: they are equal."""
    if one.digest() == other.digest():
        return ""
    for here, there in zip(one.lines(), other.lines(), strict=False):
        if here != there:
            return f"- {here}\n+ {there}"
    return f"one run has {one.length} lines, the other {other.length}"
