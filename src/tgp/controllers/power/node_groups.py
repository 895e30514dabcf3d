"""Keeps the class and the pool `power-nodes` in step with the operator's environment and settings file.

Server-side apply, without force: a field that a person has changed stays the person's. Both objects are left alone once
the annotation is removed.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from tgp.api.resource import GPU_NODE_CLASS, GPU_NODE_POOL, Resource
from tgp.controllers.requests.purchase_gatherer import Views
from tgp.core.model.facts import ConditionChanged, FactSubject
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.object_key import ObjectKey
from tgp.core.power.node_groups import KEPT_IN_STEP, POWER_NODES, NodeGroup, manifests_of
from tgp.ports.clock import Clock
from tgp.ports.cluster import Cluster, Conflict, Forbidden, NotFound, Refused
from tgp.ports.journal import Journal

KEY = ObjectKey("", POWER_NODES)
LOOK_AGAIN = timedelta(minutes=5)  # after a refusal: a namespace or a right may be missing


class NodeGroupReconciler:
    """A reconciler with one key."""

    def __init__(
        self,
        views: Views,
        groups: tuple[NodeGroup, ...],
        namespace: str,
        *,
        cluster: Cluster,
        journal: Journal,
        clock: Clock,
    ) -> None:
        self._views = views
        self._manifests = manifests_of(groups, namespace)
        self._pool_key = ObjectKey(namespace, POWER_NODES)
        self._cluster = cluster
        self._journal = journal
        self._clock = clock
        self._told: dict[str, str] = {}  # by kind: why it is not in step, as it was said last

    def of_object(self, old: KubeObject[Any] | None, new: KubeObject[Any] | None) -> Iterable[ObjectKey]:
        changed = new or old
        assert changed is not None, "a change has a before or an after"
        same = old is not None and new is not None and old.generation == new.generation
        return () if same or changed.key not in (KEY, self._pool_key) else (KEY,)

    async def reconcile(self, key: ObjectKey) -> datetime | None:  # noqa: ARG002 - there is only one
        node_class, pool = self._manifests
        first = await self._keep(GPU_NODE_CLASS, node_class, self._views.classes.get(KEY))
        second = await self._keep(GPU_NODE_POOL, pool, self._views.pools.get(self._pool_key))
        return None if first and second else self._clock.now() + LOOK_AGAIN

    async def _keep(self, resource: Resource, manifest: dict[str, Any], held: KubeObject[Any] | None) -> bool:
        """Whether there is nothing to try again."""
        if held is not None and held.annotations.get(KEPT_IN_STEP) != "true":
            self._tell(resource, held, "TakenOver", f"it has no annotation {KEPT_IN_STEP}: it is left alone")
            return True
        try:
            await self._cluster.apply(resource, manifest)
        except Conflict as error:
            self._tell(resource, held, "TakenOver", f"a field was changed by another manager, and stays so: {error}")
            return True
        except (Refused, Forbidden, NotFound) as error:
            self._tell(resource, held, "NotWritten", str(error))
            return False
        self._told.pop(resource.kind, None)
        return True

    def _tell(self, resource: Resource, held: KubeObject[Any] | None, reason: str, why: str) -> None:
        if self._told.get(resource.kind) == why:
            return
        self._told[resource.kind] = why
        key = held.key if held is not None else self._pool_key if resource.namespaced else KEY
        subject = FactSubject(resource, key, held.uid_text if held is not None else "")
        words = f"{resource.kind} {POWER_NODES} is not in step with the operator's node groups: {why}"
        self._journal.note(ConditionChanged(subject, "InStep", "False", reason, words, reason == "TakenOver"))
