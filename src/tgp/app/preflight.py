"""What `tgp check` looks at in a cluster, before anything is bought: everything that is missing, all at once.

It only reads, with the rights of the person who asks, and tries the operator's own keys without spending.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any
from zoneinfo import available_timezones

from tgp.adapters.kube.config_field import ConfigInvalid
from tgp.adapters.kube.list import Subject, paged
from tgp.adapters.kube.records.kinds import daemon_sets, nodes, typed
from tgp.adapters.kube.vault import KubeVault
from tgp.api.crds import crds
from tgp.api.nodeclass import GPUNodeClass
from tgp.api.resource import (
    CLUSTER_ROLE,
    CUSTOM_RESOURCE_DEFINITION,
    GPU_NODE_CLASS,
    LEASE,
    NAMESPACE,
    ROLE,
    Resource,
)
from tgp.app.clouds import AllClouds, facts_of
from tgp.app.connect import Connection, connect
from tgp.app.counters import Counter
from tgp.app.dialling import switchboard
from tgp.app.meshes import AllMeshes
from tgp.app.premises import ways_out
from tgp.app.shipped import operator_rights
from tgp.app.shop import A_PERSONS, Shop
from tgp.controllers.boot.inspection import ClassInspector
from tgp.controllers.boot.mesh_desk import MeshDesk
from tgp.controllers.boot.papers import PaperDesk
from tgp.controllers.keys import keys_for, keys_present
from tgp.core.model.key import Key
from tgp.core.model.node import Node
from tgp.core.rules.default_class import IMPLICIT, implicit_class
from tgp.core.rules.device_plugin import FutureNode, plugin_for
from tgp.core.rules.nodeclass import ClassSight, Gap, backend_of, gaps_of, missing_keys
from tgp.core.rules.power_hosts import HostRules
from tgp.core.rules.rights import missing_rights
from tgp.core.rules.secrets import OPERATOR_SECRET, names, wanted_by
from tgp.core.rules.sources import lacking, sources_of
from tgp.ports.cluster import ClusterError, Forbidden, NotFound
from tgp.ports.http import Call, Dial, HttpError
from tgp.ports.resolver import Resolver
from tgp.surfaces.cli.check_view import CheckRow, Finding
from tgp.surfaces.cli.crds import difference

# What every rented node has, whatever pool wants it.
USUAL_LABELS = {
    "kubernetes.io/os": "linux",
    "kubernetes.io/arch": "amd64",
    "nvidia.com/gpu.present": "true",
    "tgp.io/provisioned": "true",
}
DEVICE_PLUGIN = "GPU device plugin"
RIGHTS = "deploy/rbac/operator.yaml"
ROLES = {"ClusterRole": CLUSTER_ROLE, "Role": ROLE}
SHIPPED_HOME = "tgp-system"  # the operator's namespace in that file
OPERATOR_LEASE = "tgp-operator"
SILENT_AFTER = timedelta(minutes=1)  # a Lease that was not renewed for so long has no leader
OLDEST_MINOR = 28  # of Kubernetes 1


@dataclass(frozen=True, slots=True)
class Preflight:
    rows: tuple[CheckRow, ...] = ()  # the providers of its classes, asked with the operator's own keys
    findings: tuple[Finding, ...] = ()


async def preflight(kubeconfig: str, context: str, namespace: str, *, expected: bool) -> Preflight:
    """Nothing where no cluster is configured, unless one was named."""
    try:
        async with connect(kubeconfig, context) as connection, switchboard(connection.clock) as board:
            dial, resolver = await ways_out(connection, board)
            return await _Cluster(connection, namespace or connection.namespace, dial, resolver).look()
    except ConfigInvalid as error:
        return Preflight(findings=(Finding("cluster", False, str(error)),) if expected else ())
    except (ClusterError, HttpError) as error:
        return Preflight(findings=(Finding("cluster", False if expected else None, f"cannot be read: {error}"),))


class _Cluster:
    def __init__(self, connection: Connection, namespace: str, dial: Dial, resolver: Resolver) -> None:
        self._http = connection.http
        self._cluster = connection.cluster
        self._clock = connection.clock
        self._namespace = namespace
        self._vault = KubeVault(connection.cluster, namespace)
        self._clouds = AllClouds(
            dial,
            connection.clock,
            connection.entropy,
            resolver,
            patience=A_PERSONS,
            hosts=HostRules(api_server=connection.addresses),
        )
        meshes = AllMeshes(dial, connection.clock, connection.entropy, connection.cluster, namespace=namespace)
        self._nodes: tuple[Node, ...] = ()
        papers = PaperDesk(self._vault, self._cluster, lambda: self._nodes)
        self._inspector = ClassInspector(papers, MeshDesk(meshes, self._vault), self._clouds, self._clock, "")

    async def look(self) -> Preflight:
        findings = [await self._version(), await self._kinds()]
        namespace = await self._home()
        findings.append(namespace)
        classes = await self._classes() if findings[1].good else ()
        with suppress(Forbidden):  # then the Talos version is the class's, or the usual one
            self._nodes = tuple((await paged(self._http, Subject(nodes()), {})).records.values())
        if namespace.good:
            findings += [await self._rights(), await self._operator()]
        for name, node_class in classes:
            findings += await self._class(name, node_class)
        if findings[1].good and not classes:
            words = (
                f"there is none, and Secret {OPERATOR_SECRET} in namespace {self._namespace} holds no provider's key"
            )
            apply = "kubectl apply -f deploy/examples/standard.yaml"
            findings.append(Finding("GPUNodeClass", False, words, apply))
        findings.append(await self._device_plugin())
        return Preflight(await self._providers(classes), tuple(findings))

    # -- the cluster itself ------------------------------------------------------------------------------------------

    async def _version(self) -> Finding:
        version = await self._cluster.version()
        minor = version.removeprefix("v").split(".")[1:2]
        old = bool(minor) and minor[0].isdigit() and int(minor[0]) < OLDEST_MINOR
        words = f"{version}; tgp needs 1.{OLDEST_MINOR} or newer" if old else version
        return Finding("Kubernetes", not old, words)

    async def _kinds(self) -> Finding:
        missing, older = [], []
        for ours in crds():
            stored = await self._read(CUSTOM_RESOURCE_DEFINITION, "", ours["metadata"]["name"])
            if stored is None:
                missing.append(ours["spec"]["names"]["kind"])
            elif difference(stored, ours):
                older.append(ours["spec"]["names"]["kind"])
        if missing:
            return Finding("kinds", False, f"not installed: {', '.join(missing)}", "tgp crds apply")
        if older:
            return Finding("kinds", False, f"of another version: {', '.join(older)}", "tgp crds apply")
        return Finding("kinds", True, "all four are installed, of this version")

    async def _home(self) -> Finding:
        if await self._read(NAMESPACE, "", self._namespace) is not None:
            return Finding("namespace", True, f"{self._namespace} is there")
        words = f"{self._namespace} does not exist; if the operator lives elsewhere, say --namespace"
        return Finding("namespace", False, words, f"kubectl create namespace {self._namespace}")

    async def _rights(self) -> Finding:
        """Does what is installed grant everything that this version's own manifest does?"""
        short: list[str] = []
        try:
            for ours in operator_rights():
                if ours["kind"] in ROLES:
                    short += await self._short_of(ours)
        except Forbidden:
            return Finding("rights", None, "you may not read roles, so the operator's were not checked")
        if short:
            return Finding("rights", False, "; ".join(short), f"kubectl apply -f {RIGHTS}")
        return Finding("rights", True, "the operator has all that this version needs")

    async def _short_of(self, ours: Mapping[str, Any]) -> list[str]:
        name, home = ours["metadata"]["name"], ours["metadata"].get("namespace", "")
        stored = await self._read(ROLES[ours["kind"]], self._namespace if home == SHIPPED_HOME else home, name)
        if stored is None:
            return [f"{ours['kind']} {name} does not exist"]
        rights = missing_rights(stored.get("rules") or [], ours.get("rules") or [])
        return [f"{ours['kind']} {name} does not grant {', '.join(rights)}"] if rights else []

    async def _operator(self) -> Finding:
        lease = await self._read(LEASE, self._namespace, OPERATOR_LEASE)
        spec = (lease or {}).get("spec") or {}
        holder, renewed = str(spec.get("holderIdentity") or ""), _moment(spec.get("renewTime"))
        if not holder or renewed is None:
            return Finding("operator", None, f"none has run in namespace {self._namespace} yet")
        age = await self._age(renewed)
        if age > SILENT_AFTER:
            return Finding(
                "operator", None, f"none runs: the last one, {holder}, renewed its Lease {_in_words(age)} ago"
            )
        return Finding("operator", True, f"{holder} leads")

    async def _device_plugin(self) -> Finding:
        listed = await paged(self._http, Subject(daemon_sets()), {})
        verdict = plugin_for(FutureNode(USUAL_LABELS), listed.records.values())
        return Finding(DEVICE_PLUGIN, verdict.runs, verdict.message)

    # -- its classes -------------------------------------------------------------------------------------------------

    async def _classes(self) -> tuple[tuple[str, GPUNodeClass], ...]:
        """Those that were written, or else the one that the operator makes of the keys in its Secret."""
        found = await paged(self._http, Subject(typed(GPU_NODE_CLASS, GPUNodeClass)), {})
        written = [found.records[key] for key in sorted(found.records)]
        if written:
            return tuple((record.key.name, record.object) for record in written if record.object is not None)
        try:
            values = await self._vault.read(OPERATOR_SECRET)
        except Forbidden:
            return ()
        made = implicit_class(frozenset(values or {}), "")
        return ((IMPLICIT, made),) if made is not None else ()

    async def _class(self, name: str, node_class: GPUNodeClass) -> list[Finding]:
        sight = await self._sight(node_class)
        gaps = dict.fromkeys((*gaps_of(sight), *missing_keys(sight)))
        for provider, source in sources_of(node_class).items():
            if words := lacking(source):
                gaps[Gap("SettingMissing", f"provider {provider}: {words}")] = None
        asked = await self._inspector.inspect(node_class)
        secret_missing = any(gap.reason == "SecretMissing" for gap in gaps)
        gaps |= {gap: None for gap in asked.gaps if not (secret_missing and gap.reason == "MeshRefused")}
        title = "class of the operator's keys" if name == IMPLICIT else f"class {name}"
        if not gaps:
            backend = backend_of(node_class, "")
            return [Finding(title, True, f"template, join Secret and mesh ({backend or 'none'}) are in order")]
        return [Finding(title, False, f"{gap.message} ({gap.reason})", gap.command) for gap in gaps]

    async def _sight(self, node_class: GPUNodeClass) -> ClassSight:
        wanted = names(wanted_by(node_class, backend_of(node_class, "")))
        present, forbidden = await keys_present(wanted, self._vault)
        zones = frozenset(available_timezones())
        return ClassSight(node_class, present, self._namespace, "", zones, forbidden)

    # -- its providers -----------------------------------------------------------------------------------------------

    async def _providers(self, classes: tuple[tuple[str, GPUNodeClass], ...]) -> tuple[CheckRow, ...]:
        """One row each: a provider that several classes buy from is asked with the first one's key."""
        counters: dict[str, Counter] = {}
        places: dict[str, str] = {}
        for _, node_class in classes:
            for source in sources_of(node_class).values():
                if source.provider in counters or source.settings.machines:
                    continue
                keys = await keys_for(source, self._vault)
                counters[source.provider] = Counter(source, facts_of(source.provider), keys.own)
                places[source.provider] = f"Secret {source.secret}/{source.key}" if source.secret else ""
        rows = await Shop(tuple(counters.values()), self._clouds, self._clock).check(by_name=False)
        return tuple(replace(row, variable=places[row.provider]) for row in rows)

    async def _read(self, resource: Resource, namespace: str, name: str) -> dict[str, Any] | None:
        try:
            return await self._cluster.read(resource, Key(namespace, name))
        except NotFound:
            return None

    async def _age(self, moment: datetime) -> timedelta:
        """By the API server's clock, on which Leases are written."""
        reply = await self._http.send(Call("GET", NAMESPACE.path(name="kube-system")))
        try:
            now = parsedate_to_datetime(reply.header("Date"))
        except ValueError:
            now = self._clock.now()
        return (now if now.tzinfo is not None else now.replace(tzinfo=UTC)) - moment


def _moment(told: object) -> datetime | None:
    try:
        return datetime.fromisoformat(str(told))
    except ValueError:
        return None


def _in_words(age: timedelta) -> str:
    return str(timedelta(seconds=int(age.total_seconds())))
