"""Keeps the class and the pool `power-nodes` in step with the operator's environment and settings file.

Server-side apply, without force: a field that a person has changed stays the person's. Both objects are left alone once
the annotation is removed. Where no machine is configured any more they stay, and nothing is switched: a request may
have a machine on, with pods.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from tgp.api.resource import GPU_NODE_CLASS, GPU_NODE_POOL, Resource
from tgp.controllers.requests.purchase_gatherer import Views
from tgp.core.model.facts import ConditionChanged, FactSubject
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.object_key import ObjectKey
from tgp.core.power.node_groups import KEPT_IN_STEP, POWER_NODES, NodeGroup, manifests_of, of_class
from tgp.ports.clock import Clock
from tgp.ports.cluster import Cluster, Conflict, Forbidden, NotFound, Refused
from tgp.ports.journal import Journal

KEY = ObjectKey("", POWER_NODES)
REMOVED = (
    "the operator has none any more, so it powers no machine of them on or off. Configure them again, or delete "
    f"GPUNodePool and GPUNodeClass {POWER_NODES}: that powers off the machines that are on"
)
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
        self._groups = groups
        self._namespace = namespace
        self._pool_key = ObjectKey(namespace, POWER_NODES)
        self.left_pool = None if groups else self._pool_key  # the pool of groups that are configured no longer
        self._cluster = cluster
        self._journal = journal
        self._clock = clock
        self._left_as: tuple[int, ...] = ()  # generations of class and pool when they were last written without groups
        self._told: dict[str, str] = {}  # by kind: why it is not in step, as it was said last

    def of_object(self, old: KubeObject[Any] | None, new: KubeObject[Any] | None) -> Iterable[ObjectKey]:
        changed = new or old
        assert changed is not None, "a change has a before or an after"
        same = old is not None and new is not None and old.generation == new.generation
        return () if same or changed.key not in (KEY, self._pool_key) else (KEY,)

    async def reconcile(self, key: ObjectKey) -> datetime | None:  # noqa: ARG002 - there is only one
        held_class, held_pool = self._views.classes.get(KEY), self._views.pools.get(self._pool_key)
        groups = self._groups
        if not groups and held_class is not None and held_class.value is not None and _in_step(held_class):
            groups = of_class(held_class.value)
        kept = tuple(each.generation if each is not None else 0 for each in (held_class, held_pool))
        if not groups or (not self._groups and kept == self._left_as):
            return None
        node_class, pool = manifests_of(groups, self._namespace, removed=not self._groups)
        first = await self._keep(GPU_NODE_CLASS, node_class, held_class)
        second = await self._keep(GPU_NODE_POOL, pool, held_pool)
        self._left_as = kept
        if not self._groups and first and second:
            self._tell(GPU_NODE_CLASS, held_class, "NodeGroupsRemoved", REMOVED)
        return None if first and second else self._clock.now() + LOOK_AGAIN

    async def _keep(self, resource: Resource, manifest: dict[str, Any], held: KubeObject[Any] | None) -> bool:
        """Whether there is nothing to try again."""
        if held is None and not self._groups:
            return True  # a person deleted it
        if held is not None and not _in_step(held):
            self._tell(
                resource, held, "TakenOver", f"the operator changes only objects with the annotation {KEPT_IN_STEP}"
            )
            return True
        try:
            await self._cluster.apply(resource, manifest)
        except Conflict as error:
            self._tell(resource, held, "TakenOver", f"the operator changes no field that another manager owns: {error}")
            return True
        except (Refused, Forbidden, NotFound) as error:
            self._tell(resource, held, "NotWritten", str(error))
            return False
        if self._groups:
            self._told.pop(resource.kind, None)
        return True

    def _tell(self, resource: Resource, held: KubeObject[Any] | None, reason: str, why: str) -> None:
        if self._told.get(resource.kind) == why:
            return
        self._told[resource.kind] = why
        key = held.key if held is not None else self._pool_key if resource.namespaced else KEY
        subject = FactSubject(resource, key, held.uid_text if held is not None else "")
        words = f"{resource.kind} {POWER_NODES} does not follow the operator's node groups: {why}"
        self._journal.note(ConditionChanged(subject, "InStep", "False", reason, words, reason == "TakenOver"))


def _in_step(held: KubeObject[Any]) -> bool:
    return held.annotations.get(KEPT_IN_STEP) == "true"
