"""Keeps the annotation `tgp.io/holdings` on the operator's Namespace: how many machines there are and what they cost.

Only the leader writes it, and only where it differs. It appears with the reservation, before the order is sent. The way
past it, `tgp.io/abandon`, is copied to the classes: the policy of cluster roles and kinds sees only them.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta

from tgp.api.nodeclass import GPUNodeClass
from tgp.api.request import GPURequest
from tgp.api.resource import GPU_NODE_CLASS, NAMESPACE, Resource
from tgp.core.inventory.holdings import ABANDON, HOLDINGS, abandoned, held_by, holdings, told
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.workload import Metadata, Namespace
from tgp.ports.clock import Clock
from tgp.ports.cluster import Cluster, NotFound, View

SPACING = timedelta(seconds=1)  # between two counts; that the first machine is there is written at once
LISTED_WITHIN = timedelta(minutes=2)  # only lists show machines without a request: a new process removes nothing before


class HoldingsWriter:
    """A reconciler of one key: the operator's Namespace."""

    def __init__(
        self,
        namespaces: View[Namespace],
        classes: View[KubeObject[GPUNodeClass]],
        requests: View[KubeObject[GPURequest]],
        cluster: Cluster,
        clock: Clock,
        *,
        home: ObjectKey,
        without_request: Callable[[], Mapping[str, int | None]],
    ) -> None:
        self._namespaces = namespaces
        self._classes = classes
        self._requests = requests
        self._cluster = cluster
        self._clock = clock
        self._home = home
        self._without_request = without_request
        self._began: datetime | None = None  # None: this process has not counted yet
        self._counted_at: datetime | None = None

    async def reconcile(self, key: ObjectKey) -> datetime | None:  # noqa: ARG002 - there is only one
        home, now = self._namespaces.get(self._home), self._clock.now()
        if home is None:
            return None
        for record, change in abandoned(home.annotations, self._classes.values()):
            await self._annotate(GPU_NODE_CLASS, record.key, ABANDON, change)
        before = told(home.annotations)
        if before and self._counted_at is not None and now < self._counted_at + SPACING:
            return self._counted_at + SPACING
        self._counted_at, self._began = now, self._began or now
        words = holdings(self._requests.values(), self._without_request())
        if words == before:
            return None
        if not words and now < self._began + LISTED_WITHIN:
            return self._began + LISTED_WITHIN
        await self._annotate(NAMESPACE, self._home, HOLDINGS, words or None)
        return None

    async def _annotate(self, resource: Resource, key: ObjectKey, name: str, value: str | None) -> None:
        with suppress(NotFound):  # it was deleted meanwhile
            await self._cluster.patch(resource, key, {"metadata": {"annotations": {name: value}}})

    def of_request(self, old: KubeObject[GPURequest] | None, new: KubeObject[GPURequest] | None) -> Iterable[ObjectKey]:
        return () if held_by(old) == held_by(new) else (self._home,)

    def of_namespace(self, old: Namespace | None, new: Namespace | None) -> Iterable[ObjectKey]:
        """Ours, where an annotation is not what it was: another client may have changed it."""
        if new is None or new.key != self._home:
            return ()
        return () if old is not None and old.annotations == new.annotations else (self._home,)

    def of_class(
        self, old: KubeObject[GPUNodeClass] | None, new: KubeObject[GPUNodeClass] | None
    ) -> Iterable[ObjectKey]:
        if new is None:
            return ()
        return () if old is not None and old.annotations == new.annotations else (self._home,)

    def of_account(self, old: Metadata | None, new: Metadata | None) -> Iterable[ObjectKey]:  # noqa: ARG002 - any
        return (self._home,)
