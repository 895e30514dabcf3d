"""The table of cloud accounts: written before the first order in an account, and kept until it was empty for a day.

Everything that finds or terminates a machine asks here where that is. The table is read once, when this replica leads;
from then on nobody else writes it. An id that does not resolve is unknown: no provider is asked for it.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import datetime, timedelta

from msgspec.structs import replace

from tgp.api.request import Attempt, GPURequest
from tgp.controllers.config_table import ConfigTable
from tgp.controllers.request_index import BY_ACCOUNT
from tgp.controllers.rosters import Roster
from tgp.core.model.attempts import attempts_of, open_attempt
from tgp.core.model.cloud_account import (
    FINGERPRINT,
    TABLE,
    WITNESSES_KEPT,
    CloudAccount,
    account_of,
    known_again,
    line_of,
    read_line,
    resolved,
)
from tgp.core.model.facts import KeyRotated
from tgp.core.model.key import Key
from tgp.core.model.till import Till
from tgp.core.model.typed import Typed
from tgp.ports.clock import Clock
from tgp.ports.cluster import Cluster, ClusterBusy, ClusterError, Forbidden, View
from tgp.ports.journal import Journal

MOST_ACCOUNTS = 512  # lines of the table: a ConfigMap holds a mebibyte
REMEMBERED_FOR = timedelta(days=1)  # after an account was first seen empty
LOOK_AGAIN = timedelta(minutes=10)
TAKEN_FOR = 120.0  # seconds until the view shows a reservation, or it was never written
REVIEW = Key("", "accounts")  # the one key of the reconciler


class TableFull(Exception):
    """No line is left for another account. Nothing was written, so nothing may be ordered there."""


class Accounts:
    """A reconciler with one key: reads the table, and forgets what was empty for a day."""

    def __init__(
        self,
        requests: View[Typed[GPURequest]],  # indexed by account
        cluster: Cluster,
        clock: Clock,
        journal: Journal,
        *,
        namespace: str,
        changed: Callable[[CloudAccount], None] = lambda _account: None,
    ) -> None:
        self._requests = requests
        self._clock = clock
        self._journal = journal
        self._table: ConfigTable[CloudAccount] = ConfigTable(
            cluster, Key(namespace, TABLE), line_of=line_of, read_line=read_line
        )
        self._changed = changed  # told of every account that was read, written or forgotten
        self._known: dict[str, CloudAccount] = {}
        self._read = False
        self._rewrite = False  # what was written may be gone from there
        self._taken: dict[str, tuple[str, float]] = {}  # by account: who reserved an owned machine last, and when
        self._one_at_a_time = asyncio.Lock()

    # -- for whoever decides -------------------------------------------------------------------------------------------

    async def load(self) -> None:
        """Read the table, unless it was. Raises ClusterError: then nothing is known of any account."""
        if self._read:
            return
        async with self._one_at_a_time:
            with suppress(Forbidden):  # of a replica that only looks, with fewer rights: it sees less
                self._known = dict(await self._table.entries())
            first, self._read = not self._read, True
        for account in self.known() if first else ():
            self._changed(account)

    @property
    def ready(self) -> bool:
        """Whether the table was read: before that, an id that does not resolve says nothing."""
        return self._read

    def known(self) -> tuple[CloudAccount, ...]:
        return tuple(self._known[name] for name in sorted(self._known))

    def get(self, name: str) -> CloudAccount | None:
        return self._known.get(name)

    def of(self, attempt: Attempt) -> CloudAccount | None:
        """None: no provider may be asked about this attempt."""
        return resolved(self._known, attempt)

    def at(self, till: str) -> tuple[CloudAccount, ...]:
        """Those that are listed by one look at this till: one, and those its key belonged to before."""
        return tuple(account for account in self.known() if account.till.name == till)

    def requests_at(self, till: str) -> Iterator[Typed[GPURequest]]:
        """Whose machine is, or may be, listed at this till."""
        for account in self.at(till):
            for record in self._requests.having(BY_ACCOUNT, account.id):
                attempt = open_attempt(attempts_of(record))
                if attempt is not None and self.of(attempt) is account:
                    yield record

    # -- writing -------------------------------------------------------------------------------------------------------

    async def ensure(self, till: Till, identity: str, token: str) -> CloudAccount:
        """The account on paper, before anything is reserved in it under this token. Raises TableFull, ClusterError."""
        await self.load()
        async with self._one_at_a_time:
            account = self._matching(till, identity)
            wanted = replace(account, empty_since=None, holder=token if account.owned else "")
            if account.owned:
                self._take(account, token)
            if account.id in self._known and account == wanted:
                return account
            if account.id not in self._known:
                await self._make_room()
            return await self._write(wanted)

    def _take(self, account: CloudAccount, token: str) -> None:
        """A machine that somebody owns serves one request at a time, also one whose record is not in view yet."""
        now = self._clock.boottime()
        holder, since = self._taken.get(account.id, ("", 0.0))
        if holder not in ("", token) and now - since < TAKEN_FOR:
            raise ClusterBusy(f"{account.settings.machines[0].name} was reserved for another request just now")
        self._taken[account.id] = (token, now)

    def _matching(self, till: Till, identity: str) -> CloudAccount:
        known = (each for each in self.at(till.name) if each.includes(identity))
        return next(known, None) or account_of(till, identity)

    async def _make_room(self) -> None:
        if len(self._known) < MOST_ACCOUNTS:
            return
        empty = sorted((each.empty_since, each.id) for each in self.known() if each.empty_since is not None)
        unused = [name for _, name in empty if not self._named(name)]
        if not unused:
            raise TableFull(f"ConfigMap {TABLE} holds {MOST_ACCOUNTS} accounts, and all of them are in use")
        await self._forget(unused[0])

    async def _write(self, account: CloudAccount) -> CloudAccount:
        await self._table.write(account.id, account)
        self._known[account.id] = account
        self._changed(account)
        return account

    async def _forget(self, name: str) -> None:
        await self._table.drop(name)
        account = self._known.pop(name)
        self._changed(account)

    def start_over(self) -> None:
        """The API server's history went back: lines may be missing, and are known here and nowhere else."""
        self._rewrite = self._read

    async def _rewritten(self) -> None:
        for account in self.known():
            await self._table.write(account.id, account)
        self._rewrite = False

    # -- what lists show -----------------------------------------------------------------------------------------------

    async def seen(self, till: Till, roster: Roster, *, from_class: bool) -> None:
        """A look at a till has come to its end: before anything is concluded from it.

        `from_class`: a class names this till, so a line that was lost may be written again. What cannot be written now
        is written after a later look.
        """
        with suppress(ClusterError):
            await self.load()
            async with self._one_at_a_time:
                if from_class and roster.account:
                    await self._restored(till, roster.account)
                for account in self.at(till.name):
                    await self._observed(account, roster)

    async def _restored(self, till: Till, identity: str) -> None:
        lost = account_of(till, identity)
        if not lost.owned and lost.id not in self._known and self._named(lost.id) and len(self._known) < MOST_ACCOUNTS:
            await self._write(lost)

    async def _observed(self, account: CloudAccount, roster: Roster) -> None:
        tokens = sorted({one.token for one in roster.instances})
        now = account
        if not account.includes(roster.account):
            if not roster.complete or not known_again(account, roster.account, tokens):
                return
            now = replace(account, identities=(*account.identities, roster.account))
        if any(each.startswith(FINGERPRINT) for each in now.identities):
            now = replace(now, witnesses=_witnesses(now.witnesses, tokens))
        if tokens or self._named(account.id):
            now = replace(now, empty_since=None)
        elif roster.complete and now.empty_since is None:
            now = replace(now, empty_since=self._clock.now().replace(microsecond=0))
        if now != account:
            await self._write(now)
        if now.identities != account.identities:
            self._journal.note(KeyRotated(account.till.name, account.identity, roster.account))

    def _named(self, name: str) -> bool:
        """May a request have a machine there, by its own record?"""
        return any(True for _ in self._requests.having(BY_ACCOUNT, name))

    # -- the reconciler ------------------------------------------------------------------------------------------------

    async def reconcile(self, key: Key) -> datetime | None:  # noqa: ARG002 - there is only one
        await self.load()
        async with self._one_at_a_time:
            if self._rewrite:
                await self._rewritten()
            for account in self.known():
                if self._is_over(account):
                    await self._forget(account.id)
        return self._clock.now() + LOOK_AGAIN

    def _is_over(self, account: CloudAccount) -> bool:
        since = account.empty_since
        return since is not None and self._clock.now() - since >= REMEMBERED_FOR and not self._named(account.id)


def _witnesses(held: Iterable[str], listed: list[str]) -> tuple[str, ...]:
    """As few changes as will do: those that are listed still, and others up to the bound; where none is, as it was."""
    there = [token for token in held if token in set(listed)]
    others = [token for token in listed if token not in set(there)]
    return tuple((there + others)[:WITNESSES_KEPT]) or tuple(held)
