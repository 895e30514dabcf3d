"""GPUNodePools: their conditions and figures, the plan that buys for all of them, and the care for what was bought."""

from tgp.adapters.kube.controller import Controller, WatchSource
from tgp.api.resource import GPU_NODE_POOL
from tgp.controllers.deps import Deps, Stores
from tgp.controllers.instances.build import Instances
from tgp.controllers.instances.spend_log import SpendLog
from tgp.controllers.pools.machine_types import MachineTypeReconciler, shape_table
from tgp.controllers.pools.memory import PoolMemory
from tgp.controllers.pools.observe import StorageViews, WorldObserver
from tgp.controllers.pools.planner import PoolPlanner
from tgp.controllers.pools.reconciler import NodePoolReconciler
from tgp.controllers.pools.unusable import unusable_table
from tgp.controllers.pools.upkeep import PoolRequestReconciler
from tgp.controllers.requests.build import purchases_of, views_of
from tgp.controllers.status_writer import StatusWriter
from tgp.core.pools import nodepool
from tgp.core.pools.planner.world import Plan, PlanInput


class Pools:
    """What plans for pools and moves of their machines share."""

    def __init__(self, deps: Deps, stores: Stores, instances: Instances) -> None:
        self.views, self.memory = views_of(stores), PoolMemory()
        self.observer = WorldObserver(
            self.views,
            deps.settings,
            purchases=purchases_of(deps, stores, instances),
            market=stores.market,
            ledger=instances.ledger,
            memory=self.memory,
            storage=StorageViews(stores.claims, stores.volumes, stores.storage_classes),
            budgets=stores.budgets,
        )
        self.shapes = shape_table(deps.cluster, deps.settings.namespace, deps.journal)
        self.planner = PoolPlanner(
            self.views,
            deps.settings,
            plan=_plan,
            quick_plan=_quick_plan,
            observer=self.observer,
            memory=self.memory,
            shapes=self.shapes,
            unusable=unusable_table(deps.cluster, deps.settings.namespace, deps.journal),
            spend_log=SpendLog(deps.cluster, deps.settings.namespace),
            memos=instances.memos,
            cluster=deps.cluster,
            compute=deps.compute,
            journal=deps.journal,
            clock=deps.clock,
            announce=stores.plans.send,
        )


def build(deps: Deps, stores: Stores, pools: Pools) -> list[Controller]:
    watching = [_pools(deps, stores, pools), _planner(stores, pools.planner)]
    if deps.settings.observing:
        return watching
    return [*watching, _upkeep(deps, stores, pools), _machine_types(deps, stores, pools)]


def _pools(deps: Deps, stores: Stores, pools: Pools) -> Controller:
    reconciler = NodePoolReconciler(
        pools.views,
        pools.observer,
        pools.memory,
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
            WatchSource(stores.budgets, planner.of_budget),
            WatchSource(stores.sources.store, planner.of_others),
            WatchSource(stores.accesses.store, planner.of_others),
        ),
        workers=1,
    )


def _upkeep(deps: Deps, stores: Stores, pools: Pools) -> Controller:
    reconciler = PoolRequestReconciler(
        pools.views,
        memory=pools.memory,
        offer_for=pools.observer.offer_for,
        cluster=deps.cluster,
        journal=deps.journal,
        clock=deps.clock,
        announce=stores.plans.send,
    )
    return Controller(
        "pool-requests",
        reconciler,
        sources=(
            WatchSource(stores.requests),
            WatchSource(stores.pools, reconciler.of_pool),
            WatchSource(stores.plans.store, reconciler.of_plan),
        ),
        writes=(stores.requests,),
        workers=deps.settings.workers,
    )


def _machine_types(deps: Deps, stores: Stores, pools: Pools) -> Controller:
    types = pools.memory.types
    return Controller(
        "machine-types",
        MachineTypeReconciler(pools.views, types=types, table=pools.shapes, clock=deps.clock),
        sources=(WatchSource(stores.requests),),
        workers=1,
    )


def _plan(world: PlanInput) -> Plan:
    """Imported for the first plan: an operator without pools needs neither the planner nor its solver."""
    from tgp.core.pools.planner.plan import plan

    return plan(world)


def _quick_plan(world: PlanInput) -> Plan:
    """The first answer that is found: every rule is kept, but nothing improves or proves the price."""
    from tgp.core.pools.planner.plan import plan
    from tgp.core.pools.planner.solve import Effort

    return plan(world, Effort(rounds=0))
