"""GPUNodePools: their conditions and figures, the plan that buys for all of them, and the care for what was bought."""

from dataclasses import dataclass

from tgp.adapters.kube.controller import Controller, WatchSource
from tgp.api.resource import GPU_NODE_POOL, GPU_REQUEST
from tgp.controllers.deps import Deps, Stores
from tgp.controllers.instances.build import Instances
from tgp.controllers.instances.spend_log import SpendLog
from tgp.controllers.pools.machine_types import MachineTypeReconciler, ShapeTable, shape_table
from tgp.controllers.pools.memory import PoolMemory
from tgp.controllers.pools.observe import StorageViews, WorldObserver
from tgp.controllers.pools.planner import PoolPlanner
from tgp.controllers.pools.reconciler import NodePoolReconciler
from tgp.controllers.pools.unusable import unusable_table
from tgp.controllers.pools.upkeep import PoolRequestReconciler
from tgp.controllers.requests.build import purchases_of, views_of
from tgp.controllers.requests.purchase_gatherer import Views
from tgp.controllers.status_writer import StatusWriter
from tgp.core.pools import nodepool, upkeep
from tgp.core.pools.planner.plan import plan


@dataclass(frozen=True, slots=True)
class _Shared:
    """What the controllers of pools have in common."""

    views: Views
    memory: PoolMemory
    observer: WorldObserver
    shapes: ShapeTable


def build(deps: Deps, stores: Stores, instances: Instances) -> list[Controller]:
    views, memory = views_of(stores), PoolMemory()
    observer = WorldObserver(
        views,
        deps.settings,
        purchases=purchases_of(deps, stores, instances),
        market=stores.market,
        ledger=instances.ledger,
        memory=memory,
        storage=StorageViews(stores.claims, stores.volumes, stores.storage_classes),
    )
    shapes = shape_table(deps.cluster, deps.settings.namespace, deps.journal)
    shared = _Shared(views, memory, observer, shapes)
    watching = [_pools(deps, stores, shared), _planner(deps, stores, shared)]
    if deps.settings.observing:
        return watching
    return [*watching, _upkeep(deps, stores, shared), _machine_types(deps, stores, shared)]


def _pools(deps: Deps, stores: Stores, shared: _Shared) -> Controller:
    reconciler = NodePoolReconciler(
        shared.views,
        shared.observer,
        shared.memory,
        StatusWriter(GPU_NODE_POOL, nodepool.OWNED, deps.cluster, deps.journal, deps.clock),
        cluster=deps.cluster,
        clock=deps.clock,
    )
    return Controller(
        "nodepools",
        reconciler,
        sources=(
            WatchSource(stores.pools),
            WatchSource(stores.classes, reconciler.of_class),
            WatchSource(stores.namespaces, reconciler.of_namespace),
            WatchSource(stores.plans.store),
            WatchSource(stores.requests, reconciler.of_request),
        ),
        writes=(stores.pools,),
        workers=deps.settings.workers,
    )


def _planner(deps: Deps, stores: Stores, shared: _Shared) -> Controller:
    planner = PoolPlanner(
        shared.views,
        deps.settings,
        plan=plan,
        observer=shared.observer,
        memory=shared.memory,
        shapes=shared.shapes,
        unusable=unusable_table(deps.cluster, deps.settings.namespace, deps.journal),
        spend_log=SpendLog(deps.cluster, deps.settings.namespace),
        cluster=deps.cluster,
        compute=deps.compute,
        journal=deps.journal,
        clock=deps.clock,
        announce=stores.plans.send,
    )
    return Controller(
        "pool-planner",
        planner,
        sources=(
            WatchSource(stores.nodes, planner.of_node),
            WatchSource(stores.pods, planner.of_pod),
            WatchSource(stores.requests, planner.of_request),
            WatchSource(stores.pools, planner.of_pool),
            WatchSource(stores.classes, planner.of_others),
            WatchSource(stores.namespaces, planner.of_others),
            WatchSource(stores.daemon_sets, planner.of_others),
            WatchSource(stores.claims, planner.of_others),
            WatchSource(stores.volumes, planner.of_others),
            WatchSource(stores.storage_classes, planner.of_others),
            WatchSource(stores.sources.store, planner.of_others),
            WatchSource(stores.accesses.store, planner.of_others),
        ),
        workers=1,
    )


def _upkeep(deps: Deps, stores: Stores, shared: _Shared) -> Controller:
    async def list_pods() -> None:
        await deps.caches.list_again(stores.pods)

    reconciler = PoolRequestReconciler(
        shared.views,
        memory=shared.memory,
        offer_for=shared.observer.offer_for,
        status_writer=StatusWriter(GPU_REQUEST, frozenset({upkeep.DISRUPTED}), deps.cluster, deps.journal, deps.clock),
        list_pods=list_pods,
        cluster=deps.cluster,
        journal=deps.journal,
        clock=deps.clock,
    )
    return Controller(
        "pool-requests",
        reconciler,
        sources=(
            WatchSource(stores.requests),
            WatchSource(stores.pools, reconciler.of_pool),
            WatchSource(stores.plans.store, reconciler.of_plan),
            WatchSource(stores.nodes, reconciler.of_node),
            WatchSource(stores.pods, reconciler.of_pod),
        ),
        writes=(stores.requests,),
        workers=deps.settings.workers,
    )


def _machine_types(deps: Deps, stores: Stores, shared: _Shared) -> Controller:
    types = shared.memory.types
    return Controller(
        "machine-types",
        MachineTypeReconciler(shared.views, types=types, table=shared.shapes, clock=deps.clock),
        sources=(WatchSource(stores.requests),),
        workers=1,
    )
