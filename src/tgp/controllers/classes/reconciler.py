"""Reconciles GPUNodeClasses: their references, the state of their keys, what they could buy and what they hold."""

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime

from tgp.api.nodeclass import GPUNodeClass
from tgp.api.request import GPURequest
from tgp.controllers.count_pace import CountPace
from tgp.controllers.joining.class_preflight import ClassPreflightChecker
from tgp.controllers.market.credentials import present_keys
from tgp.controllers.market.reconciler import MarketState
from tgp.controllers.requests.indexes import BY_NODE_CLASS
from tgp.controllers.status_writer import StatusWriter
from tgp.core.classes.checks import class_status, deleting_status
from tgp.core.classes.machines_status import ClassMachines, MachineCount, earlier, machine_count_of, spent_at
from tgp.core.classes.nodeclass import ClassPreflight, ClassReferences
from tgp.core.classes.observation import ClassObservation
from tgp.core.classes.power_hosts import STRICT, HostRules
from tgp.core.classes.refused_machines import is_ordinary, refused_machines
from tgp.core.classes.semantic_validation import names_time_zone
from tgp.core.inventory.orphans import Stuck
from tgp.core.joining.mesh.selection import backend_of
from tgp.core.market.sources import machines_of, sources_of
from tgp.core.model.account_access import accesses_of
from tgp.core.model.class_secrets import names, wanted_by
from tgp.core.model.conditions import condition_in
from tgp.core.model.costs import class_of
from tgp.core.model.join import JOIN_SECRET
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.node import Node
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.sold_gpus import sold
from tgp.core.model.workload import Metadata
from tgp.core.power.orders import machine_named_by
from tgp.ports.clock import Clock
from tgp.ports.clouds import Clouds
from tgp.ports.cluster import View
from tgp.ports.secret_reader import SecretReader


