"""Gathers what a purchase depends on: the class that buys, its sources and limits, and what is on sale."""

from collections.abc import Callable, Mapping

import msgspec

from tgp.api.nodeclass import GPUNodeClass
from tgp.api.nodepool import GPUNodePool
from tgp.api.owned_machine import PowerMachine
from tgp.api.request import GPURequest
from tgp.controllers.deps import FeatureSettings
from tgp.controllers.instances.accounts import AccountTable
from tgp.controllers.instances.cache import InstanceCache
from tgp.controllers.instances.consistency import Consistency
from tgp.controllers.market.reconciler import MarketState
from tgp.controllers.requests.ledger import Group, Ledger
from tgp.core.classes.default_class import Chosen, Why, class_for
from tgp.core.classes.refused_machines import refused_machines
from tgp.core.inventory.limits import NOTHING_USED, Usage
from tgp.core.market.sources import lacking, machines_of, sources_of
from tgp.core.model.account_access import access_of, accesses_of
from tgp.core.model.costs import class_of
from tgp.core.model.hold import Hold, hold_of
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.node import Node
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.pod import Pod
from tgp.core.model.source import Source
from tgp.core.model.token import plain_uid
from tgp.core.model.workload import DaemonSet, Namespace, PodDisruptionBudget
from tgp.core.power.times import stays_off_until
from tgp.core.requests.node_metadata import pool_owner
from tgp.core.requests.observation import OwningPool, RequestObservation
from tgp.core.requests.purchase import ALLOW_UNTRUSTED, PurchaseInput, SourceObservation
from tgp.ports.clock import Clock
from tgp.ports.cluster import ClusterBusy, View


class Views(msgspec.Struct, frozen=True):
    requests: View[KubeObject[GPURequest]]
    classes: View[KubeObject[GPUNodeClass]]
    pools: View[KubeObject[GPUNodePool]]
    nodes: View[Node]
    pods: View[Pod]
    daemon_sets: View[DaemonSet]
    budgets: View[PodDisruptionBudget]
    namespaces: View[Namespace]


