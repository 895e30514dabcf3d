"""What the operator is given of the world, and how its dependencies are made from that."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache

from tgp.adapters.clouds.registry import AllClouds
from tgp.adapters.kube.client import KubeCluster
from tgp.adapters.kube.elector import LeaseElector
from tgp.adapters.kube.elector_rules import LeaseTimes
from tgp.adapters.kube.event_channel import Caches
from tgp.adapters.kube.operator_cluster import Contradictions, OperatorCluster
from tgp.adapters.kube.revision import ASKED_EVERY
from tgp.adapters.kube.runtime import TICK
from tgp.adapters.kube.secret_reader import KubeSecretReader
from tgp.adapters.kube.server_clock import ServerClock
from tgp.adapters.kube.watch import USUAL, WatchTimes
from tgp.adapters.telemetry.market import PrometheusCloudMetrics
from tgp.adapters.telemetry.metrics import Metrics
from tgp.adapters.telemetry.redaction import Redactor
from tgp.api.resource import GPU_NODE_CLASS, GPU_NODE_POOL, GPU_REQUEST, GPU_WORKLOAD_BUDGET, LEGACY_BUDGET, NODE
from tgp.api.values import NEVER
from tgp.app.null_adapters import NoResolver, no_http
from tgp.app.settings import Settings
from tgp.controllers.access.certificate_keeper import LOOK_EVERY
from tgp.controllers.deps import Deps, FeatureSettings, Stores
from tgp.controllers.requests.leader_guard import LeaderGuard
from tgp.core.access.certificate import ServingPair
from tgp.core.classes.power_hosts import Address, HostRules
from tgp.core.disruption.health import read_repair_rule
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.token_bucket import TokenRate
from tgp.ports.boot import Boot
from tgp.ports.clock import Clock
from tgp.ports.cluster import Cluster
from tgp.ports.compute import Compute
from tgp.ports.entropy import Entropy
from tgp.ports.http import Call, Http, HttpFactory, NeverLeft, WrappedHttp
from tgp.ports.journal import Journal
from tgp.ports.leadership import Fence, LeadershipLost
from tgp.ports.resolver import Resolver


@dataclass(frozen=True)
class Environment:
    """What the operator is given of the world."""

    http: Http  # to the API server, authenticated
    clock: Clock
    entropy: Entropy
    host: str  # this machine's name, for the Lease
    namespace: str  # our own, unless the settings name another
    compute: Compute  # where plans are made
    dial: HttpFactory = no_http  # to providers
    boot: Boot | None = None  # how machines boot where they join by themselves; None: as Talos
    resolver: Resolver = field(default_factory=NoResolver)
    api_server: tuple[Address, ...] = ()  # its addresses: no webhook may point there
    redactor: Redactor = field(default_factory=Redactor)  # shared with the log
    guard: Callable[[Fence], Callable[[], None]] = field(default=lambda _fence: lambda: None)
    """Starts the watchdog that ends the process when leadership lapses; returns what stops the watchdog."""
    lost: Callable[[LeadershipLost], None] = field(default=lambda _error: None)
    """Ends the process at once: another replica may act already, so nothing is cleaned up."""
    serve: Callable[[ServingPair], None] = field(default=lambda _pair: None)
    """Answers by HTTPS with this certificate from now on; raises BadCertificate."""
    certificate_read_every: float = LOOK_EVERY  # seconds
    watches: WatchTimes = USUAL
    revision_asked_every: float = ASKED_EVERY  # seconds
    tick: float = TICK  # seconds between two looks for reconciles that take too long
    budget_truth: Callable[[ObjectKey, int], float | None] | None = None
    """Milli-GPU-seconds that pods of a budget really used by then; None: only simulations know it."""


def make_elector(
    settings: Settings, environment: Environment, http: Http, clock: Clock, *, namespace: str, identity: str
) -> LeaseElector:
    times = LeaseTimes(
        settings.lease_duration.total_seconds(),
        settings.renew_deadline.total_seconds(),
        settings.retry_period.total_seconds(),
    )
    return LeaseElector(
        KubeCluster(http, environment.entropy),
        clock,
        environment.entropy,
        key=ObjectKey(namespace, settings.lease_name),
        identity=identity,
        times=times,
    )


def make_cluster(
    settings: Settings,
    environment: Environment,
    http: Http,
    fence: Fence | None,
    stores: Stores,
    *,
    history: Contradictions,
) -> Cluster:
    """The one writer: fenced, redacted, and remembered by the stores until the watch shows the write."""
    return OperatorCluster(
        KubeCluster(
            http, environment.entropy, fence=fence, pace=TokenRate(float(settings.kube_qps), settings.kube_burst)
        ),
        {
            GPU_NODE_CLASS: (stores.classes,),
            GPU_NODE_POOL: (stores.pools,),
            GPU_REQUEST: (stores.requests,),
            NODE: (stores.nodes,),
            LEGACY_BUDGET: (stores.legacy_budgets,),
            GPU_WORKLOAD_BUDGET: (stores.budgets,),
        },
        history,
        redact=environment.redactor,
        shown={GPU_NODE_CLASS: stores.classes, GPU_NODE_POOL: stores.pools} if settings.observe else None,
    )


def make_deps(
    settings: Settings,
    environment: Environment,
    *,
    namespace: str,
    identity: str,
    cluster: Cluster,
    clock: ServerClock,
    journal: Journal,
    metrics: Metrics,
    fence: Fence | None,
    watched_until: Callable[[], datetime | None],
    outdated_kinds: Callable[[], str],
    kinds_not_compared: Callable[[], str],
) -> Deps:
    http = leader_http(environment.dial, fence)
    hosts = HostRules(settings.power_allowed_hosts, environment.api_server)
    clouds = AllClouds(
        http,
        clock,
        environment.entropy,
        environment.resolver,
        PrometheusCloudMetrics(metrics),
        hosts=hosts,
    )
    return Deps(
        settings=FeatureSettings(
            namespace,
            identity,
            settings.lease_duration,
            settings.require_allowed_namespaces,
            settings.require_device_plugin,
            None if settings.keep_finished is NEVER else settings.keep_finished,
            settings.observe,
            settings.networking_backend,
            settings.talos_version,
            settings.factory_url,
            settings.tailscale_url,
            settings.workers,
            _time_zones,
            frozenset(settings.scheduler_names),
            settings.batch_idle,
            settings.batch_max,
            tuple(read_repair_rule(each) for each in settings.repair_conditions),
            settings.node_groups,
            hosts,
        ),
        cluster=cluster,
        clouds=clouds,
        secrets=KubeSecretReader(cluster, namespace, environment.redactor.learn),
        http=http,
        journal=journal,
        clock=clock,
        entropy=environment.entropy,
        leader=LeaderGuard(fence, observing=settings.observe),
        caches=Caches(),
        compute=environment.compute,
        watched_until=watched_until,
        outdated_kinds=outdated_kinds,
        kinds_not_compared=kinds_not_compared,
        learn=environment.redactor.learn,
    )


@cache
def _time_zones() -> frozenset[str]:
    """Of this machine: reading them means reading a directory tree."""
    from zoneinfo import available_timezones  # here: it takes 1 MB, and few classes and pools name a zone

    return frozenset(available_timezones())


def leader_http(dial: HttpFactory, fence: Fence | None) -> HttpFactory:
    """The same clients; each changing call is valid while we lead, and raises `NeverLeft` where we do not."""
    if fence is None:
        return dial

    def leading(base_url: str, *, address: str = "") -> Http:
        return _LeaderHttp(dial(base_url, address=address), fence)

    return leading


class _LeaderHttp(WrappedHttp):
    def __init__(self, inner: Http, fence: Fence) -> None:
        super().__init__(inner)
        self._fence = fence

    def _changed(self, call: Call) -> Call:
        if not call.changes_things:
            return call
        deadline = self._fence.deadline()
        if deadline is None:
            # Not NotLeading: a provider's client knows NeverLeft and reads it rightly: nothing was sent.
            raise NeverLeft(f"{call.method} {call.path} was not sent: this replica does not lead")
        return replace(call, not_after=deadline if call.not_after is None else min(call.not_after, deadline))
