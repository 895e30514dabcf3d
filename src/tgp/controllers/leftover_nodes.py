"""Nodes left over: a Node of a machine that no request owns goes once that machine is shown to be gone.

A request removes its own Node on its way out. This is for those it could not see to the end: its finalizer was taken
away by force, its status was wiped, or a kubelet registered after the machine was given up.
"""

from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import datetime, timedelta

from tgp.api.nodeclass import GPUNodeClass
from tgp.api.request import GPURequest
from tgp.api.resource import NODE
from tgp.controllers.request_index import BY_UID
from tgp.controllers.rosters import Rosters
from tgp.core.model.attempts import attempts_of, open_attempt
from tgp.core.model.key import Key
from tgp.core.model.node import Node
from tgp.core.model.record import uid_text
from tgp.core.model.till import tills_of
from tgp.core.model.token import Token
from tgp.core.model.typed import Typed
from tgp.core.rules.collector import owners
from tgp.core.rules.node_state import read_provider_id
from tgp.core.rules.sources import sources_of
from tgp.ports.clock import Clock
from tgp.ports.cluster import Cluster, NotFound, View

GONE_AFTER = 120.0  # seconds: longer than an order is late and a list lags
LOOK_AGAIN = timedelta(seconds=60)


class LeftoverNodes:
    def __init__(
        self,
        *,
        nodes: View[Node],
        requests: View[Typed[GPURequest]],  # indexed by uid
        classes: View[Typed[GPUNodeClass]],
        rosters: Rosters,
        cluster_id: Callable[[], str],  # empty: not known yet
        cluster: Cluster,
        clock: Clock,
    ) -> None:
        self._nodes = nodes
        self._requests = requests
        self._classes = classes
        self._rosters = rosters
        self._cluster_id = cluster_id
        self._cluster = cluster
        self._clock = clock
        self._since: dict[str, float] = {}  # by Node uid: Clock.boottime at which nobody owned it first
        self._named: dict[str, Key] = {}  # by token: the Node, whatever name its kubelet took

    async def reconcile(self, key: Key) -> datetime | None:
        node = self._nodes.get(key)
        marked = read_provider_id(node.provider_id) if node is not None else None
        if node is None or marked is None or node.deleting:
            return None
        provider, token = marked
        self._named[str(token)] = key
        cluster = self._cluster_id()
        if token.cluster != cluster:
            return None if cluster else self._later()
        uid = uid_text(node.uid)
        if self._owned(token):
            self._since.pop(uid, None)
            return None
        since = self._since.setdefault(uid, self._clock.boottime())
        if node.ready is True or not self._gone(provider, token, since):
            return self._later()
        with suppress(NotFound):  # somebody was quicker
            await self._cluster.delete(NODE, key, uid=uid)
        self._since.pop(uid, None)
        self._named.pop(str(token), None)
        return None

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

    def _gone(self, provider: str, token: Token, since: float) -> bool:
        """Not listed, in complete lists of every till where it may be, for longer than it could be hidden."""
        if any(machine.token == str(token) for _, machine in self._rosters.of_request(token.uid)):
            return False
        return all(self._rosters.listed_since(till, since + GONE_AFTER) for till in self._tills(provider))

    def _tills(self, provider: str) -> set[str]:
        return {
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
