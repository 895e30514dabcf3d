"""One replica of the lean world: the shipped controllers, runtime and stores, hung up without a wire."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from email.utils import format_datetime
from functools import cache
from typing import Any, TypeVar

from bench.safety import rates
from tgp.adapters.clouds.around.paced import Paced
from tgp.adapters.clouds.around.patient import Patient
from tgp.adapters.clouds.around.turnstile import Turnstiles
from tgp.adapters.clouds.around.wrapped import LAUNCH
from tgp.adapters.clouds.simulated import FACTS
from tgp.adapters.clouds.simulated.client import SimulatedCloud
from tgp.adapters.kube.board import Board, Filler
from tgp.adapters.kube.controller import Controller, Source
from tgp.adapters.kube.noting import NotingCluster
from tgp.adapters.kube.records.kinds import daemon_sets, disruption_budgets, namespaces, nodes, pods, typed
from tgp.adapters.kube.records.projection import MODIFIED, Projection
from tgp.adapters.kube.reflector import State
from tgp.adapters.kube.runtime import House, Runtime
from tgp.adapters.kube.server_clock import ServerClock
from tgp.adapters.kube.store import Store
from tgp.adapters.kube.vault import KubeVault
from tgp.api.nodeclass import GPUNodeClass
from tgp.api.nodepool import GPUNodePool
from tgp.api.request import GPURequest
from tgp.api.resource import GPU_NODE_CLASS, GPU_NODE_POOL, GPU_REQUEST, NAMESPACE, NODE, Resource
from tgp.app.fenced import fenced
from tgp.app.operator import SOURCE
from tgp.app.purchase_kit import Kit, Shelves
from tgp.app.purchasing import Purchasing
from tgp.app.settings import Settings
from tgp.controllers.gate import Gate
from tgp.controllers.implicit_class import EveryClass
from tgp.controllers.market import Market, MarketKeeper
from tgp.controllers.request_sight import Policy
from tgp.core.model.facts import Fact
from tgp.core.model.key import Key
from tgp.core.model.record import Record
from tgp.core.model.secret import Secret
from tgp.core.model.source import Source as Seller
from tgp.core.model.typed import Typed
from tgp.core.model.workload import Metadata, Namespace
from tgp.ports.cloud import Cloud, CloudFacts
from tgp.sim.clouds.dialling import Dialler
from tgp.sim.lean.cluster import LeanCluster
from tgp.sim.lean.lease import Standing
from tgp.sim.lean.looks import LeanCloud, Stall
from tgp.sim.lean.objects import Reader
from tgp.sim.lean.views import FAIR, LeanView
from tgp.sim.lean.world import LeanWorld
from tgp.sim.plain_boot import PlainBoot
from tgp.sim.process import Host

HOME = "tgp-system"
TICK = 60.0  # seconds between two looks at turns that hang: every call of theirs ends after 30 s by itself
TOLD_EVERY = 30.0  # seconds between two looks at the time that answers carry
PACED_FACTS = replace(FACTS, rates=rates.PACE)
T = TypeVar("T")
CHANGING = (GPU_REQUEST, NODE, GPU_NODE_CLASS)  # kinds that change here: of the others old news are no news


class Silence:
    """A journal that nobody reads: what goes wrong in a turn is logged by the runtime, and ends the run."""

    def note(self, fact: Fact) -> None:
        pass


class Orderly(Paced):
    """Keeps the pace of orders alone: lists are asked for hundreds of times in an hour, and nobody waits for those."""

    def __init__(self, cloud: Cloud) -> None:
        super().__init__(cloud, Turnstiles(), FACTS.provider)

    @property
    def facts(self) -> CloudFacts:
        return PACED_FACTS

    async def _through(self, verb: str, ask: Callable[[], Awaitable[T]]) -> T:
        return await (super()._through(verb, ask) if verb == LAUNCH else ask())


class LeanClouds:
    """Implements `Clouds`: one provider, under one key."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud

    def facts(self, provider: str) -> CloudFacts:  # noqa: ARG002 - there is one
        return FACTS

    def open(self, source: Seller, key: Secret | None, secrets: Mapping[tuple[str, str], Secret]) -> Cloud:  # noqa: ARG002 - there is one
        return self._cloud


