"""Which API groups the API server has: a Job that names a manager of another one has none."""

from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime, timedelta

from tgp.core.budgets.pause import manager_group
from tgp.core.model.workload import Job
from tgp.ports.clock import Clock
from tgp.ports.cluster import Cluster, ClusterError

ASKED_AGAIN = timedelta(minutes=5)


class ApiGroups:
    """Asked seldom, and only where a Job names a manager."""

    def __init__(self, cluster: Cluster, clock: Clock) -> None:
        self._cluster = cluster
        self._clock = clock
        self._asked_at: datetime | None = None
        self.known: frozenset[str] | None = None  # None: not asked yet, or without an answer

    async def look(self, jobs: Iterable[Job]) -> None:
        now = self._clock.now()
        if self._asked_at is not None and now < self._asked_at + ASKED_AGAIN:
            return
        if not any(manager_group(job) for job in jobs):
            return
        with suppress(ClusterError):  # then what was known still holds
            self.known = await self._cluster.groups()
            self._asked_at = now
