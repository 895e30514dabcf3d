"""What `tgp check` checks in a cluster: everything that a purchase needs, in one run.

It only reads, with the user's own rights, and tries the operator's API keys without spending.
"""

import asyncio
from collections.abc import Awaitable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any, TypeVar
from zoneinfo import available_timezones

from tgp import __version__
from tgp.adapters.clouds.registry import AllClouds, facts_of
from tgp.adapters.http.client_pool import http_client_pool
from tgp.adapters.kube.config_field import ConfigInvalid
from tgp.adapters.kube.connect import Connection, connect
from tgp.adapters.kube.errors import error_for
from tgp.adapters.kube.list import ListTarget, paged_when_ready
from tgp.adapters.kube.records.kinds import daemon_sets, nodes, typed
from tgp.adapters.kube.secret_reader import KubeSecretReader
from tgp.adapters.mesh.registry import AllMeshes
from tgp.api.crds import crds
from tgp.api.nodeclass import GPUNodeClass
from tgp.api.resource import (
    CLUSTER_ROLE,
    CUSTOM_RESOURCE_DEFINITION,
    GPU_NODE_CLASS,
    LEASE,
    NAMESPACE,
    ROLE,
    SERVICE,
    Resource,
)
from tgp.controllers.joining.class_preflight import ClassPreflightChecker
from tgp.controllers.joining.inputs import BootInputLoader
from tgp.controllers.joining.meshes import MeshOpener
from tgp.controllers.market.credentials import credentials_for, present_keys
from tgp.core.classes.default_class import IMPLICIT, implicit_class
from tgp.core.classes.nodeclass import ClassReferences, Gap, gaps_of, missing_keys
from tgp.core.classes.power_hosts import HostRules
from tgp.core.classes.rights import APPLY_RIGHTS, missing_rights
from tgp.core.joining.mesh.endpoint_reach import in_tailnet, port_of
from tgp.core.joining.mesh.selection import backend_of
from tgp.core.market.sources import lacking, sources_of
from tgp.core.model.class_secrets import OPERATOR_SECRET, names, wanted_by
from tgp.core.model.gpus import resource_name
from tgp.core.model.join import JOIN_SECRET
from tgp.core.model.node import Node
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.offer_labels import GPU_PRESENT
from tgp.core.reports.doctor import spoken_age
from tgp.core.requests.device_plugin import FutureNode, plugin_for
from tgp.ports.cluster import ClusterError, Forbidden, NotFound
from tgp.ports.http import Call, HttpError, HttpFactory, Reply
from tgp.ports.resolver import Resolver
from tgp.services.chart_settings import ChartSettings, chart_settings
from tgp.services.cluster import http_for_clouds
from tgp.services.cluster_failure import explained, first_step
from tgp.services.crd_difference import difference, newer
from tgp.services.credentials import ProviderAccess
from tgp.services.market import INTERACTIVE_RETRIES, MarketService
from tgp.services.market_answers import CheckRow
from tgp.services.preflight_answers import ClusterFinding
from tgp.services.shipped import operator_rights

# The labels of every rented node, whatever its pool.
USUAL_LABELS = {
    "kubernetes.io/os": "linux",
    "kubernetes.io/arch": "amd64",
    "tgp.io/provisioned": "true",
}
DEVICE_PLUGIN = "GPU device plugin"
NVIDIA = "nvidia.com/gpu"
ROLES = {"ClusterRole": CLUSTER_ROLE, "Role": ROLE}
SHIPPED_NAMESPACE = "tgp-system"  # the operator's namespace in the shipped roles
OPERATOR_LEASE = "tgp-operator"
SILENT_AFTER = timedelta(minutes=1)  # a Lease that was not renewed for this long, nor for its own time, has no leader
LOOKED_AGAIN_AFTER = 2.0  # seconds: as often as an operator renews its Lease
TAILSCALE = "tailscale"
EXPOSED = "tailscale.com/expose"
EXPOSE_API = "kubectl annotate service kubernetes -n default tailscale.com/expose=true tailscale.com/hostname=k8s-api"
TAILSCALE_OPERATOR_KIND = "connectors.tailscale.com"  # it installs it
OLDEST_MINOR = 28  # of Kubernetes 1
NAME_ONE = "export KUBECONFIG=FILE && tgp check"


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Preflight:
    rows: tuple[CheckRow, ...] = ()  # the providers of its classes, asked with the operator's own keys
    findings: tuple[ClusterFinding, ...] = ()