class Replica:
    """Made when it has won the Lease, as the shipped one begins to act then, on lists begun after it."""

    def __init__(self, world: LeanWorld, host: Host, standing: Standing, stall: Stall) -> None:
        self._world = world
        self._host = host
        self._standing = standing
        self.clock = ServerClock(host.clock)
        self._told_at = float("-inf")
        self.classes: Store[Typed[GPUNodeClass]] = Store(GPU_NODE_CLASS)
        self.pools: Store[Typed[GPUNodePool]] = Store(GPU_NODE_POOL)
        self.namespaces: Store[Namespace] = Store(NAMESPACE)
        self.shelves = Shelves()
        self.sources: Board[Metadata] = Board(SOURCE)
        self.market = Market()
        every_class = EveryClass(self.classes, self.shelves.implicit.store)
        cluster = NotingCluster(
            LeanCluster(world, host, standing.fence, self._heard),
            {GPU_NODE_CLASS: (self.classes,), GPU_REQUEST: (self.shelves.requests,), NODE: (self.shelves.nodes,)},
        )
        self._heard(self.clock.boottime())
        vault = KubeVault(cluster, HOME)
        dial = fenced(Dialler(world.network, host.clock, host), standing.fence)
        client = SimulatedCloud(dial(FACTS.endpoint))
        clouds = LeanClouds(Patient(Orderly(LeanCloud(client, stall, world, host)), host.entropy))
        kit = Kit(
            classes=self.classes,
            every_class=every_class,
            pools=self.pools,
            namespaces=self.namespaces,
            sources=self.sources,
            market=self.market,
            clouds=clouds,
            vault=vault,
            boot=PlainBoot(),
            gate=Gate(standing.fence),
            cluster=cluster,
            journal=Silence(),
            clock=self.clock,
            entropy=host.entropy,
            policy=Policy(HOME, standing.identity, Settings().lease_duration, device_plugin_required=False),
            default_backend="none",
            workers=4,
        )
        self.purchasing = Purchasing(self.shelves, kit)
        keeper = MarketKeeper(
            self.market,
            classes=every_class,
            clouds=clouds,
            vault=vault,
            clock=self.clock,
            entropy=host.entropy,
            journal=Silence(),
            announce=self._announce,
        )
        of_market = Controller(
            "market", keeper, sources=(Source(self.classes, keeper.of_class),), workers=1, only_looks=True
        )
        house = House(self.clock, host.entropy, Silence(), tick=TICK)
        self.runtime = Runtime(self._fillers(vault), (of_market, *self.purchasing.controllers()), house)

    async def run(self) -> None:
        """Until the Lease is lost."""
        led: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        led.set_result(None)
        work = asyncio.create_task(self.runtime.run(led), name="runtime")
        standing = asyncio.create_task(self._standing.run(), name="elector")
        done, _ = await asyncio.wait((work, standing), return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()

    def _fillers(self, vault: KubeVault) -> tuple[Filler, ...]:
        shelves = self.shelves
        of_requests, of_pods = self._view(shelves.requests), self._view(shelves.pods)
        self.purchasing.watch_by(of_requests, of_pods)
        return (
            self._view(self.classes),
            self._view(self.pools),
            self._view(self.namespaces),
            vault.board,
            self.sources,
            of_requests,
            self._view(shelves.nodes),
            of_pods,
            self._view(shelves.daemon_sets),
            self._view(shelves.budgets),
            *(board for board in vars(shelves).values() if isinstance(board, Board)),
        )

    def _view(self, store: Store[Any]) -> Any:
        stormy = store.resource in CHANGING and not self._world.calm_now
        return LeanView(self._world, self._host, store, State.WATCHING, rates.VIEWS if stormy else FAIR)

    def _announce(self, source: str) -> None:
        plate = Metadata(key=Key("", source), resource_version=self.sources.next_version())
        if source in self.market.sellers:
            self.sources.store.put(plate)
        else:
            self.sources.store.drop(plate)

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
        namespaces(),
        nodes(),
        pods(),
        daemon_sets(),
        disruption_budgets(),
    )
    return {projection.resource: _reader(projection) for projection in projections}


def _reader(projection: Projection[Any]) -> Reader:
    def read(document: bytes) -> Record:
        line = b'{"type":"' + MODIFIED.encode() + b'","object":' + document + b"}"
        record: Any = projection.line(line, {})[1]
        return record  # type: ignore[no-any-return]  # of MODIFIED it is a record

    return read