class NodeClassReconciler:
    def __init__(
        self,
        classes: View[KubeObject[GPUNodeClass]],
        secret_reader: SecretReader,
        market: MarketState,
        status_writer: StatusWriter,
        clock: Clock,
        *,
        nodes: View[Node],
        clouds: Clouds,
        namespace: str,
        default_backend: str,
        time_zones: Callable[[], frozenset[str]],
        hosts: HostRules = STRICT,
        requests: View[KubeObject[GPURequest]] | None = None,  # None: a class's machines are not reported
        halted: Callable[[], Mapping[str, str]] = dict,  # accounts where the collector stopped, each with the cause
        stuck: Callable[[], Iterable[Stuck]] = tuple,  # machines that no request owns and whose termination fails
        inspector: ClassPreflightChecker | None = None,  # None: its machines join without the operator
        preparing: Callable[[GPUNodeClass], str] = lambda _class: "",  # progress of the images that it waits for
        outdated_kinds: Callable[[], str] = lambda: "",
    ) -> None:
        self._outdated_kinds = outdated_kinds
        self._classes = classes
        self._secret_reader = secret_reader
        self._market = market
        self._nodes = nodes
        self._clouds = clouds
        self._status_writer = status_writer
        self._clock = clock
        self._namespace = namespace
        self._default_backend = default_backend
        self._time_zones = time_zones
        self._hosts = hosts
        self._requests = requests
        self._halted = halted
        self._stuck = stuck
        self._inspector = inspector
        self._preparing = preparing
        self._earlier: dict[str, int] = {}  # by class: micro-dollars spent by deleted requests
        self._counts: dict[ObjectKey, tuple[KubeObject[GPURequest], MachineCount | None]] = {}
        self._pace = CountPace(clock)

    async def reconcile(self, key: ObjectKey) -> datetime | None:
        record = self._classes.get(key)
        if record is None:
            self._earlier.pop(key.name, None)
            self._pace.forget(key)
            return None
        if record.value is None:
            return None  # unreadable: written by a newer version, perhaps. Skipped; the store has reported it already.
        if (later := self._pace.wait(record, lambda: self._requests_of(key.name))) is not None:
            return later
        if record.deleting:
            status = deleting_status(record, self._machines(record), self._clock.now())
        else:
            status = class_status(await self._observe(record, record.value))
        await self._status_writer.write(record, status.conditions, status.parts)
        return status.again_at

    async def _observe(self, record: KubeObject[GPUNodeClass], node_class: GPUNodeClass) -> ClassObservation:
        """Of Secrets only the names of their keys: values are not read here."""
        wanted = wanted_by(node_class, backend_of(node_class, self._default_backend))
        present, forbidden = await present_keys(names(wanted), self._secret_reader)
        preflight = await self._inspector.inspect(node_class) if self._inspector is not None else ClassPreflight()
        accesses, halted = _accesses(node_class), self._halted()
        zones = self._time_zones() if names_time_zone(node_class) else frozenset()
        return ClassObservation(
            ClassReferences(node_class, present, self._namespace, self._default_backend, zones, forbidden),
            now=self._clock.now(),
            generation=record.generation,
            status=record.status,
            book=self._market.book,
            cooldowns=self._market.cooldowns,
            source_statuses=self._market.source_statuses,
            boots={name: self._clouds.facts(name).boot for name in sold()},
            machines=self._machines(record),
            preflight=preflight,
            preparing=self._preparing(node_class),
            outdated_kinds=self._outdated_kinds(),
            halted=next((halted[name] for name in accesses if name in halted), ""),
            stuck=tuple(one for one in self._stuck() if one.access in accesses),
            refused_machines=self._refused_machines(record.key.name, node_class),
        )

    def _refused_machines(self, name: str, node_class: GPUNodeClass) -> dict[str, str]:
        requested = {machine_named_by(each) for each in self._requests_of(name)}
        found = {each: self._nodes.get(ObjectKey("", each)) for each in machines_of(node_class)}
        nodes = {each: node for each, node in found.items() if node is not None}
        return refused_machines(node_class, self._classes.values(), nodes, requested, self._hosts)

    def _machines(self, record: KubeObject[GPUNodeClass]) -> ClassMachines:
        if self._requests is None:
            return ClassMachines()
        name = record.key.name
        counts = (self._count(each) for each in self._requests_of(name))
        present = ClassMachines(tuple(sorted(each for each in counts if each is not None)))
        if name not in self._earlier:
            self._earlier[name] = earlier(present, record.status)
        return ClassMachines(present.machine_counts, self._earlier[name])

    def _requests_of(self, name: str) -> list[KubeObject[GPURequest]]:
        return list(self._requests.by_index(BY_NODE_CLASS, name)) if self._requests is not None else []

    def _count(self, record: KubeObject[GPURequest]) -> MachineCount | None:
        """Cached: records are frozen, and every reconcile of a class counts all its requests."""
        known = self._counts.get(record.key)
        if known is None or known[0] is not record:
            known = self._counts[record.key] = (record, machine_count_of(record))
        return known[1]

    # -- what triggers it ----------------------------------------------------------------------------------------------

    def referring_to(self, old: Metadata | None, new: Metadata | None) -> Iterable[ObjectKey]:
        """Classes that a change of this Secret concerns."""
        changed = new or old
        assert changed is not None, "a change has a before or an after"
        for record in self._classes.values():
            if record.value is None:
                continue
            wanted = wanted_by(record.value, backend_of(record.value, self._default_backend))
            joining = self._inspector is not None and changed.key.name == JOIN_SECRET
            if joining or changed.key.name in names(wanted):
                yield record.key

    def holding(self, old: KubeObject[GPURequest] | None, new: KubeObject[GPURequest] | None) -> Iterable[ObjectKey]:
        """Classes for which a change of this request means something."""
        if new is None and old is not None:
            self._counts.pop(old.key, None)
        if (
            new is None
            and old is not None
            and (machine_count := machine_count_of(old)) is not None
            and class_of(old) in self._earlier
        ):
            self._earlier[class_of(old)] += spent_at(machine_count, self._clock.now())
        before, after = (None if each is None else (class_of(each), machine_count_of(each)) for each in (old, new))
        if before == after:
            return []
        return [
            ObjectKey("", name)
            for name in dict.fromkeys(each[0] for each in (before, after) if each is not None)
            if name
        ]

    def sharing(
        self, old: KubeObject[GPUNodeClass] | None, new: KubeObject[GPUNodeClass] | None
    ) -> Iterable[ObjectKey]:
        """Other classes that name a machine of this one."""
        named = {name for each in (old, new) if each is not None and each.value for name in machines_of(each.value)}
        if not named or (old is not None and new is not None and old.generation == new.generation):
            return []
        every = (each for each in self._classes.values() if each.value is not None)
        return [each.key for each in every if each.value is not None and named & machines_of(each.value).keys()]

    def every(self, old: Metadata | None, new: Metadata | None) -> Iterable[ObjectKey]:  # noqa: ARG002 - all of them
        return [each.key for each in self._classes.values()]

    def of_node(self, old: Node | None, new: Node | None) -> Iterable[ObjectKey]:
        """Classes that name it as a machine, when it comes, or shows whether it has GPUs."""
        if new is None or (old is not None and is_ordinary(old) == is_ordinary(new)):
            return []
        every = (each for each in self._classes.values() if each.value is not None)
        return [each.key for each in every if each.value is not None and new.name in machines_of(each.value)]

    def halted_at(self, _old: Metadata | None, _new: Metadata | None) -> Iterable[ObjectKey]:
        """An account was checked: if the collector stops or resumes, or a termination fails, its classes report it."""
        news = bool(self._halted() or self._stuck())
        for record in self._classes.values():
            conditions = ("SweepHalted", "OrphanTerminationFailing")
            reported = any(condition_in(record.status, name) is not None for name in conditions)
            if record.value is not None and (news or reported):
                yield record.key

    def selling_from(self, old: Metadata | None, new: Metadata | None) -> Iterable[ObjectKey]:
        """Classes that buy from this source."""
        changed = new or old
        assert changed is not None, "a change has a before or an after"
        for record in self._classes.values():
            if record.value is not None and changed.key.name in {
                source.name for source in sources_of(record.value).values()
            }:
                yield record.key


def _accesses(node_class: GPUNodeClass) -> list[str]:
    return [access.name for source in sources_of(node_class).values() for access in accesses_of(source)]
