"""Machines you own: taken over where they are found on, kept on where their class says so."""

from tgp.adapters.kube.controller import Controller, WatchSource
from tgp.controllers.deps import Deps, Stores
from tgp.controllers.pools.build import Pools
from tgp.controllers.power.reconciler import PowerReconciler


def build(deps: Deps, stores: Stores, pools: Pools) -> list[Controller]:
    reconciler = PowerReconciler(
        pools.views, observer=pools.observer, planner=pools.planner, memory=pools.memory, clock=deps.clock
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
    return [controller]
