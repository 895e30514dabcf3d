"""The first steps in a cluster: what is there, whether keys work, which objects are created. Nothing is bought."""

from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from tgp.adapters.clouds.registry import AllClouds, facts_of
from tgp.adapters.http.client_pool import http_client_pool
from tgp.adapters.kube.connect import Connection, connect
from tgp.adapters.kube.list import ListTarget, paged_when_ready
from tgp.adapters.kube.records.kinds import nodes, typed
from tgp.adapters.mesh.registry import AllMeshes
from tgp.api.decoding import strict
from tgp.api.nodeclass import GPUNodeClass
from tgp.api.nodepool import GPUNodePool
from tgp.api.resource import (
    CUSTOM_RESOURCE_DEFINITION,
    DEPLOYMENT,
    GPU_NODE_CLASS,
    GPU_NODE_POOL,
    NAMESPACE,
    NODE,
    SECRET,
    SERVICE,
    Resource,
)
from tgp.core.classes.default_class import DEFAULT_ANNOTATION
from tgp.core.classes.rights import KubeRight
from tgp.core.joining.mesh.detection import FoundMesh, mesh_of_nodes, mesh_of_operator
from tgp.core.joining.mesh.selection import mesh_of
from tgp.core.model.class_secrets import OPERATOR_SECRET
from tgp.core.model.join import JOIN_SECRET
from tgp.core.model.mesh import Backend
from tgp.core.model.node import Node
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.secret import Secret
from tgp.core.model.source import source_of
from tgp.core.model.talos import read_version
from tgp.core.reports.doctor import PROVISIONED
from tgp.ports.cluster import AlreadyExists, Forbidden, NotFound
from tgp.ports.http import HttpFactory
from tgp.ports.mesh import MeshError, MeshRefused
from tgp.ports.resolver import Resolver
from tgp.services.cluster import http_for_clouds
from tgp.services.credentials import ProviderAccess, of_environment
from tgp.services.market import INTERACTIVE_RETRIES, MarketService
from tgp.services.market_answers import OfferQuestion
from tgp.services.preflight import ClusterPreflight, exposed_api
from tgp.services.preflight_answers import ClusterFinding
from tgp.services.setup_plan import ClusterSurvey, PlannedObject, SetupAnswers, TriedProvider, class_manifest
from tgp.services.startup import absent_kinds, allowed, kinds_served
from tgp.services.talos import decoded
from tgp.services.talos_answers import Stored

INSTALL = "helm install tgp-operator deploy/charts/tgp-operator --namespace {} --create-namespace"
ADMINISTRATOR = "kubectl auth whoami"
TALOS = "Talos"
TAILSCALE_OPERATOR = ObjectKey("tailscale", "operator")
NODES_READ = 3
FORBIDDEN = "you may not read this: run tgp init as a user with the role cluster-admin"


