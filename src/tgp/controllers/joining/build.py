"""How rented machines become Nodes: what they boot with, their place in the mesh, and their kubelet's certificate."""

from collections.abc import Callable, Iterable
from datetime import datetime

from tgp.adapters.image_factory.client import FactoryClient
from tgp.adapters.kube.controller import Controller, WatchSource
from tgp.adapters.mesh.registry import AllMeshes
from tgp.api.request import Attempt, GPURequest
from tgp.controllers.deps import Deps, Stores
from tgp.controllers.joining.class_preflight import ClassPreflightChecker
from tgp.controllers.joining.csrs import SigningRequests
from tgp.controllers.joining.image_sweep import ImageSweep
from tgp.controllers.joining.images import ImageResolver
from tgp.controllers.joining.inputs import BootInputLoader
from tgp.controllers.joining.mesh_cache import MeshStatusCache
from tgp.controllers.joining.meshes import MeshOpener
from tgp.controllers.joining.reconciler import SWEEP, JoinReconciler
from tgp.controllers.joining.records import JoinRecords
from tgp.controllers.joining.snapshots import SnapshotManager
from tgp.controllers.joining.talos_boot import TalosBoot
from tgp.controllers.joining.tokens import BootstrapTokens
from tgp.core.joining.mesh.selection import mesh_of, name_in
from tgp.core.model.attempts import provider_of
from tgp.core.model.join_record import JoinRecord, note_of
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.offer import BootMode
from tgp.core.model.workload import Metadata
from tgp.core.requests.moments import joins_by
from tgp.core.requests.node_names import node_name_for
from tgp.core.requests.timeouts import startup_timeouts_for
from tgp.ports.clouds import known_facts

IMAGES = ObjectKey("", "images")
FEWEST_WORKERS = 16  # a reconcile may wait half a minute for a mesh


class Joining:
    """What other features ask about joining."""

    def __init__(self, deps: Deps, stores: Stores) -> None:
        self._stores = stores
        self._clouds = deps.clouds
        self._default_backend = deps.settings.default_backend
        settings = deps.settings
        meshes = AllMeshes(
            deps.http,
            deps.clock,
            deps.entropy,
            deps.cluster,
            namespace=settings.namespace,
            tailscale_url=settings.tailscale_url,
        )
        self.meshes = MeshOpener(meshes, deps.secrets)
        self.records = JoinRecords(deps.cluster, settings.namespace)
        self.tokens = BootstrapTokens(deps.cluster, deps.entropy, deps.clock, deps.learn)
        self.mesh_statuses = MeshStatusCache()
        self.boot_inputs = BootInputLoader(
            deps.secrets, deps.cluster, stores.nodes.values, talos_version=settings.talos_version
        )
        self.images = ImageResolver(
            FactoryClient(deps.http(settings.factory_url), settings.factory_url),
            deps.clouds,
            deps.secrets,
            SnapshotManager(deps.clock),
            stores.cluster_id,
        )
        self.boot = TalosBoot(
            boot_input=self.boot_inputs,
            book=self.records,
            tokens=self.tokens,
            meshes=self.meshes,
            images=self.images,
            mesh_statuses=self.mesh_statuses,
            clouds=deps.clouds,
            clock=deps.clock,
            default_backend=settings.default_backend,
            learn=deps.learn,
        )
        self.preflight = ClassPreflightChecker(
            self.boot_inputs, self.meshes, deps.clouds, deps.clock, settings.default_backend, images=self.images
        )

    def joins_by(self, record: KubeObject[GPURequest], attempt: Attempt) -> datetime | None:
        name = record.value.status.node_class if record.value is not None else None
        found = self._stores.all_classes.get(ObjectKey("", name or ""))
        facts = known_facts(self._clouds, provider_of(attempt))
        return joins_by(attempt, startup_timeouts_for(found.value if found else None, attempt.offer, facts))

    def recorded_again(self, record: KubeObject[GPURequest], attempt: Attempt) -> JoinRecord | None:
        """What was written when the machine was ordered, as far as its class still says."""
        request, offer = record.value, attempt.offer
        if request is None or offer is None or offer.boot_mode == BootMode.POWER.value:
            return None
        node = node_name_for(record.key, attempt.token)
        found = self._stores.all_classes.get(ObjectKey("", request.status.node_class or ""))
        if found is None or found.value is None or attempt.reserved_at is None:
            return None
        settings = mesh_of(found.value, offer.provider, request, self._default_backend)
        hostname = name_in(settings, found.value, request, (offer.provider, node))
        until = self.joins_by(record, attempt) or attempt.reserved_at
        return JoinRecord(attempt.token, str(record.key), node, attempt.reserved_at, until, note_of(settings, hostname))


def build(deps: Deps, stores: Stores, joining: Joining) -> list[Controller]:
    reconciler = JoinReconciler(
        stores.requests,
        stores.nodes,
        book=joining.records,
        tokens=joining.tokens,
        meshes=joining.meshes,
        mesh_statuses=joining.mesh_statuses,
        cluster=deps.cluster,
        clock=deps.clock,
        joins_by=joining.joins_by,
        announce=stores.in_mesh.send,
        recall=joining.recorded_again,
        discard=joining.boot.discard,
    )
    images = ImageSweep(
        stores.all_classes, joining.images, joining.boot_inputs, deps.clock, deps.settings.default_backend
    )
    signing = SigningRequests(
        asked=stores.signing_requests,
        requests=stores.requests,
        tokens=joining.tokens,
        cluster=deps.cluster,
        journal=deps.journal,
        clock=deps.clock,
    )
    for sweep in (SWEEP, IMAGES):
        stores.sweeps.send(sweep)
    return [
        Controller(
            "joining",
            reconciler,
            sources=(
                WatchSource(stores.requests),
                WatchSource(stores.nodes, reconciler.of_node),
                WatchSource(stores.sweeps.store, _only(SWEEP)),
            ),
            workers=max(deps.settings.workers, FEWEST_WORKERS),
        ),
        Controller("images", images, sources=(WatchSource(stores.sweeps.store, _only(IMAGES)),)),
        Controller(
            "signing-requests",
            signing,
            sources=(WatchSource(stores.signing_requests),),
            also_reads=(stores.requests,),
        ),
    ]


def _only(wanted: ObjectKey) -> Callable[[Metadata | None, Metadata | None], Iterable[ObjectKey]]:
    def chosen(old: Metadata | None, new: Metadata | None) -> Iterable[ObjectKey]:
        changed = new or old
        assert changed is not None, "a change has a before or an after"
        return (wanted,) if changed.key == wanted else ()

    return chosen
