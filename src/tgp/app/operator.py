"""The operator: which loops exist and what they are given; the same in a cluster, the embedded world and simulation.

Reading is begun at once by every replica, so that a new leader starts from a warm view; acting waits for the Lease.
On a lost Lease `run` raises, and whoever called it ends the process hard. On `stop` turns finish, the Lease is
released, and waiting Events are written.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cache
from typing import Any
from zoneinfo import available_timezones

from tgp import __version__
from tgp.adapters.kube.board import Board, Filler
from tgp.adapters.kube.client import KubeCluster
from tgp.adapters.kube.controller import Controller, Source
from tgp.adapters.kube.elector import LeaseElector, new_identity
from tgp.adapters.kube.elector_rules import LeaseTimes
from tgp.adapters.kube.events import EventRecorder
from tgp.adapters.kube.index import by_namespace
from tgp.adapters.kube.list import Subject as Listed
from tgp.adapters.kube.noting import NotingCluster
from tgp.adapters.kube.observing import ObservingCluster, SilentEvents
from tgp.adapters.kube.records.kinds import daemon_sets, disruption_budgets, namespaces, nodes, pods, typed
from tgp.adapters.kube.records.projection import Projection
from tgp.adapters.kube.redacting import RedactingCluster
from tgp.adapters.kube.reflector import Reflector, State
from tgp.adapters.kube.revision import Revision
from tgp.adapters.kube.runtime import TICK, House, Runtime
from tgp.adapters.kube.server_clock import ServerClock, timing
from tgp.adapters.kube.store import Store
from tgp.adapters.kube.vault import KubeVault
from tgp.adapters.kube.watch import USUAL, WatchTimes
from tgp.adapters.telemetry.journal import LiveJournal
from tgp.adapters.telemetry.market import BookCollector, CloudMeter
from tgp.adapters.telemetry.meter import MetricsMeter
from tgp.adapters.telemetry.metrics import Metrics
from tgp.adapters.telemetry.redaction import Redactor
from tgp.adapters.telemetry.requests import RequestCollector
from tgp.api.nodeclass import GPUNodeClass
from tgp.api.nodepool import GPUNodePool
from tgp.api.request import GPURequest
from tgp.api.resource import GPU_NODE_CLASS, GPU_NODE_POOL, GPU_REQUEST, NAMESPACE, NODE, Resource
from tgp.api.values import NEVER
from tgp.app.booting import Booting, BootKit
from tgp.app.clouds import AllClouds, titled
from tgp.app.fenced import fenced
from tgp.app.nowhere import NobodyKnows, NoBoot, nowhere
from tgp.app.purchase_kit import Kit, Shelves
from tgp.app.purchasing import Purchasing
from tgp.app.settings import Settings
from tgp.app.twins import TwinDesk
from tgp.controllers.gate import Gate
from tgp.controllers.implicit_class import EveryClass
from tgp.controllers.market import Market, MarketKeeper
from tgp.controllers.nodeclasses import NodeClassReconciler
from tgp.controllers.nodepools import BY_CLASS, NodePoolReconciler, by_class
from tgp.controllers.request_sight import PODS_BY_NODE, Policy
from tgp.controllers.verdicts import Scribe
from tgp.core.model.facts import (
    LeadershipEnded,
    LeadershipReleased,
    LeadershipWon,
    LeaseReached,
    LeaseTroubled,
    OperatorStarted,
    OperatorStopped,
)
from tgp.core.model.hold import hold_of
from tgp.core.model.identity import cluster_id
from tgp.core.model.key import Key
from tgp.core.model.record import uid_text
from tgp.core.model.typed import Typed
from tgp.core.model.workload import Metadata as Announced
from tgp.core.model.workload import Namespace
from tgp.core.rules import nodeclass, nodepool
from tgp.core.rules.power_hosts import Address, HostRules
from tgp.ports.boot import Boot
from tgp.ports.clock import Clock
from tgp.ports.cluster import Cluster, ClusterError
from tgp.ports.entropy import Entropy
from tgp.ports.http import Dial, Http
from tgp.ports.leadership import Fence, LeadershipLost, NotLeading
from tgp.ports.resolver import Resolver

NAMING_PAUSE = timedelta(seconds=2)  # between two tries to learn the cluster's name
STALE_AFTER = 120.0  # seconds; twice what a half-open watch may take to be noticed
BOOT_WORKERS = 16  # a turn may wait half a minute for a mesh
MARKET_WORKERS = 16  # sources asked at once; a slow provider keeps one of them
LAST_EVENTS_WITHIN = 3.0  # seconds, at the end, for Events still waiting


SOURCE = Resource("tgp.io", "v1", "sources", "Source", namespaced=False)  # never served: a board of our own


@dataclass(frozen=True)
class Outside:
    """What the operator is given of the world."""

    http: Http  # to the API server, authenticated
    clock: Clock
    entropy: Entropy
    host: str  # this machine's name, for the Lease
    namespace: str  # where we live, unless the settings say otherwise
    dial: Dial = nowhere  # the ways to providers
    boot: Boot | None = None  # how machines are started where they join by themselves; None: as Talos
    resolver: Resolver = field(default_factory=NobodyKnows)
    api_server: tuple[Address, ...] = ()  # its addresses: no machine's switch is there
    redactor: Redactor = field(default_factory=Redactor)  # shared with the log
    guard: Callable[[Fence], Callable[[], None]] = field(default=lambda _fence: lambda: None)
    """Starts whatever ends the process when leadership lapses; gives back how to call it off."""
    lost: Callable[[LeadershipLost], None] = field(default=lambda _error: None)
    """Ends the process at once: another replica may act already, so nothing may be tidied up."""
    watches: WatchTimes = USUAL
    tick: float = TICK  # seconds between two looks at turns that take too long


class Operator:
    """Built whole, then run once."""

    def __init__(self, settings: Settings, outside: Outside, metrics: Metrics | None = None) -> None:
        self.settings = settings
        self.metrics = metrics or Metrics()
        # A random part even behind a given name: two replicas of one name would take each other's Lease for their own.
        self.identity = new_identity(settings.identity or outside.host, outside.entropy)
        self.namespace = settings.namespace or outside.namespace
        self._outside = outside
        self.clock = ServerClock(outside.clock)
        self._http = timing(outside.http, self.clock)
        self.classes: Store[Typed[GPUNodeClass]] = Store(GPU_NODE_CLASS)
        self.pools: Store[Typed[GPUNodePool]] = Store(GPU_NODE_POOL, {BY_CLASS: by_class, "namespace": by_namespace})
        self.namespaces: Store[Namespace] = Store(NAMESPACE)
        self.shelves = Shelves()
        self.twins = TwinDesk()
        self.every_class = EveryClass(self.classes, self.shelves.implicit.store)
        self.elector = self._make_elector() if settings.leader_elect and not settings.observe else None
        self.writer = self._make_writer()
        self._recorder = None if settings.observe else EventRecorder(self.writer, self.clock, self.identity)
        self.journal = LiveJournal(self._recorder or SilentEvents(), self.metrics, titled)
        self._tell_of_helpers()
        self.vault = KubeVault(self.writer, self.namespace, outside.redactor.learn)
        self.market = Market()
        self.sources: Board[Announced] = Board(SOURCE)
        self._tell_of_the_market()
        self.clouds = self._make_clouds()
        self.booting = self._make_booting() if outside.boot is None and not settings.observe else None
        self.purchasing = self._make_purchasing()
        self.revision = Revision(self._http, GPU_REQUEST, lambda: self.shelves.requests.version, self.journal)
        self.revision.on_rewound = self._start_over
        if self.elector is not None:  # it reads or writes its Lease every two seconds: nothing notices sooner
            self.elector.on_older = self.revision.contradicted
        self.reflectors: tuple[Filler, ...] = (
            self._reflector(typed(GPU_NODE_CLASS, GPUNodeClass), self.classes),
            self._reflector(typed(GPU_NODE_POOL, GPUNodePool), self.pools),
            self.vault.board,
            self.sources,
            self._reflector(namespaces(), self.namespaces),
            *self._reflectors_of_purchases(),
            *(self.booting.fillers(self._reflector) if self.booting is not None else ()),
            *(() if settings.observe else self.twins.reflectors(self._reflector)),
        )
        house = House(self.clock, outside.entropy, self.journal, MetricsMeter(self.metrics), outside.tick)
        self.runtime = Runtime(self.reflectors, self._controllers(), house)

    # -- what it is made of ------------------------------------------------------------------------------------------

    def _make_elector(self) -> LeaseElector:
        settings, outside = self.settings, self._outside
        times = LeaseTimes(
            settings.lease_duration.total_seconds(),
            settings.renew_deadline.total_seconds(),
            settings.retry_period.total_seconds(),
        )
        return LeaseElector(
            KubeCluster(self._http, outside.entropy),
            self.clock,
            outside.entropy,
            key=Key(self.namespace, settings.lease_name),
            identity=self.identity,
            times=times,
        )

    def _make_writer(self) -> Cluster:
        fence = self.elector.fence if self.elector is not None else None
        kube = KubeCluster(self._http, self._outside.entropy, fence=fence)
        noting = NotingCluster(
            RedactingCluster(kube, self._outside.redactor),
            {
                GPU_NODE_CLASS: (self.classes,),
                GPU_NODE_POOL: (self.pools,),
                GPU_REQUEST: (self.shelves.requests,),
                NODE: (self.shelves.nodes,),
                **self.twins.views(),
            },
            self,
        )
        if not self.settings.observe:
            return noting
        # Around the noting one: a write that was dropped must not be waited for.
        return ObservingCluster(noting, {GPU_NODE_CLASS: self.classes, GPU_NODE_POOL: self.pools})

    def _make_clouds(self) -> AllClouds:
        outside = self._outside
        return AllClouds(
            fenced(outside.dial, self.elector.fence if self.elector is not None else None),
            self.clock,
            outside.entropy,
            outside.resolver,
            CloudMeter(self.metrics),
            hosts=HostRules(self.settings.power_allowed_hosts, outside.api_server),
        )

    def _make_purchasing(self) -> Purchasing:
        settings, outside = self.settings, self._outside
        fence = self.elector.fence if self.elector is not None else None
        policy = Policy(
            self.namespace,
            self.identity,
            settings.lease_duration,
            settings.require_allowed_namespaces,
            settings.require_device_plugin,
            None if settings.keep_finished is NEVER else settings.keep_finished,
            settings.observe,
            settings.networking_backend,
        )
        kit = Kit(
            classes=self.classes,
            every_class=self.every_class,
            pools=self.pools,
            namespaces=self.namespaces,
            sources=self.sources,
            market=self.market,
            clouds=self.clouds,
            vault=self.vault,
            boot=self.booting.boot if self.booting is not None else outside.boot or NoBoot(),
            gate=Gate(fence, observing=settings.observe),
            cluster=self.writer,
            journal=self.journal,
            clock=self.clock,
            entropy=outside.entropy,
            policy=policy,
            default_backend=settings.networking_backend,
            workers=settings.workers,
        )
        if self.booting is not None:
            kit = replace(kit, stand=self.booting.stands.of)
        return Purchasing(self.shelves, kit)

    def _make_booting(self) -> Booting:
        settings, outside = self.settings, self._outside
        dial = fenced(outside.dial, self.elector.fence if self.elector is not None else None)
        return Booting(
            BootKit(
                shelves=self.shelves,
                classes=self.classes,
                every_class=self.every_class,
                clouds=self.clouds,
                vault=self.vault,
                cluster=self.writer,
                dial=dial,
                journal=self.journal,
                clock=self.clock,
                entropy=outside.entropy,
                learn=outside.redactor.learn,
                cluster_id=self._cluster_id,
                namespace=self.namespace,
                default_backend=settings.networking_backend,
                talos_version=settings.talos_version,
                factory_url=settings.factory_url,
                tailscale_url=settings.tailscale_url,
                workers=max(settings.workers, BOOT_WORKERS),
            )
        )

    def _cluster_id(self) -> str:
        home = self.namespaces.get(Key("", "kube-system"))
        return cluster_id(uid_text(home.uid)) if home is not None and home.uid else ""

    def _reflectors_of_purchases(self) -> tuple[Filler, ...]:
        shelves = self.shelves
        if self.settings.observe:
            return (shelves.implicit,)
        of_requests = self._reflector(typed(GPU_REQUEST, GPURequest), shelves.requests)
        of_pods = self._reflector(pods(), shelves.pods)
        self.purchasing.watch_by(of_requests, of_pods)
        return (
            of_requests,
            self._reflector(nodes(), shelves.nodes),
            of_pods,
            self._reflector(daemon_sets(), shelves.daemon_sets),
            self._reflector(disruption_budgets(), shelves.budgets),
            shelves.tills,
            shelves.errands,
            shelves.accounts,
            shelves.in_mesh,
            shelves.implicit,
        )

    def _tell_of_helpers(self) -> None:
        """Troubles of those who have no turns, for whoever reads logs and metrics."""
        if self._recorder is not None:
            recorder = self._recorder
            self.metrics.events_dropped.set_function(lambda: recorder.dropped)
        if self.elector is not None:
            self.elector.on_trouble = self._note_lease
            self.metrics.lease_unreachable.set_function(self.elector.unreachable_for)

    def _tell_of_the_market(self) -> None:
        self.metrics.redactions.set_function(lambda: self._outside.redactor.caught)
        self.metrics.show(BookCollector(lambda: self.market.book, self.clock.now))
        if self.settings.observe:  # requests are not watched then: whatever is not counted is not shown as zero
            return
        shelves = self.shelves
        self.metrics.show(
            RequestCollector(
                shelves.requests.values,
                lambda name: shelves.nodes.get(Key("", name)),
                lambda name: shelves.pods.having(PODS_BY_NODE, name),
                self.clock.now,
                lambda: self.purchasing.rounds.stuck,
            )
        )

    def _announce(self, source: str) -> None:
        plate = Announced(key=Key("", source), resource_version=self.sources.next_version())
        if source in self.market.sellers:
            self.sources.store.put(plate)
        else:  # nobody buys there any more
            self.sources.store.drop(plate)

    def _note_lease(self, why: str) -> None:
        assert self.elector is not None, "nobody else tells of it"
        lease = self.elector.key
        self.journal.note(LeaseTroubled(lease, why) if why else LeaseReached(lease))

    def _reflector(self, projection: Projection[Any], store: Store[Any], *, optional: bool = False) -> Reflector[Any]:
        entropy, times = self._outside.entropy, self._outside.watches
        return Reflector(
            self._http,
            Listed(projection),
            store,
            entropy,
            self.journal,
            optional=optional,
            times=times,
            on_older=self.revision.doubt,
        )

    # -- a history that went back ------------------------------------------------------------------------------------

    def went_back(self, why: str) -> None:
        self.revision.contradicted(why)

    def replaced(self, resource: Resource) -> None:
        for reflector in self.reflectors:
            if isinstance(reflector, Reflector) and reflector.store.resource == resource:
                reflector.start_over()

    def _start_over(self) -> None:
        """Nothing that was reserved before is ordered; then everything is listed from scratch."""
        self.purchasing.start_over()
        for reflector in self.reflectors:
            if isinstance(reflector, Reflector):
                reflector.start_over()

    def _controllers(self) -> tuple[Controller, ...]:
        settings, zones = self.settings, _time_zones()
        own = (self._of_market(), self._of_classes(zones), self._of_pools(zones))
        boot = self.booting.controllers() if self.booting is not None else ()
        if settings.observe:
            return (*own, *boot)
        of_twins = self.twins.controller(self.writer, self.journal, self.clock, settings.workers)
        return (*own, *self.purchasing.controllers(), *boot, of_twins)

    def _of_market(self) -> Controller:
        keeper = MarketKeeper(
            self.market,
            classes=self.every_class,
            clouds=self.clouds,
            vault=self.vault,
            clock=self.clock,
            entropy=self._outside.entropy,
            journal=self.journal,
            announce=self._announce,
            requests=self.shelves.requests,
        )
        return Controller(
            "market",
            keeper,
            sources=(
                Source(self.classes, keeper.of_class),
                Source(self.shelves.implicit.store, keeper.of_class),
                Source(self.vault.board.store, keeper.of_secret),
                *(() if self.settings.observe else (Source(self.shelves.requests, keeper.of_request),)),
            ),
            workers=MARKET_WORKERS,
            only_looks=True,
        )

    def _of_classes(self, zones: frozenset[str]) -> Controller:
        settings, shelves = self.settings, self.shelves
        reconciler = NodeClassReconciler(
            self.classes,
            self.vault,
            self.market,
            Scribe(GPU_NODE_CLASS, nodeclass.OWNED, self.writer, self.journal, self.clock),
            self.clock,
            namespace=self.namespace,
            default_backend=settings.networking_backend,
            time_zones=zones,
            requests=None if settings.observe else shelves.requests,
            halted=lambda: self.purchasing.rounds.halted,
            stuck=lambda: self.purchasing.rounds.stuck,
            inspector=self.booting.inspector if self.booting is not None else None,
            preparing=self.booting.images.preparing if self.booting is not None else lambda _class: "",
        )
        machines = (Source(shelves.requests, reconciler.holding), Source(shelves.tills.store, reconciler.halted_at))
        return Controller(
            "nodeclasses",
            reconciler,
            sources=(
                Source(self.classes),
                Source(self.vault.board.store, reconciler.referring_to),
                Source(self.sources.store, reconciler.selling_from),
                *(() if settings.observe else machines),
            ),
            writes=(self.classes,),
            workers=settings.workers,
        )

    def _of_pools(self, zones: frozenset[str]) -> Controller:
        settings = self.settings
        reconciler = NodePoolReconciler(
            self.pools,
            self.classes,
            self.namespaces,
            Scribe(GPU_NODE_POOL, nodepool.OWNED, self.writer, self.journal, self.clock),
            allowed_namespaces_required=settings.require_allowed_namespaces,
            observing=settings.observe,
            time_zones=zones,
        )
        return Controller(
            "nodepools",
            reconciler,
            sources=(
                Source(self.pools),
                Source(self.classes, reconciler.of_class),
                Source(self.namespaces, reconciler.of_namespace),
            ),
            writes=(self.pools,),
            workers=settings.workers,
        )

    # -- running -----------------------------------------------------------------------------------------------------

    async def run(self, *, settled: Callable[[], None] | None = None) -> None:
        """Until `stop`. Raises LeadershipLost where nothing outside ended the process first."""
        call_off = self._outside.guard(self.elector.fence) if self.elector is not None else None
        helpers = [
            asyncio.create_task(self._introduce(), name="introduce"),
            asyncio.create_task(self.vault.run(), name="vault"),
            asyncio.create_task(self.revision.run(), name="revision"),
        ]
        if self._recorder is not None:
            helpers.append(asyncio.create_task(self._recorder.run(), name="events"))
        standing = asyncio.create_task(self.elector.run(), name="elector") if self.elector is not None else None
        work = asyncio.create_task(self.runtime.run(self._leading(), settled=settled), name="runtime")
        try:
            await _first_of(work, standing, *helpers)
            await self._leave()
        except LeadershipLost as error:
            self.journal.note(LeadershipEnded(self.identity, str(error)))
            self._outside.lost(error)
            raise
        finally:
            await _cancelled(*helpers, *((standing,) if standing else ()), work)
            if call_off is not None:
                call_off()

    def stop(self) -> None:
        """Finish the turns under way and let `run` return."""
        self.runtime.stop()

    def troubles(self) -> Iterable[str]:
        """What keeps this replica from being useful, whether or not it leads."""
        for reflector in self.reflectors:
            kind = reflector.store.resource.kind
            if reflector.state == State.NOT_SERVED:
                yield f"{kind}: the API server does not know this kind; install it: tgp crds apply"
            elif not reflector.store.synced:
                yield f"{kind}: {reflector.why or 'not listed yet'}"
            elif reflector.silent_for() > STALE_AFTER:
                yield f"{kind}: not up to date since {reflector.silent_for():.0f} s: {reflector.why or 'no answer'}"
        if self.elector is not None and self.elector.trouble:
            yield f"Lease {self.elector.key}: {self.elector.trouble}"

    @property
    def leads(self) -> bool:
        return self.elector is None or self.elector.fence.deadline() is not None

    @property
    def held(self) -> str:
        """Why every purchase is stopped, in the words of whoever stopped it; empty: nobody did, as far as is seen."""
        home = self.namespaces.get(Key("", self.namespace))
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
                namespace = await self.writer.read(NAMESPACE, Key("", "kube-system"))
            except ClusterError:
                await asyncio.sleep(NAMING_PAUSE.total_seconds())
                continue
            name = cluster_id(str(namespace["metadata"].get("uid", "")))
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


@cache
def _time_zones() -> frozenset[str]:
    """Of this machine: reading them means reading a directory tree."""
    return frozenset(available_timezones())


async def _first_of(
    work: "asyncio.Task[None]", standing: "asyncio.Task[None] | None", *helpers: "asyncio.Task[None]"
) -> None:
    """Until the work ends, or the standing: only the end of the work is a good end. Helpers may end, but not fail."""
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
