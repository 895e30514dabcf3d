"""One cluster, seen with a user's kubeconfig: its objects, its hold, and the providers it rents from."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TypeVar

from tgp.adapters.clouds.registry import AllClouds
from tgp.adapters.http.client_pool import http_client_pool
from tgp.adapters.kube.client import read_cluster_id
from tgp.adapters.kube.connect import Connection, connect
from tgp.adapters.kube.list import ListTarget, paged_when_ready
from tgp.adapters.kube.records.kinds import jobs, nodes, pods, typed
from tgp.adapters.kube.records.projection import Projection
from tgp.adapters.kube.secret_reader import KubeSecretReader
from tgp.adapters.mesh.registry import AllMeshes
from tgp.adapters.resolver import SystemResolver
from tgp.api.nodeclass import GPUNodeClass
from tgp.api.nodepool import GPUNodePool
from tgp.api.request import GPURequest
from tgp.api.resource import CONFIG_MAP, GPU_NODE_CLASS, GPU_NODE_POOL, GPU_REQUEST, NAMESPACE, NODE, POD
from tgp.api.values import rfc3339
from tgp.core.budgets.admission import GATE
from tgp.core.budgets.pause import PAUSED_BY
from tgp.core.classes.power_hosts import HostRules
from tgp.core.model.cloud_account import TABLE, CloudAccount, read_line
from tgp.core.model.cluster_inventory import AccountInventory, ClusterInventory
from tgp.core.model.hold import HOLD, Hold, hold_of
from tgp.core.model.instance import Instance
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.node import Node
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.pod import COUNTED, Pod
from tgp.core.model.provider_trust import trust_key
from tgp.core.model.record import ObjectRecord, uid_text
from tgp.core.model.spend import SPEND_LABEL, SpendEntry, entries, unreadable
from tgp.core.reports.machine_costs import expected
from tgp.core.reports.path_check import CheckedMachine, ConnectivityReport
from tgp.ports.clock import Clock
from tgp.ports.clouds import Clouds
from tgp.ports.cluster import Cluster, ClusterBusy, Forbidden, NotFound
from tgp.ports.http import Call, Http, HttpError, HttpFactory
from tgp.ports.mesh import Meshes
from tgp.ports.resolver import Resolver
from tgp.services.cluster_reads import config_maps
from tgp.services.confirmed import Confirmed
from tgp.services.connectivity import ConnectivityService
from tgp.services.demo_market import is_demo
from tgp.services.inventory import InventoryService
from tgp.services.market import INTERACTIVE_RETRIES

R = TypeVar("R", bound=ObjectRecord)


class ClusterService:
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
        meshes: Meshes | None = None,  # None: no mesh can be asked
    ) -> None:
        self._http = http
        self._cluster = cluster
        self._clock = clock
        self._namespace = namespace
        self._context = context
        self._identity = identity
        secret_reader = KubeSecretReader(cluster, namespace)
        self._inventory = InventoryService(identity, clouds, secret_reader)
        self._connectivity = ConnectivityService(http, cluster, meshes, secret_reader, namespace)

    @property
    def title(self) -> str:
        return self._context or self._identity

    # -- reading -----------------------------------------------------------------------------------------------------

    async def inventory(self, *, ask: bool = True) -> ClusterInventory:
        classes = await self._all(typed(GPU_NODE_CLASS, GPUNodeClass), needed=ask)
        inspections: tuple[AccountInventory, ...] = ()
        accounts: Mapping[str, CloudAccount] | None = {}
        if ask:
            accounts = await self._accounts()
            before = await self._all(typed(GPU_REQUEST, GPURequest))
            readable = [record.value for record in classes if record.value is not None]
            inspections = await self._inventory.inspect(
                readable, [attempt for _, attempt in expected(before)], accounts or {}
            )
        # After the providers' lists: a listed machine was reserved before, so its request is here, or deleted.
        requests, pools, machines, hold, shown, suspended = await asyncio.gather(
            self._all(typed(GPU_REQUEST, GPURequest), needed=ask),
            self._pools(),
            self._all(nodes()),
            self._hold(),
            self._pods(ask=ask),
            self._suspended(ask=ask),
        )
        return ClusterInventory(
            self._identity,
            self._namespace,
            await self.now(),
            hold,
            classes=classes,
            requests=requests,
            pools=pools,
            nodes=machines,
            held_pods=tuple(pod for pod in shown if COUNTED in pod.finalizers),
            gated_pods=tuple(pod for pod in shown if GATE in pod.gates),
            suspended_jobs=suspended,
            inspections=inspections,
            accounts=accounts or {},
            accounts_unread=accounts is None,
        )

    async def _pools(self) -> tuple[KubeObject[GPUNodePool], ...] | None:
        """None: this user may not list them, which must not stop `tgp down`."""
        try:
            return await self._all(typed(GPU_NODE_POOL, GPUNodePool), needed=False)
        except Forbidden:
            return None

    async def _pods(self, *, ask: bool) -> tuple[Pod, ...]:
        """None where this user may not list pods."""
        try:
            return await self._all(pods()) if ask else ()
        except Forbidden:
            return ()

    async def _suspended(self, *, ask: bool) -> tuple[ObjectKey, ...]:
        """Jobs that budgets suspended."""
        try:
            found = await self._all(jobs()) if ask else ()
        except Forbidden:
            return ()
        return tuple(job.key for job in found if job.suspended and PAUSED_BY in job.annotations)

    async def _accounts(self) -> Mapping[str, CloudAccount] | None:
        """The operator's table of accounts; None: this user may not read it."""
        try:
            found = await self._cluster.read(CONFIG_MAP, ObjectKey(self._namespace, TABLE))
        except NotFound:
            return {}
        except Forbidden:
            return None
        rows = ((name, read_line(line)) for name, line in (found.get("data") or {}).items())
        return {name: account for name, account in rows if account is not None}

    async def now(self) -> datetime:
        try:
            reply = await self._http.send(Call("GET", NAMESPACE.path(name=self._namespace)))
            date = parsedate_to_datetime(reply.header("Date"))
        except (HttpError, ValueError):  # no answer, or one without a date
            return self._clock.now()
        return date if date.tzinfo is not None else date.replace(tzinfo=UTC)

    async def way(self, target: CheckedMachine) -> ConnectivityReport:
        return replace(await self._connectivity.look(target), seen_at=await self.now())

    async def spend(self) -> tuple[tuple[SpendEntry, ...], tuple[str, ...]]:
        found = await config_maps(self._http, self._namespace, SPEND_LABEL)
        return entries(found), unreadable(found)

    async def _all(self, projection: Projection[R], *, needed: bool = True) -> tuple[R, ...]:
        """Every object, or an error; also for a kind that is not served, if `needed`."""
        try:
            found = await paged_when_ready(self._http, ListTarget(projection))
        except NotFound:
            if needed:
                raise NotFound(
                    f"the API server does not serve {projection.resource.kind}: install it with tgp crds apply"
                ) from None
            return ()
        if found.lost:
            raise ClusterBusy(f"{found.lost} objects in the list of {projection.resource.plural} are unreadable")
        return tuple(found.records[key] for key in sorted(found.records))

    async def _hold(self) -> Hold | None:
        try:
            found = await self._cluster.read(NAMESPACE, ObjectKey("", self._namespace))
        except NotFound:
            raise NotFound(
                f"namespace {self._namespace} does not exist: name the operator's namespace with --operator-namespace"
            ) from None
        return hold_of(found["metadata"].get("annotations") or {})

    # -- changing ----------------------------------------------------------------------------------------------------

    async def hold(self, hold: Hold | None) -> None:
        text = str(hold) if hold is not None else None
        change = {"metadata": {"annotations": {HOLD: text}}}
        await self._cluster.patch(NAMESPACE, ObjectKey("", self._namespace), change)

    async def suspend(self, node_class: str, *, suspended: bool) -> None:
        await self._cluster.patch(GPU_NODE_CLASS, ObjectKey("", node_class), {"spec": {"suspend": suspended}})

    async def trust(self, provider: str, moment: datetime) -> None:
        change = {"metadata": {"annotations": {trust_key(provider): rfc3339(moment)}}}
        await self._cluster.patch(NAMESPACE, ObjectKey("", self._namespace), change)

    async def delete_request(self, request: KubeObject[GPURequest]) -> None:
        await self._cluster.delete(GPU_REQUEST, request.key, uid=request.uid_text)

    async def delete_node(self, node: Node) -> None:
        await self._cluster.delete(NODE, node.key, uid=uid_text(node.uid))

    async def free_pod(self, pod: Pod) -> None:
        """The finalizers of others stay."""
        change = {"metadata": {"finalizers": [each for each in pod.finalizers if each != COUNTED]}}
        with suppress(NotFound):
            await self._cluster.patch(
                POD, pod.key, change, uid=uid_text(pod.uid), resource_version=str(pod.resource_version)
            )

    async def end(self, access: str, instance: Instance, agreed: Confirmed) -> None:
        await self._inventory.end(access, instance, agreed)


