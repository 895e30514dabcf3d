"""Checks the connection to one machine with the user's own rights: join record, mesh, Lease, kubelet."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from tgp.adapters.kube.errors import read_status
from tgp.api.resource import CONFIG_MAP, LEASE, NODE
from tgp.controllers.joining.meshes import MeshOpener
from tgp.core.joining.mesh.status import addresses_of, own_address
from tgp.core.model.join_record import JOIN_RECORDS, read_line, trace_of
from tgp.core.model.mesh import IN_A_TAILNET, TAILNET, Backend
from tgp.core.model.node import Node
from tgp.core.model.object_key import ObjectKey
from tgp.core.reports.path_check import CheckedMachine, ConnectivityReport, PortProbe, read_probe
from tgp.ports.cluster import Cluster, ClusterError, Forbidden, NotFound
from tgp.ports.http import Call, Http, HttpError
from tgp.ports.mesh import MeshError, Meshes
from tgp.ports.secret_reader import SecretReader

NODE_LEASES = "kube-node-lease"
KUBELET_TIMEOUT = timedelta(seconds=15)  # after that the kubelet counts as unreachable


class ConnectivityService:
    def __init__(
        self, http: Http, cluster: Cluster, meshes: Meshes | None, secret_reader: SecretReader, namespace: str
    ) -> None:
        self._http = http
        self._cluster = cluster
        self._meshes = MeshOpener(meshes, secret_reader) if meshes is not None else None
        self._namespace = namespace

    async def look(self, target: CheckedMachine) -> ConnectivityReport:
        """Raises HttpError only if the API server does not answer."""
        report = await self._join_record(target.attempt.token if target.attempt is not None else "")
        report = await self._mesh(report, target.node)
        if target.node is None:
            return report
        lease, trouble = await self._lease(target.node)
        return replace(report, lease=lease, lease_trouble=trouble, probe=await self._probe(target.node))

    async def _join_record(self, token: str) -> ConnectivityReport:
        if not token:
            return ConnectivityReport()
        try:
            found = await self._cluster.read(CONFIG_MAP, ObjectKey(self._namespace, JOIN_RECORDS))
        except NotFound:
            return ConnectivityReport()
        except Forbidden:
            return ConnectivityReport(
                book_trouble=f"you may not read the join records (ConfigMap {self._namespace}/{JOIN_RECORDS})"
            )
        except ClusterError as error:
            return ConnectivityReport(book_trouble=f"the join record could not be read: {error}")
        entries = (read_line(line) for line in (found.get("data") or {}).values())
        return ConnectivityReport(
            next((entry for entry in entries if entry is not None and entry.token == token), None)
        )

    async def _mesh(self, report: ConnectivityReport, node: Node | None) -> ConnectivityReport:
        entry = report.entry
        note = entry.mesh if entry is not None else None
        if entry is None or note is None or note.backend == Backend.NONE:
            return report
        backend = Backend(note.backend)
        ranges = own_address(note.address) if note.address else TAILNET if backend in IN_A_TAILNET else ()
        report = replace(report, ranges=ranges)
        if self._meshes is None:
            return replace(report, mesh_trouble="the mesh cannot be asked from this command")
        trace = trace_of(entry, addresses_of(node) if node is not None else ())
        assert trace is not None, "a mesh record has a trace"
        try:
            mesh = await self._meshes.reopen(note)
            device = await mesh.find(trace) if mesh.has_devices else None
        except MeshError as error:
            return replace(report, mesh_trouble=_for_user(str(error)))
        except ClusterError as error:
            return replace(report, mesh_trouble=f"the mesh was not asked: {error}")
        return replace(report, asked=True, device=device, has_devices=mesh.has_devices)

    async def _lease(self, node: Node) -> tuple[Mapping[str, Any] | None, str]:
        try:
            found = await self._cluster.read(LEASE, ObjectKey(NODE_LEASES, node.name))
        except NotFound:
            return None, ""
        except Forbidden:
            return None, f"you may not read Lease {NODE_LEASES}/{node.name}"
        except ClusterError as error:
            return None, f"the Lease could not be read: {error}"
        return found.get("spec") or {}, ""

    async def _probe(self, node: Node) -> PortProbe:
        """With the user's own rights, not the operator's."""
        address = next(iter(addresses_of(node)), "")
        call = Call("GET", f"{NODE.path(name=node.name, subresource='proxy')}/healthz", timeout=KUBELET_TIMEOUT)
        try:
            reply = await self._http.send(call)
        except HttpError as error:
            return read_probe(504, f"no answer within {KUBELET_TIMEOUT.seconds} s ({error})", address)
        said = reply.content.decode(errors="replace") if reply.ok else read_status(reply).message
        if not reply.ok and not said.strip():
            said = reply.content[:1024].decode(errors="replace")
        return read_probe(reply.status, said, address)


def _for_user(words: str) -> str:
    """The operator's message about a Secret, rewritten for the user."""
    bare = words.replace("the operator may not read", "you may not read").partition(": add get on")[0]
    return f"the mesh was not asked: {bare}" if bare != words else f"the mesh did not answer: {words}"
