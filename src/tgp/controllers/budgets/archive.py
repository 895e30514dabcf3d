"""Keeps the accounts of deleted budgets in a ConfigMap of the operator's namespace."""

import asyncio
from datetime import datetime

from msgspec import structs

from tgp.api.resource import GPU_WORKLOAD_BUDGET
from tgp.controllers.config_table import ConfigTable
from tgp.core.budgets.archive import ARCHIVE, KeptAccount, budget_of, crowded_out, line_name, line_of, read_line
from tgp.core.budgets.spans import seconds
from tgp.core.model.facts import BudgetNoted, FactSubject, TableFailing
from tgp.core.model.object_key import ObjectKey
from tgp.ports.cluster import Cluster, Forbidden, Refused
from tgp.ports.journal import Journal


class AccountArchive:
    def __init__(self, cluster: Cluster, namespace: str, journal: Journal) -> None:
        self._cluster = cluster
        self._key = ObjectKey(namespace, ARCHIVE)
        self._journal = journal
        self._table = self._read_again()

    def start_over(self) -> None:
        """The API server's history went back: what was read means nothing any more."""
        self._table = self._read_again()

    def _read_again(self) -> ConfigTable[KeptAccount]:
        return ConfigTable(self._cluster, self._key, line_of=line_of, read_line=read_line)

    async def find(self, budget: ObjectKey, resource: str) -> KeptAccount | None:
        """None: there is none, or the table may not be read."""
        try:
            return (await self._table.entries()).get(line_name(budget, resource))
        except Forbidden as error:
            self._journal.note(TableFailing(self._key, str(error)))
            return None

    async def budgets(self) -> list[tuple[ObjectKey, KeptAccount]]:
        """Every deleted budget whose account is kept. Empty also where the table may not be read."""
        try:
            lines = await self._table.entries()
        except Forbidden as error:
            self._journal.note(TableFailing(self._key, str(error)))
            return []
        return [(budget_of(name, lines[name]), lines[name]) for name in sorted(lines)]

    async def keep(self, budget: ObjectKey, uid: str, account: KeptAccount, now: datetime) -> None:
        """Where the ConfigMap is full, the newest are kept. A refusal is told: it does not hold the budget for ever."""
        name, about = line_name(budget, account.resource), FactSubject(GPU_WORKLOAD_BUDGET, budget, uid)
        account = structs.replace(account, budget=str(budget))
        try:
            lines = await self._table.entries()
            past, oldest = crowded_out(lines, name, len(line_of(account)), seconds(now))
            await asyncio.gather(*(self._table.drop(each) for each in (*past, *oldest)))
            await self._table.write(name, account)
        except (Forbidden, Refused) as error:
            message = (
                f"Usage of deleted budget {budget.name} was not saved in ConfigMap {self._key}: {error}. A new "
                "budget of this name starts at zero"
            )
            self._journal.note(BudgetNoted(about, "AccountNotKept", message, warning=True))
            return
        if oldest:
            message = (
                f"ConfigMap {self._key} is full: to keep what budget {budget.name} has used, the accounts of "
                f"{len(oldest)} budgets that were deleted longest ago were dropped. Their successors start at zero"
            )
            self._journal.note(BudgetNoted(about, "AccountsDropped", message, warning=True))

    async def drop(self, budget: ObjectKey, resource: str) -> None:
        """Another budget goes on from it."""
        await self._table.drop(line_name(budget, resource))
