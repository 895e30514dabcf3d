"""All of it together: whatever runs beside an API server so that pods come to run on machines.

Needs an event loop, virtual, scaled or real, and nothing else: the same parts serve a simulation and the embedded
world.
"""

import asyncio
from collections.abc import Iterable
from contextvars import Context
from random import Random

from tgp.core.model.object_key import ObjectKey
from tgp.sim.apiserver.core import Core
from tgp.sim.apiserver.json_value import Json
from tgp.sim.apiserver.registry import Served
from tgp.sim.cluster.bootstrap import Bootstraps
from tgp.sim.cluster.component_api import CORE_EVENT, key_of
from tgp.sim.cluster.controller import ClusterController, StoreCommit
from tgp.sim.cluster.daemonsets import DaemonSets
from tgp.sim.cluster.deployments import Deployments
from tgp.sim.cluster.disruption import DisruptionBudgets
from tgp.sim.cluster.garbage import GarbageCollector
from tgp.sim.cluster.jobs import Jobs
from tgp.sim.cluster.kubelet import Kubelets
from tgp.sim.cluster.machines import Hardware, Machines
from tgp.sim.cluster.namespaces import Namespaces
from tgp.sim.cluster.node_lifecycle import NodeLifecycle, PodCollector, TaintEviction
from tgp.sim.cluster.replicasets import ReplicaSets
from tgp.sim.cluster.scheduler import Scheduler
from tgp.sim.cluster.signer import Signer
from tgp.sim.cluster.statefulsets import StatefulSets
from tgp.sim.cluster.token_cleaner import TokenCleaner

LET_IN = 1.0  # seconds from a kubelet's certificate to its registration, at most
EVENTS_KEPT_FOR = 3600.0  # seconds, the API server's --event-ttl


class ControlPlane:
    def __init__(
        self, core: Core, luck: Random, loop: asyncio.AbstractEventLoop, *, jobs_run_for: float | None = None
    ) -> None:
        self.bootstraps = Bootstraps(core, loop)
        self.machines = Machines(core, loop, luck, self.bootstraps)
        self.kubelets = Kubelets(core, loop, self.machines, luck, jobs_run_for=jobs_run_for)
        self.machines.let_in = lambda machine: self._wake_after(LET_IN + machine.ready_after, machine)
        self.node_lifecycle = NodeLifecycle(core, loop, self.machines.is_up)
        self.scheduler = Scheduler(core, loop)
        self._core = core
        self._loop = loop
        self._controllers: tuple[ClusterController, ...] = (
            self.bootstraps,
            self.machines,
            Signer(core, loop),
            TokenCleaner(core, loop),
            Namespaces(core, loop),
            Deployments(core, loop),
            ReplicaSets(core, loop),
            StatefulSets(core, loop),
            DaemonSets(core, loop),
            Jobs(core, loop),
            self.scheduler,
            self.kubelets,
            self.node_lifecycle,
            TaintEviction(core, loop),
            PodCollector(core, loop),
            DisruptionBudgets(core, loop),
            GarbageCollector(core, loop),
            OldEvents(core, loop),
        )
        self._everything = [one for one in self._controllers if not one.watched]
        self._by_storage: dict[str, list[ClusterController]] = {}
        for one in self._controllers:
            for resource in one.watched:
                self._by_storage.setdefault(core.registry.of(resource).storage, []).append(one)
        self._catch_up()
        core.hooks.append(self._told)

    # Machines, as clouds and cellars have them.

    def power_on(self, machine: Hardware) -> None:
        """It boots, registers its Node, becomes ready, and runs what is bound to it."""
        self.machines.power_on(machine)
        self._wake_after(machine.registers_after + machine.ready_after, machine)

    def _wake_after(self, seconds: float, machine: Hardware) -> None:
        self._loop.call_later(seconds, self.kubelets.wake, machine.name, context=Context())

    def power_off(self, name: str) -> None:
        """It is gone with everything on it. Its Node stays until a client deletes it."""
        self.machines.power_off(name)
        self.kubelets.forget(name)
        self.node_lifecycle.fell_silent(name)

    def close(self) -> None:
        self._core.hooks.remove(self._told)
        for one in self._controllers:
            one.close()

    def _told(self, served: Served, before: Json | None, after: Json | None) -> None:
        commit = StoreCommit(served, before, after)
        for one in self._by_storage.get(served.storage, ()):
            one.notify(commit)
        for one in self._everything:
            one.notify(commit)

    def _catch_up(self) -> None:
        """What was there before us is news to us."""
        seen: set[str] = set()
        for served in self._core.registry:
            if served.storage not in seen:
                seen.add(served.storage)
                for record in list(self._core.store.kind_storage(served.storage).records.values()):
                    self._told(served, None, record.obj)


class OldEvents(ClusterController):
    """Events are for reading now: they go after an hour, as the real server's lease on them runs out."""

    name = "event-ttl"
    watched = (CORE_EVENT,)

    def concerns(self, commit: StoreCommit) -> Iterable[ObjectKey]:
        if commit.after is not None:
            self.look_at(key_of(commit.after), EVENTS_KEPT_FOR)
        return ()

    def reconcile(self, key: ObjectKey) -> float | None:
        event = self.api.get(CORE_EVENT, *key)
        if event is not None:
            self.api.delete(CORE_EVENT, event)
        return None
