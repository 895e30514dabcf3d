"""GPUNodeClasses: what a class can buy, what its machines cost, and the class made from the keys that are found."""

from tgp.adapters.kube.controller import Controller, WatchSource
from tgp.api.nodeclass import GPUNodeClass
from tgp.api.resource import GPU_NODE_CLASS
from tgp.controllers.classes.implicit_class import KEY, ImplicitClass
from tgp.controllers.classes.reconciler import NodeClassReconciler
from tgp.controllers.deps import Deps, Stores
from tgp.controllers.instances.build import Instances
from tgp.controllers.joining.build import Joining
from tgp.controllers.status_writer import StatusWriter
from tgp.core.classes.checks import OWNED
from tgp.core.classes.default_class import implicit_record
from tgp.core.model.kube_object import KubeObject


def build(deps: Deps, stores: Stores, instances: Instances, joining: Joining | None) -> list[Controller]:
    """Without `joining` machines join by themselves, and no template is checked."""
    settings = deps.settings
    reconciler = NodeClassReconciler(
        stores.classes,
        deps.secrets,
        stores.market,
        StatusWriter(GPU_NODE_CLASS, OWNED, deps.cluster, deps.journal, deps.clock),
        deps.clock,
        nodes=stores.nodes,
        clouds=deps.clouds,
        namespace=settings.namespace,
        default_backend=settings.default_backend,
        time_zones=settings.time_zones,
        hosts=settings.hosts,
        requests=None if settings.observing else stores.requests,
        halted=lambda: instances.collector.halted,
        stuck=lambda: instances.collector.stuck,
        inspector=joining.preflight if joining is not None else None,
        outdated_kinds=deps.outdated_kinds,
        preparing=joining.images.preparing if joining is not None else lambda _class: "",
    )
    machines = (
        WatchSource(stores.requests, reconciler.holding),
        WatchSource(stores.accesses.store, reconciler.halted_at),
    )
    classes = Controller(
        "nodeclasses",
        reconciler,
        sources=(
            WatchSource(stores.classes),
            WatchSource(stores.classes, reconciler.sharing),
            WatchSource(stores.nodes, reconciler.of_node),
            WatchSource(deps.secrets.changes.store, reconciler.referring_to),
            WatchSource(stores.sources.store, reconciler.selling_from),
            WatchSource(stores.kinds.store, reconciler.every),
            *(() if settings.observing else machines),
        ),
        writes=(stores.classes,),
        workers=settings.workers,
    )
    return [classes] if settings.observing else [classes, _implicit(deps, stores)]


def _implicit(deps: Deps, stores: Stores) -> Controller:
    cache = stores.implicit_class

    def show(made: GPUNodeClass | None) -> None:
        version = cache.next_version()
        if made is None:
            cache.store.drop(KubeObject(key=KEY, resource_version=version))
        else:
            cache.store.put(implicit_record(made, version))

    implicit = ImplicitClass(
        stores.classes,
        stores.requests,
        deps.secrets,
        deps.clock,
        default_backend=deps.settings.default_backend,
        show=show,
    )
    return Controller(
        "implicit-class",
        implicit,
        sources=(
            WatchSource(stores.classes, implicit.of_class),
            WatchSource(stores.requests, implicit.of_request),
            WatchSource(deps.secrets.changes.store, implicit.of_secret),
        ),
        read_only=True,
    )
