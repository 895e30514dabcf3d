"""Keeps what live machines need from vanishing under them: our finalizer on their classes and on their Secrets.

A view lags: a turn that lets go could do so just after a reservation that it does not see yet. So whoever is about to
buy asks for the hold first (`ensure`), and what was asked for is not let go for a while, whatever a view shows.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from tgp.api.nodeclass import GPUNodeClass
from tgp.api.request import GPURequest
from tgp.api.resource import GPU_NODE_CLASS, SECRET
from tgp.controllers.accounts import Accounts
from tgp.controllers.keys import secrets_of
from tgp.controllers.request_index import BY_ACCOUNT, BY_NODE_CLASS
from tgp.core.model.key import Key
from tgp.core.model.typed import Typed
from tgp.core.model.workload import Metadata
from tgp.core.rules.holds import IN_USE, account_needed, accounts_named, class_needed, edited
from tgp.ports.clock import Clock
from tgp.ports.cluster import Cluster, Conflict, Forbidden, NotFound, View

LET_GO_AFTER = 300.0  # seconds since somebody asked for the hold: no view lags by so much and is still used
ENSURED_FOR = 60.0  # seconds: what was seen to be held is not looked at again by every purchase
LOOK_AGAIN_AFTER = timedelta(minutes=30)  # somebody may have taken our finalizer away; Secrets are not watched
TRIES = 3  # against others who write the same Secret


class Asked:
    """What was asked to be held lately, on the boot clock."""

    def __init__(self, boottime: Callable[[], float]) -> None:
        self._boottime = boottime
        self._at: dict[str, float] = {}

    def note(self, name: str) -> None:
        now = self._boottime()
        self._at = {each: at for each, at in self._at.items() if now - at < LET_GO_AFTER} | {name: now}

    def within(self, name: str, seconds: float) -> bool:
        at = self._at.get(name)
        return at is not None and self._boottime() - at < seconds

    def left(self, name: str) -> timedelta:
        """Until it may be let go."""
        at = self._at.get(name)
        left = 0.0 if at is None else at + LET_GO_AFTER - self._boottime()
        return timedelta(seconds=max(left, 0.0))


class ClassHolds:
    """A reconciler of classes: the finalizer is there while some request of the class may have a machine."""

    def __init__(
        self, classes: View[Typed[GPUNodeClass]], requests: View[Typed[GPURequest]], cluster: Cluster, clock: Clock
    ) -> None:
        self._classes = classes
        self._requests = requests
        self._cluster = cluster
        self._clock = clock
        self._asked = Asked(clock.boottime)
        self._one_at_a_time = asyncio.Lock()  # many purchases begin at once: one writes, the others find it done

    async def reconcile(self, key: Key) -> datetime | None:
        record = self._classes.get(key)
        if record is None:
            return None
        needed = any(class_needed(each) == key.name for each in self._requests.having(BY_NODE_CLASS, key.name))
        if not needed and IN_USE in record.finalizers and (left := self._asked.left(key.name)):
            return self._clock.now() + left
        if needed and record.deleting:
            return None  # nothing can be added any more; what is there stays
        await self._write(record, held=needed)
        return None

    async def ensure(self, name: str) -> str | None:
        """Hold a class before something is bought for it. Why that cannot be; None: it is held."""
        self._asked.note(name)
        async with self._one_at_a_time:
            await self._classes.caught_up(Key("", name))
            record = self._classes.get(Key("", name))
            if record is None:
                return f"there is no GPUNodeClass {name}"
            if record.deleting:
                return f"GPUNodeClass {name} is being deleted"
            await self._write(record, held=True)
        return None

    async def _write(self, record: Typed[GPUNodeClass], *, held: bool) -> None:
        finalizers = edited(record.finalizers, held=held)
        if finalizers is not None:
            await self._cluster.patch(
                GPU_NODE_CLASS,
                record.key,
                {"metadata": {"finalizers": finalizers}},
                resource_version=str(record.resource_version),
                uid=record.uid_text,
            )

    def of_request(self, old: Typed[GPURequest] | None, new: Typed[GPURequest] | None) -> Iterable[Key]:
        """Classes that a request begins or ceases to need."""
        before, after = (class_needed(each) if each is not None else "" for each in (old, new))
        if old is not None and new is not None and before == after:
            return []
        return [Key("", name) for name in dict.fromkeys((before, after)) if name]


class SecretHolds:
    """A reconciler of Secrets in the operator's namespace, by name: they are read one by one, and never kept."""

    def __init__(
        self,
        requests: View[Typed[GPURequest]],  # indexed by account
        accounts: Accounts,
        cluster: Cluster,
        clock: Clock,
        *,
        namespace: str,
    ) -> None:
        self._requests = requests
        self._accounts = accounts
        self._cluster = cluster
        self._clock = clock
        self._namespace = namespace
        self._asked = Asked(clock.boottime)
        self._one_at_a_time = asyncio.Lock()

    async def reconcile(self, key: Key) -> datetime | None:
        await self._accounts.load()
        needed = self._needed(key.name)
        if not needed and (left := self._asked.left(key.name)):
            return self._clock.now() + left
        try:
            metadata = await self._metadata(key.name)
            if metadata is None or (needed and "deletionTimestamp" in metadata):
                return None  # it is gone, or nothing can be added any more
            await self._write(key.name, metadata, held=needed)
        except Forbidden:
            pass  # `ensure` tells whoever wants to buy; roles change, so it is tried again
        return self._clock.now() + LOOK_AGAIN_AFTER if needed else None

    def _needed(self, name: str) -> bool:
        """Is it the key of an account where a machine is, or may be? Also of one that no class names any more."""
        return any(
            account.empty_since is None or any(True for _ in self._requests.having(BY_ACCOUNT, account.id))
            for account in self._accounts.known()
            if name in secrets_of(account.till.source)
        )

    async def ensure(self, name: str) -> str | None:
        """Hold a Secret before something is bought with its key. Why that cannot be; None: it is held."""
        async with self._one_at_a_time:
            if self._asked.within(name, ENSURED_FOR):
                return None
            why = await self._hold(name)
            if why is None:
                self._asked.note(name)
            return why

    async def _hold(self, name: str) -> str | None:
        for _ in range(TRIES):
            try:
                return await self._try_to_hold(name)
            except Conflict:
                continue
            except Forbidden:
                return f"the operator may not hold Secret {name}: let its Role get and patch Secrets"
        return f"Secret {name} keeps changing"

    async def _try_to_hold(self, name: str) -> str | None:
        metadata = await self._metadata(name)
        if metadata is None:
            return f"there is no Secret {name} in namespace {self._namespace}"
        if "deletionTimestamp" in metadata:
            return f"Secret {name} is being deleted"
        await self._write(name, metadata, held=True)
        return None

    async def _metadata(self, name: str) -> Mapping[str, Any] | None:
        """Of the Secret, and nothing else of it. None: there is no such Secret."""
        try:
            metadata: dict[str, Any] = (await self._cluster.read(SECRET, Key(self._namespace, name)))["metadata"]
        except NotFound:
            return None
        return metadata

    async def _write(self, name: str, metadata: Mapping[str, Any], *, held: bool) -> None:
        finalizers = edited(metadata.get("finalizers") or (), held=held)
        if finalizers is not None:
            await self._cluster.patch(
                SECRET,
                Key(self._namespace, name),
                {"metadata": {"finalizers": finalizers}},
                resource_version=str(metadata.get("resourceVersion", "")),
                uid=str(metadata.get("uid", "")),
            )

    def of_request(self, old: Typed[GPURequest] | None, new: Typed[GPURequest] | None) -> Iterable[Key]:
        """Secrets that a request begins or ceases to need; of one that is seen first, all that it ever named."""
        if old is None or new is None:
            return self._keys_of(accounts_named(new if new is not None else old))
        return self._keys_of({account_needed(old)} ^ {account_needed(new)})

    def of_account(self, old: Metadata | None, new: Metadata | None) -> Iterable[Key]:
        """Those of an account that was read, written, or seen to be empty."""
        changed = new or old
        assert changed is not None, "a change has a before or an after"
        return self._keys_of({changed.key.name})

    def _keys_of(self, accounts: Iterable[str]) -> list[Key]:
        known = [account for name in accounts if (account := self._accounts.get(name)) is not None]
        names = {secret for account in known for secret in secrets_of(account.till.source)}
        return [Key(self._namespace, name) for name in sorted(names)]
