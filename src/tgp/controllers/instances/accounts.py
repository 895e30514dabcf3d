"""The table of cloud accounts: written before the first order in an account, and kept until it was empty for a day.

Every search for a machine and every termination looks up the account here. The table is read once, when this replica
leads; from then on only this process writes it. An id that does not resolve is unknown: no provider is asked for it.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import datetime, timedelta

from msgspec.structs import replace

from tgp.api.request import Attempt, GPURequest
from tgp.controllers.config_table import ConfigTable
from tgp.controllers.instances.cache import InstanceSnapshot
from tgp.controllers.requests.indexes import BY_ACCOUNT
from tgp.core.model.account_access import AccountAccess
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
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.object_key import ObjectKey
from tgp.ports.clock import Clock
from tgp.ports.cluster import Cluster, ClusterBusy, ClusterError, Forbidden, View
from tgp.ports.journal import Journal

MOST_ACCOUNTS = 512  # lines of the table: a ConfigMap holds a mebibyte
REMEMBERED_FOR = timedelta(days=1)  # after an account was first seen empty
LOOK_AGAIN = timedelta(minutes=10)
TAKEN_FOR = 120.0  # seconds until the view shows a reservation, else it was never written
REVIEW = ObjectKey("", "accounts")  # the one key of the reconciler


class TableFull(Exception):
    """The table has no room for another account. Nothing was written, so nothing may be ordered there."""


class AccountTable:
    """A reconciler with one key: reads the table, and forgets what was empty for a day."""

    def __init__(
        self,
        requests: View[KubeObject[GPURequest]],  # indexed by account
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
            cluster, ObjectKey(namespace, TABLE), line_of=line_of, read_line=read_line
        )
        self._changed = changed  # called for every account that was read, written or forgotten
        self._known: dict[str, CloudAccount] = {}
        self._read = False
        self._rewrite = False  # the ConfigMap may have lost entries
        self._taken: dict[
            str, tuple[str, float]
        ] = {}  # by account: the token that reserved an owned machine last, and when
        self._one_at_a_time = asyncio.Lock()

    # -- lookup --------------------------------------------------------------------------------------------------------

    async def load(self) -> None:
        """Read the table, unless it was. Raises ClusterError: then nothing is known of any account."""
        if self._read:
            return
        async with self._one_at_a_time:
            with suppress(Forbidden):  # a replica with --observe may have fewer rights: it sees less
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

    def at(self, access: str) -> tuple[CloudAccount, ...]:
        """Accounts that one list under this access shows: one, and those its key belonged to before."""
        return tuple(account for account in self.known() if account.access.name == access)

    def requests_at(self, access: str) -> Iterator[KubeObject[GPURequest]]:
        """Requests whose machine is, or may be, listed under this access."""
        for account in self.at(access):
            for record in self._requests.by_index(BY_ACCOUNT, account.id):
                attempt = open_attempt(attempts_of(record))
                if attempt is not None and self.of(attempt) is account:
                    yield record

    # -- writing -------------------------------------------------------------------------------------------------------

    async def ensure(self, access: AccountAccess, identity: str, token: str) -> CloudAccount:
        """Record the account before a reservation in it under this token. Raises TableFull, ClusterError."""
        await self.load()
        async with self._one_at_a_time:
            account = self._matching(access, identity)
            wanted = replace(account, empty_since=None, holder=token if account.owned else "")
            if account.owned:
                self._take(account, token)
            if account.id in self._known and account == wanted:
                return account
            if account.id not in self._known:
                await self._make_room()
            return await self._write(wanted)

    def _take(self, account: CloudAccount, token: str) -> None:
        """An owned machine serves one request at a time, also one whose record is not in the cache yet."""
        now = self._clock.boottime()
        holder, since = self._taken.get(account.id, ("", 0.0))
        if holder not in ("", token) and now - since < TAKEN_FOR:
            raise ClusterBusy(f"Machine {account.settings.machines[0].name} was just reserved for another request.")
        self._taken[account.id] = (token, now)

    def _matching(self, access: AccountAccess, identity: str) -> CloudAccount:
        known = (each for each in self.at(access.name) if each.includes(identity))
        return next(known, None) or account_of(access, identity)

    async def _make_room(self) -> None:
        if len(self._known) < MOST_ACCOUNTS:
            return
        empty = sorted((each.empty_since, each.id) for each in self.known() if each.empty_since is not None)
        unused = [name for _, name in empty if not self._named(name)]
        if not unused:
            raise TableFull(
                f"ConfigMap {TABLE} is full: {MOST_ACCOUNTS} accounts, all in use. Delete a class that is not needed"
            )
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
        """The API server's history went back: lines may be missing, and only this process knows them."""
        self._rewrite = self._read

    async def _rewritten(self) -> None:
        for account in self.known():
            await self._table.write(account.id, account)
        self._rewrite = False

    # -- what lists show -----------------------------------------------------------------------------------------------

    async def seen(self, access: AccountAccess, snapshot: InstanceSnapshot, *, from_class: bool) -> None:
        """A list is complete: called before anything is concluded from it.

        `from_class`: a class names this access, so a lost line may be written again. What cannot be written now is
        written after a later list.
        """
        with suppress(ClusterError):
            await self.load()
            async with self._one_at_a_time:
                if from_class and snapshot.account:
                    await self._restored(access, snapshot.account)
                for account in self.at(access.name):
                    await self._observed(account, snapshot)

    async def _restored(self, access: AccountAccess, identity: str) -> None:
        lost = account_of(access, identity)
        if not lost.owned and lost.id not in self._known and self._named(lost.id) and len(self._known) < MOST_ACCOUNTS:
            await self._write(lost)

    async def _observed(self, account: CloudAccount, snapshot: InstanceSnapshot) -> None:
        tokens = sorted({one.token for one in snapshot.instances})
        now = account
        if not account.includes(snapshot.account):
            if not snapshot.complete or not known_again(account, snapshot.account, tokens):
                return
            now = replace(account, identities=(*account.identities, snapshot.account))
        if any(each.startswith(FINGERPRINT) for each in now.identities):
            now = replace(now, witnesses=_witnesses(now.witnesses, tokens))
        if tokens or self._named(account.id):
            now = replace(now, empty_since=None)
        elif snapshot.complete and now.empty_since is None:
            now = replace(now, empty_since=self._clock.now().replace(microsecond=0))
        if now != account:
            await self._write(now)
        if now.identities != account.identities:
            self._journal.note(KeyRotated(account.access.name, account.identity, snapshot.account))

    def _named(self, name: str) -> bool:
        """May a request have a machine there, by its own record?"""
        return any(True for _ in self._requests.by_index(BY_ACCOUNT, name))

    # -- the reconciler ------------------------------------------------------------------------------------------------

    async def reconcile(self, key: ObjectKey) -> datetime | None:  # noqa: ARG002 - there is only one
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
    """With few changes: tokens still listed, and others up to the bound; if none is listed, as before."""
    there = [token for token in held if token in set(listed)]
    others = [token for token in listed if token not in set(there)]
    return tuple((there + others)[:WITNESSES_KEPT]) or tuple(held)
