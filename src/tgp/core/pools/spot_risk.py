"""How likely a spot machine is lost within an hour: from what was seen of machines of the same provider and GPU.

Until much was seen, an assumption counts: one loss in twenty hours. It weighs as much as twenty hours that were seen.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from tgp.api.request import GPURequest
from tgp.core.model.attempts import attempts_of
from tgp.core.model.costs import entry_of
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.spend import SpendEntry
from tgp.core.pools.planner.world import ASSUMED_SPOT_LOSS, SpotKind

ASSUMED_HOURS = 20.0
LEAST_LOSS, MOST_LOSS = 0.002, 0.5  # an hour: however few or many were seen
MOST_SEEN = 10_000  # machines that are remembered, the newest
HOUR_S = 3600.0


@dataclass(frozen=True, slots=True)
class SpotUse:
    """One spot machine: how long it ran, and whether it was lost."""

    kind: SpotKind
    hours: float
    lost: bool


def spot_loss(uses: Iterable[SpotUse]) -> dict[SpotKind, float]:
    """By provider and GPU: the chance to be lost within an hour. A kind that is missing here was never seen."""
    hours: dict[SpotKind, float] = {}
    lost: dict[SpotKind, int] = {}
    for each in uses:
        hours[each.kind] = hours.get(each.kind, 0.0) + each.hours
        lost[each.kind] = lost.get(each.kind, 0) + each.lost
    return {
        kind: min(
            max((lost[kind] + ASSUMED_SPOT_LOSS * ASSUMED_HOURS) / (hours[kind] + ASSUMED_HOURS), LEAST_LOSS), MOST_LOSS
        )
        for kind in sorted(hours)
    }


class SpotUses:
    """Each machine once. A new process begins with what the spend record tells."""

    def __init__(self) -> None:
        self._ended: dict[str, SpotUse] = {}  # by uid and attempt
        self.restored = False

    def restore(self, entries: Iterable[SpendEntry]) -> None:
        for each in entries:
            if each.spot:
                hours = (each.ended - each.began).total_seconds() / HOUR_S
                self._ended[each.key] = SpotUse((each.provider, each.gpu), hours, each.lost)
        while len(self._ended) > MOST_SEEN:
            del self._ended[next(iter(self._ended))]

    def learn(self, record: KubeObject[GPURequest]) -> None:
        """Machines that ended: their requests may be deleted soon."""
        ended = (each for each in attempts_of(record) if each.ended_at is not None)
        self.restore(entry for each in ended if (entry := entry_of(record, each)) is not None)

    def loss(self, requests: Iterable[KubeObject[GPURequest]], now: datetime) -> Mapping[SpotKind, float]:
        """With the hours of machines that run: those that are lost are known at once, the others only in the end."""
        return spot_loss([*self._ended.values(), *(use for each in requests for use in _running(each, now))])


def _running(record: KubeObject[GPURequest], now: datetime) -> Iterable[SpotUse]:
    for attempt in attempts_of(record):
        offer = attempt.offer
        if attempt.ended_at is None and attempt.launched_at is not None and offer is not None and offer.spot:
            hours = max((now - attempt.launched_at).total_seconds() / HOUR_S, 0.0)
            yield SpotUse((offer.provider, offer.gpu_type or ""), hours, lost=False)
