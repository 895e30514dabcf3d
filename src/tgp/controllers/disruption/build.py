"""Disruption: the machines of pools that are empty, surplus, expired, drifted or too expensive go, within budgets."""

from tgp.adapters.kube.controller import Controller, WatchSource
from tgp.api.resource import GPU_NODE_POOL, GPU_REQUEST
from tgp.controllers.deps import Deps, Stores
from tgp.controllers.disruption.observe import DisruptionObserver
from tgp.controllers.disruption.reconciler import DisruptionReconciler
from tgp.controllers.pools.build import Pools
from tgp.controllers.status_writer import StatusWriter
from tgp.core.disruption.machine_state import CONDITION, HALTED


def build(deps: Deps, stores: Stores, pools: Pools) -> list[Controller]:
    async def list_pods() -> None:
        await deps.caches.list_again(stores.pods)

    reconciler = DisruptionReconciler(
        pools.views,
        observer=DisruptionObserver(
            pools.views,
            deps.settings.default_backend,
            deps.settings.repair_rules,
            memory=pools.memory,
            observer=pools.observer,
            compute=deps.compute,
            clouds=deps.clouds,
            clock=deps.clock,
        ),
        planner=pools.planner,
        status_writer=StatusWriter(
            GPU_REQUEST,
            frozenset({CONDITION}),
            deps.cluster,
            deps.journal,
            deps.clock,
            reported_elsewhere=frozenset({CONDITION}),
        ),
        pool_status_writer=StatusWriter(GPU_NODE_POOL, frozenset({HALTED}), deps.cluster, deps.journal, deps.clock),
        list_pods=list_pods,
        cluster=deps.cluster,
        journal=deps.journal,
        clock=deps.clock,
    )
    controller = Controller(
        "disruption",
        reconciler,
        sources=(
            WatchSource(stores.pools, reconciler.of_pool),
            WatchSource(stores.plans.store, reconciler.of_plan),
            WatchSource(stores.classes, reconciler.of_class),
            WatchSource(stores.requests, reconciler.of_request),
            WatchSource(stores.nodes, reconciler.of_node),
            WatchSource(stores.pods, reconciler.of_pod),
        ),
        also_reads=(
            stores.disruption_budgets,
            stores.namespaces,
            stores.daemon_sets,
            stores.claims,
            stores.volumes,
            stores.storage_classes,
        ),
        workers=1,
    )
    return [controller]
