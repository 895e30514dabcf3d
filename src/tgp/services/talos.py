"""The machine configs of a cluster, read with the user's own rights, and the join Secret, which can be written."""

import binascii
from base64 import b64decode
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from difflib import get_close_matches
from typing import Any, TypeVar

from tgp.adapters.kube.connect import connect
from tgp.adapters.kube.list import ListTarget, paged_when_ready
from tgp.adapters.kube.records.kinds import nodes, typed
from tgp.adapters.kube.records.projection import Projection
from tgp.adapters.kube.secret_reader import KubeSecretReader
from tgp.api.common import canonical_provider
from tgp.api.nodeclass import GPUNodeClass
from tgp.api.nodepool import GPUNodePool
from tgp.api.request import GPURequest
from tgp.api.resource import GPU_NODE_CLASS, GPU_NODE_POOL, GPU_REQUEST, SECRET
from tgp.controllers.joining.inputs import BootInputLoader
from tgp.core.classes.default_class import class_name
from tgp.core.joining.talos.class_templates import ClassTemplate, UnreadTemplate, configs_of, templates_of
from tgp.core.joining.talos.preview import ANY_NODE, NO_SCHEMATIC, Materials
from tgp.core.model.attempts import attempts_of, open_attempt
from tgp.core.model.gpus import resource_name
from tgp.core.model.join import JOIN_SECRET
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.mesh import Backend
from tgp.core.model.node import Node
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.record import ObjectRecord
from tgp.core.model.talos import TalosVersion
from tgp.core.requests.chosen_offer import offer_of, untrusted
from tgp.core.requests.node_metadata import desired_metadata, pool_name
from tgp.ports.boot import BootRefused
from tgp.ports.cluster import AlreadyExists, Cluster, ClusterError, Conflict, Forbidden, NotFound
from tgp.ports.http import Http
from tgp.services.talos_answers import ConfigChoice, NoMachineConfig, Spread, Stored

R = TypeVar("R", bound=ObjectRecord)
NVIDIA = "nvidia.com/gpu"
NO_OFFER = "no offer is chosen yet: the labels and taints of the machine are left out"


