"""Packs what a rented machine needs to become a Talos node of this cluster, and unpacks it again when it is gone.

Nothing here is paid for. What is made (a bootstrap token, a key of the mesh) is in the book first, so that it is found
and removed whatever happens in between.
"""

import asyncio
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta

import msgspec

from tgp.api.nodeclass import GPUNodeClass
from tgp.controllers.boot.book import BootBook
from tgp.controllers.boot.images import ImageDesk
from tgp.controllers.boot.mesh_desk import MeshDesk
from tgp.controllers.boot.papers import PaperDesk
from tgp.controllers.boot.stands import Stands
from tgp.controllers.boot.tokens import BootstrapTokens
from tgp.core.model.boot_book import Entry, MeshNote, note_of, trace_of
from tgp.core.model.gpus import resource_name
from tgp.core.model.machine_config import TemplateRefused
from tgp.core.model.mesh import Backend, MeshSettings, TailscaleJoin, TunnelJoin
from tgp.core.model.offer import BootMode, Offer
from tgp.core.model.secret import Secret
from tgp.core.model.token import read_token
from tgp.core.rules.mesh.choice import mesh_of, name_in
from tgp.core.rules.purchase import untrusted
from tgp.core.rules.talos.pages import Expectations
from tgp.core.rules.talos.plan import NodePlan
from tgp.core.rules.talos.render import render
from tgp.core.rules.talos.wrapping import DoesNotFit, wrap
from tgp.ports.boot import Birth, BootRefused, Luggage
from tgp.ports.clock import Clock
from tgp.ports.clouds import Clouds
from tgp.ports.cluster import ClusterBusy
from tgp.ports.factory import FactoryError, FactoryRefused
from tgp.ports.mesh import Enrolment, Mesh, MeshError, MeshRefused, Ticket

NVIDIA = "nvidia.com/gpu"


