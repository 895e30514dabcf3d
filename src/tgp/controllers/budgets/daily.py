"""Writes what each budget used on a day, once the day is over: one ConfigMap a day, which is never changed."""

from collections.abc import Callable, Iterable
from datetime import date, datetime, timedelta

from tgp.api.resource import CONFIG_MAP
from tgp.core.budgets.account import BudgetAccount
from tgp.core.budgets.days import DAYS_LABEL, day_of, days_before, next_day, page_name, pages
from tgp.core.model.object_key import ObjectKey
from tgp.ports.clock import Clock
from tgp.ports.cluster import AlreadyExists, Cluster, NotFound

KEY = ObjectKey("", "budget-days")
LATER = timedelta(minutes=2)  # after midnight: reports of ends may be late
CAUGHT_UP = 7  # days that a new process looks back


class DailyReport:
    """A reconciler of one key."""

    def __init__(
        self,
        accounts: Callable[[], Iterable[tuple[ObjectKey, BudgetAccount]]],
        cluster: Cluster,
        clock: Clock,
        namespace: str,
    ) -> None:
        self._accounts = accounts
        self._cluster = cluster
        self._clock = clock
        self._namespace = namespace
        self._begun: datetime | None = None  # None: this process does not lead yet
        self._written: date | None = None  # the last day that is known to be written

    async def reconcile(self, _key: ObjectKey) -> datetime | None:
        now = self._clock.now()
        self._begun = self._begun or now
        if now < self._begun + LATER:  # the accounts are taken up first
            return self._begun + LATER
        for day in days_before(now - LATER, CAUGHT_UP):
            if self._written is None or day > self._written:
                await self._write(day, now)
                self._written = day
        return next_day(now - LATER) + LATER

    async def _write(self, day: date, now: datetime) -> None:
        try:
            await self._cluster.read(CONFIG_MAP, ObjectKey(self._namespace, page_name(day)))
        except NotFound:
            pass
        else:
            return
        accounts = sorted(self._accounts(), key=lambda each: each[0])
        rows = [row for key, account in accounts if (row := day_of(key, account, day, now)) is not None]
        # The first page last: a day is written once that one is there.
        for name, lines in reversed(list(pages(day, rows))) if rows else ():
            labels = {DAYS_LABEL: str(day)[:7], "app.kubernetes.io/managed-by": "tgp-operator"}
            metadata = {"namespace": self._namespace, "name": name, "labels": labels}
            try:
                await self._cluster.create(CONFIG_MAP, {"metadata": metadata, "data": lines})
            except AlreadyExists:  # a page of an earlier try
                continue
