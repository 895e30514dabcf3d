"""Makes what a rented machine needs to become a Talos node of this cluster, and removes it when the machine is gone.

Nothing here is paid for. What is made (a bootstrap token, a key of the mesh) is recorded first, so that it is found
and removed whatever happens in between.
"""

import asyncio
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta

import msgspec

from tgp.controllers.joining.images import ImageResolver
from tgp.controllers.joining.inputs import BootInputLoader
from tgp.controllers.joining.mesh_cache import MeshStatusCache
from tgp.controllers.joining.meshes import MeshOpener
from tgp.controllers.joining.records import JoinRecords
from tgp.controllers.joining.tokens import BootstrapTokens
from tgp.core.joining.mesh.selection import mesh_of, name_in
from tgp.core.joining.talos.document_view import NodeExpectations
from tgp.core.joining.talos.plan import NodePlan
from tgp.core.joining.talos.render import render
from tgp.core.joining.talos.user_data import DoesNotFit, user_data_for
from tgp.core.model.gpus import resource_name
from tgp.core.model.join_record import JoinRecord, MeshRecord, note_of, trace_of
from tgp.core.model.machine_config import TemplateRefused
from tgp.core.model.mesh import MeshSettings, TailscaleJoin, TunnelJoin
from tgp.core.model.offer import BootMode
from tgp.core.model.secret import Secret
from tgp.core.model.token import read_token
from tgp.core.requests.chosen_offer import untrusted
from tgp.core.requests.purchase import cannot_boot
from tgp.ports.boot import BootPayload, BootRefused, BootRequest
from tgp.ports.clock import Clock
from tgp.ports.clouds import Clouds
from tgp.ports.cluster import ClusterBusy
from tgp.ports.image_factory import FactoryError, FactoryRefused
from tgp.ports.mesh import Enrollment, JoinRequest, Mesh, MeshError, MeshRefused

NVIDIA = "nvidia.com/gpu"


