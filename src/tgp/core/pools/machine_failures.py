"""Machines of pools that failed in use: a provider with two of them in a day is left out of the pool's plans a while.

A spot machine that its provider takes back has not failed: that is part of its price (`spot_risk`).
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from tgp.api.request import Attempt, GPURequest
from tgp.core.model.attempts import attempts_of, open_attempt
from tgp.core.model.backoff import doubled
from tgp.core.model.conditions import condition_in
from tgp.core.model.cooldowns import LONGEST_COOLDOWN, Cooldown
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.spend import SpendEntry
from tgp.core.requests.cooldown import FIRST_COOLDOWN
from tgp.core.requests.node_metadata import pool_key

COUNTED_FOR = timedelta(days=1)
FAILURES_ALLOWED = 1  # of a provider's machines in one pool, in that time
MOST_REMEMBERED = 10_000  # machines, the newest
ILL = "Ill"  # the reason of a condition Disrupted


class MachineFailures:
    """Each machine once. A new process begins with those that the spend record tells."""

    def __init__(self) -> None:
        self._failed: dict[str, tuple[str, str, datetime]] = {}  # by uid and attempt: pool, provider, and when

    def restore(self, entries: Iterable[SpendEntry]) -> None:
        for each in entries:
            if each.lost and not each.spot and each.pool:
                self._remember(each.key, each.pool, each.provider, each.ended)

    def learn(self, record: KubeObject[GPURequest]) -> None:
        """Of machines that were lost, or that are replaced because they are unhealthy."""
        pool = pool_key(record)
        if pool is None:
            return
        for attempt in attempts_of(record):
            at = self._failed_at(record, attempt)
            if at is not None and attempt.offer is not None:
                self._remember(f"{record.uid_text}-{attempt.number}", str(pool), attempt.offer.provider, at)

    def cooldowns(self, pool: str, now: datetime) -> Mapping[str, Cooldown]:
        """By provider, those that the pool buys nothing from now. `pool`: namespace/name."""
        by_provider: dict[str, list[datetime]] = {}
        for where, provider, at in self._failed.values():
            if where == pool and at > now - COUNTED_FOR:
                by_provider.setdefault(provider, []).append(at)
        found = {
            provider: _cooldown(moments)
            for provider, moments in sorted(by_provider.items())
            if len(moments) > FAILURES_ALLOWED
        }
        return {provider: each for provider, each in found.items() if each.cools_down(now)}

    @staticmethod
    def _failed_at(record: KubeObject[GPURequest], attempt: Attempt) -> datetime | None:
        if attempt.outcome == "Lost" and not (attempt.offer is not None and attempt.offer.spot):
            return attempt.ended_at
        held = condition_in(record.status, "Disrupted")
        if (
            held is None
            or held.status is not True
            or held.reason != ILL
            or attempt != open_attempt(attempts_of(record))
        ):
            return None
        conditions = record.value.status.conditions if record.value is not None else ()
        return next((each.last_transition_time for each in conditions if each.type == "Disrupted"), None)

    def _remember(self, key: str, pool: str, provider: str, at: datetime) -> None:
        self._failed.setdefault(key, (pool, provider, at))
        while len(self._failed) > MOST_REMEMBERED:
            del self._failed[next(iter(self._failed))]


def _cooldown(moments: list[datetime]) -> Cooldown:
    """Longer with each failure, as everywhere: a class may have this provider alone."""
    count, last = len(moments), max(moments)
    length = doubled(FIRST_COOLDOWN, count - FAILURES_ALLOWED, LONGEST_COOLDOWN)
    return Cooldown(count, last, last + length, f"{count} machines of the provider failed in this pool within a day")