class TalosBoot:
    """Implements `Boot`."""

    def __init__(
        self,
        *,
        papers: PaperDesk,
        book: BootBook,
        tokens: BootstrapTokens,
        meshes: MeshDesk,
        images: ImageDesk,
        stands: Stands,
        clouds: Clouds,
        clock: Clock,
        default_backend: str,
        learn: Callable[[Secret], None],
    ) -> None:
        self._papers = papers
        self._book = book
        self._tokens = tokens
        self._meshes = meshes
        self._images = images
        self._stands = stands
        self._clouds = clouds
        self._clock = clock
        self._default_backend = default_backend
        self._learn = learn  # what must never pass a log
        self._naming = asyncio.Lock()  # two that find a hostname free would both take it

    def refuses(self, offer: Offer, node_class: GPUNodeClass) -> str:
        if offer.no_node:
            return offer.no_node
        settings = mesh_of(node_class, offer.provider, None, self._default_backend)
        if settings.backend is Backend.KUBESPAN and untrusted(offer):
            return "KubeSpan lets in whoever holds the cluster's secret, and the host is not the provider's own"
        return ""

    async def pack(self, birth: Birth) -> Luggage:
        offer = birth.offer
        if offer.boot is BootMode.POWER:
            return Luggage()  # it is a member of the cluster already
        settings = mesh_of(birth.node_class, offer.provider, birth.spec, self._default_backend)
        if why := self.refuses(offer, birth.node_class):
            raise BootRefused("CannotBoot", why)
        papers = await self._papers.papers(birth.node_class, offer.provider, birth.spec)
        nvidia = resource_name(offer.gpu) == NVIDIA
        try:
            image = await self._images.for_machine(
                papers.version,
                papers.config,
                offer,
                settings.backend,
                node_class=birth.node_class,
                nvidia=nvidia,
            )
        except FactoryRefused as error:
            raise BootRefused("ImageRefused", str(error)) from error
        except FactoryError as error:
            raise ClusterBusy(f"the image factory does not answer: {error}") from error
        enrolment = await self._enrol(birth, settings)
        bootstrap = await self._tokens.mint(birth.token, birth.node_name, birth.expires_at)
        plan = NodePlan(
            version=papers.version,
            node_name=birth.node_name,
            provider_id=birth.provider_id,
            kubelet_image=papers.kubelet_image,
            bootstrap_token=bootstrap,
            mesh=enrolment.join,
            nvidia=nvidia,
            labels=birth.labels,
            taints=birth.taints,
            installer=image.installer,
            pool=birth.pool,
            shared_secrets=not untrusted(offer),
        )
        try:
            expects = Expectations.of(plan, api_server=papers.server, schematic=image.schematic)
            rendered = render(plan, papers.join, papers.template, expects=expects)
            limit = self._clouds.facts(offer.provider).user_data_bytes
            wrapped = wrap(offer.boot, offer.provider, rendered.text, image, limit=limit, node_name=birth.node_name)
        except TemplateRefused as error:
            raise BootRefused("TemplateRefused", f"the machine config template: {error}") from error
        except DoesNotFit as error:
            raise BootRefused("ConfigTooLarge", str(error)) from error
        return Luggage(wrapped.user_data, wrapped.image)

    async def _enrol(self, birth: Birth, settings: MeshSettings) -> Enrolment:
        """On paper first: under this name something may be in the mesh from now on."""
        hostname = name_in(settings, birth.node_class, birth.spec, (birth.offer.provider, birth.node_name))
        try:
            mesh = await self._meshes.open(settings)
            await self._let_go(birth.token)
            entry = Entry(
                birth.token,
                str(birth.request),
                birth.node_name,
                self._clock.now().replace(microsecond=0),
                birth.expires_at.replace(microsecond=0),
                note_of(settings, hostname),
            )
            async with self._naming:
                await self._make_way(entry)
                await self._book.write(entry)
            enrolment = await mesh.enrol(Ticket(hostname, birth.node_name, birth.token, self._latest(birth)))
        except MeshRefused as error:
            raise BootRefused("MeshRefused", str(error)) from error
        except MeshError as error:
            raise ClusterBusy(f"the mesh does not answer: {error}") from error
        for secret in _secrets_of(enrolment):
            self._learn(secret)
        assert entry.mesh is not None, "it was written just now"
        note = msgspec.structs.replace(entry.mesh, key_id=enrolment.key_id, address=enrolment.address)
        if note != entry.mesh:
            await self._book.write(msgspec.structs.replace(entry, mesh=note))
        return enrolment

    def _latest(self, birth: Birth) -> datetime:
        """A key of the mesh cannot be made to last longer later on, and a deadline may be, to twice its time."""
        return birth.expires_at + max(birth.expires_at - self._clock.now(), timedelta(0))

    async def _make_way(self, entry: Entry) -> None:
        """A hostname may be all that tells which device is whose: two machines at once must not have the same."""
        assert entry.mesh is not None, "it was written just now"
        for other in list((await self._book.entries()).values()):
            if other.token == entry.token or other.mesh is None or _place(other.mesh) != _place(entry.mesh):
                continue
            if not _of_one_request(other.token, entry.token):
                raise BootRefused(
                    "HostnameTaken", f"{entry.mesh.hostname} is Node {other.node} in the mesh: choose another hostname"
                )
            await self._let_go(other.token)  # an earlier attempt's, which is over
            await self._book.drop(other.token)

    async def discard(self, token: str) -> None:
        await self._tokens.remove(token)
        self._stands.forget(token)
        try:
            await self._let_go(token)
        except MeshError:
            return  # the book remembers: it is swept later
        await self._book.drop(token)

    async def _let_go(self, token: str) -> None:
        """Whatever an earlier packing for this token left in the mesh."""
        entry = await self._book.get(token)
        trace = trace_of(entry) if entry is not None else None
        if entry is None or entry.mesh is None or trace is None:
            return
        mesh: Mesh = await self._meshes.reopen(entry.mesh)
        await mesh.remove(trace)


def _place(note: MeshNote) -> tuple[str, str, str]:
    return note.backend, note.login_server, note.hostname


def _of_one_request(token: str, other: str) -> bool:
    ours, theirs = read_token(token), read_token(other)
    return ours is not None and theirs is not None and ours.uid == theirs.uid


def _secrets_of(enrolment: Enrolment) -> Iterator[Secret]:
    match enrolment.join:
        case TailscaleJoin(auth_key):
            yield auth_key
        case TunnelJoin(private_key):
            yield private_key
        case _:
            pass