class TalosBoot:
    """Implements `Boot`."""

    def __init__(
        self,
        *,
        boot_input: BootInputLoader,
        book: JoinRecords,
        tokens: BootstrapTokens,
        meshes: MeshOpener,
        images: ImageResolver,
        mesh_statuses: MeshStatusCache,
        clouds: Clouds,
        clock: Clock,
        default_backend: str,
        learn: Callable[[Secret], None],
    ) -> None:
        self._boot_inputs = boot_input
        self._records = book
        self._tokens = tokens
        self._meshes = meshes
        self._images = images
        self._mesh_statuses = mesh_statuses
        self._clouds = clouds
        self._clock = clock
        self._default_backend = default_backend
        self._learn = learn  # what must never be logged
        self._naming = asyncio.Lock()  # two concurrent callers would both take a free hostname
        self._being_recorded: dict[str, JoinRecord] = {}  # by token: no other machine may take their hostnames

    async def pack(self, boot_request: BootRequest) -> BootPayload:
        offer = boot_request.offer
        if offer.boot is BootMode.POWER:
            return BootPayload()  # the machine is a member of the cluster already
        settings = mesh_of(boot_request.node_class, offer.provider, boot_request.spec, self._default_backend)
        if why := cannot_boot(offer, boot_request.node_class, self._default_backend):
            raise BootRefused("CannotBoot", why)
        boot_input = await self._boot_inputs.load(boot_request.node_class, offer.provider, boot_request.spec)
        nvidia = resource_name(offer.gpu) == NVIDIA
        try:
            image = await self._images.for_machine(
                boot_input.version,
                boot_input.config,
                offer,
                settings.backend,
                node_class=boot_request.node_class,
                nvidia=nvidia,
            )
        except FactoryRefused as error:
            raise BootRefused("ImageRefused", str(error)) from error
        except FactoryError as error:
            raise ClusterBusy(f"the image factory does not answer: {error}") from error
        enrollment = await self._enroll(boot_request, settings)
        bootstrap = await self._tokens.mint(boot_request.token, boot_request.node_name, boot_request.expires_at)
        plan = NodePlan(
            version=boot_input.version,
            node_name=boot_request.node_name,
            provider_id=boot_request.provider_id,
            kubelet_image=boot_input.kubelet_image,
            bootstrap_token=bootstrap,
            mesh=enrollment.join,
            nvidia=nvidia,
            labels=boot_request.labels,
            taints=boot_request.taints,
            installer=image.installer,
            pool=boot_request.pool,
            shared_secrets=not untrusted(offer),
        )
        try:
            expects = NodeExpectations.of(plan, api_server=boot_input.server, schematic=image.schematic)
            rendered = render(plan, boot_input.join, boot_input.template, expects=expects)
            facts = self._clouds.facts(offer.provider)
            wrapped = user_data_for(offer.boot, facts, rendered.text, image, node_name=boot_request.node_name)
        except TemplateRefused as error:
            raise BootRefused("TemplateRefused", f"the machine config template: {error}") from error
        except DoesNotFit as error:
            raise BootRefused("ConfigTooLarge", str(error)) from error
        return BootPayload(wrapped.user_data, wrapped.image)

    async def _enroll(self, boot_request: BootRequest, settings: MeshSettings) -> Enrollment:
        """Recorded first: from now on there may be a device of this name in the mesh."""
        hostname = name_in(
            settings, boot_request.node_class, boot_request.spec, (boot_request.offer.provider, boot_request.node_name)
        )
        try:
            mesh = await self._meshes.open(settings)
            await self._let_go(boot_request.token)
            entry = JoinRecord(
                boot_request.token,
                str(boot_request.request),
                boot_request.node_name,
                self._clock.now().replace(microsecond=0),
                boot_request.expires_at.replace(microsecond=0),
                note_of(settings, hostname),
            )
            await self._record(entry)
            enrollment = await mesh.enroll(
                JoinRequest(hostname, boot_request.node_name, boot_request.token, self._latest(boot_request))
            )
        except MeshRefused as error:
            raise BootRefused("MeshRefused", str(error)) from error
        except MeshError as error:
            raise ClusterBusy(f"the mesh does not answer: {error}") from error
        for secret in _secrets_of(enrollment):
            self._learn(secret)
        assert entry.mesh is not None, "written just now"
        note = msgspec.structs.replace(entry.mesh, key_id=enrollment.key_id, address=enrollment.address)
        if note != entry.mesh:
            await self._records.update(msgspec.structs.replace(entry, mesh=note))
        return enrollment

    def _latest(self, boot_request: BootRequest) -> datetime:
        """The lifetime of a mesh key cannot be extended later, but a timeout can be, to twice its length."""
        return boot_request.expires_at + max(boot_request.expires_at - self._clock.now(), timedelta(0))

    async def _record(self, entry: JoinRecord) -> None:
        """The lock is released before the write, so that records of several machines are written together."""
        async with self._naming:
            await self._make_way(entry)
            self._being_recorded[entry.token] = entry
        try:
            await self._records.begin(entry)
        finally:
            del self._being_recorded[entry.token]

    async def _make_way(self, entry: JoinRecord) -> None:
        """The hostname may be the only link between device and machine: two machines must not share one."""
        assert entry.mesh is not None, "written just now"
        place = _place(entry.mesh)
        for other in (*(await self._records.entries()).values(), *self._being_recorded.values()):
            if other.token == entry.token or other.mesh is None or _place(other.mesh) != place:
                continue
            if not _of_one_request(other.token, entry.token):
                raise BootRefused(
                    "HostnameTaken",
                    f"hostname {entry.mesh.hostname} is used by Node {other.node} in the mesh: choose another hostname",
                )
            await self._let_go(other.token)  # of an earlier attempt, which is over
            await self._records.drop(other.token)

    async def discard(self, token: str) -> None:
        await self._tokens.remove(token)
        self._mesh_statuses.forget(token)
        try:
            await self._let_go(token)
        except MeshError:
            return  # the record stays: cleaned up later
        await self._records.drop(token)

    async def _let_go(self, token: str) -> None:
        """Removes what an earlier `prepare` for this token left in the mesh."""
        entry = await self._records.get(token)
        trace = trace_of(entry) if entry is not None else None
        if entry is None or entry.mesh is None or trace is None:
            return
        mesh: Mesh = await self._meshes.reopen(entry.mesh)
        await mesh.remove(trace)


def _place(note: MeshRecord) -> tuple[str, str, str]:
    return note.backend, note.login_server, note.hostname


def _of_one_request(token: str, other: str) -> bool:
    ours, theirs = read_token(token), read_token(other)
    return ours is not None and theirs is not None and ours.uid == theirs.uid


def _secrets_of(enrollment: Enrollment) -> Iterator[Secret]:
    match enrollment.join:
        case TailscaleJoin(auth_key):
            yield auth_key
        case TunnelJoin(private_key):
            yield private_key
        case _:
            pass
