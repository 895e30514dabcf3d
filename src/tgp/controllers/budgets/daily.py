"""Writes what each budget used on a day, once the day is over: one ConfigMap a day, which is never changed.

A budget whose account was not known then gets its line later, in a ConfigMap beside it.
"""

from collections.abc import Callable
from datetime import date, datetime, timedelta

from tgp.api.resource import CONFIG_MAP
from tgp.controllers.budgets.archive import AccountArchive
from tgp.controllers.budgets.tracker import BudgetTracker
from tgp.core.budgets.days import DAYS_LABEL, days_before, line_key, next_day, page_name, pages, rows_of
from tgp.core.model.object_key import ObjectKey
from tgp.ports.clock import Clock
from tgp.ports.cluster import AlreadyExists, Cluster, NotFound

KEY = ObjectKey("", "budget-days")
LATER = timedelta(minutes=2)  # after midnight: reports of ends may be late
CAUGHT_UP = 7  # days that are looked at again every day


class DailyReport:
    """A reconciler of one key. `complete`: the account of every budget is taken up, or known to be left alone."""

    def __init__(
        self,
        tracker: BudgetTracker,
        archive: AccountArchive,
        complete: Callable[[], bool],
        *,
        cluster: Cluster,
        clock: Clock,
        namespace: str,
    ) -> None:
        self._tracker = tracker
        self._archive = archive
        self._complete = complete
        self._cluster = cluster
        self._clock = clock
        self._namespace = namespace
        self._begun: datetime | None = None  # None: this process does not lead yet

    async def reconcile(self, _key: ObjectKey) -> datetime | None:
        now = self._clock.now()
        self._begun = self._begun or now
        if now < self._begun + LATER:  # the accounts are taken up first
            return self._begun + LATER
        complete = self._complete()
        for day in days_before(now - LATER, CAUGHT_UP):
            await self._write(day, now)
        return next_day(now - LATER) + LATER if complete else now + LATER

    async def _write(self, day: date, now: datetime) -> None:
        written, number = await self._written(day)
        accounts = ((key, memory.spec.gpu_resource_name, memory.account) for key, memory in self._tracker.memories())
        rows = rows_of(day, now, accounts, await self._archive.budgets())
        missing = [row for row in rows if line_key(row) not in written]
        # The first page last: a day is written once that one is there.
        for name, lines in reversed(list(pages(day, missing, number))) if missing else ():
            labels = {DAYS_LABEL: str(day)[:7], "app.kubernetes.io/managed-by": "tgp-operator"}
            metadata = {"namespace": self._namespace, "name": name, "labels": labels}
            try:
                await self._cluster.create(CONFIG_MAP, {"metadata": metadata, "data": lines})
            except AlreadyExists:  # a page of an earlier try
                continue

    async def _written(self, day: date) -> tuple[set[str], int]:
        """The lines of the day that are there, and the number of its next page."""
        lines: set[str] = set()
        number = 1
        while True:
            try:
                page = await self._cluster.read(CONFIG_MAP, ObjectKey(self._namespace, page_name(day, number)))
            except NotFound:
                return lines, number
            lines |= set(page.get("data") or ())
            number += 1
