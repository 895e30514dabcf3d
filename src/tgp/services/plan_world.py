"""The world of a plan as a user's kubeconfig and API keys show it, gathered by the operator's own observer.

What the user may not see is named, with what is assumed instead. What only the operator's process knows (failures of
the last minutes, launches that it has not written yet) is not seen from here.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import TypeVar
from zoneinfo import available_timezones

import msgspec

from tgp.adapters.clouds.webhook.offering import offer_of
from tgp.adapters.kube.list import ListTarget
from tgp.adapters.kube.records.kinds import (
    claims,
    disruption_budgets,
    namespaces,
    nodes,
    pods,
    storage_classes,
    typed,
    volumes,
)
from tgp.adapters.kube.store import Store
from tgp.api.budget import GPUWorkloadBudget
from tgp.api.common import OWNED_PROVIDER, canonical_provider
from tgp.api.nodeclass import GPUNodeClass, ProviderSettings
from tgp.api.nodepool import GPUNodePool
from tgp.api.quantity import NotAQuantity
from tgp.api.request import GPURequest
from tgp.api.resource import GPU_NODE_POOL, GPU_WORKLOAD_BUDGET
from tgp.controllers.deps import FeatureSettings, Stores
from tgp.controllers.pools.memory import PoolMemory
from tgp.controllers.pools.observe import PlanObservation, StorageViews, WorldObserver
from tgp.controllers.pools.unusable import UnusableMachines
from tgp.controllers.requests.indexes import own_node
from tgp.controllers.requests.ledger import Ledger
from tgp.controllers.requests.purchase_gatherer import Views, owning_pool
from tgp.core.market.sources import lacking, source_for, sources_of
from tgp.core.model.attempts import attempts_of, open_attempt
from tgp.core.model.hold import Hold
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.offer import Offer
from tgp.core.model.pod import Pod
from tgp.core.model.price_book import PriceBook
from tgp.core.model.prices import NotAPrice
from tgp.core.model.record import ObjectRecord, uid_text
from tgp.core.model.spend import SpendEntry
from tgp.core.model.workload import Namespace
from tgp.core.pools.capacity import promised
from tgp.core.pools.demand import asks_for_gpus
from tgp.core.pools.machine_types import SHAPES, SeenShape
from tgp.core.pools.planner.world import Shape
from tgp.core.pools.runaway import UNUSABLE, UnusableMachine
from tgp.core.requests.observation import OwningPool
from tgp.core.requests.purchase import SourceObservation
from tgp.ports.cluster import Forbidden, KindsMissing, NotFound
from tgp.services.cluster_reads import NO_KINDS, ClusterReads
from tgp.services.market import MarketService
from tgp.services.plan_answers import PlanQuestion
from tgp.services.purchase_preview import known_offers, without_regions
from tgp.services.request_answers import PriceSource

# Of the operator's settings only the defaults are known here, and the time zones are those of this machine.
SETTINGS = FeatureSettings(
    namespace="", identity="", lease_duration=timedelta(), time_zones=lambda: frozenset(available_timezones())
)

UNTOLD_SIZES = (
    "no API key in this terminal, so only the cheapest machine of each model is known, from the class's status; "
    "its CPU and memory are assumed to be enough"
)

R = TypeVar("R", bound=ObjectRecord)


@dataclass(frozen=True, slots=True)
class VisibleCluster:
    """What the user may see of the cluster."""

    stores: Stores
    now: datetime
    hold: Hold | None = None
    unseen: tuple[str, ...] = ()
    plugins_seen: bool = True
    shapes: tuple[SeenShape, ...] = ()  # that the operator remembers
    unusable: tuple[UnusableMachine, ...] = ()  # the same
    spent: tuple[SpendEntry, ...] = ()  # machines that are gone, of this month and the one before
    schedulers: frozenset[str] = SETTINGS.scheduler_names  # whose pods are planned for


@dataclass(frozen=True, slots=True)
class TerminalWorld:
    visible: VisibleCluster
    observation: PlanObservation
    price_sources: Mapping[str, tuple[PriceSource, ...]] = field(default_factory=dict)  # by class


@dataclass(frozen=True, slots=True)
class _Listing:
    offers: tuple[Offer, ...]
    dropped: Mapping[str, int] = field(default_factory=dict)


class _Purchases:
    """What a terminal knows of purchases. A hold is reported beside the plan, and does not empty it."""

    def __init__(self, stores: Stores) -> None:
        self._stores = stores

    def hold(self) -> Hold | None:
        return None

    def sources(self, node_class: GPUNodeClass) -> Mapping[str, SourceObservation]:
        found = {}
        for written, source in sources_of(node_class).items():
            status = node_class.status.providers.get(written)
            refused = status is not None and not status.credentials_valid and bool(status.error)
            problem = status.error or "" if status is not None and refused else ""
            machines = {each.name: self._machine_problem(each.name) for each in source.settings.machines}
            found[source.name] = SourceObservation(lacking(source), problem, machines=machines)
        return found

    def _machine_problem(self, name: str) -> str:
        """Of a machine you own."""
        attempts = (open_attempt(attempts_of(record)) for record in self._stores.requests.values())
        if any(each is not None and each.offer is not None and each.offer.instance_type == name for each in attempts):
            return "another request uses this machine"
        node = self._stores.nodes.get(ObjectKey("", name))  # there while the machine is off, too
        return "the machine is on already" if node is not None and node.ready is True else ""

    def pool_of(self, record: KubeObject[GPURequest]) -> OwningPool | None:
        return owning_pool(record, self._stores.pools)


async def seen_by_user(reads: ClusterReads) -> VisibleCluster:
    """Everything that a plan reads of the cluster. Raises NotFound if our kinds are not installed."""
    stores = Stores()
    unseen: list[str] = []
    try:
        pools = await reads.listed(ListTarget(typed(GPU_NODE_POOL, GPUNodePool)))
    except NotFound as error:
        raise KindsMissing(NO_KINDS) from error
    except Forbidden:
        pools = await reads.listed(ListTarget(typed(GPU_NODE_POOL, GPUNodePool), reads.namespace))
        unseen.append(
            f"you may not list GPUNodePools of all namespaces: only those in {reads.namespace} are planned with"
        )
    await fill(stores.pools, pools)
    await fill(stores.classes, await reads.classes())
    requests = await reads.requests()
    if requests is None:
        unseen.append("you may not list GPURequests: no machine is assumed to be on its way, and no limit to be in use")
    await fill(stores.requests, requests or [])
    await _fill_pods(stores, reads, unseen)
    plugins = await reads.daemon_sets()
    if plugins is None:
        unseen.append("you may not list DaemonSets: a GPU device plugin is assumed, which uses no resources")
    await fill(stores.daemon_sets, plugins or ())
    await _fill_namespaces(stores, reads, unseen)
    try:
        await fill(stores.claims, await reads.listed(ListTarget(claims())))
        await fill(stores.volumes, await reads.listed(ListTarget(volumes())))
        await fill(stores.storage_classes, await reads.listed(ListTarget(storage_classes())))
    except Forbidden:
        unseen.append(
            "you may not list PersistentVolumeClaims, PersistentVolumes and StorageClasses: volumes are ignored"
        )
        await _forget_volumes(stores)
    try:
        await fill(stores.disruption_budgets, await reads.listed(ListTarget(disruption_budgets())))
    except Forbidden:
        unseen.append("you may not list PodDisruptionBudgets: they are not looked at")
    await _fill_budgets(stores, reads, unseen)
    shapes = await reads.shapes()
    if shapes is None:
        unseen.append(
            f"you may not read ConfigMap {reads.operator_namespace}/{SHAPES}: machines are assumed to have what their "
            "offers promise"
        )
    unusable = await reads.unusable()
    if unusable is None:
        unseen.append(
            f"you may not read ConfigMap {reads.operator_namespace}/{UNUSABLE}: of machines that did not serve their "
            "pods only those whose request still exists are known"
        )
    return VisibleCluster(
        stores,
        reads.now(),
        await reads.hold(),
        tuple(unseen),
        plugins is not None,
        shapes or (),
        unusable or (),
        await reads.recent_spend(),
    )


async def _fill_budgets(stores: Stores, reads: ClusterReads, unseen: list[str]) -> None:
    kind = typed(GPU_WORKLOAD_BUDGET, GPUWorkloadBudget)
    for namespace in ("", reads.namespace):  # of all, for some cover several; else those that the user may see
        with suppress(Forbidden, NotFound):
            await fill(stores.budgets, await reads.listed(ListTarget(kind, namespace)))
            return
    unseen.append("you may not list GPUWorkloadBudgets: they are assumed to have hours left")


async def _fill_pods(stores: Stores, reads: ClusterReads, unseen: list[str]) -> None:
    try:
        await fill(stores.pods, await reads.listed(ListTarget(pods())))
    except Forbidden:
        await fill(stores.pods, await reads.listed(ListTarget(pods(), reads.namespace)))
        unseen.append(
            f"you may not list pods of all namespaces: only those in {reads.namespace} are seen, "
            "and room on Nodes is not counted"
        )
        return
    try:
        await fill(stores.nodes, await reads.listed(ListTarget(nodes())))
    except Forbidden:
        unseen.append("you may not list Nodes: room on them is not counted")


async def _fill_namespaces(stores: Stores, reads: ClusterReads, unseen: list[str]) -> None:
    try:
        await fill(stores.namespaces, await reads.listed(ListTarget(namespaces())))
    except Forbidden:
        unseen.append("you may not list Namespaces: their labels are unknown, and every class is assumed to allow them")
        of_pods = {pod.key.namespace for pod in stores.pods.values()}
        names = sorted(of_pods | {pool.key.namespace for pool in stores.pools.values()} | {reads.namespace})
        await fill(stores.namespaces, [Namespace(key=ObjectKey("", name)) for name in names])
        await fill(stores.classes, [_open_to_all(record) for record in stores.classes.values()])


def _open_to_all(record: KubeObject[GPUNodeClass]) -> KubeObject[GPUNodeClass]:
    if record.value is None:
        return record
    spec = msgspec.structs.replace(record.value.spec, allowed_namespaces=None)
    return msgspec.structs.replace(record, value=msgspec.structs.replace(record.value, spec=spec))


async def _forget_volumes(stores: Stores) -> None:
    records = stores.pods.values()
    await fill(stores.pods, [msgspec.structs.replace(pod, volume_claims=()) for pod in records])


async def fill(store: Store[R], records: Iterable[R]) -> None:
    await store.replace({record.key: record for record in records}, 0, rewound=True)


async def world_of(visible: VisibleCluster, market: MarketService, question: PlanQuestion) -> TerminalWorld:
    """The world in which the pods of the question wait."""
    stores, now = visible.stores, visible.now
    book, shapes = PriceBook(), dict[str, Shape]()
    sources: dict[str, tuple[PriceSource, ...]] = {}
    unseen = list(visible.unseen)
    used = {record.value.spec.node_class_ref.name for record in stores.pools.values() if record.value is not None}
    usable = []
    for record in sorted(stores.classes.values(), key=lambda each: each.key):
        if record.key.name not in used or record.value is None:
            usable.append(record)
            continue
        known = await known_offers(record.value, market, now)
        owned = frozenset(
            each.name for each in record.value.spec.providers if canonical_provider(each.name) == OWNED_PROVIDER
        )
        sources[record.key.name] = tuple(each for each in known.sources if each.provider not in owned)
        if stored := sorted(known.stored - owned):
            unseen.append(f"class {record.key.name}: {', '.join(stored)}: {UNTOLD_SIZES}")
            shapes |= {offer.key: Shape(promised(offer, {})) for offer in known.book.offers if not offer.vcpus}
        book = _with_owned(_together(book, known.book, now), record.value, now)
        usable.append(msgspec.structs.replace(record, value=without_regions(record.value, known.stored)))
    await fill(stores.classes, usable)
    waiting = sum(asks_for_gpus(pod) for pod in stores.pods.values())
    await fill(stores.pods, _asked(stores.pods.values(), question, now))
    stores.market.book = book
    observation = _observer(visible).observe(now)
    shapes |= observation.world.shapes
    world = replace(observation.world, shapes=shapes, device_plugin_required=visible.plugins_seen)
    if waiting and question.pods is not None and not question.with_waiting:
        who = "1 pod waits" if waiting == 1 else f"{waiting} pods wait"
        unseen.append(
            f"{who} now: machines on their way are assumed to be theirs, without room for these pods; "
            "--with-waiting plans for all of them"
        )
        world = replace(world, capacity=tuple(each for each in world.capacity if each.coming is None))
    return TerminalWorld(replace(visible, unseen=tuple(unseen)), replace(observation, world=world), sources)


def _together(book: PriceBook, more: PriceBook, now: datetime) -> PriceBook:
    """Two classes may use one source: of it the offers of both."""
    for state in more.sources:
        offers = {offer.key: offer for offer in (*book.of(state.source), *more.of(state.source))}
        book = book.with_listing(state.source, _Listing(tuple(offers.values())), state.seen_at or now)
    return book


def _with_owned(book: PriceBook, node_class: GPUNodeClass, now: datetime) -> PriceBook:
    """Machines you own stand in the class itself, with their sizes."""
    for entry in node_class.spec.providers:
        if entry.enabled and canonical_provider(entry.name) == OWNED_PROVIDER and entry.settings is not None:
            offers = tuple(_readable(entry.settings))
            book = book.with_listing(source_for(entry).name, _Listing(offers), now)
    return book


def _readable(settings: ProviderSettings) -> Iterator[Offer]:
    for machine in settings.machines:
        with suppress(NotAPrice, NotAQuantity):
            yield offer_of(machine, settings, None)


def _asked(there: Iterable[Pod], question: PlanQuestion, now: datetime) -> Iterator[Pod]:
    """Pods that run stay, as they need room; of those that wait only the pods of the question do."""
    pods = tuple(there)
    taken = {pod.key for pod in pods}
    for pod in pods:
        meant = question.pods is None or question.with_waiting
        within = question.namespace in ("", pod.key.namespace)
        if not asks_for_gpus(pod) or (meant and within):
            yield pod
    for pod in question.pods or ():
        yield msgspec.structs.replace(pod, created_at=now, key=_free_key(pod.key, taken))


def _free_key(key: ObjectKey, taken: Collection[ObjectKey]) -> ObjectKey:
    """A pod of a manifest that has the name of one that is there stands beside it, and does not replace it."""
    while key in taken:
        key = ObjectKey(key.namespace, f"{key.name}-planned")
    return key


def _observer(visible: VisibleCluster) -> WorldObserver:
    stores = visible.stores
    ledger = Ledger(now=lambda: visible.now)
    stores.requests.subscribe(ledger.notice)
    views = Views(
        stores.requests,
        stores.classes,
        stores.pools,
        stores.nodes,
        stores.pods,
        stores.daemon_sets,
        stores.disruption_budgets,
        stores.namespaces,
    )
    memory = PoolMemory()
    memory.types.restore(visible.shapes)
    memory.spot.restore(visible.spent)
    for record in stores.requests.values():
        memory.types.learn(record, own_node(views.nodes, record))
        memory.spot.learn(record)
    waiting = {uid_text(pod.uid): pod for pod in stores.pods.values() if asks_for_gpus(pod)}
    machines = UnusableMachines(views, memory.runaways)
    machines.restore(visible.unusable, visible.now)
    machines.look(waiting, visible.now)
    machines.forget_served(waiting, visible.now)
    return WorldObserver(
        views,
        SETTINGS,
        purchases=_Purchases(stores),
        market=stores.market,
        ledger=ledger,
        memory=memory,
        storage=StorageViews(stores.claims, stores.volumes, stores.storage_classes),
        budgets=stores.budgets,
    )