class TalosService:
    def __init__(self, http: Http, cluster: Cluster, namespace: str) -> None:
        self._http = http
        self._cluster = cluster
        self._secret_reader = KubeSecretReader(cluster, namespace)
        self.namespace = namespace

    # -- templates -----------------------------------------------------------------------------------------------------

    async def node_class(self, name: str) -> GPUNodeClass:
        records = await self._all(typed(GPU_NODE_CLASS, GPUNodeClass))
        found = next((record for record in records if record.key.name == name), None)
        if found is None:
            near = get_close_matches(name, [record.key.name for record in records], n=3)
            hint = f"; did you mean {', '.join(near)}?" if near else "; see kubectl get gpunodeclasses"
            raise NotFound(f"there is no class {name}{hint}")
        if found.value is None:
            raise ClusterError(f"class {name} was written by a newer version: upgrade tgp to read it")
        return found.value

    async def templates(
        self, node_class: str, version: TalosVersion | None, backend: Backend | None
    ) -> tuple[ClassTemplate, ...]:
        found = await self.node_class(node_class)
        boot_input = await self._boot_inputs()
        configs = configs_of(found)
        read: dict[str, str | UnreadTemplate | None] = {}
        for provider, config in configs.items():
            try:
                read[provider] = await boot_input.template(config)
            except BootRefused as error:
                read[provider] = UnreadTemplate(_for_user(error))
        if not configs:
            raise NoMachineConfig(f"No provider of class {node_class} boots a config: there is no template to check.")
        try:
            usual = boot_input.version(next(iter(configs.values())))
        except BootRefused as error:
            raise NoMachineConfig(str(error)) from error
        return templates_of(found, default_version=usual, version=version, backend=backend, templates=read)

    # -- a whole config ------------------------------------------------------------------------------------------------

    async def spread(self, options: ConfigChoice) -> Spread:
        record = await self._request(options.request) if options.request is not None else None
        node_class = await self.node_class(options.node_class or await self._class_of(record))
        attempt = open_attempt(attempts_of(record)) if record is not None else None
        offer = offer_of(attempt.offer) if attempt is not None and attempt.offer is not None else None
        request = record.value if record is not None else None
        configs = configs_of(node_class)
        said = (
            offer.provider
            if offer is not None
            else canonical_provider((request.spec.provider or "") if request else "")
        )
        provider = options.provider or said or next(iter(configs), "")
        if provider not in configs:
            raise NoMachineConfig(
                f"Class {node_class.metadata.name} boots machines at {', '.join(configs) or 'no provider'}; "
                f"provider {provider or '(none)'} is not among them."
            )
        try:
            boot_input = await (await self._boot_inputs()).load(node_class, provider, request)
        except BootRefused as error:
            raise NoMachineConfig(_for_user(error)) from error
        pool = await self._pool(record) if record is not None else None
        node_metadata = desired_metadata(record, attempt, pool) if record is not None and attempt is not None else None
        gpu = offer.gpu if offer is not None else ((request.spec.gpu_type or "") if request is not None else "")
        materials = Materials(
            node_class,
            provider,
            boot_input.version,
            boot_input.join,
            boot_input.template,
            boot_input.kubelet_image,
            request,
            (request.status.node_name if request is not None else "") or ANY_NODE,
            node_metadata.provider_id if node_metadata is not None else "",
            pool_name(record) if record is not None else "",
            node_metadata.labels if node_metadata is not None else {},
            (*node_metadata.taints, *node_metadata.startup_taints) if node_metadata is not None else (),
            nvidia=not gpu or resource_name(gpu) == NVIDIA,
            shared_secrets=offer is None or not untrusted(offer),
            schematic=boot_input.config.schematic or NO_SCHEMATIC,
        )
        return Spread(materials, (NO_OFFER,) if record is not None and node_metadata is None else ())

    async def _request(self, key: ObjectKey) -> KubeObject[GPURequest]:
        for record in await self._all(typed(GPU_REQUEST, GPURequest), key.namespace):
            if record.key == key:
                return record
        raise NotFound(f"there is no request {key}; see kubectl get gpurequests -A")

    async def _class_of(self, record: KubeObject[GPURequest] | None) -> str:
        assert record is not None, "a class or a request is named"
        if record.value is None:
            raise ClusterError(f"request {record.key} was written by a newer version: upgrade tgp to read it")
        classes = await self._all(typed(GPU_NODE_CLASS, GPUNodeClass))
        meant = record.value.status.node_class or class_name(record.value, classes)
        if not isinstance(meant, str):
            raise NoMachineConfig(f"The class of request {record.key} is unclear: {meant.message}")
        return meant

    async def _pool(self, record: KubeObject[GPURequest]) -> GPUNodePool | None:
        name = pool_name(record)
        if not name:
            return None
        pools = await self._all(typed(GPU_NODE_POOL, GPUNodePool), record.key.namespace)
        return next((pool.value for pool in pools if pool.key.name == name), None)

    # -- the join Secret -----------------------------------------------------------------------------------------------

    async def join_secret(self) -> Stored | None:
        try:
            found = await self._cluster.read(SECRET, ObjectKey(self.namespace, JOIN_SECRET))
        except NotFound:
            return None
        values = {key: decoded(value) for key, value in (found.get("data") or {}).items()}
        return Stored(values, str(found["metadata"]["uid"]), str(found["metadata"]["resourceVersion"]))

    async def write_join(self, manifest: Mapping[str, Any], before: Stored | None) -> None:
        try:
            if before is None:
                await self._cluster.create(SECRET, manifest)
                return
            change = {"data": manifest["data"]}
            key = ObjectKey(self.namespace, JOIN_SECRET)
            await self._cluster.patch(SECRET, key, change, resource_version=before.resource_version, uid=before.uid)
        except (AlreadyExists, Conflict) as error:
            raise Conflict("the Secret was changed meanwhile: run the command again") from error
        except NotFound as error:
            raise NotFound(
                f"namespace {self.namespace} does not exist: name the operator's namespace with --operator-namespace"
            ) from error

    # ----

    async def _boot_inputs(self) -> BootInputLoader:
        found: tuple[Node, ...] = ()
        with suppress(Forbidden):  # then the version is the class's, or the default
            found = tuple(await self._all(nodes()))
        return BootInputLoader(self._secret_reader, self._cluster, lambda: found)

    async def _all(self, projection: Projection[R], namespace: str = "") -> list[R]:
        try:
            found = await paged_when_ready(self._http, ListTarget(projection, namespace))
        except NotFound:
            raise NotFound(
                f"the API server does not serve {projection.resource.kind}: install it with tgp crds apply"
            ) from None
        return [found.records[key] for key in sorted(found.records)]


def _for_user(error: BootRefused) -> str:
    """The operator's message, rewritten for the user."""
    return str(error).replace("the operator may not read", "you may not read").partition(": add get on")[0]


def decoded(value: object) -> str:
    """A value of a Secret as text; empty: it is none."""
    try:
        return b64decode(str(value), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""


@asynccontextmanager
async def talos_service(kubeconfig: str, context: str, namespace: str) -> AsyncIterator[TalosService]:
    """For as long as the block lasts. Raises ConfigInvalid."""
    async with connect(kubeconfig, context) as connection:
        yield TalosService(connection.http, connection.cluster, namespace or connection.namespace)
