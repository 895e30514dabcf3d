"""What every feature is built from: `Deps`, the ports and settings, and `Stores`, the caches and channels."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import msgspec

from tgp.adapters.kube.event_channel import Caches, EventChannel, LocalCache
from tgp.adapters.kube.index import by_namespace
from tgp.adapters.kube.secret_reader import KubeSecretReader
from tgp.adapters.kube.store import Store
from tgp.api.budget import GPUWorkloadBudget, LegacyBudget
from tgp.api.nodeclass import GPUNodeClass
from tgp.api.nodepool import GPUNodePool
from tgp.api.request import GPURequest
from tgp.api.resource import (
    CERTIFICATE_SIGNING_REQUEST,
    DAEMON_SET,
    GPU_NODE_CLASS,
    GPU_NODE_POOL,
    GPU_REQUEST,
    GPU_WORKLOAD_BUDGET,
    JOB,
    LEGACY_BUDGET,
    NAMESPACE,
    NODE,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    POD,
    POD_DISRUPTION_BUDGET,
    STORAGE_CLASS,
    Resource,
)
from tgp.controllers.budgets.gated_pods import GATED_PODS, by_gate
from tgp.controllers.budgets.indexes import BUDGET_PODS, PAUSED_JOBS, by_budget_mark, by_pause
from tgp.controllers.classes.implicit_class import AllClasses
from tgp.controllers.instances.machine_ends import MachineEnds
from tgp.controllers.market.reconciler import MarketState
from tgp.controllers.pools.indexes import BY_CLASS, GANG_PODS, WAITING_PODS, by_class, by_gang, by_waiting
from tgp.controllers.requests.indexes import INDEXES, NODES_BY_MACHINE, PODS_BY_NODE, by_machine, by_node_name
from tgp.controllers.requests.leader_guard import LeaderGuard
from tgp.core.classes.power_hosts import STRICT, HostRules
from tgp.core.disruption.health import RepairRule
from tgp.core.model.identity import KUBE_SYSTEM, cluster_id
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.node import Node
from tgp.core.model.pod import Pod
from tgp.core.model.record import uid_text
from tgp.core.model.secret import Secret
from tgp.core.model.signing import SigningRequest
from tgp.core.model.storage import Claim, StorageClass, Volume
from tgp.core.model.workload import DaemonSet, Job, Namespace, PodDisruptionBudget
from tgp.core.power.node_groups import NodeGroup
from tgp.ports.clock import Clock
from tgp.ports.clouds import Clouds
from tgp.ports.cluster import Cluster
from tgp.ports.compute import Compute
from tgp.ports.entropy import Entropy
from tgp.ports.http import HttpFactory
from tgp.ports.journal import Journal

IMPLICIT_CLASS = Resource("tgp.io", "v1", "implicitclasses", "ImplicitClass", namespaced=False)  # never written


class FeatureSettings(msgspec.Struct, frozen=True):
    """The operator's settings as far as controllers read them."""

    namespace: str  # the operator's own
    identity: str  # of this process, where there is no Lease
    lease_duration: timedelta
    allowed_namespaces_required: bool = False
    device_plugin_required: bool = True
    keep_finished: timedelta | None = timedelta(days=7)
    observing: bool = False
    default_backend: str = ""  # the operator's own mesh; empty: it names none
    talos_version: str = ""
    factory_url: str = ""
    tailscale_url: str = ""
    workers: int = 4
    time_zones: Callable[[], frozenset[str]] = frozenset  # the IANA names this machine has; empty: they are unknown
    scheduler_names: frozenset[str] = frozenset({"default-scheduler"})
    batch_idle: timedelta = timedelta(seconds=1)
    batch_max: timedelta = timedelta(seconds=10)
    repair_rules: tuple[RepairRule, ...] = ()  # conditions of Nodes for which a pool replaces a machine
    node_groups: tuple[NodeGroup, ...] = ()  # machines you own, as the environment and the settings file name them
    hosts: HostRules = STRICT  # that endpoints of these machines may have