async def preflight(kubeconfig: str, context: str, namespace: str, *, expected: bool) -> Preflight:
    """Empty if no cluster is configured, unless one was named."""
    try:
        async with connect(kubeconfig, context) as connection, http_client_pool(connection.clock) as pool:
            dial, resolver = await http_for_clouds(connection, pool)
            return await ClusterPreflight(connection, namespace or connection.namespace, dial, resolver).look()
    except ConfigInvalid as error:
        return Preflight(findings=(ClusterFinding("cluster", False, str(error), NAME_ONE),) if expected else ())
    except (ClusterError, HttpError) as error:
        words = f"cannot be read: {explained(str(error), error)}"
        return Preflight(findings=(ClusterFinding("cluster", False if expected else None, words, first_step(error)),))


class ClusterPreflight:
    """One look at a cluster. Nothing is written."""

    def __init__(self, connection: Connection, namespace: str, dial: HttpFactory, resolver: Resolver) -> None:
        self._http = connection.http
        self._cluster = connection.cluster
        self._clock = connection.clock
        self._namespace = namespace
        self._secret_reader = KubeSecretReader(connection.cluster, namespace)
        self._clouds = AllClouds(
            dial,
            connection.clock,
            connection.entropy,
            resolver,
            retry_policy=INTERACTIVE_RETRIES,
            hosts=HostRules(api_server=connection.addresses),
        )
        meshes = AllMeshes(dial, connection.clock, connection.entropy, connection.cluster, namespace=namespace)
        self._meshes = MeshOpener(meshes, self._secret_reader)
        self._nodes: tuple[Node, ...] = ()
        self._boot_inputs = BootInputLoader(self._secret_reader, self._cluster, lambda: self._nodes)
        self._settings = ChartSettings()

    async def look(self) -> Preflight:
        """Whatever may not be read, or does not answer, is one unknown row: the other gaps are found all the same."""
        findings: list[ClusterFinding] = [await self.version()]

        async def of(title: str, step: Awaitable[T]) -> T | None:
            try:
                return await step
            except (ClusterError, HttpError) as error:
                words = f"not checked: {explained(str(error), error)}"
                findings.append(ClusterFinding(title, None, words, first_step(error)))
                return None

        kinds = await of("kinds", self.kinds())
        findings += [kinds] if kinds is not None else []
        namespace = await of("namespace", self.operator_namespace())
        findings += [namespace] if namespace is not None else []
        self._settings = await of("settings", chart_settings(self._cluster, self._namespace)) or ChartSettings()
        classes = await of("classes", self._classes()) if kinds is None or kinds.good else ()
        self._nodes = await of("nodes", self._listed_nodes()) or ()
        if namespace is None or namespace.good:
            for title, step in (("rights", self._rights), ("operator", self.operator)):
                found = await of(title, step())
                findings += [found] if found is not None else []
        for name, node_class in classes or ():
            findings += await of(_title(name), self._class(name, node_class)) or ()
        if kinds is not None and kinds.good and classes == ():
            words = f"no class exists, and Secret {self._namespace}/{OPERATOR_SECRET} has no provider's API key"
            findings.append(ClusterFinding("GPUNodeClass", False, words, "tgp init"))
        findings += await of("tailnet", self._tailnet(classes or ())) or ()
        findings += await of(DEVICE_PLUGIN, self.device_plugins(classes or ())) or ()
        return Preflight(await of("providers", self._providers(classes or ())) or (), tuple(findings))

    async def _listed_nodes(self) -> tuple[Node, ...]:
        return tuple((await paged_when_ready(self._http, ListTarget(nodes()))).records.values())

    async def _tailnet(self, classes: tuple[tuple[str, GPUNodeClass], ...]) -> list[ClusterFinding]:
        """Where the chart was told that the Tailscale operator exposes the API server: whether it does."""
        wanted = self._settings.tailscale_operator
        if not wanted and all(self._backend(node_class) != TAILSCALE for _, node_class in classes):
            return []
        found = exposed_api(await self._read(SERVICE, "default", "kubernetes") or {}, await self._endpoint())
        if not wanted:
            return found
        if await self._read(CUSTOM_RESOURCE_DEFINITION, "", TAILSCALE_OPERATOR_KIND) is None:
            words = "the Tailscale operator is not installed, and networking.tailscale.operatorEnabled is true"
            return [ClusterFinding("tailnet", False, f"{words}: install it, or set the value to false"), *found]
        words = "Service default/kubernetes is not exposed in the tailnet: rented machines cannot reach the API server"
        return found or [ClusterFinding("tailnet", False, words, EXPOSE_API)]

    async def _endpoint(self) -> str:
        """Of the join Secret; empty: it has none, or may not be read."""
        with suppress(Forbidden):
            values = await self._secret_reader.read(JOIN_SECRET) or {}
            if (endpoint := values.get("endpoint")) is not None:
                return endpoint.reveal()
        return ""

    # -- the cluster itself ------------------------------------------------------------------------------------------

    async def version(self) -> ClusterFinding:
        try:
            version = await self._cluster.version()
        except Forbidden as error:
            return ClusterFinding("Kubernetes", None, f"not checked: {error}", first_step(error))
        minor = version.removeprefix("v").split(".")[1:2]
        old = bool(minor) and minor[0].isdigit() and int(minor[0]) < OLDEST_MINOR
        words = f"{version}; tgp needs 1.{OLDEST_MINOR} or newer" if old else version
        return ClusterFinding("Kubernetes", not old, words)

    async def kinds(self) -> ClusterFinding:
        missing, older, later = [], [], []
        for ours in crds():
            stored = await self._read(CUSTOM_RESOURCE_DEFINITION, "", ours["metadata"]["name"])
            if stored is None:
                missing.append(ours["spec"]["names"]["kind"])
            elif newer(stored, ours):
                later.append(ours["spec"]["names"]["kind"])
            elif difference(stored, ours):
                older.append(ours["spec"]["names"]["kind"])
        if missing:
            return ClusterFinding("kinds", False, f"not installed: {', '.join(missing)}", "tgp crds apply")
        if older:
            return ClusterFinding("kinds", False, f"installed in another version: {', '.join(older)}", "tgp crds apply")
        if later:
            return ClusterFinding("kinds", True, f"newer than tgp {__version__}, which is fine: {', '.join(later)}")
        return ClusterFinding("kinds", True, "all four are installed in this version")

    async def operator_namespace(self) -> ClusterFinding:
        if await self._read(NAMESPACE, "", self._namespace) is not None:
            return ClusterFinding("namespace", True, f"{self._namespace} exists")
        words = f"{self._namespace} does not exist; name the operator's namespace with --operator-namespace"
        return ClusterFinding("namespace", False, words, f"kubectl create namespace {self._namespace}")

    async def _rights(self) -> ClusterFinding:
        """Do the installed roles grant everything that this version's manifest does?"""
        missing: list[str] = []
        try:
            for ours in operator_rights():
                if ours["kind"] in ROLES:
                    missing += await self._missing_from(ours)
        except Forbidden:
            return ClusterFinding("rights", None, "you may not read roles, so the operator's roles were not checked")
        if missing:
            return ClusterFinding("rights", False, "; ".join(missing), APPLY_RIGHTS)
        return ClusterFinding("rights", True, "the operator has all permissions that this version needs")

    async def _missing_from(self, ours: Mapping[str, Any]) -> list[str]:
        name, namespace = ours["metadata"]["name"], ours["metadata"].get("namespace", "")
        stored = await self._read(
            ROLES[ours["kind"]], self._namespace if namespace == SHIPPED_NAMESPACE else namespace, name
        )
        if stored is None:
            return [f"{ours['kind']} {name} does not exist"]
        rights = missing_rights(stored.get("rules") or [], ours.get("rules") or [])
        return [f"{ours['kind']} {name} does not grant {', '.join(rights)}"] if rights else []

    async def operator(self) -> ClusterFinding:
        holder, renewed, lasts, date = await self._lease()
        if not holder or renewed is None:
            return ClusterFinding("operator", None, f"no operator has run in namespace {self._namespace} yet")
        if date - renewed > max(SILENT_AFTER, lasts):
            # The clock of a demo runs sixty times as fast as its operator was made for: is the Lease still renewed?
            await asyncio.sleep(LOOKED_AGAIN_AFTER)
            holder, again, _, _ = await self._lease()
            if again == renewed:
                words = f"no operator runs: {holder} renewed the Lease {spoken_age(renewed, date)} ago"
                return ClusterFinding("operator", None, words)
        return ClusterFinding("operator", True, f"{holder} is the leader")

    async def _lease(self) -> tuple[str, datetime | None, timedelta, datetime]:
        """Its holder, when it was renewed, for how long that holds, and when the API server answered."""
        reply = await self._http.send(Call("GET", LEASE.path(self._namespace, OPERATOR_LEASE)))
        if not reply.ok and reply.status != HTTPStatus.NOT_FOUND:
            raise error_for(reply, f"reading Lease {self._namespace}/{OPERATOR_LEASE}", changes=False)
        spec = (reply.json().get("spec") if reply.ok else None) or {}
        lasts = timedelta(seconds=spec.get("leaseDurationSeconds") or 0)
        return str(spec.get("holderIdentity") or ""), _moment(spec.get("renewTime")), lasts, self._date_of(reply)

    async def device_plugins(self, classes: tuple[tuple[str, GPUNodeClass], ...]) -> list[ClusterFinding]:
        """One for each resource of the GPU models that its classes name; NVIDIA's where one names no model."""
        models = [node_class.spec.instance_requirements.gpu_types or ("",) for _, node_class in classes] or [("",)]
        resources = {resource_name(model) for row in models for model in row}
        return [await self.device_plugin(resource) for resource in sorted(resources, reverse=True)]

    async def device_plugin(self, resource: str = NVIDIA) -> ClusterFinding:
        listed = await paged_when_ready(self._http, ListTarget(daemon_sets()))
        present = {GPU_PRESENT: "true"} if resource == NVIDIA else {}
        verdict = plugin_for(FutureNode(USUAL_LABELS | present), listed.records.values(), resource)
        return ClusterFinding(DEVICE_PLUGIN, verdict.runs, verdict.message)

    # -- its classes -------------------------------------------------------------------------------------------------

    async def _classes(self) -> tuple[tuple[str, GPUNodeClass], ...]:
        """The classes in the cluster; without any, the implicit one from the API keys in the operator's Secret."""
        found = await paged_when_ready(self._http, ListTarget(typed(GPU_NODE_CLASS, GPUNodeClass)))
        written = [found.records[key] for key in sorted(found.records)]
        if written:
            return tuple((record.key.name, record.value) for record in written if record.value is not None)
        try:
            values = await self._secret_reader.read(OPERATOR_SECRET)
        except Forbidden:
            return ()
        made = implicit_class(frozenset(values or {}), "")
        return ((IMPLICIT, made),) if made is not None else ()

    async def _class(self, name: str, node_class: GPUNodeClass) -> list[ClusterFinding]:
        references = await self._references(node_class)
        gaps = dict.fromkeys((*gaps_of(references), *missing_keys(references)))
        for provider, source in sources_of(node_class).items():
            if words := lacking(source):
                gaps[Gap("SettingMissing", f"provider {provider}: {words}")] = None
        inspector = ClassPreflightChecker(
            self._boot_inputs, self._meshes, self._clouds, self._clock, self._settings.backend
        )
        title, rest = _title(name), []
        try:
            asked = (await inspector.inspect(node_class)).gaps
        except ClusterError as error:
            asked = ()
            rest = [
                ClusterFinding(title, None, f"template, join Secret and mesh not checked: {error}", first_step(error))
            ]
        secret_missing = any(gap.reason == "SecretMissing" for gap in gaps)
        gaps |= {gap: None for gap in asked if not (secret_missing and gap.reason == "MeshRefused")}
        if not gaps and not rest:
            backend = self._backend(node_class)
            return [ClusterFinding(title, True, f"template, join Secret and mesh ({backend or 'none'}) are complete")]
        return [ClusterFinding(title, False, f"{gap.message} ({gap.reason})", gap.command) for gap in gaps] + rest

    async def _references(self, node_class: GPUNodeClass) -> ClassReferences:
        wanted = names(wanted_by(node_class, self._backend(node_class)))
        present, forbidden = await present_keys(wanted, self._secret_reader)
        zones = frozenset(available_timezones())
        return ClassReferences(node_class, present, self._namespace, self._settings.backend, zones, forbidden)

    def _backend(self, node_class: GPUNodeClass) -> str:
        return backend_of(node_class, self._settings.backend)

    # -- its providers -----------------------------------------------------------------------------------------------

    async def _providers(self, classes: tuple[tuple[str, GPUNodeClass], ...]) -> tuple[CheckRow, ...]:
        """One row per provider: if several classes name it, the first one's API key is used."""
        accesses: dict[str, ProviderAccess] = {}
        places: dict[str, str] = {}
        for _, node_class in classes:
            for source in sources_of(node_class).values():
                if source.provider in accesses or source.settings.machines:
                    continue
                keys = await credentials_for(source, self._secret_reader)
                accesses[source.provider] = ProviderAccess(source, facts_of(source.provider), keys.own)
                places[source.provider] = f"Secret {source.secret}/{source.key}" if source.secret else ""
        rows = await MarketService(tuple(accesses.values()), self._clouds, self._clock).check(by_name=False)
        return tuple(replace(row, variable=places[row.provider]) for row in rows)

    async def _read(self, resource: Resource, namespace: str, name: str) -> dict[str, Any] | None:
        try:
            return await self._cluster.read(resource, ObjectKey(namespace, name))
        except NotFound:
            return None

    def _date_of(self, reply: Reply) -> datetime:
        """When the API server answered, by its own clock."""
        try:
            date = parsedate_to_datetime(reply.header("Date"))
        except ValueError:
            return self._clock.now()
        return date if date.tzinfo is not None else date.replace(tzinfo=UTC)


