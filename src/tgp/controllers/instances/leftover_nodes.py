"""Leftover Nodes: the Node of a machine that no request owns is deleted once that machine is shown to be gone.

A request deletes its own Node during termination. This is for the other cases: its finalizer was removed by force, its
status was erased, or a kubelet registered after the machine was abandoned.

A Node that is Ready while its machine is gone is worse: a third party uses the kubelet's certificate. First a taint
that no kubelet may remove evicts its pods and keeps new ones off; then it is deleted, too. If the Node registers again
with that certificate, it is tainted and deleted again.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import datetime, timedelta

from tgp.api.common import OWNED_PROVIDER
from tgp.api.nodeclass import GPUNodeClass
from tgp.api.request import Attempt, GPURequest
from tgp.api.resource import NODE
from tgp.controllers.instances.accounts import AccountTable
from tgp.controllers.instances.cache import InstanceCache
from tgp.controllers.requests.indexes import BY_UID
from tgp.core.inventory.orphans import owners
from tgp.core.market.sources import sources_of
from tgp.core.model.account_access import accesses_of
from tgp.core.model.attempts import attempts_of, open_attempt
from tgp.core.model.cloud_account import CloudAccount
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.node import Node
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.record import uid_text
from tgp.core.model.taints import Taint
from tgp.core.model.token import MachineToken
from tgp.core.requests.drain import written
from tgp.core.requests.node_state import read_provider_id
from tgp.core.requests.provider_reports import BELIEVED_AFTER
from tgp.ports.clock import Clock
from tgp.ports.cluster import Cluster, Conflict, NotFound, View

GONE_AFTER = 120.0  # seconds: longer than an order may be late and a list may lag
LOOK_AGAIN = timedelta(seconds=60)
CLEARED_FOR = 30.0  # seconds between the taint and the deletion of a Ready Node: its pods are evicted meanwhile
ABANDONED = Taint("tgp.io/machine-gone", "NoExecute")
MOST_REMEMBERED = 1000  # tokens whose machines were shown to be gone; the oldest is forgotten first


class LeftoverNodes:
    def __init__(
        self,
        *,
        nodes: View[Node],
        requests: View[KubeObject[GPURequest]],  # indexed by uid
        classes: View[KubeObject[GPUNodeClass]],
        instance_cache: InstanceCache,
        accounts: AccountTable,
        cluster_id: Callable[[], str],  # empty: not known yet
        cluster: Cluster,
        clock: Clock,
    ) -> None:
        self._nodes = nodes
        self._requests = requests
        self._classes = classes
        self._instance_cache = instance_cache
        self._accounts = accounts
        self._cluster_id = cluster_id
        self._cluster = cluster
        self._clock = clock
        self._since: dict[str, float] = {}  # by Node uid: Clock.boottime since when no request owns it
        self._cleared: dict[str, float] = {}  # by Node uid: Clock.boottime of the taint
        self._named: dict[str, ObjectKey] = {}  # by token: the Node, whatever name its kubelet chose
        self._over: dict[
            str, None
        ] = {}  # tokens whose Ready Nodes were deleted: if one comes back, it is deleted at once

    async def reconcile(self, key: ObjectKey) -> datetime | None:
        node = self._nodes.get(key)
        marked = read_provider_id(node.provider_id) if node is not None else None
        if node is None or marked is None or node.deleting:
            return None
        provider, token = marked
        await self._accounts.load()
        if provider == OWNED_PROVIDER:  # not rented: it is an owned machine, on or off
            return None
        self._named[str(token)] = key
        cluster = self._cluster_id()
        if token.cluster != cluster:
            return None if cluster else self._later()
        uid = uid_text(node.uid)
        if self._owned(token):
            self._since.pop(uid, None)
            return None
        since = self._since.setdefault(uid, self._clock.boottime())
        if not self._gone(provider, token, since, alive=node.ready is True):
            return self._later()
        try:
            if node.ready is True and self._vanished(token):
                return await self._spare(node)
            return await self._remove(node, token)
        except Conflict:  # it changed since: try again later
            return self._later()

    async def _remove(self, node: Node, token: MachineToken) -> datetime | None:
        uid = uid_text(node.uid)
        if node.ready is True:
            if ABANDONED not in node.taints or not node.cordoned:
                await self._clear(node, uid)
            cleared = self._cleared.setdefault(uid, self._clock.boottime())
            if (left := CLEARED_FOR - (self._clock.boottime() - cleared)) > 0:
                return self._clock.now() + timedelta(seconds=left)
            self._over[str(token)] = None
            while len(self._over) > MOST_REMEMBERED:
                del self._over[next(iter(self._over))]
        with suppress(NotFound):  # already deleted
            await self._cluster.delete(NODE, node.key, uid=uid)
        self._since.pop(uid, None)
        self._cleared.pop(uid, None)
        self._named.pop(str(token), None)
        return None

    def _vanished(self, token: MachineToken) -> bool:
        """Do only lists declare its machine gone? A Ready Node contradicts them, and pods may run there."""
        attempt = self._attempt(token)
        return attempt is not None and attempt.counts_until is not None

    async def _spare(self, node: Node) -> datetime:
        """Cordoned, never deleted."""
        if not node.cordoned:
            change = {"spec": {"unschedulable": True}}
            with suppress(NotFound):
                await self._cluster.patch(
                    NODE, node.key, change, resource_version=str(node.resource_version), uid=uid_text(node.uid)
                )
        return self._later()

    async def _clear(self, node: Node, uid: str) -> None:
        taints = (*(taint for taint in node.taints if taint.key != ABANDONED.key), ABANDONED)
        change = {"spec": {"unschedulable": True, "taints": written(taints)}}
        with suppress(NotFound):
            await self._cluster.patch(NODE, node.key, change, resource_version=str(node.resource_version), uid=uid)

    def of_node(self, old: Node | None, new: Node | None) -> Iterable[ObjectKey]:
        node = new or old
        assert node is not None, "a change has a before or an after"
        return () if new is not None and new.repeats(old) else (node.key,)

    def of_request(self, old: KubeObject[GPURequest] | None, new: KubeObject[GPURequest] | None) -> Iterable[ObjectKey]:
        """The Node of a machine that the request no longer owns."""
        before, after = (_open_token(record) for record in (old, new))
        named = self._named.get(before) if before != after else None
        return [named] if named is not None else []

    def _owned(self, token: MachineToken) -> bool:
        owner = owners(self._requests.by_index(BY_UID, token.uid)).get(token.uid)
        return owner is not None and (owner.everything or owner.token == str(token))

    def _gone(self, provider: str, token: MachineToken, since: float, *, alive: bool) -> bool:
        """Not listed, in complete lists of every account where it may be, for longer than a list may lag.

        A Ready Node needs more: that such an account exists, and is the one the machine was launched in. And
        an hour must pass where the request lost its record: lists that omit a machine in use look the same.
        """
        if any(machine.token == str(token) for _, machine in self._instance_cache.of_request(token.uid)):
            return False
        if str(token) in self._over:  # proved before, and no machine is ever ordered under its token again
            return True
        accesses, wait = self._accesses(provider), GONE_AFTER
        if alive:
            wait = BELIEVED_AFTER.total_seconds() if self._is_wiped(token) else GONE_AFTER
            attempt = self._attempt(token)
            account = self._accounts.of(attempt) if attempt is not None else None
            accesses |= {account.access.name} if account is not None else set()
            if not accesses or (account is not None and self._is_another(account)):
                return False
        return all(self._instance_cache.listed_since(name, since + wait) for name in accesses)

    def _is_wiped(self, token: MachineToken) -> bool:
        """Does its request exist without any recorded attempt? It adopts the machine again once a list shows it."""
        return any(not attempts_of(record) for record in self._requests.by_index(BY_UID, token.uid))

    def _attempt(self, token: MachineToken) -> Attempt | None:
        """None: no record exists. Then no request owns the machine: it would be terminated if it were listed."""
        rows = (row for record in self._requests.by_index(BY_UID, token.uid) for row in attempts_of(record))
        return next((row for row in rows if row.token == str(token)), None)

    def _is_another(self, account: CloudAccount) -> bool:
        """Is another account listed there now than the machine was launched in? Then the lists prove nothing."""
        return not account.includes(self._instance_cache.account(account.access.name))

    def _accesses(self, provider: str) -> set[str]:
        """Where a machine may be: as classes define them, and of every account that may hold one."""
        known = (account for account in self._accounts.known() if account.empty_since is None)
        remembered = {account.access.name for account in known if account.provider == provider}
        return remembered | {
            access.name
            for record in self._classes.values()
            if record.value is not None
            for source in sources_of(record.value).values()
            if source.provider == provider
            for access in accesses_of(source)
        }

    def _later(self) -> datetime:
        return self._clock.now() + LOOK_AGAIN


def _open_token(record: KubeObject[GPURequest] | None) -> str:
    attempt = open_attempt(attempts_of(record)) if record is not None else None
    return attempt.token if attempt is not None else ""
