"""A cluster as far as machine configs are concerned, with the rights of whoever asks: read, and one Secret written."""

import binascii
from base64 import b64decode
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from difflib import get_close_matches
from typing import Any, TypeVar

import click

from tgp.adapters.kube.list import Subject, paged
from tgp.adapters.kube.records.kinds import nodes, typed
from tgp.adapters.kube.records.projection import Projection
from tgp.adapters.kube.vault import KubeVault
from tgp.api.common import canonical_provider
from tgp.api.nodeclass import GPUNodeClass
from tgp.api.nodepool import GPUNodePool
from tgp.api.request import GPURequest
from tgp.api.resource import GPU_NODE_CLASS, GPU_NODE_POOL, GPU_REQUEST, SECRET
from tgp.app.connect import connect
from tgp.controllers.boot.papers import PaperDesk
from tgp.core.model.attempts import attempts_of, open_attempt
from tgp.core.model.gpus import resource_name
from tgp.core.model.join import JOIN_SECRET
from tgp.core.model.key import Key
from tgp.core.model.mesh import Backend
from tgp.core.model.node import Node
from tgp.core.model.record import Record
from tgp.core.model.talos import TalosVersion
from tgp.core.model.typed import Typed
from tgp.core.rules.default_class import class_name
from tgp.core.rules.node_dress import dress_of, pool_name
from tgp.core.rules.purchase import offer_of, untrusted
from tgp.core.rules.talos.preview import ANY_NODE, NO_SCHEMATIC, Materials
from tgp.core.rules.talos.sheets import Sheet, Unread, configs_of, sheets_of
from tgp.ports.boot import BootRefused
from tgp.ports.cluster import AlreadyExists, Cluster, ClusterError, Conflict, Forbidden, NotFound
from tgp.ports.http import Http
from tgp.surfaces.cli.talos import Spread, Wish
from tgp.surfaces.cli.talos_join import Stored

R = TypeVar("R", bound=Record)
NVIDIA = "nvidia.com/gpu"
NO_OFFER = "no offer is chosen yet: the labels and taints that its machine registers with are left out"


