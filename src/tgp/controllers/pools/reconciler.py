"""Reconciles GPUNodePools: does their class exist and allow them, and could any machine satisfy them?"""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

from tgp.api.nodeclass import GPUNodeClass
from tgp.api.nodepool import GPUNodePool
from tgp.controllers.status_writer import StatusWriter
from tgp.core.classes.semantic_validation import names_time_zone
from tgp.core.model.conditions import condition_in
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.workload import Namespace
from tgp.core.pools.nodepool import PoolObservation, judge_pool
from tgp.ports.cluster import View

BY_CLASS = "class"  # the index of pools by the class they name


def by_class(record: KubeObject[GPUNodePool]) -> tuple[str, ...]:
    return (record.value.spec.node_class_ref.name,) if record.value is not None else ()


class NodePoolReconciler:
    def __init__(
        self,
        pools: View[KubeObject[GPUNodePool]],
        classes: View[KubeObject[GPUNodeClass]],
        namespaces: View[Namespace],
        status_writer: StatusWriter,
        *,
        allowed_namespaces_required: bool,
        observing: bool,
        time_zones: Callable[[], frozenset[str]],
    ) -> None:
        self._pools = pools
        self._classes = classes
        self._namespaces = namespaces
        self._status_writer = status_writer
        self._allowed_namespaces_required = allowed_namespaces_required
        self._observing = observing
        self._time_zones = time_zones

    async def reconcile(self, key: ObjectKey) -> datetime | None:
        record = self._pools.get(key)
        if record is None or record.deleting or record.value is None:
            return None  # unreadable: written by a newer version, perhaps. Skipped; the store has reported it already.
        await self._status_writer.write(record, judge_pool(self._observation(record.key, record.value)))
        return None

    def _observation(self, key: ObjectKey, pool: GPUNodePool) -> PoolObservation:
        node_class = self._classes.get(ObjectKey("", pool.spec.node_class_ref.name))
        namespace = self._namespaces.get(ObjectKey("", key.namespace))
        return PoolObservation(
            pool=pool,
            node_class=None if node_class is None else node_class.value,
            class_unreadable=node_class is not None and node_class.value is None,
            class_ready=None if node_class is None else condition_in(node_class.status, "Ready"),
            namespace_labels=None if namespace is None else namespace.labels,
            allowed_namespaces_required=self._allowed_namespaces_required,
            observing=self._observing,
            time_zones=self._time_zones() if names_time_zone(pool) else frozenset(),
        )

    def of_class(self, old: KubeObject[Any] | None, new: KubeObject[Any] | None) -> Iterable[ObjectKey]:
        """Pools that a change of this class concerns."""
        changed = new or old
        assert changed is not None, "a change has a before or an after"
        return [record.key for record in self._pools.by_index(BY_CLASS, changed.key.name)]

    def of_namespace(self, old: Namespace | None, new: Namespace | None) -> Iterable[ObjectKey]:
        """Pools that a change of this Namespace's labels concerns."""
        changed = new or old
        assert changed is not None, "a change has a before or an after"
        if old is not None and new is not None and old.labels == new.labels:
            return []
        return [record.key for record in self._pools.by_index("namespace", changed.key.name)]