@dataclass(frozen=True)
class Deps:
    """One for the whole operator."""

    settings: FeatureSettings
    cluster: Cluster
    clouds: Clouds
    secrets: KubeSecretReader
    http: HttpFactory  # to the mesh and the image factory
    journal: Journal
    clock: Clock
    entropy: Entropy
    leader: LeaderGuard
    caches: Caches
    compute: Compute
    outdated_kinds: Callable[[], str] = lambda: ""  # why the CRDs are too old to buy anything; empty: they are not
    kinds_not_compared: Callable[[], str] = lambda: ""  # why that is not known yet; empty: it is
    watched_until: Callable[[], datetime | None] = lambda: None  # when the leader before us last renewed its Lease
    learn: Callable[[Secret], None] = lambda _secret: None  # what must never be logged


class Stores:
    """The caches, each filled by one watch, and the channels by which one controller wakes another."""

    def __init__(self) -> None:
        self.classes: Store[KubeObject[GPUNodeClass]] = Store(GPU_NODE_CLASS)
        self.pools: Store[KubeObject[GPUNodePool]] = Store(
            GPU_NODE_POOL, {BY_CLASS: by_class, "namespace": by_namespace}
        )
        self.requests: Store[KubeObject[GPURequest]] = Store(GPU_REQUEST, INDEXES)
        self.nodes: Store[Node] = Store(NODE, {NODES_BY_MACHINE: by_machine})
        self.pods: Store[Pod] = Store(
            POD,
            {
                PODS_BY_NODE: by_node_name,
                WAITING_PODS: by_waiting,
                GANG_PODS: by_gang,
                BUDGET_PODS: by_budget_mark,
                GATED_PODS: by_gate,
            },
        )
        self.daemon_sets: Store[DaemonSet] = Store(DAEMON_SET)
        self.jobs: Store[Job] = Store(JOB, {PAUSED_JOBS: by_pause})
        self.disruption_budgets: Store[PodDisruptionBudget] = Store(POD_DISRUPTION_BUDGET)
        self.claims: Store[Claim] = Store(PERSISTENT_VOLUME_CLAIM)
        self.volumes: Store[Volume] = Store(PERSISTENT_VOLUME)
        self.storage_classes: Store[StorageClass] = Store(STORAGE_CLASS)
        self.namespaces: Store[Namespace] = Store(NAMESPACE)
        self.signing_requests: Store[SigningRequest] = Store(CERTIFICATE_SIGNING_REQUEST)
        self.budgets: Store[KubeObject[GPUWorkloadBudget]] = Store(GPU_WORKLOAD_BUDGET)
        self.legacy_budgets: Store[KubeObject[LegacyBudget]] = Store(LEGACY_BUDGET)

        self.market = MarketState()
        # The class that the operator makes from the keys it finds; it is not written to the API server.
        self.implicit_class: LocalCache[KubeObject[GPUNodeClass]] = LocalCache(IMPLICIT_CLASS)
        self.all_classes = AllClasses(self.classes, self.implicit_class.store)

        self.machine_ends = MachineEnds(self.nodes)

        self.sources = EventChannel("sources")  # whose offers changed
        self.accesses = EventChannel("accesses")  # of whose machines something new was seen
        self.polls = EventChannel("polls")  # accesses that a controller wants listed now
        self.accounts = EventChannel("accounts")  # that were read, written or forgotten
        self.in_mesh = EventChannel("in-mesh")  # requests of whose machine something new was seen in its mesh
        self.plans = EventChannel("plans")  # pools of which a plan says something new
        self.kinds = EventChannel("kinds")  # whether the CRDs are new enough was found to be otherwise
        self.counted = EventChannel("counted")  # namespaces of budgets whose account was written or kept
        self.sweeps = EventChannel("sweeps")  # what is done again and again, without an object of its own

    def channels(self) -> tuple[LocalCache[Any], ...]:
        return (
            self.implicit_class,
            self.machine_ends,
            self.sources,
            self.accesses,
            self.polls,
            self.accounts,
            self.in_mesh,
            self.plans,
            self.kinds,
            self.counted,
            self.sweeps,
        )

    def cluster_id(self) -> str:
        """Empty: not known yet."""
        home = self.namespaces.get(KUBE_SYSTEM)
        return cluster_id(uid_text(home.uid)) if home is not None and home.uid else ""