class SetupService:
    def __init__(self, connection: Connection, namespace: str, dial: HttpFactory, resolver: Resolver) -> None:
        self.title = connection.context or connection.server
        self.namespace = namespace
        self.home = connection.home
        self._http = connection.http
        self._cluster = connection.cluster
        self._clock = connection.clock
        self._preflight = ClusterPreflight(connection, namespace, dial, resolver)
        self._clouds = AllClouds(dial, connection.clock, connection.entropy, resolver, retry_policy=INTERACTIVE_RETRIES)
        self._meshes = AllMeshes(dial, connection.clock, connection.entropy, self._cluster, namespace=namespace)

    # -- looking -----------------------------------------------------------------------------------------------------

    async def survey(self, pool_namespace: str) -> ClusterSurvey:
        """`pool_namespace`: where a pool would be created. Raises ClusterError if the API server does not answer."""
        look = self._preflight
        absent = await absent_kinds(self._http)
        version = await look.version()
        kinds = ClusterFinding("kinds", None, f"not installed, will be created: {', '.join(absent)}")
        if not absent:
            kinds = await _or_forbidden("kinds", look.kinds())
        home = await _or_forbidden("namespace", look.operator_namespace())
        if not home.good and home.words != FORBIDDEN:
            home = ClusterFinding("namespace", None, f"{self.namespace} does not exist, will be created")
        talos = await self._talos()
        secret, join = await self._secret(OPERATOR_SECRET), await self._secret(JOIN_SECRET)
        classes = () if absent else await self._classes()
        pools = () if absent else await self._pools()
        operator = await _or_forbidden("operator", look.operator())
        runs = operator.good is True
        if not runs:
            operator = ClusterFinding("operator", None, operator.words, INSTALL.format(self.namespace))
        rights = await self._rights(absent, pool_namespace, there=home.good is True, classes=classes, pools=pools)
        if not pools:
            rights += await self._pool_namespace(pool_namespace)
        mesh, words = await self._mesh()
        findings = (
            ClusterFinding("cluster", True, self.title),
            version,
            talos,
            kinds,
            home,
            *rights,
            operator,
            *words,
            await _or_forbidden("GPU device plugin", look.device_plugin()),
            *_there(secret, classes, pools, join=join is not None),
        )
        blocking = [each for each in (version, talos, kinds, home, *rights) if each.good is False]
        if kinds in blocking and not absent and kinds.words != FORBIDDEN:
            blocking.remove(kinds)  # another version still serves the objects
        return ClusterSurvey(
            findings, tuple(blocking), absent, home.good is True, secret, join is not None, classes, pools, runs, mesh
        )

    async def _talos(self) -> ClusterFinding:
        try:
            found = tuple((await paged_when_ready(self._http, ListTarget(nodes()))).records.values())
        except Forbidden:
            return ClusterFinding(TALOS, None, "you may not list Nodes, so the Talos version is not known")
        versions = sorted({str(version) for node in found if (version := _talos_version(node)) is not None})
        if not versions:
            words = f"none of {len(found)} nodes runs Talos: rented machines can only join a Talos cluster"
            return ClusterFinding(TALOS, False, words, "tgp init --kubeconfig FILE-OF-A-TALOS-CLUSTER")
        count = sum(_talos_version(node) is not None for node in found)
        return ClusterFinding(TALOS, True, f"{', '.join(versions)} on {count} of {len(found)} nodes")

    async def _mesh(self) -> tuple[FoundMesh | None, list[ClusterFinding]]:
        """Of the cluster's own nodes, and what is said of it."""
        try:
            found = mesh_of_nodes(await self._own_nodes())
            operator = await self._read(DEPLOYMENT, TAILSCALE_OPERATOR)
            service = await self._read(SERVICE, ObjectKey("default", "kubernetes")) or {}
            join = await self._secret(JOIN_SECRET)
            exposed = exposed_api(service, join.values.get("endpoint", "") if join is not None else "")
        except Forbidden:
            return None, []
        if operator is not None and (found is None or found.backend is Backend.TAILSCALE):
            found = mesh_of_operator(operator)
        if found is None:
            return None, [ClusterFinding("mesh", None, "no node shows KubeSpan or Tailscale; --mesh chooses one")]
        finding = ClusterFinding("mesh", True, f"{found.backend}: {found.why}")
        return found, [finding, *(exposed if operator is not None else ())]

    async def _own_nodes(self) -> list[dict[str, Any]]:
        """What stands on the first few nodes with Talos: one is like the other."""
        listed = (await paged_when_ready(self._http, ListTarget(nodes()))).records.values()
        own = [node.key for node in listed if _talos_version(node) is not None and PROVISIONED not in node.labels]
        read = [await self._read(NODE, key) for key in sorted(own)[:NODES_READ]]
        return [each["metadata"] for each in read if each is not None]

    async def _secret(self, name: str) -> Stored | None:
        """None: it does not exist, or may not be read."""
        try:
            found = await self._read(SECRET, ObjectKey(self.namespace, name))
        except Forbidden:
            return None
        if found is None:
            return None
        values = {key: decoded(value) for key, value in (found.get("data") or {}).items()}
        return Stored(values, str(found["metadata"]["uid"]), str(found["metadata"]["resourceVersion"]))

    async def _classes(self) -> tuple[str, ...]:
        found = (await paged_when_ready(self._http, ListTarget(typed(GPU_NODE_CLASS, GPUNodeClass)))).records
        return tuple(
            sorted(
                (key.name for key in found),
                key=lambda name: (found[ObjectKey("", name)].annotations.get(DEFAULT_ANNOTATION) != "true", name),
            )
        )

    async def _pools(self) -> tuple[ObjectKey, ...]:
        try:
            listed = await paged_when_ready(self._http, ListTarget(typed(GPU_NODE_POOL, GPUNodePool)))
            return tuple(sorted(listed.records))
        except Forbidden:
            return ()

    async def _pool_namespace(self, name: str) -> list[ClusterFinding]:
        try:
            if name == self.namespace or await self._read(NAMESPACE, ObjectKey("", name)) is not None:
                return []
        except Forbidden:
            return []
        words = f"namespace {name}, where the pool would be, does not exist"
        return [ClusterFinding("pool", False, words, f"kubectl create namespace {name}")]

    async def _rights(
        self,
        absent: tuple[str, ...],
        pool_namespace: str,
        *,
        there: bool,
        classes: tuple[str, ...],
        pools: tuple[ObjectKey, ...],
    ) -> list[ClusterFinding]:
        """Of this user, to create what is missing."""
        wanted = [(SECRET, "get", self.namespace), (SECRET, "create", self.namespace)]
        wanted += [(CUSTOM_RESOURCE_DEFINITION, "create", "")] if absent else []
        wanted += [] if there else [(NAMESPACE, "create", "")]
        wanted += [] if classes else [(GPU_NODE_CLASS, "create", "")]
        wanted += [] if pools else [(GPU_NODE_POOL, "create", pool_namespace)]
        missing = [
            f"{verb} {resource.plural}{f' in namespace {namespace}' if namespace else ''}"
            for resource, verb, namespace in wanted
            if not await allowed(self._http, KubeRight(verb, resource.group, resource.plural, ""), namespace)
        ]
        if not missing:
            return []
        words = f"you may not {', '.join(missing)}: run tgp init as a user with the role cluster-admin"
        return [ClusterFinding("your rights", False, words, ADMINISTRATOR)]

    def terminal_keys(self) -> Mapping[str, Secret]:
        return {each.facts.provider: each.key for each in of_environment(()) if each.key is not None}

    # -- trying ------------------------------------------------------------------------------------------------------

    async def try_provider(self, provider: str, key: Secret | None) -> TriedProvider:
        """With the calls of `tgp check`: the account is read, and the offers. Nothing is spent."""
        access = ProviderAccess(source_of(provider, "", "", None), facts_of(provider), key)
        market = MarketService((access,), self._clouds, self._clock)
        (row,) = await market.check(by_name=True)
        answer = await market.look(OfferQuestion(talos=True, spot=False))
        return TriedProvider(row, answer.rows)

    async def try_mesh(self, answers: SetupAnswers, secrets: Mapping[str, Secret]) -> tuple[str, ...]:
        """What is wrong with the mesh's credentials; empty: they work, or the mesh does not answer now."""
        node_class = strict(class_manifest(answers))
        assert isinstance(node_class, GPUNodeClass), "its kind says so"
        settings = mesh_of(node_class, answers.provider, None, "")
        try:
            mesh = self._meshes.open(settings, {ref: secrets[ref.key] for ref in settings.refs})
            report = await mesh.check()
        except MeshRefused as error:
            return (str(error),)
        except MeshError:
            return ()
        return () if report.usable else report.problems or ("the mesh refused the credentials",)

    # -- writing -----------------------------------------------------------------------------------------------------

    async def write(self, planned: PlannedObject, survey: ClusterSurvey) -> bool:
        """False: it was there already, and is left as it is. Raises ClusterError."""
        if planned.adds:
            assert survey.secret is not None, "keys are added to a Secret that exists"
            meta = planned.manifest["metadata"]
            key = ObjectKey(meta["namespace"], meta["name"])
            change = {"data": planned.manifest["data"]}
            stored = survey.secret
            await self._cluster.patch(SECRET, key, change, resource_version=stored.resource_version, uid=stored.uid)
            return True
        try:
            await self._cluster.create(planned.resource, planned.manifest)
        except AlreadyExists:
            return False
        return True

    async def wait_for_kinds(self) -> None:
        await kinds_served(self._http)

    async def _read(self, resource: Resource, key: ObjectKey) -> dict[str, Any] | None:
        try:
            return await self._cluster.read(resource, key)
        except NotFound:
            return None


