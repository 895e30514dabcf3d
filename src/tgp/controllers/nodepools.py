"""Looks after GPUNodePools: is their class there and willing, and could any machine satisfy them?"""

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from tgp.api.nodeclass import GPUNodeClass
from tgp.api.nodepool import GPUNodePool
from tgp.controllers.verdicts import Scribe, condition_of
from tgp.core.model.key import Key
from tgp.core.model.typed import Typed
from tgp.core.model.workload import Namespace
from tgp.core.rules.nodepool import PoolSight, judge_pool
from tgp.ports.cluster import View

BY_CLASS = "class"  # the index of pools by the class they name


def by_class(record: Typed[GPUNodePool]) -> tuple[str, ...]:
    return (record.object.spec.node_class_ref.name,) if record.object is not None else ()


class NodePoolReconciler:
    def __init__(
        self,
        pools: View[Typed[GPUNodePool]],
        classes: View[Typed[GPUNodeClass]],
        namespaces: View[Namespace],
        scribe: Scribe,
        *,
        allowed_namespaces_required: bool,
        observing: bool,
        time_zones: frozenset[str],
    ) -> None:
        self._pools = pools
        self._classes = classes
        self._namespaces = namespaces
        self._scribe = scribe
        self._allowed_namespaces_required = allowed_namespaces_required
        self._observing = observing
        self._time_zones = time_zones

    async def reconcile(self, key: Key) -> datetime | None:
        record = self._pools.get(key)
        if record is None or record.deleting or record.object is None:
            return None  # unreadable: written by a newer version, perhaps. Left alone; its view has said so already.
        await self._scribe.write(record, judge_pool(self._sight(record.key, record.object)))
        return None

    def _sight(self, key: Key, pool: GPUNodePool) -> PoolSight:
        node_class = self._classes.get(Key("", pool.spec.node_class_ref.name))
        namespace = self._namespaces.get(Key("", key.namespace))
        return PoolSight(
            pool=pool,
            node_class=None if node_class is None else node_class.object,
            class_unreadable=node_class is not None and node_class.object is None,
            class_ready=None if node_class is None else condition_of(node_class, "Ready"),
            namespace_labels=None if namespace is None else namespace.labels,
            allowed_namespaces_required=self._allowed_namespaces_required,
            observing=self._observing,
            time_zones=self._time_zones,
        )

    def of_class(self, old: Typed[Any] | None, new: Typed[Any] | None) -> Iterable[Key]:
        """Pools that a change of this class concerns."""
        changed = new or old
        assert changed is not None, "a change has a before or an after"
        return [record.key for record in self._pools.having(BY_CLASS, changed.key.name)]

    def of_namespace(self, old: Namespace | None, new: Namespace | None) -> Iterable[Key]:
        """Pools that a change of this Namespace's labels concerns."""
        changed = new or old
        assert changed is not None, "a change has a before or an after"
        if old is not None and new is not None and old.labels == new.labels:
            return []
        return [record.key for record in self._pools.having("namespace", changed.key.name)]
