"""Gathers what a decision about the machines of one pool may use, and plans where the pods of candidates would go."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from tgp.api.nodeclass import GPUNodeClass
from tgp.api.nodepool import GPUNodePool
from tgp.api.request import GPURequest
from tgp.controllers.pools.memory import PoolMemory
from tgp.controllers.pools.observe import PlanObservation, WorldObserver
from tgp.controllers.requests.indexes import BY_NODE, BY_POOL_UID, PODS_BY_NODE
from tgp.controllers.requests.purchase_gatherer import Views
from tgp.core.disruption.causes import Machine
from tgp.core.disruption.drift import stamp_of
from tgp.core.disruption.moves import DisruptionObservation, move_of, pods_to_move, to_plan
from tgp.core.market.sources import machines_of
from tgp.core.model.attempts import attempts_of, open_attempt
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.offer import BootMode
from tgp.core.model.pod import Pod
from tgp.core.pools.capacity import ENDED
from tgp.core.pools.orders import MOVE, REPLACES
from tgp.core.power.times import stays_on_until
from tgp.core.requests.drain import DISRUPTED
from tgp.ports.compute import Compute


@dataclass(frozen=True, slots=True)
class PlannedLook:
    """One look at a pool, and the world that its candidates were planned in; None: none had to be."""

    seen: DisruptionObservation
    world: PlanObservation | None = None


class DisruptionObserver:
    def __init__(
        self, views: Views, default_backend: str, *, memory: PoolMemory, observer: WorldObserver, compute: Compute
    ) -> None:
        self._views = views
        self._default_backend = default_backend  # the operator's own mesh
        self._memory = memory
        self._observer = observer
        self._compute = compute

    async def look(self, pool: KubeObject[GPUNodePool], now: datetime) -> PlannedLook:
        seen = self._observe(pool, now)
        keys = to_plan(seen)
        if not keys:
            return PlannedLook(seen)
        world = self._observer.observe(now, unreserved=frozenset(keys))
        planned = next((each for each in world.world.pools if each.key == pool.key), None)
        seen = replace(seen, stopped=planned.stopped if planned is not None else "")
        placed, leaving = dict(self._memory.placed), tuple(self._leaving(frozenset(keys)))
        from tgp.core.disruption.refits import refits  # with the first move: it imports the planner and its solver

        found = await self._compute.run(lambda: refits(seen, keys, world.world, placed, leaving))
        return PlannedLook(replace(seen, refits=found), world)

    def _observe(self, pool: KubeObject[GPUNodePool], now: datetime) -> DisruptionObservation:
        assert pool.value is not None, "a pool that cannot be read decides nothing"
        awaited = frozenset(self._memory.placed.values())
        records = sorted(self._views.requests.by_index(BY_POOL_UID, pool.uid_text), key=lambda each: each.key)
        machines, replacements = [], dict[str, list[Machine]]()
        for record in records:
            machine = self._machine(record, pool.value, awaited, now)
            if record.value is None or record.value.status.phase not in ENDED:
                machines.append(machine)
            if REPLACES in record.annotations:
                replacements.setdefault(record.annotations.get(MOVE, ""), []).append(machine)
        return DisruptionObservation(
            pool,
            now,
            tuple(machines),
            {move: tuple(found) for move, found in replacements.items()},
            tuple(sorted(self._views.budgets.values(), key=lambda each: each.key)),
        )

    def _machine(
        self, record: KubeObject[GPURequest], pool: GPUNodePool, awaited: frozenset[str], now: datetime
    ) -> Machine:
        name = (record.value.status.node_name or "") if record.value is not None else ""
        offer = self._observer.offer_for(record)
        shape = self._memory.types.shapes.get(offer.key) if offer is not None else None
        return Machine(
            record,
            self._views.nodes.get(ObjectKey("", name)) if name else None,
            tuple(sorted(self._views.pods.by_index(PODS_BY_NODE, name), key=lambda pod: pod.key)) if name else (),
            awaited=name in awaited,
            given_up=self._memory.given_up.get(record.key, ""),
            keeps_place=self._keeps_place(record),
            stamp=self._stamp(pool, offer.provider) if offer is not None else "",
            boot=timedelta(seconds=shape.boot_seconds if shape is not None else 0),
            stays_until=self._stays_until(record, pool, now),
        )

    def _stays_until(self, record: KubeObject[GPURequest], pool: GPUNodePool, now: datetime) -> datetime | None:
        """Of a machine you own, by its own settings; None: of any other."""
        attempt, node_class = open_attempt(attempts_of(record)), self._class_of(pool)
        owned = attempt is not None and attempt.offer is not None and attempt.offer.boot_mode == BootMode.POWER.value
        if attempt is None or attempt.offer is None or not owned or node_class is None:
            return None
        machine = machines_of(node_class).get(attempt.offer.instance_type or "")
        return stays_on_until(machine, attempt.launched_at, now) if machine is not None else None

    def _class_of(self, pool: GPUNodePool) -> GPUNodeClass | None:
        node_class = self._views.classes.get(ObjectKey("", pool.spec.node_class_ref.name))
        return node_class.value if node_class is not None and not node_class.deleting else None

    def _stamp(self, pool: GPUNodePool, provider: str) -> str:
        node_class = self._class_of(pool)
        return "" if node_class is None else stamp_of(pool, node_class, provider, self._default_backend)

    def _keeps_place(self, record: KubeObject[GPURequest]) -> bool:
        replaced = record.annotations.get(REPLACES, "")
        found = self._views.requests.get(ObjectKey(record.key.namespace, replaced)) if replaced else None
        return found is not None and move_of(found) == record.annotations.get(MOVE)

    def _leaving(self, keys: frozenset[ObjectKey]) -> Iterator[Pod]:
        """Pods of other machines, of any pool, that are evicted or will be next."""
        for node in sorted(self._views.nodes.values(), key=lambda each: each.name):
            found = [each for each in self._views.requests.by_index(BY_NODE, node.name) if each.key not in keys]
            if any(each.deleting for each in found) or (found and DISRUPTED in node.taints):
                yield from pods_to_move(self._views.pods.by_index(PODS_BY_NODE, node.name))
