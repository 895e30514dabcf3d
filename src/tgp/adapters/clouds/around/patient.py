"""Asks again, after a pause, where asking again is safe: what only looks, and only when nothing happened over there.

`launch` and `terminate` pass through once. Whether an order is sent again is the launch protocol's to decide, which
writes it down first; a tired `terminate` is repeated by whoever looks whether the machine is gone.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

from tgp.adapters.clouds.around.wrapped import SAFE_VERBS, Wrapped
from tgp.core.model.cloud_errors import CloudBusy
from tgp.ports.cloud import Cloud
from tgp.ports.entropy import Entropy

T = TypeVar("T")

SPREAD = 0.25  # of a pause that the provider named: everybody was told the same moment


@dataclass(frozen=True, slots=True)
class Patience:
    """The longest a call can be kept: `tries` answers and the pauses between them, each `longest` and a spread."""

    tries: int = 3
    first: timedelta = timedelta(seconds=1)  # doubles
    longest: timedelta = timedelta(seconds=15)  # of one pause; a provider that asks for more is left alone

    def __post_init__(self) -> None:
        assert self.tries >= 1, "somebody has to ask once"

    def pause(self, failures: int, asked_for: timedelta | None, luck: float) -> timedelta | None:
        """Before the next try, after so many failures (at least one). None: give up.

        Never shorter than what the provider asked for; without its word between half and all of the doubling step.
        """
        if failures >= self.tries:
            return None
        if asked_for is not None:
            pause = max(asked_for, self.first) * (1 + SPREAD * luck)
            return pause if asked_for <= self.longest else None
        step: timedelta = min(self.first * 2 ** (failures - 1), self.longest)
        return step * (0.5 + 0.5 * luck)


class Patient(Wrapped):
    """Retries looks that met `CloudBusy`; every other error is an answer. The last `CloudBusy` is handed on."""

    def __init__(self, cloud: Cloud, entropy: Entropy, patience: Patience | None = None) -> None:
        super().__init__(cloud)
        self._entropy = entropy
        self._patience = patience or Patience()

    async def _through(self, verb: str, ask: Callable[[], Awaitable[T]]) -> T:
        if verb not in SAFE_VERBS:
            return await ask()
        for failures in range(1, self._patience.tries):
            try:
                return await ask()
            except CloudBusy as error:
                pause = self._patience.pause(failures, error.retry_after, self._entropy.jitter())
                if pause is None:
                    raise
            await asyncio.sleep(pause.total_seconds())
        return await ask()
