"""Machines you own: taken over where they are found on, kept on where their class says so, named by the environment."""

from tgp.adapters.kube.controller import Controller, WatchSource, only
from tgp.controllers.deps import Deps, Stores
from tgp.controllers.pools.build import Pools
from tgp.controllers.power.node_groups import KEY, NodeGroupReconciler
from tgp.controllers.power.reconciler import PowerReconciler


def build(deps: Deps, stores: Stores, pools: Pools) -> list[Controller]:
    node_groups = NodeGroupReconciler(
        pools.views,
        deps.settings.node_groups,
        deps.settings.namespace,
        cluster=deps.cluster,
        journal=deps.journal,
        clock=deps.clock,
    )
    reconciler = PowerReconciler(
        pools.views,
        observer=pools.observer,
        planner=pools.planner,
        memory=pools.memory,
        node_groups=node_groups,
        clock=deps.clock,
    )
    controller = Controller(
        "power",
        reconciler,
        sources=(
            WatchSource(stores.pools),
            WatchSource(stores.classes, reconciler.of_class),
            WatchSource(stores.nodes, reconciler.of_node),
            WatchSource(stores.requests, reconciler.of_request),
            WatchSource(stores.sources.store, reconciler.of_others),
            WatchSource(stores.accesses.store, reconciler.of_others),
        ),
        also_reads=(stores.pods, stores.namespaces, stores.daemon_sets),
        workers=1,
    )
    return [controller, _node_groups(stores, node_groups)] if deps.settings.node_groups else [controller]


def _node_groups(stores: Stores, reconciler: NodeGroupReconciler) -> Controller:
    stores.sweeps.send(KEY)
    return Controller(
        "node-groups",
        reconciler,
        sources=(
            WatchSource(stores.sweeps.store, only(KEY)),
            WatchSource(stores.classes, reconciler.of_object),
            WatchSource(stores.pools, reconciler.of_object),
        ),
        workers=1,
    )
