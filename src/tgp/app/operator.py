"""The operator: which controllers exist and what they are given; in a cluster, the demo and simulation alike.

Reading is begun at once by every replica, so that a new leader starts from a warm view; acting waits for the Lease.
On a lost Lease `run` raises, and its caller ends the process hard. On `stop` reconciles finish, the Lease is released,
and waiting Events are written.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any

from tgp import __version__
from tgp.adapters.clouds.registry import titled
from tgp.adapters.kube.client import read_cluster_id
from tgp.adapters.kube.controller import Controller
from tgp.adapters.kube.elector import LeaseElector, new_identity
from tgp.adapters.kube.event_channel import CacheFeeder
from tgp.adapters.kube.events import EventRecorder
from tgp.adapters.kube.list import ListTarget
from tgp.adapters.kube.records.kinds import (
    claims,
    daemon_sets,
    disruption_budgets,
    jobs,
    namespaces,
    nodes,
    pods,
    signing_requests,
    storage_classes,
    typed,
    volumes,
)
from tgp.adapters.kube.records.projection import Projection
from tgp.adapters.kube.reflector import Reflector, State
from tgp.adapters.kube.revision import Revision
from tgp.adapters.kube.runtime import Runtime, RuntimeDeps
from tgp.adapters.kube.server_clock import ServerClock, TimedHttp
from tgp.adapters.kube.store import Store
from tgp.adapters.telemetry.budgets import BudgetCollector, BudgetRow
from tgp.adapters.telemetry.journal import LiveJournal
from tgp.adapters.telemetry.market import BookCollector
from tgp.adapters.telemetry.meter import CountedHttp, PrometheusRuntimeMetrics
from tgp.adapters.telemetry.metrics import Metrics
from tgp.adapters.telemetry.owned_machines import OwnedMachineCollector, OwnedMachineRow
from tgp.adapters.telemetry.pools import PoolLimitCollector
from tgp.adapters.telemetry.requests import RequestCollector
from tgp.api.budget import GPUWorkloadBudget, LegacyBudget
from tgp.api.common import OWNED_PROVIDER
from tgp.api.nodeclass import GPUNodeClass
from tgp.api.nodepool import GPUNodePool
from tgp.api.request import GPURequest
from tgp.api.resource import (
    GPU_NODE_CLASS,
    GPU_NODE_POOL,
    GPU_REQUEST,
    GPU_WORKLOAD_BUDGET,
    LEGACY_BUDGET,
    Resource,
)
from tgp.app.deps import Environment, make_cluster, make_deps, make_elector
from tgp.app.https import Https, make_https
from tgp.app.null_adapters import NoBoot, NoEvents
from tgp.app.settings import Settings
from tgp.controllers.budgets import build as budgets
from tgp.controllers.budgets.build import Budgets
from tgp.controllers.classes import build as classes
from tgp.controllers.classes.installed_kinds import InstalledKinds
from tgp.controllers.deps import Stores
from tgp.controllers.disruption import build as disruption
from tgp.controllers.instances import build as instances
from tgp.controllers.instances.build import Instances
from tgp.controllers.joining import build as joining
from tgp.controllers.joining.build import Joining
from tgp.controllers.market import build as market
from tgp.controllers.pools import build as pools
from tgp.controllers.pools.build import Pools
from tgp.controllers.power import build as power
from tgp.controllers.requests import build as requests
from tgp.controllers.requests.indexes import PODS_BY_NODE
from tgp.core.inventory.limits import RoomLeft, rooms_left
from tgp.core.market.sources import machines_of
from tgp.core.model.facts import (
    LeadershipEnded,
    LeadershipReleased,
    LeadershipWon,
    LeaseFailing,
    LeaseReached,
    OperatorStarted,
    OperatorStopped,
)
from tgp.core.model.hold import hold_of
from tgp.core.model.object_key import ObjectKey
from tgp.core.power.states import by_machine, power_state
from tgp.ports.cluster import ClusterError
from tgp.ports.leadership import LeadershipLost, NotLeading

NAMING_PAUSE = timedelta(seconds=2)  # between two tries to learn the cluster's name
CACHE_SILENT_AFTER = 120.0  # seconds; twice what a half-open watch may take to be noticed
LAST_EVENTS_WITHIN = 3.0  # seconds, at the end, for Events still waiting


class Operator:
    """Built whole, then run once."""

    def __init__(self, settings: Settings, environment: Environment, metrics: Metrics | None = None) -> None:
        self.settings = settings
        self.metrics = metrics or Metrics()
        # A random part even behind a given name: two replicas of one name would take each other's Lease for their own.
        self.identity = new_identity(settings.identity or environment.host, environment.entropy)
        self.namespace = settings.namespace or environment.namespace
        self._environment = environment
        self.clock = ServerClock(environment.clock)
        self._http = TimedHttp(CountedHttp(environment.http, self.metrics), self.clock)
        self.stores = Stores()
        self.elector = self._elector() if settings.leader_elect and not settings.observe else None
        fence = self.elector.fence if self.elector is not None else None
        cluster = make_cluster(settings, environment, self._http, fence, self.stores, history=self)
        self._recorder = None if settings.observe else EventRecorder(cluster, self.clock, self.identity)
        self.journal = LiveJournal(self._recorder or NoEvents(), self.metrics, titled)
        self.kinds = InstalledKinds(cluster, self.journal, lambda: self.stores.kinds.send("kinds"))
        self.deps = make_deps(
            settings,
            environment,
            namespace=self.namespace,
            identity=self.identity,
            cluster=cluster,
            clock=self.clock,
            journal=self.journal,
            metrics=self.metrics,
            fence=fence,
            watched_until=self.elector.watched_until if self.elector is not None else lambda: None,
            outdated_kinds=self.kinds.outdated,
            kinds_not_compared=self.kinds.not_compared,
        )
        self.revision = Revision(
            self._http,
            GPU_REQUEST,
            lambda: self.stores.requests.version,
            self.journal,
            environment.revision_asked_every,
        )
        self.revision.on_rewound = self._start_over
        if self.elector is not None:  # it reads or writes its Lease every two seconds: nothing notices sooner
            self.elector.on_older = self.revision.contradicted
        self.instances = Instances(self.deps, self.stores)
        self.pools = Pools(self.deps, self.stores, self.instances)
        self.budgets = Budgets(self.deps, self.stores)
        self.https = self._https() if settings.https_listen else None
        self.controllers = self._features()
        self.deps.caches.add(self._feeders())
        runtime_metrics = PrometheusRuntimeMetrics(self.metrics)
        runtime = RuntimeDeps(self.clock, environment.entropy, self.journal, runtime_metrics, environment.tick)
        self.runtime = Runtime(self.caches, self.controllers, runtime)
        self._show_metrics()

    def _https(self) -> Https:
        return make_https(
            self.settings,
            self._environment,
            self._http,
            self.deps,
            self.stores,
            pools=self.pools,
            metrics=self.metrics,
            leads=lambda: self.leads,
        )

    def _features(self) -> tuple[Controller, ...]:
        """Every controller of the operator. With `--observe` nothing is bought: only what reads is left."""
        deps, stores, machines = self.deps, self.stores, self.instances
        boot, observing = self._environment.boot, self.settings.observe
        join = Joining(deps, stores) if boot is None and not observing else None
        own = (
            *market.build(deps, stores),
            *classes.build(deps, stores, machines, join),
            *pools.build(deps, stores, self.pools),
        )
        if observing:
            return own
        of_requests = (
            requests.build(deps, stores, machines, join.boot, join.mesh_statuses.of)
            if join is not None
            else requests.build(deps, stores, machines, boot or NoBoot())
        )
        return (
            *own,
            *disruption.build(deps, stores, self.pools),
            *power.build(deps, stores, self.pools),
            *instances.build(deps, stores, machines),
            *of_requests,
            *(joining.build(deps, stores, join) if join is not None else ()),
            *budgets.build(deps, stores, self.budgets),
        )

    # -- caches ------------------------------------------------------------------------------------------------------

    @property
    def caches(self) -> tuple[CacheFeeder, ...]:
        return self.deps.caches.feeders

    def _feeders(self) -> Iterable[CacheFeeder]:
        stores = self.stores
        yield self._reflector(typed(GPU_NODE_CLASS, GPUNodeClass), stores.classes)
        yield self._reflector(typed(GPU_NODE_POOL, GPUNodePool), stores.pools)
        yield self._reflector(namespaces(), stores.namespaces)
        yield self._reflector(claims(), stores.claims)
        yield self._reflector(volumes(), stores.volumes)
        yield self._reflector(storage_classes(), stores.storage_classes)
        yield self.deps.secrets.changes
        yield from stores.channels()
        yield self._reflector(typed(GPU_REQUEST, GPURequest), stores.requests)
        yield self._reflector(nodes(), stores.nodes)
        yield self._reflector(pods(), stores.pods)
        yield self._reflector(daemon_sets(), stores.daemon_sets)
        yield self._reflector(typed(GPU_WORKLOAD_BUDGET, GPUWorkloadBudget), stores.budgets)
        if self.settings.observe:
            return
        yield self._reflector(disruption_budgets(), stores.disruption_budgets)
        if self._environment.boot is None:
            yield self._reflector(signing_requests(), stores.signing_requests)
        yield self._reflector(jobs(), stores.jobs)
        yield self._reflector(typed(LEGACY_BUDGET, LegacyBudget), stores.legacy_budgets, optional=True)

    def _reflector(self, projection: Projection[Any], store: Store[Any], *, optional: bool = False) -> Reflector[Any]:
        return Reflector(
            self._http,
            ListTarget(projection),
            store,
            self._environment.entropy,
            self.journal,
            optional=optional,
            times=self._environment.watches,
            on_older=self.revision.doubt,
        )

    # -- a history that went back ------------------------------------------------------------------------------------

    def went_back(self, why: str) -> None:
        self.revision.contradicted(why)

    def replaced(self, resource: Resource) -> None:
        for feeder in self.caches:
            if isinstance(feeder, Reflector) and feeder.store.resource == resource:
                feeder.start_over()

    def _start_over(self) -> None:
        """Nothing that was reserved before is ordered; then everything is listed from scratch."""
        for controller in self.controllers:
            if controller.start_over is not None:
                controller.start_over()
        for feeder in self.caches:
            if isinstance(feeder, Reflector):
                feeder.start_over()

    # -- metrics -----------------------------------------------------------------------------------------------------

    def _show_metrics(self) -> None:
        metrics, stores = self.metrics, self.stores
        if self._recorder is not None:
            recorder = self._recorder
            metrics.events_dropped.set_function(lambda: recorder.dropped)
        if self.elector is not None:
            self.elector.on_trouble = self._note_lease
            metrics.lease_unreachable.set_function(self.elector.unreachable_for)
        metrics.redactions.set_function(lambda: self._environment.redactor.caught)
        metrics.show(BookCollector(lambda: stores.market.book, self.clock.now))
        metrics.disagreements.set_function(lambda: self.pools.memory.disagreements.pods)
        if self.settings.observe:  # machines are not listed then: the operator that buys tells of them
            return
        metrics.show(
            RequestCollector(
                stores.requests.values,
                lambda name: stores.nodes.get(ObjectKey("", name)),
                lambda name: stores.pods.by_index(PODS_BY_NODE, name),
                self.clock.now,
                lambda: self.instances.collector.stuck,
            )
        )
        metrics.show(OwnedMachineCollector(self._owned_machines))
        metrics.show(BudgetCollector(self._budget_rows, self.clock.now, self._environment.budget_truth))
        metrics.show(PoolLimitCollector(self._pool_limits))

    def _pool_limits(self) -> Iterable[tuple[ObjectKey, list[RoomLeft]]]:
        for pool in self.stores.pools.values():
            if pool.value is not None:
                yield pool.key, rooms_left(pool.value.spec.limits, self.instances.ledger.used(pool.key))

    def _owned_machines(self) -> Iterable[OwnedMachineRow]:
        stores, used = self.stores, by_machine(self.stores.requests.values())
        shapes = self.pools.memory.types.shapes.items()  # by offer key, whose second part is the machine's name
        wakes = {key.split("/")[1]: shape for key, shape in shapes if key.startswith(f"{OWNED_PROVIDER}/")}
        for node_class in stores.classes.values():
            for name in machines_of(node_class.value) if node_class.value is not None else ():
                state = power_state(used.get(name), stores.nodes.get(ObjectKey("", name)))
                shape = wakes.get(name)
                yield OwnedMachineRow(node_class.key.name, name, state, shape.boot_seconds if shape is not None else 0)

    def _budget_rows(self) -> Iterable[BudgetRow]:
        for key, memory in self.budgets.tracker.memories():
            exceeded = memory.told.exceeded_at is not None
            record = self.stores.budgets.get(key)
            yield BudgetRow(
                key,
                memory.limits,
                memory.account,
                exceeded=exceeded,
                pods=memory.tracked,
                paused=record.value.status.paused_pods if record is not None and record.value is not None else 0,
                gated=len(self.budgets.gated.of_budget(key, memory.spec)),
            )

    def _note_lease(self, why: str) -> None:
        assert self.elector is not None, "only the elector reports on the Lease"
        lease = self.elector.key
        self.journal.note(LeaseFailing(lease, why) if why else LeaseReached(lease))

    def _elector(self) -> LeaseElector:
        return make_elector(
            self.settings,
            self._environment,
            self._http,
            self.clock,
            namespace=self.namespace,
            identity=self.identity,
        )

    # -- running -----------------------------------------------------------------------------------------------------

    async def run(self, *, settled: Callable[[], None] | None = None) -> None:
        """Until `stop`. Raises LeadershipLost where nothing outside ended the process first."""
        call_off = self._environment.guard(self.elector.fence) if self.elector is not None else None
        helpers = [
            asyncio.create_task(self._introduce(), name="introduce"),
            asyncio.create_task(self.deps.secrets.run(), name="secrets"),
            asyncio.create_task(self.revision.run(), name="revision"),
            asyncio.create_task(self.kinds.run(), name="kinds"),
        ]
        if self.https is not None:
            helpers.append(asyncio.create_task(self.https.keeper.run(), name="certificate"))
        if self._recorder is not None:
            helpers.append(asyncio.create_task(self._recorder.run(), name="events"))
        standing = asyncio.create_task(self.elector.run(), name="elector") if self.elector is not None else None
        work = asyncio.create_task(self.runtime.run(self._leading(), settled=settled), name="runtime")
        try:
            await _first_of(work, standing, *helpers)
            await self._leave()
        except LeadershipLost as error:
            self.journal.note(LeadershipEnded(self.identity, str(error)))
            self._environment.lost(error)
            raise
        finally:
            await _cancelled(*helpers, *((standing,) if standing else ()), work)
            if call_off is not None:
                call_off()

    def stop(self) -> None:
        """Finish the reconciles under way and let `run` return."""
        self.runtime.stop()

    def troubles(self) -> Iterable[str]:
        """What keeps this replica from being useful, whether or not it leads."""
        for reflector in self.caches:
            kind = reflector.store.resource.kind
            if reflector.state == State.NOT_SERVED:
                yield f"{kind}: the API server does not know this kind; install it: tgp crds apply"
            elif not reflector.store.synced:
                yield f"{kind}: {reflector.why or 'not listed yet'}"
            elif reflector.silent_for() > CACHE_SILENT_AFTER:
                yield f"{kind}: not up to date for {reflector.silent_for():.0f} s: {reflector.why or 'no answer'}"
        if why := self.kinds.outdated() or self.kinds.not_compared():
            yield why
        if self.elector is not None and self.elector.trouble:
            yield f"Lease {self.elector.key}: {self.elector.trouble}"

    @property
    def leads(self) -> bool:
        return self.elector is None or self.elector.fence.deadline() is not None

    @property
    def held(self) -> str:
        """Why all purchases are paused, in the words of the person who paused them; empty: they are not."""
        home = self.stores.namespaces.get(ObjectKey("", self.namespace))
        hold = hold_of(home.annotations) if home is not None else None
        return str(hold) if hold is not None else ""

    def facts(self) -> Mapping[str, str]:
        """A few words about this process, for a screen."""
        return {
            "identity": self.identity,
            "leads": "yes" if self.leads else f"no ({self.elector.holder if self.elector else ''})",
        }

    async def _introduce(self) -> None:
        """Say who we are and where, as soon as the API server answers."""
        while True:
            try:
                name = await read_cluster_id(self.deps.cluster)
            except ClusterError:
                await asyncio.sleep(NAMING_PAUSE.total_seconds())
                continue
            self.journal.note(OperatorStarted(__version__, self.identity, name))
            return

    async def _leading(self) -> None:
        if self.elector is None:
            return
        await self.elector.won()
        with suppress(NotLeading):  # the process stood still just then: the elector is about to say that it is over
            self.journal.note(LeadershipWon(self.identity, self.elector.fence.epoch()))

    async def _leave(self) -> None:
        if self._recorder is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(LAST_EVENTS_WITHIN):
                    await self._recorder.flushed()
        if self.elector is not None:
            led = self.leads
            await self.elector.release()  # also where we do not lead: a try for the Lease may be on its way
            if led:
                self.journal.note(LeadershipReleased(self.identity))
        self.journal.note(OperatorStopped(self.identity, "asked to"))


async def _first_of(
    work: "asyncio.Task[None]", standing: "asyncio.Task[None] | None", *helpers: "asyncio.Task[None]"
) -> None:
    """Until the work or the leadership ends: only the end of the work is a good end. Helpers may end, but not fail."""
    ends = [work] if standing is None else [standing, work]  # a lost Lease first: it is the graver news
    while not any(task.done() for task in ends):
        running = [task for task in (*ends, *helpers) if not task.done()]
        await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
        for task in (*ends, *helpers):
            if task.done():
                task.result()


async def _cancelled(*tasks: "asyncio.Task[None]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
