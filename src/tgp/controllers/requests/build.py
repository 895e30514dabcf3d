"""GPURequests: reserve, launch, terminate. What wakes a request is listed at the end."""

from tgp.adapters.kube.controller import Controller, WatchSource
from tgp.api.resource import GPU_REQUEST
from tgp.controllers.deps import Deps, Stores
from tgp.controllers.instances.build import Instances
from tgp.controllers.instances.spend_log import SpendLog
from tgp.controllers.requests.event_mapping import RequestEventMapping
from tgp.controllers.requests.failure_cooldowns import FailureCooldowns
from tgp.controllers.requests.fresh_read_check import FreshReadCheck
from tgp.controllers.requests.ignored_annotations import IgnoredAnnotations
from tgp.controllers.requests.launch import Launcher
from tgp.controllers.requests.machine_gateway import MachineGateway
from tgp.controllers.requests.observe import MeshStatusOf, RequestObserver
from tgp.controllers.requests.purchase_gatherer import PurchaseGatherer, Views
from tgp.controllers.requests.readopt import Readopter
from tgp.controllers.requests.reconciler import RequestReconciler
from tgp.controllers.requests.reserve import Reserver
from tgp.controllers.requests.status import RequestStatusWriter
from tgp.controllers.requests.terminate import Terminator
from tgp.controllers.requests.termination_check import TerminationCheck
from tgp.controllers.status_writer import StatusWriter
from tgp.core.model.mesh import NO_MESH_NEEDED, MeshStatus
from tgp.core.model.node import Node
from tgp.core.requests.events import NOT_REPORTED
from tgp.core.requests.status import OWNED
from tgp.ports.boot import Boot

FEWEST_WORKERS = 16  # a reconcile may wait half a minute for a provider's answer


def no_mesh(_token: str, _node: Node | None) -> MeshStatus:
    """Where machines join by themselves."""
    return NO_MESH_NEEDED


def build(
    deps: Deps, stores: Stores, instances: Instances, boot: Boot, mesh_status: MeshStatusOf = no_mesh
) -> list[Controller]:
    reconciler = _reconciler(deps, stores, instances, boot, mesh_status)
    wakes = RequestEventMapping(stores.requests, stores.all_classes, instances.cache, instances.accounts)
    return [
        Controller(
            "requests",
            reconciler,
            sources=(
                WatchSource(stores.requests),
                WatchSource(stores.requests, wakes.after_a_release),
                WatchSource(stores.nodes, wakes.of_node),
                WatchSource(stores.pods, wakes.of_pod),
                WatchSource(stores.classes, wakes.of_class),
                WatchSource(stores.pools, wakes.of_pool),
                WatchSource(stores.implicit_class.store, wakes.of_class),
                WatchSource(stores.accesses.store, wakes.of_access),
                WatchSource(stores.accounts.store, wakes.of_account),
                WatchSource(stores.in_mesh.store),
                WatchSource(stores.sources.store, wakes.of_source),
                WatchSource(stores.daemon_sets, wakes.waiting_requests),
                WatchSource(stores.namespaces, wakes.of_namespace),
                WatchSource(stores.kinds.store, wakes.waiting_requests),
            ),
            also_reads=(stores.disruption_budgets,),
            writes=(stores.requests,),
            workers=max(deps.settings.workers, FEWEST_WORKERS),
            start_over=reconciler.start_over,
            first=wakes.goes_first,
        )
    ]


def views_of(stores: Stores) -> Views:
    return Views(
        stores.requests,
        stores.all_classes,
        stores.pools,
        stores.nodes,
        stores.pods,
        stores.daemon_sets,
        stores.disruption_budgets,
        stores.namespaces,
    )


def purchases_of(deps: Deps, stores: Stores, instances: Instances) -> PurchaseGatherer:
    return PurchaseGatherer(
        views_of(stores),
        deps.settings,
        market=stores.market,
        instance_cache=instances.cache,
        accounts=instances.accounts,
        ledger=instances.ledger,
        consistency=instances.consistency,
        clock=deps.clock,
        outdated_kinds=deps.outdated_kinds,
        kinds_not_compared=deps.kinds_not_compared,
    )


def _reconciler(
    deps: Deps, stores: Stores, instances: Instances, boot: Boot, mesh_status: MeshStatusOf
) -> RequestReconciler:
    cache, accounts, home = instances.cache, instances.accounts, deps.settings.namespace
    views, purchases = views_of(stores), purchases_of(deps, stores, instances)
    observer = RequestObserver(
        views,
        deps.settings,
        purchases=purchases,
        market=stores.market,
        instance_cache=cache,
        accounts=accounts,
        consistency=instances.consistency,
        clouds=deps.clouds,
        gate=deps.leader,
        clock=deps.clock,
        mesh_status=mesh_status,
    )
    cooldowns = FailureCooldowns(stores.market, accounts)
    conditions = StatusWriter(
        GPU_REQUEST, OWNED, deps.cluster, deps.journal, deps.clock, reported_elsewhere=NOT_REPORTED
    )
    status = RequestStatusWriter(conditions, cooldowns, deps.journal, deps.clock)
    gateway = MachineGateway(deps.clouds, accounts, deps.secrets, deps.leader, boot)

    return RequestReconciler(
        views,
        observer,
        reserver=Reserver(
            purchases,
            epoch=observer.epoch,
            cluster_id=stores.cluster_id,
            clouds=deps.clouds,
            instance_cache=cache,
            accounts=accounts,
            ledger=instances.ledger,
            request_status=status,
            journal=deps.journal,
            clock=deps.clock,
        ),
        launcher=Launcher(
            views.requests,
            observer,
            purchases,
            gateway=gateway,
            hold=instances.hold,
            fresh_read_check=FreshReadCheck(views, deps.cluster, home=home, boottime=deps.clock.boottime),
            cluster=deps.cluster,
            instance_cache=cache,
            accounts=accounts,
            failure_cooldowns=cooldowns,
            request_status=status,
            journal=deps.journal,
            clock=deps.clock,
        ),
        readopter=Readopter(
            purchases,
            access=instances.poller.access,
            accounts=accounts,
            instance_cache=cache,
            request_status=status,
            journal=deps.journal,
            clock=deps.clock,
        ),
        terminator=Terminator(
            views.nodes,
            deps.cluster,
            termination_check=TerminationCheck(
                observer, views.nodes, deps.cluster, deps.caches.of(stores.pods).list_again
            ),
            gateway=gateway,
            spend_log=SpendLog(deps.cluster, home, stores.machine_ends),
            instance_cache=cache,
            accounts=accounts,
            failure_cooldowns=cooldowns,
            request_status=status,
            journal=deps.journal,
        ),
        request_status=status,
        ignored_annotations=IgnoredAnnotations(deps.journal),
        cluster=deps.cluster,
        instance_cache=cache,
        accounts=accounts,
        ledger=instances.ledger,
        memos=instances.memos,
        clock=deps.clock,
    )
