"""GPUNodePools: their conditions. Nothing is bought for a pool yet."""

from tgp.adapters.kube.controller import Controller, WatchSource
from tgp.api.resource import GPU_NODE_POOL
from tgp.controllers.deps import Deps, Stores
from tgp.controllers.pools.reconciler import NodePoolReconciler
from tgp.controllers.status_writer import StatusWriter
from tgp.core.pools import nodepool


def build(deps: Deps, stores: Stores) -> list[Controller]:
    reconciler = NodePoolReconciler(
        stores.pools,
        stores.classes,
        stores.namespaces,
        StatusWriter(GPU_NODE_POOL, nodepool.OWNED, deps.cluster, deps.journal, deps.clock),
        allowed_namespaces_required=deps.settings.allowed_namespaces_required,
        observing=deps.settings.observing,
        time_zones=deps.settings.time_zones,
    )
    return [
        Controller(
            "nodepools",
            reconciler,
            sources=(
                WatchSource(stores.pools),
                WatchSource(stores.classes, reconciler.of_class),
                WatchSource(stores.namespaces, reconciler.of_namespace),
            ),
            writes=(stores.pools,),
            workers=deps.settings.workers,
        )
    ]
