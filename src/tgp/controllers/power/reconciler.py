"""Writes requests for machines you own that are on without one, and for those that are to be kept on."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any

from tgp.api.nodeclass import GPUNodeClass
from tgp.api.request import GPURequest
from tgp.controllers.pools.indexes import BY_CLASS
from tgp.controllers.pools.memory import PoolMemory
from tgp.controllers.pools.observe import WorldObserver
from tgp.controllers.pools.planner import PoolPlanner
from tgp.controllers.power.node_groups import KEY, NodeGroupReconciler
from tgp.controllers.requests.indexes import PODS_BY_NODE
from tgp.controllers.requests.purchase_gatherer import Views
from tgp.core.market.sources import machines_of
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.node import Node
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.offer import BootMode
from tgp.core.pools.capacity import living
from tgp.core.pools.planner.world import PlanInput, PlannedPool
from tgp.core.power.orders import (
    OwnedMachine,
    PowerObservation,
    look_again_at,
    machine_named_by,
    may_be_wanted,
    next_orders,
)
from tgp.ports.clock import Clock


class PowerReconciler:
    """A reconciler whose keys are pools."""

    def __init__(
        self,
        views: Views,
        *,
        observer: WorldObserver,
        planner: PoolPlanner,
        memory: PoolMemory,
        node_groups: NodeGroupReconciler,
        clock: Clock,
    ) -> None:
        self._views = views
        self._observer = observer
        self._planner = planner
        self._memory = memory
        self._node_groups = node_groups
        self._clock = clock

    # -- what wakes it -------------------------------------------------------------------------------------------------

    def of_class(
        self, old: KubeObject[GPUNodeClass] | None, new: KubeObject[GPUNodeClass] | None
    ) -> Iterable[ObjectKey]:
        changed = new or old
        assert changed is not None, "a change has a before or an after"
        return [record.key for record in self._views.pools.by_index(BY_CLASS, changed.key.name)]

    def of_node(self, old: Node | None, new: Node | None) -> Iterable[ObjectKey]:
        node = new or old
        assert node is not None, "a change has a before or an after"
        return () if new is not None and new.repeats(old) else self._naming(node.name)

    def of_request(self, old: KubeObject[GPURequest] | None, new: KubeObject[GPURequest] | None) -> Iterable[ObjectKey]:
        """That of an owned machine is over, or there is one now."""
        before, after = (machine_named_by(each) if each is not None and living(each) else "" for each in (old, new))
        names = sorted({before, after} - {""}) if before != after else ()
        return [key for name in names for key in self._naming(name)]

    def of_others(self, _old: object, _new: object) -> Iterable[ObjectKey]:
        return [key for key, names in self._by_pool() if names]

    def _naming(self, machine: str) -> list[ObjectKey]:
        return [key for key, names in self._by_pool() if machine in names]

    def _by_pool(self) -> Iterator[tuple[ObjectKey, frozenset[str]]]:
        for pool in self._views.pools.values():
            node_class = self._class_of(pool)
            yield pool.key, frozenset(machines_of(node_class)) if node_class is not None else frozenset()

    def _class_of(self, pool: KubeObject[Any]) -> GPUNodeClass | None:
        if pool.value is None or pool.deleting:
            return None
        found = self._views.classes.get(ObjectKey("", pool.value.spec.node_class_ref.name))
        return found.value if found is not None and not found.deleting else None

    # -- one reconcile -------------------------------------------------------------------------------------------------

    async def reconcile(self, key: ObjectKey) -> datetime | None:
        pool, now = self._views.pools.get(key), self._clock.now()
        node_class = self._class_of(pool) if pool is not None else None
        if pool is None or pool.value is None or node_class is None:
            return None
        if key == self._node_groups.left_pool:
            await self._node_groups.reconcile(KEY)
        seen = PowerObservation(key, pool.value, now, tuple(self._machines(node_class)))
        if any(may_be_wanted(each, now) for each in seen.machines):
            world = self._observer.observe(now)
            planned = next((each for each in world.world.pools if each.key == key and not each.stopped), None)
            if planned is None:
                return look_again_at(seen)
            seen = replace(seen, machines=tuple(self._offered(each, planned, world.world) for each in seen.machines))
            for order in next_orders(seen):
                await self._planner.create(order, world, now)
        return look_again_at(seen)

    def _machines(self, node_class: GPUNodeClass) -> Iterator[OwnedMachine]:
        requested = self._requested()
        for name, machine in machines_of(node_class).items():
            pods = tuple(self._views.pods.by_index(PODS_BY_NODE, name))
            yield OwnedMachine(
                machine, self._views.nodes.get(ObjectKey("", name)), pods=pods, requested=name in requested
            )

    def _requested(self) -> frozenset[str]:
        """Machines that a request names, also one that is not seen yet."""
        expected = (each.record for each in self._memory.expected.values())
        records = (*self._views.requests.values(), *expected)
        return frozenset(name for each in records if living(each) and (name := machine_named_by(each)))

    def _offered(self, owned: OwnedMachine, pool: PlannedPool, world: PlanInput) -> OwnedMachine:
        """With what was listed of it, and what speaks against its use."""
        name = owned.machine.name
        for source, about in pool.sources.items():
            for offer in world.book.of(source):
                if offer.boot is BootMode.POWER and offer.sku == name:
                    cooldown = world.cooldowns.against(offer, source, world.now)
                    return replace(
                        owned,
                        offer=offer,
                        source=source,
                        problem=about.missing_setting
                        or about.key_problem
                        or about.machine_problem(name, takes_over=owned.on),
                        cools_down_until=cooldown.until if cooldown is not None else None,
                    )
        return owned
