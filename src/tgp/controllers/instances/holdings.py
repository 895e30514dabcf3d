"""Keeps the annotation `tgp.io/holdings` on the operator's Namespace: how many machines there are and what they cost.

Only the leader writes it, and only where it differs. It appears with the reservation, before the order is sent. It is
copied to the classes, as is `tgp.io/abandon`, the way past it: the policy of cluster roles and kinds sees only these.
While there is no class, it keeps one for that policy, which no other controller sees.
Beside it is said whether classes without allowedNamespaces serve no namespace, for commands in a terminal.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import datetime, timedelta

from tgp.api.nodeclass import GPUNodeClass
from tgp.api.request import GPURequest
from tgp.api.resource import GPU_NODE_CLASS, NAMESPACE, Resource
from tgp.core.classes.nodeclass import ALLOWED_REQUIRED, allowed_namespaces_required
from tgp.core.inventory.holdings import HOLDINGS, STAND_IN, class_changes, held_by, holdings, stand_in, told
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.workload import Metadata, Namespace
from tgp.ports.clock import Clock
from tgp.ports.cluster import AlreadyExists, Cluster, NotFound, View

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
        allowed_namespaces_required: bool,
    ) -> None:
        self._required = allowed_namespaces_required
        self._namespaces = namespaces
        self._classes = classes
        self._requests = requests
        self._cluster = cluster
        self._clock = clock
        self._home = home
        self._without_request = without_request
        self._began: datetime | None = None  # None: this process has not counted yet
        self._counted_at: datetime | None = None
        self._words = ""  # as counted then
        self._stand_in: KubeObject[GPUNodeClass] | None = None  # as written last
        self._looked = False  # for the above in the cluster

    async def reconcile(self, key: ObjectKey) -> datetime | None:  # noqa: ARG002 - there is only one
        home, now = self._namespaces.get(self._home), self._clock.now()
        if home is None:
            return None
        if allowed_namespaces_required(home.annotations) != self._required:
            await self._annotate(NAMESPACE, self._home, {ALLOWED_REQUIRED: "true" if self._required else None})
        before = told(home.annotations)
        if before and self._counted_at is not None and now < self._counted_at + SPACING:
            await self._copy(home)  # a new class, and tgp.io/abandon, do not wait
            return self._counted_at + SPACING
        self._counted_at, self._began = now, self._began or now
        words = holdings(self._requests.values(), self._without_request())
        early = not words and now < self._began + LISTED_WITHIN
        self._words = before if early else words
        if self._words != before:
            self._looked = self._looked and len(self._classes) > 0  # a person may have deleted the stand-in
            await self._annotate(NAMESPACE, self._home, {HOLDINGS: words or None})
        await self._copy(home)
        return self._began + LISTED_WITHIN if early and before else None

    async def _copy(self, home: Namespace) -> None:
        if not self._looked:
            self._stand_in, self._looked = await self._read_stand_in(), True
        if self._stand_in is None and self._words and not len(self._classes):
            with suppress(AlreadyExists):
                await self._cluster.create(GPU_NODE_CLASS, stand_in(self._words))
            self._stand_in = await self._read_stand_in()
        kept = () if self._stand_in is None else (self._stand_in,)
        for record, changes in class_changes(home.annotations, (*self._classes.values(), *kept), self._words):
            await self._annotate(GPU_NODE_CLASS, record.key, changes)
            self._looked = self._looked and record is not self._stand_in

    async def _read_stand_in(self) -> KubeObject[GPUNodeClass] | None:
        key = ObjectKey("", STAND_IN)
        try:
            found = await self._cluster.read(GPU_NODE_CLASS, key)
        except NotFound:
            return None
        return KubeObject(key=key, annotations=found["metadata"].get("annotations") or {})

    async def _annotate(self, resource: Resource, key: ObjectKey, changes: Mapping[str, str | None]) -> None:
        with suppress(NotFound):  # it was deleted meanwhile
            await self._cluster.patch(resource, key, {"metadata": {"annotations": changes}})

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
        same = old is not None and new is not None and old.annotations == new.annotations
        return () if same else (self._home,)

    def of_account(self, old: Metadata | None, new: Metadata | None) -> Iterable[ObjectKey]:  # noqa: ARG002 - any
        return (self._home,)
