"""One replica of the fast world: the shipped controllers, runtime and stores, without HTTP."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import replace
from email.utils import format_datetime
from functools import cache
from typing import Any, TypeVar

from bench.safety import rates
from tgp.adapters.clouds.middleware.account_throttle import LAUNCH, AccountThrottles
from tgp.adapters.clouds.middleware.guarded_cloud import GuardedCloud
from tgp.adapters.clouds.registry import AllClouds, facts_of
from tgp.adapters.clouds.simulated import FACTS
from tgp.adapters.clouds.simulated.client import SimulatedCloud
from tgp.adapters.kube.event_channel import CacheFeeder, Caches
from tgp.adapters.kube.operator_cluster import OperatorCluster
from tgp.adapters.kube.records.kinds import (
    claims,
    daemon_sets,
    disruption_budgets,
    namespaces,
    nodes,
    pods,
    storage_classes,
    typed,
    volumes,
)
from tgp.adapters.kube.records.projection import MODIFIED, Projection
from tgp.adapters.kube.reflector import State
from tgp.adapters.kube.runtime import Runtime, RuntimeDeps
from tgp.adapters.kube.secret_reader import KubeSecretReader
from tgp.adapters.kube.server_clock import ServerClock
from tgp.adapters.kube.store import Store
from tgp.api.budget import GPUWorkloadBudget
from tgp.api.nodeclass import GPUNodeClass
from tgp.api.nodepool import GPUNodePool
from tgp.api.request import GPURequest
from tgp.api.resource import (
    GPU_NODE_CLASS,
    GPU_NODE_POOL,
    GPU_REQUEST,
    GPU_WORKLOAD_BUDGET,
    NODE,
    POD,
    Resource,
)
from tgp.app.deps import leader_http
from tgp.app.settings import Settings
from tgp.controllers.deps import Deps, FeatureSettings, Stores
from tgp.controllers.disruption import build as disruption
from tgp.controllers.instances import build as instances
from tgp.controllers.instances.build import Instances
from tgp.controllers.market import build as market
from tgp.controllers.pools import build as pools
from tgp.controllers.pools.build import Pools
from tgp.controllers.power import build as power
from tgp.controllers.requests import build as requests
from tgp.controllers.requests.leader_guard import LeaderGuard
from tgp.core.model.facts import Fact
from tgp.core.model.provider_facts import CloudFacts
from tgp.core.model.record import ObjectRecord
from tgp.core.model.secret import Secret
from tgp.core.model.source import Source as Seller
from tgp.ports.cloud import Cloud
from tgp.ports.entropy import Entropy
from tgp.sim.clouds.http_factory import Dialler
from tgp.sim.fast.cloud import FastCloud, SharedProvider
from tgp.sim.fast.cluster import FastCluster
from tgp.sim.fast.lease import FastLease
from tgp.sim.fast.objects import Reader
from tgp.sim.fast.views import FAIR, FastView
from tgp.sim.fast.world import FastWorld
from tgp.sim.plain_boot import PlainBoot
from tgp.sim.process import Host

HOME = "tgp-system"
TICK = 60.0  # seconds between two looks at turns that hang: every call of theirs ends after 30 s by itself
TOLD_EVERY = 30.0  # seconds between two looks at the time that answers carry
PACED_FACTS = replace(FACTS, rates=rates.PACE)
T = TypeVar("T")
CHANGING = (GPU_REQUEST, NODE, POD, GPU_NODE_CLASS)  # kinds that change here: of the others old news are no news


class Silence:
    """A journal without readers: an error in a reconcile is logged by the runtime, and ends the run."""

    def note(self, fact: Fact) -> None:
        pass


class Orderly(GuardedCloud):
    """Limits the rate of orders alone: lists are read hundreds of times in an hour, and no caller waits for those."""

    def __init__(self, cloud: Cloud, entropy: Entropy) -> None:
        super().__init__(cloud, source=FACTS.provider, throttles=AccountThrottles(), entropy=entropy)

    @property
    def facts(self) -> CloudFacts:
        return PACED_FACTS

    async def _paced(self, verb: str, ask: Callable[[], Awaitable[T]]) -> T:
        return await (super()._paced(verb, ask) if verb == LAUNCH else ask())


class FastClouds:
    """Implements `Clouds`: one provider under one key, and machines you own, whose calls all go the whole way."""

    def __init__(self, cloud: Cloud, owned: AllClouds) -> None:
        self._cloud = cloud
        self._owned = owned

    def facts(self, provider: str) -> CloudFacts:
        return facts_of(provider)

    def open(self, source: Seller, key: Secret | None, secrets: Mapping[tuple[str, str], Secret]) -> Cloud:
        return self._cloud if source.provider == FACTS.provider else self._owned.open(source, key, secrets)

    def open_images(self, source: Seller, key: Secret | None) -> None:  # noqa: ARG002 - it keeps none
        return None


class Replica:
    """Made when it has won the Lease, as the shipped one begins to act then, on lists begun after it."""

    def __init__(self, world: FastWorld, host: Host, standing: FastLease, shared: SharedProvider) -> None:
        self._world = world
        self._host = host
        self._standing = standing
        self.clock = ServerClock(host.clock)
        self._told_at = float("-inf")
        self.stores = stores = Stores()
        cluster = OperatorCluster(
            FastCluster(world, host, standing.fence, self._heard),
            {GPU_NODE_CLASS: (stores.classes,), GPU_REQUEST: (stores.requests,), NODE: (stores.nodes,)},
        )
        self._heard(self.clock.boottime())
        http = leader_http(Dialler(world.network, host.clock, host), standing.fence)
        client = SimulatedCloud(http(FACTS.endpoint))
        self.deps = deps = Deps(
            settings=FeatureSettings(
                HOME,
                standing.identity,
                Settings().lease_duration,
                device_plugin_required=False,
                default_backend="none",
            ),
            cluster=cluster,
            clouds=FastClouds(
                Orderly(FastCloud(client, shared, world, host), host.entropy),
                AllClouds(http, self.clock, host.entropy, host.resolver),
            ),
            secrets=KubeSecretReader(cluster, HOME),
            http=http,
            journal=Silence(),
            clock=self.clock,
            entropy=host.entropy,
            leader=LeaderGuard(standing.fence),
            caches=Caches(),
            compute=host.compute,
        )
        machines = Instances(deps, stores)
        planned = Pools(deps, stores, machines)
        controllers = (
            *market.build(deps, stores),
            *pools.build(deps, stores, planned),
            *disruption.build(deps, stores, planned),
            *power.build(deps, stores, planned),
            *instances.build(deps, stores, machines),
            *requests.build(deps, stores, machines, PlainBoot()),
        )
        deps.caches.add(self._feeders())
        runtime = RuntimeDeps(self.clock, host.entropy, Silence(), tick=TICK)
        self.runtime = Runtime(deps.caches.feeders, controllers, runtime)

    async def run(self) -> None:
        """Until the Lease is lost."""
        led: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        led.set_result(None)
        work = asyncio.create_task(self.runtime.run(led), name="runtime")
        standing = asyncio.create_task(self._standing.run(), name="elector")
        done, _ = await asyncio.wait((work, standing), return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()

    def _feeders(self) -> Iterator[CacheFeeder]:
        stores = self.stores
        for store in (
            stores.classes,
            stores.pools,
            stores.namespaces,
            stores.requests,
            stores.nodes,
            stores.pods,
            stores.daemon_sets,
            stores.disruption_budgets,
            stores.claims,
            stores.volumes,
            stores.storage_classes,
            stores.budgets,
        ):
            yield self._view(store)
        yield self.deps.secrets.changes
        yield from stores.channels()

    def _view(self, store: Store[Any]) -> Any:
        stormy = store.resource in CHANGING and not self._world.calm_now
        return FastView(self._world, self._host, store, State.WATCHING, rates.VIEWS if stormy else FAIR)

    def _heard(self, left: float) -> None:
        """The server's second, now and then: it comes with every answer, and is looked at no closer than this."""
        if left < self._told_at + TOLD_EVERY:
            return
        self._told_at = self.clock.boottime()
        self.clock.heard(format_datetime(self._world.clock.now(), usegmt=True), left)


@cache
def readers() -> dict[Resource, Reader]:
    """The shipped ones: an object is read off the same bytes."""
    projections: tuple[Projection[Any], ...] = (
        typed(GPU_NODE_CLASS, GPUNodeClass),
        typed(GPU_NODE_POOL, GPUNodePool),
        typed(GPU_REQUEST, GPURequest),
        typed(GPU_WORKLOAD_BUDGET, GPUWorkloadBudget),
        namespaces(),
        nodes(),
        pods(),
        daemon_sets(),
        disruption_budgets(),
        claims(),
        volumes(),
        storage_classes(),
    )
    return {projection.resource: _reader(projection) for projection in projections}


def _reader(projection: Projection[Any]) -> Reader:
    def read(document: bytes) -> ObjectRecord:
        line = b'{"type":"' + MODIFIED.encode() + b'","object":' + document + b"}"
        record: Any = projection.line(line, {})[1]
        return record  # type: ignore[no-any-return]  # of MODIFIED it is a record

    return read
