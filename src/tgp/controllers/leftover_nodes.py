"""Nodes left over: a Node of a machine that no request owns goes once that machine is shown to be gone.

A request removes its own Node on its way out. This is for those it could not see to the end: its finalizer was taken
away by force, its status was wiped, or a kubelet registered after the machine was given up.

A Node that is Ready while its machine is gone is worse than left over: somebody kept the certificate, and speaks for
it. Pods are sent away and new ones kept off first, by a taint that no kubelet may lift; then it goes, too. Whoever has
the certificate may register it again: then it is cleared at once, and goes again.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import datetime, timedelta

from tgp.api.nodeclass import GPUNodeClass
from tgp.api.request import Attempt, GPURequest
from tgp.api.resource import NODE
from tgp.controllers.accounts import Accounts
from tgp.controllers.request_index import BY_UID
from tgp.controllers.rosters import Rosters
from tgp.core.model.attempts import attempts_of, open_attempt
from tgp.core.model.cloud_account import CloudAccount
from tgp.core.model.key import Key
from tgp.core.model.node import Node
from tgp.core.model.record import uid_text
from tgp.core.model.taints import Taint
from tgp.core.model.till import tills_of
from tgp.core.model.token import Token
from tgp.core.model.typed import Typed
from tgp.core.rules.collector import owners
from tgp.core.rules.drain import written
from tgp.core.rules.lifecycle import BELIEVED_AFTER
from tgp.core.rules.node_state import read_provider_id
from tgp.core.rules.sources import sources_of
from tgp.ports.clock import Clock
from tgp.ports.cluster import Cluster, Conflict, NotFound, View

GONE_AFTER = 120.0  # seconds: longer than an order is late and a list lags
LOOK_AGAIN = timedelta(seconds=60)
CLEARED_FOR = 30.0  # seconds between the taint and the end of a Node that is alive: pods hear of it
ABANDONED = Taint("tgp.io/machine-gone", "NoExecute")
POWER = "webhook"  # the provider whose machines sleep, rather than go
MOST_REMEMBERED = 1000  # tokens whose machines were shown to be gone; the oldest is forgotten first


class LeftoverNodes:
    def __init__(
        self,
        *,
        nodes: View[Node],
        requests: View[Typed[GPURequest]],  # indexed by uid
        classes: View[Typed[GPUNodeClass]],
        rosters: Rosters,
        accounts: Accounts,
        cluster_id: Callable[[], str],  # empty: not known yet
        cluster: Cluster,
        clock: Clock,
    ) -> None:
        self._nodes = nodes
        self._requests = requests
        self._classes = classes
        self._rosters = rosters
        self._accounts = accounts
        self._cluster_id = cluster_id
        self._cluster = cluster
        self._clock = clock
        self._since: dict[str, float] = {}  # by Node uid: Clock.boottime at which nobody owned it first
        self._cleared: dict[str, float] = {}  # by Node uid: Clock.boottime at which its pods were sent away
        self._named: dict[str, Key] = {}  # by token: the Node, whatever name its kubelet took
        self._over: dict[str, None] = {}  # tokens whose Nodes went as they were alive: if one comes back, nobody waits

    async def reconcile(self, key: Key) -> datetime | None:
        node = self._nodes.get(key)
        marked = read_provider_id(node.provider_id) if node is not None else None
        if node is None or marked is None or node.deleting:
            return None
        provider, token = marked
        await self._accounts.load()
        if provider == POWER:  # nobody was rented: it is the cluster's own, asleep or awake
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
        except Conflict:  # it changed since: another look
            return self._later()

    async def _remove(self, node: Node, token: Token) -> datetime | None:
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
        with suppress(NotFound):  # somebody was quicker
            await self._cluster.delete(NODE, node.key, uid=uid)
        self._since.pop(uid, None)
        self._cleared.pop(uid, None)
        self._named.pop(str(token), None)
        return None

    def _vanished(self, token: Token) -> bool:
        """Was its machine declared gone by lists alone? A Ready Node says otherwise, and pods may run there."""
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

    def of_node(self, old: Node | None, new: Node | None) -> Iterable[Key]:
        node = new or old
        assert node is not None, "a change has a before or an after"
        return () if new is not None and new.repeats(old) else (node.key,)

    def of_request(self, old: Typed[GPURequest] | None, new: Typed[GPURequest] | None) -> Iterable[Key]:
        """The Node of a machine that it does not own any more."""
        before, after = (_open_token(record) for record in (old, new))
        named = self._named.get(before) if before != after else None
        return [named] if named is not None else []

    def _owned(self, token: Token) -> bool:
        owner = owners(self._requests.having(BY_UID, token.uid)).get(token.uid)
        return owner is not None and (owner.everything or owner.token == str(token))

    def _gone(self, provider: str, token: Token, since: float, *, alive: bool) -> bool:
        """Not listed, in complete lists of every till where it may be, for longer than it could be hidden.

        Of a Node that is alive more is asked: that there is a till at all, and of the account it was rented in. And an
        hour where its request lost its record: lists that deny a machine which serves look the same.
        """
        if any(machine.token == str(token) for _, machine in self._rosters.of_request(token.uid)):
            return False
        if str(token) in self._over:  # that was proved before, and no machine is ever ordered under its token again
            return True
        tills, wait = self._tills(provider), GONE_AFTER
        if alive:
            wait = BELIEVED_AFTER.total_seconds() if self._is_wiped(token) else GONE_AFTER
            attempt = self._attempt(token)
            account = self._accounts.of(attempt) if attempt is not None else None
            tills |= {account.till.name} if account is not None else set()
            if not tills or (account is not None and self._is_another(account)):
                return False
        return all(self._rosters.listed_since(name, since + wait) for name in tills)

    def _is_wiped(self, token: Token) -> bool:
        """Is its request there, and nothing on record that it bought? It adopts the machine again if that is shown."""
        return any(not attempts_of(record) for record in self._requests.having(BY_UID, token.uid))

    def _attempt(self, token: Token) -> Attempt | None:
        """None: nobody knows more of it. Then it is nobody's, and would be given back if it were listed."""
        rows = (row for record in self._requests.having(BY_UID, token.uid) for row in attempts_of(record))
        return next((row for row in rows if row.token == str(token)), None)

    def _is_another(self, account: CloudAccount) -> bool:
        """Is another account listed there now than it was rented in? Then nothing follows from the lists."""
        return not account.includes(self._rosters.account(account.till.name))

    def _tills(self, provider: str) -> set[str]:
        """Where a machine may be: as classes have them, and of every account that holds one or may."""
        known = (account for account in self._accounts.known() if account.empty_since is None)
        remembered = {account.till.name for account in known if account.provider == provider}
        return remembered | {
            till.name
            for record in self._classes.values()
            if record.object is not None
            for source in sources_of(record.object).values()
            if source.provider == provider
            for till in tills_of(source)
        }

    def _later(self) -> datetime:
        return self._clock.now() + LOOK_AGAIN


def _open_token(record: Typed[GPURequest] | None) -> str:
    attempt = open_attempt(attempts_of(record)) if record is not None else None
    return attempt.token if attempt is not None else ""