@asynccontextmanager
async def cluster_service(kubeconfig: str, context: str, namespace: str) -> AsyncIterator[ClusterService]:
    """For as long as the block lasts. Raises ConfigInvalid, ClusterError."""
    async with connect(kubeconfig, context) as connection, http_client_pool(connection.clock) as pool:
        dial, resolver = await http_for_clouds(connection, pool)
        clouds = AllClouds(
            dial,
            connection.clock,
            connection.entropy,
            resolver,
            retry_policy=INTERACTIVE_RETRIES,
            hosts=HostRules(api_server=connection.addresses),
        )
        own = namespace or connection.namespace
        meshes = AllMeshes(dial, connection.clock, connection.entropy, connection.cluster, namespace=own)
        identity = await read_cluster_id(connection.cluster)
        yield ClusterService(
            connection.http,
            connection.cluster,
            connection.clock,
            clouds,
            namespace=own,
            context=connection.context,
            identity=identity,
            meshes=meshes,
        )


async def http_for_clouds(connection: Connection, pool: HttpFactory) -> tuple[HttpFactory, Resolver]:
    """To the real providers; for a demo cluster to its own simulators, which alone get its API keys.

    Only the cluster decides this: a simulated market must never prove that a real cluster rents nothing.
    """
    if not await is_demo(connection):
        return pool, SystemResolver()
    from tgp.services.demo_http import EmbeddedDial, EmbeddedResolver

    return EmbeddedDial(pool, connection.server.rstrip("/")), EmbeddedResolver()
