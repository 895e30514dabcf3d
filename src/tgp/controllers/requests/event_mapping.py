"""Which requests to reconcile when an object changes: those it concerns, and no others.

A request that a user wrote and that waits is woken by every change in the market. Those of a pool may be a thousand,
and their pool deletes them soon: they are woken by their own changes, by their class's spec or readiness, by their
pool, by their class's sources, and when purchases are paused or go on. Beyond that they are looked at every two
minutes.
"""

from collections.abc import Iterable

from tgp.api.nodeclass import GPUNodeClass
from tgp.api.nodepool import GPUNodePool
from tgp.api.request import GPURequest
from tgp.controllers.instances.accounts import AccountTable
from tgp.controllers.instances.cache import InstanceCache
from tgp.controllers.requests.indexes import (
    BY_ACCOUNT,
    BY_NODE,
    BY_NODE_CLASS,
    BY_POOL,
    WAITING,
    WAITING_OF_POOL,
    YES,
    by_account,
    waits,
)
from tgp.core.inventory.limits import reservation_of
from tgp.core.market.sources import sources_of
from tgp.core.model.attempts import LAUNCHED, attempts_of, open_attempt
from tgp.core.model.hold import hold_of
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.node import Node
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.pod import Pod
from tgp.core.model.token import plain_uid
from tgp.core.model.workload import Metadata
from tgp.ports.cluster import View


class RequestEventMapping:
    def __init__(
        self,
        requests: View[KubeObject[GPURequest]],
        classes: View[KubeObject[GPUNodeClass]],
        instance_cache: InstanceCache,
        accounts: AccountTable,
    ) -> None:
        self._requests = requests
        self._classes = classes
        self._instance_cache = instance_cache
        self._accounts = accounts

    def of_node(self, old: Node | None, new: Node | None) -> Iterable[ObjectKey]:
        node = new or old
        assert node is not None, "a change has a before or an after"
        if new is not None and new.repeats(old):
            return ()
        return [record.key for record in self._requests.by_index(BY_NODE, node.name)]

    def of_pod(self, old: Pod | None, new: Pod | None) -> Iterable[ObjectKey]:
        names = {pod.node for pod in (old, new) if pod is not None and pod.node}
        return [record.key for name in sorted(names) for record in self._requests.by_index(BY_NODE, name)]

    def of_class(
        self, old: KubeObject[GPUNodeClass] | None, new: KubeObject[GPUNodeClass] | None
    ) -> Iterable[ObjectKey]:
        """Its own requests, and those that wait without a class.

        The counters in its status change with every machine: running machines need no reconcile for that.
        """
        changed = new or old
        assert changed is not None, "a change has a before or an after"
        if old is not None and new is not None and _means(old) == _means(new):
            return self._waiting()
        own = {record.key for record in self._requests.by_index(BY_NODE_CLASS, changed.key.name)}
        return sorted(own | set(self._waiting()))

    def of_pool(self, old: KubeObject[GPUNodePool] | None, new: KubeObject[GPUNodePool] | None) -> Iterable[ObjectKey]:
        """Its requests, when it comes, goes or changes its Nodes' labels; those that wait, when its limits change."""
        changed = new or old
        assert changed is not None, "a change has a before or an after"
        there, was = (
            (each.uid, each.value.spec.template.metadata if each.value else "unreadable", each.deleting)
            if each
            else None
            for each in (new, old)
        )
        own = self._requests.by_index(BY_POOL, str(changed.key))
        if there != was:
            return [record.key for record in own]
        before, after = (each.value.spec.limits if each is not None and each.value else None for each in (old, new))
        return [record.key for record in own if waits(record)] if before != after else ()

    def of_access(self, old: Metadata | None, new: Metadata | None) -> Iterable[ObjectKey]:
        """Requests whose machine changed there, and those that wait for a reachable provider."""
        changed = new or old
        assert changed is not None, "a change has a before or an after"
        news = self._instance_cache.news(changed.key.name)
        there = {
            record.key
            for record in self._accounts.requests_at(changed.key.name)
            if news is None or plain_uid(record.uid_text) in news
        }
        return sorted(there | set(self._waiting()))

    def of_account(self, old: Metadata | None, new: Metadata | None) -> Iterable[ObjectKey]:
        """Requests that name it: it was recorded or forgotten."""
        changed = new or old
        assert changed is not None, "a change has a before or an after"
        return [record.key for record in self._requests.by_index(BY_ACCOUNT, changed.key.name)]

    def of_source(self, old: Metadata | None, new: Metadata | None) -> Iterable[ObjectKey]:
        """Requests that wait for its offers."""
        changed = new or old
        assert changed is not None, "a change has a before or an after"
        selling = [
            record.key.name
            for record in self._classes.values()
            if record.value is not None
            and any(source.name == changed.key.name for source in sources_of(record.value).values())
        ]
        of_pools = (record.key for name in selling for record in self._requests.by_index(WAITING_OF_POOL, name))
        return [*self._waiting(), *of_pools]

    def of_namespace(self, old: Metadata | None, new: Metadata | None) -> Iterable[ObjectKey]:
        """Requests that wait; of pools only when purchases are paused or go on."""
        before, after = (hold_of(each.annotations) if each is not None else None for each in (old, new))
        if before == after:
            return self._waiting()
        classes = [record.key.name for record in self._classes.values()]
        of_pools = (record.key for name in classes for record in self._requests.by_index(WAITING_OF_POOL, name))
        return [*self._waiting(), *of_pools]

    def waiting_requests(self, _old: object, _new: object) -> Iterable[ObjectKey]:
        return self._waiting()

    def after_a_release(
        self, old: KubeObject[GPURequest] | None, new: KubeObject[GPURequest] | None
    ) -> Iterable[ObjectKey]:
        """A terminated machine frees a part of its class's limits, and so does one billed below the reserved price."""
        had, has = (record is not None and bool(by_account(record)) for record in (old, new))
        return self._waiting() if (had and not has) or _held(old) > _held(new) else ()

    def goes_first(self, key: ObjectKey) -> bool:
        """In a burst orders and terminations come before machines that are on their way, or run."""
        record = self._requests.get(key)
        attempt = open_attempt(attempts_of(record)) if record is not None else None
        if record is None or record.value is None or attempt is None or attempt.outcome != LAUNCHED:
            return True
        return record.deleting or record.value.status.phase == "Terminating"

    def _waiting(self) -> list[ObjectKey]:
        return [record.key for record in self._requests.by_index(WAITING, YES)]


def _held(record: KubeObject[GPURequest] | None) -> int:
    """Micro-dollars an hour that it uses of its class's limit."""
    attempt = open_attempt(attempts_of(record)) if record is not None else None
    return reservation_of("", attempt).microusd if attempt is not None else 0


def _means(record: KubeObject[GPUNodeClass]) -> tuple[object, ...]:
    """The parts of a class that requests use: of its status only whether it is ready."""
    if record.value is None:
        return (record.uid, record.unreadable)
    ready = next((each for each in record.value.status.conditions if each.type == "Ready"), None)
    return record.uid, record.value.spec, ready, record.deleting, record.generation, record.labels, record.annotations
