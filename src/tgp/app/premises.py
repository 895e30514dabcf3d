"""One cluster as somebody with a kubeconfig looks after its money: objects, brakes, and the providers it rents at."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

from tgp.adapters.kube.errors import error_for
from tgp.adapters.kube.list import Subject, paged
from tgp.adapters.kube.records.kinds import nodes, typed
from tgp.adapters.kube.records.projection import Projection
from tgp.adapters.kube.vault import KubeVault
from tgp.adapters.resolver import SystemResolver
from tgp.api.nodeclass import GPUNodeClass
from tgp.api.request import GPURequest
from tgp.api.resource import CONFIG_MAP, GPU_NODE_CLASS, GPU_REQUEST, NAMESPACE, NODE
from tgp.api.values import rfc3339
from tgp.app.clouds import AllClouds
from tgp.app.connect import Connection, connect
from tgp.app.dialling import switchboard
from tgp.app.meshes import AllMeshes
from tgp.app.patrol import Patrol
from tgp.app.pretend import pretends
from tgp.app.shop import A_PERSONS
from tgp.app.way_finder import WayFinder
from tgp.core.model.cloud_account import TABLE, CloudAccount, read_line
from tgp.core.model.hold import HOLD, Hold, hold_of
from tgp.core.model.identity import cluster_id
from tgp.core.model.instance import Instance
from tgp.core.model.key import Key
from tgp.core.model.node import Node
from tgp.core.model.record import Record, uid_text
from tgp.core.model.spend import SPEND_LABEL, Entry, entries, unreadable
from tgp.core.model.survey import Inspection, Survey
from tgp.core.model.trust import trust_key
from tgp.core.model.typed import Typed
from tgp.core.rules.holdings import expected
from tgp.core.rules.mesh.way import Target, Way
from tgp.core.rules.power_hosts import HostRules
from tgp.ports.clock import Clock
from tgp.ports.clouds import Clouds
from tgp.ports.cluster import Cluster, ClusterBusy, Forbidden, NotFound
from tgp.ports.http import Call, Dial, Http, HttpError
from tgp.ports.mesh import Meshes
from tgp.ports.resolver import Resolver
from tgp.surfaces.cli.confirming import Confirmed

R = TypeVar("R", bound=Record)
PAGE = 500


class Premises:
    def __init__(
        self,
        http: Http,
        cluster: Cluster,
        clock: Clock,
        clouds: Clouds,
        *,
        namespace: str,
        context: str,
        identity: str,  # the cluster id
        meshes: Meshes | None = None,  # None: no mesh can be asked from here
    ) -> None:
        self._http = http
        self._cluster = cluster
        self._clock = clock
        self._namespace = namespace
        self._context = context
        self._identity = identity
        vault = KubeVault(cluster, namespace)
        self._patrol = Patrol(identity, clouds, vault)
        self._way_finder = WayFinder(http, cluster, meshes, vault, namespace)

    @property
    def title(self) -> str:
        return self._context or self._identity

    # -- looking -----------------------------------------------------------------------------------------------------

    async def survey(self, *, ask: bool = True) -> Survey:
        classes = await self._all(typed(GPU_NODE_CLASS, GPUNodeClass), needed=ask)
        inspections: tuple[Inspection, ...] = ()
        accounts: Mapping[str, CloudAccount] | None = {}
        if ask:
            accounts = await self._accounts()
            before = await self._all(typed(GPU_REQUEST, GPURequest))
            readable = [record.object for record in classes if record.object is not None]
            inspections = await self._patrol.inspect(
                readable, [attempt for _, attempt in expected(before)], accounts or {}
            )
        # After the lists: whatever they show was reserved before, so its request is here, or it is gone.
        requests, machines, hold = await asyncio.gather(
            self._all(typed(GPU_REQUEST, GPURequest), needed=ask),
            self._all(nodes()),
            self._hold(),
        )
        return Survey(
            self._identity,
            self._namespace,
            await self.now(),
            hold,
            classes=classes,
            requests=requests,
            nodes=machines,
            inspections=inspections,
            accounts=accounts or {},
            accounts_unread=accounts is None,
        )

    async def _accounts(self) -> Mapping[str, CloudAccount] | None:
        """The table that the operator keeps; None: this person may not read it."""
        try:
            found = await self._cluster.read(CONFIG_MAP, Key(self._namespace, TABLE))
        except NotFound:
            return {}
        except Forbidden:
            return None
        rows = ((name, read_line(line)) for name, line in (found.get("data") or {}).items())
        return {name: account for name, account in rows if account is not None}

    async def now(self) -> datetime:
        try:
            reply = await self._http.send(Call("GET", NAMESPACE.path(name=self._namespace)))
            told = parsedate_to_datetime(reply.header("Date"))
        except (HttpError, ValueError):  # no answer, or one without a date
            return self._clock.now()
        return told if told.tzinfo is not None else told.replace(tzinfo=UTC)

    async def way(self, target: Target) -> Way:
        return replace(await self._way_finder.look(target), seen_at=await self.now())

    async def spend(self) -> tuple[tuple[Entry, ...], tuple[str, ...]]:
        found = await self._config_maps()
        return entries(found), unreadable(found)

    async def _all(self, projection: Projection[R], *, needed: bool = True) -> tuple[R, ...]:
        """Every object, or an error: of a kind that is not served, too, where its absence would be a conclusion."""
        try:
            found = await paged(self._http, Subject(projection), {})
        except NotFound:
            if needed:
                raise NotFound(
                    f"the API server does not know {projection.resource.kind}: install it with tgp crds apply"
                ) from None
            return ()
        if found.lost:
            raise ClusterBusy(f"{found.lost} objects in the list of {projection.resource.plural} cannot be read at all")
        return tuple(found.records[key] for key in sorted(found.records))

    async def _config_maps(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        following = ""
        while True:
            query = (
                ("labelSelector", SPEND_LABEL),
                ("limit", str(PAGE)),
                *((("continue", following),) if following else ()),
            )
            reply = await self._http.send(Call("GET", CONFIG_MAP.path(self._namespace), query))
            if not reply.ok:
                raise error_for(reply, "list configmaps", changes=False)
            page = reply.json()
            found += page.get("items") or []
            following = (page.get("metadata") or {}).get("continue") or ""
            if not following:
                return found

    async def _hold(self) -> Hold | None:
        try:
            found = await self._cluster.read(NAMESPACE, Key("", self._namespace))
        except NotFound:
            raise NotFound(
                f"there is no namespace {self._namespace}: if the operator lives elsewhere, say --namespace"
            ) from None
        return hold_of(found["metadata"].get("annotations") or {})

    # -- changing ----------------------------------------------------------------------------------------------------

    async def hold(self, hold: Hold | None) -> None:
        text = str(hold) if hold is not None else None
        change = {"metadata": {"annotations": {HOLD: text}}}
        await self._cluster.patch(NAMESPACE, Key("", self._namespace), change)

    async def suspend(self, node_class: str, *, suspended: bool) -> None:
        await self._cluster.patch(GPU_NODE_CLASS, Key("", node_class), {"spec": {"suspend": suspended}})

    async def trust(self, provider: str, moment: datetime) -> None:
        change = {"metadata": {"annotations": {trust_key(provider): rfc3339(moment)}}}
        await self._cluster.patch(NAMESPACE, Key("", self._namespace), change)

    async def delete_request(self, request: Typed[GPURequest]) -> None:
        await self._cluster.delete(GPU_REQUEST, request.key, uid=request.uid_text)

    async def delete_node(self, node: Node) -> None:
        await self._cluster.delete(NODE, node.key, uid=uid_text(node.uid))

    async def end(self, till: str, instance: Instance, agreed: Confirmed) -> None:
        await self._patrol.end(till, instance, agreed)


@asynccontextmanager
async def premises(kubeconfig: str, context: str, namespace: str) -> AsyncIterator[Premises]:
    """For as long as the block lasts. Raises ConfigInvalid, ClusterError."""
    async with connect(kubeconfig, context) as connection, switchboard(connection.clock) as board:
        dial, resolver = await ways_out(connection, board)
        clouds = AllClouds(
            dial,
            connection.clock,
            connection.entropy,
            resolver,
            patience=A_PERSONS,
            hosts=HostRules(api_server=connection.addresses),
        )
        own = namespace or connection.namespace
        meshes = AllMeshes(dial, connection.clock, connection.entropy, connection.cluster, namespace=own)
        found = await connection.cluster.read(NAMESPACE, Key("", "kube-system"))
        yield Premises(
            connection.http,
            connection.cluster,
            connection.clock,
            clouds,
            namespace=own,
            context=connection.context,
            identity=cluster_id(str(found["metadata"].get("uid", ""))),
            meshes=meshes,
        )


async def ways_out(connection: Connection, board: Dial) -> tuple[Dial, Resolver]:
    """To the real providers; from a pretend cluster to its own pretend ones: its keys are nobody else's business.

    The cluster alone decides: a market that pretends must never prove that a real cluster rents nothing.
    """
    if not await pretends(connection):
        return board, SystemResolver()
    from tgp.app.embedded.market import EmbeddedDial, EmbeddedResolver

    return EmbeddedDial(board, connection.server.rstrip("/")), EmbeddedResolver()