async def _or_forbidden(title: str, looking: Awaitable[ClusterFinding]) -> ClusterFinding:
    try:
        return await looking
    except Forbidden:
        return ClusterFinding(title, False, FORBIDDEN, ADMINISTRATOR)


def _talos_version(node: Node) -> object:
    return read_version(node.os_image) if TALOS in node.os_image else None


def _there(
    secret: Stored | None, classes: tuple[str, ...], pools: tuple[ObjectKey, ...], *, join: bool
) -> list[ClusterFinding]:
    """What exists already and is not touched."""
    found = []
    if secret is not None:
        keys = ", ".join(sorted(secret.values)) or "no key"
        found.append(ClusterFinding("keys", True, f"Secret {OPERATOR_SECRET} has {keys}"))
    if join:
        found.append(ClusterFinding("join Secret", True, f"Secret {JOIN_SECRET} exists"))
    if classes:
        found.append(ClusterFinding("classes", True, ", ".join(classes)))
    if pools:
        found.append(ClusterFinding("pools", True, ", ".join(str(pool) for pool in pools)))
    return found


@asynccontextmanager
async def setup_service(kubeconfig: str, context: str, namespace: str) -> AsyncIterator[SetupService]:
    """For as long as the block lasts. Raises ConfigInvalid."""
    async with connect(kubeconfig, context) as connection, http_client_pool(connection.clock) as pool:
        dial, resolver = await http_for_clouds(connection, pool)
        yield SetupService(connection, namespace or connection.namespace, dial, resolver)
