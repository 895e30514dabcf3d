"""Protects what live machines need: our finalizer on their classes and on their Secrets.

A cache lags: the finalizer could be removed just after a reservation that the cache does not show yet. So a purchase
adds the finalizer first (`ensure`), and after that it is kept for a while, whatever the cache shows.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from tgp.api.nodeclass import GPUNodeClass
from tgp.api.request import GPURequest
from tgp.api.resource import GPU_NODE_CLASS, SECRET
from tgp.controllers.instances.accounts import AccountTable
from tgp.controllers.market.credentials import secrets_of
from tgp.controllers.requests.indexes import BY_ACCOUNT, BY_NODE_CLASS
from tgp.core.inventory.in_use import IN_USE, LET_GO_AFTER, account_needed, accounts_named, class_needed, edited
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.workload import Metadata
from tgp.ports.clock import Clock
from tgp.ports.cluster import Cluster, Conflict, Forbidden, NotFound, View

ENSURED_FOR = 60.0  # seconds: not every purchase checks a finalizer again
LOOK_AGAIN_AFTER = timedelta(minutes=30)  # a user may have removed our finalizer; Secrets are not watched
TRIES = 3  # against concurrent writes of the same Secret


class RecentHolds:
    """Names that `ensure` was called for lately, on the boot clock."""

    def __init__(self, boottime: Callable[[], float]) -> None:
        self._boottime = boottime
        self._at: dict[str, float] = {}

    def note(self, name: str) -> None:
        now = self._boottime()
        self._at = {each: at for each, at in self._at.items() if now - at < LET_GO_AFTER.total_seconds()} | {name: now}

    def within(self, name: str, seconds: float) -> bool:
        at = self._at.get(name)
        return at is not None and self._boottime() - at < seconds

    def left(self, name: str) -> timedelta:
        """Until the finalizer may be removed."""
        at = self._at.get(name)
        held = timedelta() if at is None else timedelta(seconds=at - self._boottime()) + LET_GO_AFTER
        return max(held, timedelta())


class ClassInUse:
    """A reconciler of classes: the finalizer is there while some request of the class may have a machine."""

    def __init__(
        self,
        classes: View[KubeObject[GPUNodeClass]],
        requests: View[KubeObject[GPURequest]],
        cluster: Cluster,
        clock: Clock,
    ) -> None:
        self._classes = classes
        self._requests = requests
        self._cluster = cluster
        self._clock = clock
        self._asked = RecentHolds(clock.boottime)
        self._one_at_a_time = asyncio.Lock()  # of many concurrent purchases one writes, the others find it done

    async def reconcile(self, key: ObjectKey) -> datetime | None:
        record = self._classes.get(key)
        if record is None:
            return None
        needed = any(class_needed(each) == key.name for each in self._requests.by_index(BY_NODE_CLASS, key.name))
        if not needed and IN_USE in record.finalizers and (left := self._asked.left(key.name)):
            return self._clock.now() + left
        if needed and record.deleting:
            return None  # no finalizer can be added any more; an existing one stays
        await self._write(record, held=needed)
        return None

    async def ensure(self, name: str) -> str | None:
        """Add our finalizer to a class before a purchase. Returns why that is impossible; None: it is there."""
        self._asked.note(name)
        async with self._one_at_a_time:
            await self._classes.wait_for_own_write(ObjectKey("", name))
            record = self._classes.get(ObjectKey("", name))
            if record is None:
                return f"GPUNodeClass {name} does not exist"
            if record.deleting:
                return f"GPUNodeClass {name} is being deleted"
            await self._write(record, held=True)
        return None

    async def _write(self, record: KubeObject[GPUNodeClass], *, held: bool) -> None:
        finalizers = edited(record.finalizers, held=held)
        if finalizers is not None:
            await self._cluster.patch(
                GPU_NODE_CLASS,
                record.key,
                {"metadata": {"finalizers": finalizers}},
                resource_version=str(record.resource_version),
                uid=record.uid_text,
            )

    def of_request(self, old: KubeObject[GPURequest] | None, new: KubeObject[GPURequest] | None) -> Iterable[ObjectKey]:
        """Classes that a request begins or ceases to need."""
        before, after = (class_needed(each) if each is not None else "" for each in (old, new))
        if old is not None and new is not None and before == after:
            return []
        return [ObjectKey("", name) for name in dict.fromkeys((before, after)) if name]


class SecretInUse:
    """A reconciler of Secrets in the operator's namespace, by name: they are read one by one, and never cached."""

    def __init__(
        self,
        requests: View[KubeObject[GPURequest]],  # indexed by account
        accounts: AccountTable,
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
        self._asked = RecentHolds(clock.boottime)
        self._one_at_a_time = asyncio.Lock()

    async def reconcile(self, key: ObjectKey) -> datetime | None:
        await self._accounts.load()
        needed = self._needed(key.name)
        if not needed and (left := self._asked.left(key.name)):
            return self._clock.now() + left
        try:
            metadata = await self._metadata(key.name)
            if metadata is None or (needed and "deletionTimestamp" in metadata):
                return None  # it is gone, or no finalizer can be added any more
            await self._write(key.name, metadata, held=needed)
        except Forbidden:
            pass  # `ensure` reports it at the next purchase; roles change, so it is tried again
        return self._clock.now() + LOOK_AGAIN_AFTER if needed else None

    def _needed(self, name: str) -> bool:
        """Is it the key of an account where a machine is, or may be? Also of one that no class names any more."""
        return any(
            account.empty_since is None or any(True for _ in self._requests.by_index(BY_ACCOUNT, account.id))
            for account in self._accounts.known()
            if name in secrets_of(account.access.source)
        )

    async def ensure(self, name: str) -> str | None:
        """Add our finalizer to a Secret before a purchase. Returns why that is impossible; None: it is there."""
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
                return f"Operator may not add its finalizer to Secret {name}; allow its Role to get and patch Secrets"
        return f"Secret {name} was changed concurrently {TRIES} times"

    async def _try_to_hold(self, name: str) -> str | None:
        metadata = await self._metadata(name)
        if metadata is None:
            return f"Secret {name} does not exist in namespace {self._namespace}"
        if "deletionTimestamp" in metadata:
            return f"Secret {name} is being deleted"
        await self._write(name, metadata, held=True)
        return None

    async def _metadata(self, name: str) -> Mapping[str, Any] | None:
        """Only the metadata of the Secret. None: it does not exist."""
        try:
            metadata: dict[str, Any] = (await self._cluster.read(SECRET, ObjectKey(self._namespace, name)))["metadata"]
        except NotFound:
            return None
        return metadata

    async def _write(self, name: str, metadata: Mapping[str, Any], *, held: bool) -> None:
        finalizers = edited(metadata.get("finalizers") or (), held=held)
        if finalizers is not None:
            await self._cluster.patch(
                SECRET,
                ObjectKey(self._namespace, name),
                {"metadata": {"finalizers": finalizers}},
                resource_version=str(metadata.get("resourceVersion", "")),
                uid=str(metadata.get("uid", "")),
            )

    def of_request(self, old: KubeObject[GPURequest] | None, new: KubeObject[GPURequest] | None) -> Iterable[ObjectKey]:
        """Secrets that a request begins or ceases to need; of a new or deleted one, all that it ever named."""
        if old is None or new is None:
            return self._keys_of(accounts_named(new if new is not None else old))
        return self._keys_of({account_needed(old)} ^ {account_needed(new)})

    def of_account(self, old: Metadata | None, new: Metadata | None) -> Iterable[ObjectKey]:
        """Secrets of an account that was read, written, or seen to be empty."""
        changed = new or old
        assert changed is not None, "a change has a before or an after"
        return self._keys_of({changed.key.name})

    def _keys_of(self, accounts: Iterable[str]) -> list[ObjectKey]:
        known = [account for name in accounts if (account := self._accounts.get(name)) is not None]
        names = {secret for account in known for secret in secrets_of(account.access.source)}
        return [ObjectKey(self._namespace, name) for name in sorted(names)]
