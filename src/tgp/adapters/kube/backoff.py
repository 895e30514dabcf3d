"""How long to wait before trying again: doubling, capped, and with jitter so that clients do not retry at once."""

from dataclasses import dataclass

from tgp.ports.entropy import Entropy

MAX_DOUBLINGS = 30  # keeps the power small; every cap is reached long before


@dataclass(frozen=True, slots=True)
class Backoff:
    first: float  # seconds
    cap: float

    def wait(self, failures: int, entropy: Entropy) -> float:
        """Seconds before the next try after so many failures in a row (at least one): between half and all of it."""
        whole: float = min(self.cap, self.first * 2.0 ** min(failures - 1, MAX_DOUBLINGS))
        return whole * (0.5 + 0.5 * entropy.jitter())