class TalosDesk:
    def __init__(self, http: Http, cluster: Cluster, namespace: str) -> None:
        self._http = http
        self._cluster = cluster
        self._vault = KubeVault(cluster, namespace)
        self.namespace = namespace

    # -- templates -----------------------------------------------------------------------------------------------------

    async def node_class(self, name: str) -> GPUNodeClass:
        records = await self._all(typed(GPU_NODE_CLASS, GPUNodeClass))
        found = next((record for record in records if record.key.name == name), None)
        if found is None:
            near = get_close_matches(name, [record.key.name for record in records], n=3)
            hint = f"; did you mean {', '.join(near)}?" if near else "; see kubectl get gpunodeclasses"
            raise NotFound(f"there is no class {name}{hint}")
        if found.object is None:
            raise ClusterError(f"class {name} was written by a newer version: upgrade to look at it")
        return found.object

    async def sheets(self, node_class: str, version: TalosVersion | None, backend: Backend | None) -> tuple[Sheet, ...]:
        found = await self.node_class(node_class)
        papers = await self._papers()
        configs = configs_of(found)
        templates: dict[str, str | Unread | None] = {}
        for provider, config in configs.items():
            try:
                templates[provider] = await papers.template(config)
            except BootRefused as error:
                templates[provider] = Unread(_for_a_person(error))
        if not configs:
            raise click.ClickException(
                f"no provider of class {node_class} boots anything: there is no template to check."
            )
        try:
            usual = papers.version(next(iter(configs.values())))
        except BootRefused as error:
            raise click.ClickException(str(error)) from error
        return sheets_of(found, default_version=usual, version=version, backend=backend, templates=templates)

    # -- a whole config ------------------------------------------------------------------------------------------------

    async def spread(self, wish: Wish) -> Spread:
        record = await self._request(wish.request) if wish.request is not None else None
        node_class = await self.node_class(wish.node_class or await self._class_of(record))
        attempt = open_attempt(attempts_of(record)) if record is not None else None
        offer = offer_of(attempt.offer) if attempt is not None and attempt.offer is not None else None
        request = record.object if record is not None else None
        configs = configs_of(node_class)
        said = (
            offer.provider
            if offer is not None
            else canonical_provider((request.spec.provider or "") if request else "")
        )
        provider = wish.provider or said or next(iter(configs), "")
        if provider not in configs:
            raise click.ClickException(
                f"class {node_class.metadata.name} boots machines at {', '.join(configs) or 'nobody'}, "
                f"not at {provider or 'anybody'}."
            )
        try:
            papers = await (await self._papers()).papers(node_class, provider, request)
        except BootRefused as error:
            raise click.ClickException(_for_a_person(error)) from error
        pool = await self._pool(record) if record is not None else None
        dress = dress_of(record, attempt, pool) if record is not None and attempt is not None else None
        gpu = offer.gpu if offer is not None else ((request.spec.gpu_type or "") if request is not None else "")
        materials = Materials(
            node_class,
            provider,
            papers.version,
            papers.join,
            papers.template,
            papers.kubelet_image,
            request,
            (request.status.node_name if request is not None else "") or ANY_NODE,
            dress.provider_id if dress is not None else "",
            pool_name(record) if record is not None else "",
            dress.labels if dress is not None else {},
            (*dress.taints, *dress.startup_taints) if dress is not None else (),
            nvidia=not gpu or resource_name(gpu) == NVIDIA,
            shared_secrets=offer is None or not untrusted(offer),
            schematic=papers.config.schematic or NO_SCHEMATIC,
        )
        return Spread(materials, (NO_OFFER,) if record is not None and dress is None else ())

    async def _request(self, key: Key) -> Typed[GPURequest]:
        for record in await self._all(typed(GPU_REQUEST, GPURequest), key.namespace):
            if record.key == key:
                return record
        raise NotFound(f"there is no request {key}; see kubectl get gpurequests -A")

    async def _class_of(self, record: Typed[GPURequest] | None) -> str:
        assert record is not None, "a class or a request is named"
        if record.object is None:
            raise ClusterError(f"request {record.key} was written by a newer version: upgrade to look at it")
        classes = await self._all(typed(GPU_NODE_CLASS, GPUNodeClass))
        meant = record.object.status.node_class or class_name(record.object, classes)
        if not isinstance(meant, str):
            raise click.ClickException(f"which class request {record.key} means cannot be told: {meant.message}")
        return meant

    async def _pool(self, record: Typed[GPURequest]) -> GPUNodePool | None:
        name = pool_name(record)
        if not name:
            return None
        pools = await self._all(typed(GPU_NODE_POOL, GPUNodePool), record.key.namespace)
        return next((pool.object for pool in pools if pool.key.name == name), None)

    # -- the join Secret -----------------------------------------------------------------------------------------------

    async def join_secret(self) -> Stored | None:
        try:
            found = await self._cluster.read(SECRET, Key(self.namespace, JOIN_SECRET))
        except NotFound:
            return None
        values = {key: _decoded(value) for key, value in (found.get("data") or {}).items()}
        return Stored(values, str(found["metadata"]["uid"]), str(found["metadata"]["resourceVersion"]))

    async def write_join(self, manifest: Mapping[str, Any], before: Stored | None) -> None:
        try:
            if before is None:
                await self._cluster.create(SECRET, manifest)
                return
            change = {"data": manifest["data"]}
            key = Key(self.namespace, JOIN_SECRET)
            await self._cluster.patch(SECRET, key, change, resource_version=before.resource_version, uid=before.uid)
        except (AlreadyExists, Conflict) as error:
            raise Conflict("somebody wrote the Secret meanwhile: look again") from error
        except NotFound as error:
            raise NotFound(
                f"there is no namespace {self.namespace}: if the operator lives elsewhere, say --namespace"
            ) from error

    # ----

    async def _papers(self) -> PaperDesk:
        found: tuple[Node, ...] = ()
        with suppress(Forbidden):  # then the version is the class's, or the usual one
            found = tuple(await self._all(nodes()))
        return PaperDesk(self._vault, self._cluster, lambda: found)

    async def _all(self, projection: Projection[R], namespace: str = "") -> list[R]:
        try:
            found = await paged(self._http, Subject(projection, namespace), {})
        except NotFound:
            raise NotFound(
                f"the API server does not know {projection.resource.kind}: install it with tgp crds apply"
            ) from None
        return [found.records[key] for key in sorted(found.records)]


def _for_a_person(error: BootRefused) -> str:
    """The same words, but for who may not read."""
    return str(error).replace("the operator may not read", "you may not read").partition(": let its Role")[0]


def _decoded(value: object) -> str:
    try:
        return b64decode(str(value), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""


@asynccontextmanager
async def talos_desk(kubeconfig: str, context: str, namespace: str) -> AsyncIterator[TalosDesk]:
    """For as long as the block lasts. Raises ConfigInvalid."""
    async with connect(kubeconfig, context) as connection:
        yield TalosDesk(connection.http, connection.cluster, namespace or connection.namespace)
