"""The part of the operator by which rented machines become Nodes: what they are given, and who lets them in."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime

from tgp.adapters.factory.client import FactoryClient
from tgp.adapters.kube.board import Board, Filler
from tgp.adapters.kube.controller import Controller, Source
from tgp.adapters.kube.records.kinds import signing_requests
from tgp.adapters.kube.records.projection import Projection
from tgp.adapters.kube.store import Store
from tgp.adapters.kube.vault import KubeVault
from tgp.api.nodeclass import GPUNodeClass
from tgp.api.request import Attempt, GPURequest
from tgp.api.resource import CERTIFICATE_SIGNING_REQUEST, Resource
from tgp.app.meshes import AllMeshes
from tgp.app.purchase_kit import Shelves
from tgp.app.shelves import AllShelves
from tgp.controllers.boot.book import BootBook
from tgp.controllers.boot.csrs import SigningRequests
from tgp.controllers.boot.image_sweep import ImageSweep
from tgp.controllers.boot.images import ImageDesk
from tgp.controllers.boot.inspection import ClassInspector
from tgp.controllers.boot.keeper import SWEEP, BootKeeper
from tgp.controllers.boot.mesh_desk import MeshDesk
from tgp.controllers.boot.papers import PaperDesk
from tgp.controllers.boot.shelf import ShelfKeeper
from tgp.controllers.boot.stands import Stands
from tgp.controllers.boot.talos_boot import TalosBoot
from tgp.controllers.boot.tokens import BootstrapTokens
from tgp.controllers.implicit_class import EveryClass
from tgp.core.model.boot_book import Entry, note_of
from tgp.core.model.key import Key
from tgp.core.model.offer import BootMode
from tgp.core.model.secret import Secret
from tgp.core.model.signing import SigningRequest
from tgp.core.model.typed import Typed
from tgp.core.model.workload import Metadata
from tgp.core.rules.lifecycle import joins_by
from tgp.core.rules.mesh.choice import mesh_of, name_in
from tgp.core.rules.node_names import node_name_for
from tgp.core.rules.patience import patience_for
from tgp.ports.clock import Clock
from tgp.ports.clouds import Clouds
from tgp.ports.cluster import Cluster
from tgp.ports.entropy import Entropy
from tgp.ports.http import Dial
from tgp.ports.journal import Journal

IMAGES = Key("", "images")
CHORE = Resource("tgp.io", "v1", "chores", "Chore", namespaced=False)  # never served: a board of our own


@dataclass(frozen=True)
class BootKit:
    """What booting is given by the rest of the operator."""

    shelves: Shelves
    classes: Store[Typed[GPUNodeClass]]
    every_class: EveryClass
    clouds: Clouds
    vault: KubeVault
    cluster: Cluster
    dial: Dial
    journal: Journal
    clock: Clock
    entropy: Entropy
    learn: Callable[[Secret], None]  # what must never pass a log
    cluster_id: Callable[[], str]  # empty: not known yet
    namespace: str
    default_backend: str
    talos_version: str
    factory_url: str
    tailscale_url: str
    workers: int


class Booting:
    def __init__(self, kit: BootKit) -> None:
        self._kit = kit
        shelves = kit.shelves
        self.asked: Store[SigningRequest] = Store(CERTIFICATE_SIGNING_REQUEST)
        self.chores: Board[Metadata] = Board(CHORE)
        self.stands = Stands()
        self.book = BootBook(kit.cluster, kit.namespace)
        self.tokens = BootstrapTokens(kit.cluster, kit.entropy, kit.clock, kit.learn)
        self.meshes = MeshDesk(self._make_meshes(), kit.vault)
        self.papers = PaperDesk(kit.vault, kit.cluster, shelves.nodes.values, talos_version=kit.talos_version)
        self.images = self._make_images()
        self.boot = TalosBoot(
            papers=self.papers,
            book=self.book,
            tokens=self.tokens,
            meshes=self.meshes,
            images=self.images,
            stands=self.stands,
            clouds=kit.clouds,
            clock=kit.clock,
            default_backend=kit.default_backend,
            learn=kit.learn,
        )
        self.inspector = ClassInspector(self.papers, self.meshes, kit.clouds, kit.clock, kit.default_backend)
        self.image_sweep = ImageSweep(kit.every_class, self.images, self.papers, kit.clock, kit.default_backend)
        self.keeper = BootKeeper(
            shelves.requests,
            shelves.nodes,
            book=self.book,
            tokens=self.tokens,
            meshes=self.meshes,
            stands=self.stands,
            cluster=kit.cluster,
            clock=kit.clock,
            joins_by=self._joins_by,
            announce=self._announce,
            recall=self._recall,
            discard=self.boot.discard,
        )
        self.signing = SigningRequests(
            asked=self.asked,
            requests=shelves.requests,
            tokens=self.tokens,
            cluster=kit.cluster,
            journal=kit.journal,
            clock=kit.clock,
        )

    def fillers(
        self, reflector: Callable[[Projection[SigningRequest], Store[SigningRequest]], Filler]
    ) -> tuple[Filler, ...]:
        return reflector(signing_requests(), self.asked), self.chores

    def controllers(self) -> tuple[Controller, ...]:
        kit, shelves = self._kit, self._kit.shelves
        for chore in (SWEEP, IMAGES):
            self.chores.store.put(Metadata(key=chore, resource_version=self.chores.next_version()))
        return (
            Controller(
                "joining",
                self.keeper,
                sources=(
                    Source(shelves.requests),
                    Source(shelves.nodes, self.keeper.of_node),
                    Source(self.chores.store, _only(SWEEP)),
                ),
                workers=kit.workers,
            ),
            Controller("images", self.image_sweep, sources=(Source(self.chores.store, _only(IMAGES)),)),
            Controller(
                "signing-requests",
                self.signing,
                sources=(Source(self.asked),),
                also_reads=(shelves.requests,),
            ),
        )

    def _make_meshes(self) -> AllMeshes:
        kit = self._kit
        return AllMeshes(
            kit.dial, kit.clock, kit.entropy, kit.cluster, namespace=kit.namespace, tailscale_url=kit.tailscale_url
        )

    def _make_images(self) -> ImageDesk:
        kit = self._kit
        factory = FactoryClient(kit.dial(kit.factory_url), kit.factory_url)
        return ImageDesk(factory, AllShelves(kit.dial), kit.vault, ShelfKeeper(kit.clock), kit.cluster_id)

    def _joins_by(self, record: Typed[GPURequest], attempt: Attempt) -> datetime | None:
        name = record.object.status.node_class if record.object is not None else None
        found = self._kit.every_class.get(Key("", name or ""))
        return joins_by(attempt, patience_for(found.object if found is not None else None, attempt.offer))

    def _recall(self, record: Typed[GPURequest], attempt: Attempt) -> Entry | None:
        """What was written when the machine was ordered, as far as its class still tells."""
        request, offer = record.object, attempt.offer
        if request is None or offer is None or offer.boot_mode == BootMode.POWER.value:
            return None
        node = node_name_for(record.key, attempt.token)
        found = self._kit.every_class.get(Key("", request.status.node_class or ""))
        if found is None or found.object is None or attempt.reserved_at is None:
            return None
        settings = mesh_of(found.object, offer.provider, request, self._kit.default_backend)
        hostname = name_in(settings, found.object, request, (offer.provider, node))
        until = self._joins_by(record, attempt) or attempt.reserved_at
        return Entry(
            attempt.token,
            str(record.key),
            node,
            attempt.reserved_at,
            until,
            note_of(settings, hostname),
        )

    def _announce(self, request: Key) -> None:
        board = self._kit.shelves.in_mesh
        board.store.put(Metadata(key=request, resource_version=board.next_version()))


def _only(wanted: Key) -> Callable[[Metadata | None, Metadata | None], Iterable[Key]]:
    """Of the chores on the board this one."""

    def chosen(old: Metadata | None, new: Metadata | None) -> Iterable[Key]:
        changed = new or old
        assert changed is not None, "a change has a before or an after"
        return (wanted,) if changed.key == wanted else ()

    return chosen