def exposed_api(service: Mapping[str, Any], endpoint: str) -> list[ClusterFinding]:
    """Of Service default/kubernetes, where the Tailscale operator exposes the API server; none: it does not.

    `endpoint`: in the join Secret; empty: it is not known.
    """
    if service.get("metadata", {}).get("annotations", {}).get(EXPOSED) != "true":
        return []
    ports = [each.get("port") for each in service.get("spec", {}).get("ports", ())]
    listened = ", ".join(map(str, ports))
    exposed = f"Service default/kubernetes is exposed in the tailnet on port {listened}"
    certificate = "(cluster.apiServer.certSANs of the control planes)"
    if in_tailnet(endpoint) and port_of(endpoint) in ports:
        words = f"{exposed}, which the endpoint in the join Secret uses: {endpoint}. The API server's certificate must"
        return [ClusterFinding("tailnet", True, f"{words} contain that address {certificate}")]
    words = (
        f"{exposed}: the endpoint in the join Secret{f', {endpoint},' if endpoint else ''} needs this port, not "
        f"{port_of(endpoint) or 6443}, and the Service's address in the tailnet, since Talos does not resolve MagicDNS "
        f"names. The API server's certificate must contain that address {certificate}"
    )
    return [ClusterFinding("tailnet", None, words)]


def _title(name: str) -> str:
    return "implicit class" if name == IMPLICIT else f"class {name}"


def _moment(text: object) -> datetime | None:
    try:
        return datetime.fromisoformat(str(text))
    except ValueError:
        return None
