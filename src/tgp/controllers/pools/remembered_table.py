"""What plans remember beyond this process: a ConfigMap of the operator's namespace, one line per entry.

Nothing depends on it: a table that cannot be read or written counts as empty, and the log says so once.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Generic, TypeVar

from tgp.controllers.config_table import ConfigTable
from tgp.core.model.facts import TableFailing
from tgp.core.model.object_key import ObjectKey
from tgp.ports.cluster import Cluster, ClusterError, Forbidden, Refused
from tgp.ports.journal import Journal

E = TypeVar("E")


class RememberedTable(Generic[E]):
    def __init__(
        self,
        cluster: Cluster,
        key: ObjectKey,
        journal: Journal,
        *,
        line_of: Callable[[E], str],
        read_line: Callable[[object], E | None],
    ) -> None:
        self._key = key
        self._read = read_line
        self._table: ConfigTable[E] = ConfigTable(cluster, key, line_of=line_of, read_line=self._read_line)
        self._journal = journal
        self._unreadable = 0  # lines
        self._told = False

    async def entries(self) -> Mapping[str, E]:
        """By name of the line; nothing, if the table cannot be read."""
        try:
            entries = await self._table.entries()
        except ClusterError as error:
            self._tell(str(error))
            return {}
        if self._unreadable:
            self._tell(f"{self._unreadable} of its lines are malformed")
        return entries

    async def keep(self, name: str, entry: E) -> None:
        """Raises ClusterError where another try may help."""
        try:
            await self._table.write(name, entry)
        except (Forbidden, Refused) as error:  # a quota, a policy
            self._tell(str(error))

    async def drop(self, names: Iterable[str]) -> None:
        try:
            for name in names:
                await self._table.drop(name)
        except (Forbidden, Refused) as error:
            self._tell(str(error))

    def _read_line(self, line: object) -> E | None:
        entry = self._read(line)
        self._unreadable += entry is None
        return entry

    def _tell(self, why: str) -> None:
        if not self._told:
            self._journal.note(TableFailing(self._key, why))
        self._told = True