class PurchaseGatherer:
    def __init__(
        self,
        views: Views,
        policy: FeatureSettings,
        *,
        market: MarketState,
        instance_cache: InstanceCache,
        accounts: AccountTable,
        ledger: Ledger,
        consistency: Consistency,
        clock: Clock,
        outdated_kinds: Callable[[], str],
        kinds_not_compared: Callable[[], str],
    ) -> None:
        self._kinds_not_compared = kinds_not_compared
        self._outdated_kinds = outdated_kinds
        self._views = views
        self._policy = policy
        self._market = market
        self._instance_cache = instance_cache
        self._accounts = accounts
        self._ledger = ledger
        self._consistency = consistency
        self._clock = clock

    def class_for(self, record: KubeObject[GPURequest]) -> Chosen | Why:
        assert record.value is not None, "an unreadable request is not reconciled"
        if why := self._outdated_kinds():
            return Why("KindsOutdated", why)
        if why := self._kinds_not_compared():
            return Why("NodeClassNotSeen", why)
        home = self._views.namespaces.get(ObjectKey("", record.key.namespace))
        if home is None:
            why = f"Namespace {record.key.namespace} is not in the cache yet; a class is chosen once it is."
            return Why("NamespaceNotSeen", why)
        return class_for(
            record.value,
            self._views.classes.values(),
            namespace_labels=home.labels,
            allowed_namespaces_required=self._policy.allowed_namespaces_required,
        )

    def hold(self) -> Hold | None:
        home = self._views.namespaces.get(ObjectKey("", self._policy.namespace))
        return hold_of(home.annotations) if home is not None else None

    def inputs(self, observation: RequestObservation, chosen: Chosen) -> PurchaseInput:
        record, market, pool = observation.record, self._market, observation.pool
        sources = sources_of(chosen.value)
        home = self._views.namespaces.get(ObjectKey("", record.key.namespace))
        return PurchaseInput(
            record,
            chosen.name,
            chosen.value,
            market.book,
            self.sources(chosen.value),
            observation.now,
            cooldowns=market.cooldowns,
            attempts=observation.attempts,
            held=self.held_by_others(record, chosen.name),
            held_of_pool=self.held_by_others(record, pool.key) if pool is not None else NOTHING_USED,
            daemon_sets=tuple(self._views.daemon_sets.values()) if self._policy.device_plugin_required else None,
            pool=pool.value if pool is not None else None,
            default_backend=self._policy.default_backend,
            unlisted=tuple(name for name, each in sources.items() if market.book.state(each.name) is None),
            untrusted_allowed=home is not None and home.labels.get(ALLOW_UNTRUSTED) == "true",
        )

    def sources(self, node_class: GPUNodeClass) -> dict[str, SourceObservation]:
        """The sources of a class, by name."""
        refused = self._refused(node_class)
        return {each.name: self._source(each, refused) for each in sources_of(node_class).values()}

    def _refused(self, node_class: GPUNodeClass) -> Mapping[str, str]:
        """Machines you own that are never switched for this class, each with the cause."""
        found = {name: self._node(name) for name in machines_of(node_class)}
        nodes = {name: node for name, node in found.items() if node is not None}
        classes, hosts = self._views.classes.values(), self._policy.hosts
        return refused_machines(node_class, classes, nodes, hosts=hosts) if found else {}

    def _source(self, source: Source, refused: Mapping[str, str]) -> SourceObservation:
        status = self._market.source_statuses.get(source.name)
        key_refused = status is not None and (status.key.valid is False or status.key.exhausted)
        access = access_of(source).name
        return SourceObservation(
            lacking(source),
            (status.key.why or "its API key was refused") if status is not None and key_refused else "",
            self._listing_problem(access),
            self._consistency.distrust(access),
            {
                each.name: refused.get(each.name) or self._machine_problem(source, each)
                for each in source.settings.machines
            },
            frozenset(each.name for each in source.settings.machines if self._is_on(each.name)),
        )

    def _machine_problem(self, source: Source, machine: PowerMachine) -> str:
        if self._used(machine.name):
            # A machine that does not say for which request it is on would look like the machine of both.
            return f"another request uses machine {machine.name}"
        until = stays_off_until(machine, self._node(machine.name), self._clock.now())
        if until is not None and not self._is_on(machine.name):
            return f"machine {machine.name} stays off until {until:%H:%M:%S}Z: its minOffTime is {machine.min_off_time}"
        return self._listing_problem(access_of(source, machine.name).name)

    def _used(self, machine: str) -> bool:
        """By name: with other settings it is the same machine."""
        accounts = (each for each in self._accounts.known() if each.owned and each.settings.machines[0].name == machine)
        return any(True for account in accounts for _ in self._accounts.requests_at(account.access.name))

    def _is_on(self, machine: str) -> bool:
        node = self._node(machine)
        return node is not None and node.ready is True

    def _node(self, machine: str) -> Node | None:
        return self._views.nodes.get(ObjectKey("", machine))

    def _listing_problem(self, access: str) -> str:
        if self._policy.observing:  # machines are not listed then, and none is bought
            return ""
        trouble = self._instance_cache.trouble(access)
        return trouble.why if trouble is not None else ""

    def held_by_others(self, record: KubeObject[GPURequest], group: Group) -> Usage:
        return self._ledger.used(group, without=plain_uid(record.uid_text))

    def class_of(self, record: KubeObject[GPURequest]) -> tuple[str, GPUNodeClass]:
        """The class by which the request buys, for a purchase that was decided just now."""
        chosen = self.class_for(record)
        if isinstance(chosen, Why):
            raise ClusterBusy(f"Class of GPURequest {record.key} was deleted during this reconcile; retrying.")
        return chosen.name, chosen.value

    def class_at(self, record: KubeObject[GPURequest], access: str) -> str:
        """The class that most likely bought a machine there; empty: no class is known that buys there."""
        chosen = self.class_for(record)
        if isinstance(chosen, Chosen) and access in access_names(chosen.value):
            return chosen.name
        buying = (
            each.key.name for each in self._views.classes.values() if each.value and access in access_names(each.value)
        )
        return min(buying, default=chosen.name if isinstance(chosen, Chosen) else "")

    def circumstances(self, record: KubeObject[GPURequest]) -> tuple[object, ...]:
        """What a user may change so that an order can be prepared that could not: the spec, the class."""
        found = self._views.classes.get(ObjectKey("", class_of(record)))
        if found is None or found.value is None:
            return (record.generation,)
        turned = (each.last_transition_time for each in found.value.status.conditions if each.type == "Ready")
        return record.generation, found.uid, found.value.spec, next(turned, None)

    def pool_of(self, record: KubeObject[GPURequest]) -> OwningPool | None:
        return owning_pool(record, self._views.pools)


def owning_pool(record: KubeObject[GPURequest], pools: View[KubeObject[GPUNodePool]]) -> OwningPool | None:
    """None: a user created the request."""
    owner = pool_owner(record)
    if owner is None:
        return None
    key = ObjectKey(record.key.namespace, owner.name)
    found = pools.get(key)
    if found is None or found.uid_text != owner.uid:  # a new pool of that name did not create it
        return OwningPool(key)
    return OwningPool(key, found.value, found.value is None, found.deleting)


def access_names(node_class: GPUNodeClass) -> set[str]:
    return {access.name for source in sources_of(node_class).values() for access in accesses_of(source)}
