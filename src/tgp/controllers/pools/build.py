"""GPUNodePools: their conditions and figures, the plan that buys for all of them, and the care for what was bought."""

from tgp.adapters.kube.controller import Controller, WatchSource
from tgp.api.resource import GPU_NODE_POOL, GPU_REQUEST
from tgp.controllers.deps import Deps, Stores
from tgp.controllers.instances.build import Instances
from tgp.controllers.pools.machine_types import MachineTypeReconciler, ShapeTable
from tgp.controllers.pools.memory import PoolMemory
from tgp.controllers.pools.observe import StorageViews, WorldObserver
from tgp.controllers.pools.planner import PoolPlanner
from tgp.controllers.pools.reconciler import NodePoolReconciler
from tgp.controllers.pools.upkeep import PoolRequestReconciler
from tgp.controllers.requests.purchase_gatherer import PurchaseGatherer, Views
from tgp.controllers.status_writer import StatusWriter
from tgp.core.pools import nodepool, upkeep
from tgp.core.pools.planner.world import Plan, PlanInput


def build(deps: Deps, stores: Stores, instances: Instances) -> list[Controller]:
    views = Views(
        stores.requests,
        stores.all_classes,
        stores.pools,
        stores.nodes,
        stores.pods,
        stores.daemon_sets,
        stores.disruption_budgets,
        stores.namespaces,
    )
    memory = PoolMemory()
    purchases = PurchaseGatherer(
        views,
        deps.settings,
        market=stores.market,
        instance_cache=instances.cache,
        accounts=instances.accounts,
        ledger=instances.ledger,
        consistency=instances.consistency,
    )
    observer = WorldObserver(
        views,
        deps.settings,
        purchases=purchases,
        market=stores.market,
        ledger=instances.ledger,
        memory=memory,
        storage=StorageViews(stores.claims, stores.volumes, stores.storage_classes),
    )
    reconciler = NodePoolReconciler(
        views,
        observer,
        memory,
        StatusWriter(GPU_NODE_POOL, nodepool.OWNED, deps.cluster, deps.journal, deps.clock),
        cluster=deps.cluster,
    )
    own = Controller(
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
    shapes = ShapeTable(deps.cluster, deps.settings.namespace, deps.journal)
    planner = PoolPlanner(
        views,
        deps.settings,
        plan=_plan,
        observer=observer,
        memory=memory,
        shapes=shapes,
        cluster=deps.cluster,
        compute=deps.compute,
        journal=deps.journal,
        clock=deps.clock,
        announce=stores.plans.send,
    )
    if deps.settings.observing:
        return [own, _planner(stores, planner)]
    types = Controller(
        "machine-types",
        MachineTypeReconciler(views, types=memory.types, table=shapes, clock=deps.clock),
        sources=(WatchSource(stores.requests),),
        workers=1,
    )
    return [own, _planner(stores, planner), _upkeep(deps, stores, views, memory, observer), types]


def _planner(stores: Stores, planner: PoolPlanner) -> Controller:
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


def _upkeep(deps: Deps, stores: Stores, views: Views, memory: PoolMemory, observer: WorldObserver) -> Controller:
    async def list_pods() -> None:
        await deps.caches.list_again(stores.pods)

    reconciler = PoolRequestReconciler(
        views,
        memory=memory,
        offer_for=observer.offer_for,
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
            WatchSource(stores.nodes, reconciler.of_node),
            WatchSource(stores.pods, reconciler.of_pod),
        ),
        writes=(stores.requests,),
        workers=deps.settings.workers,
    )


def _plan(world: PlanInput) -> Plan:
    """Imported for the first plan: an operator without pools needs neither the planner nor its solver."""
    from tgp.core.pools.planner.plan import plan

    return plan(world)
