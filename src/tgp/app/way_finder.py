"""Looks at the way to one machine with the rights of whoever asks: the book, the mesh, the Lease, the kubelet."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from tgp.adapters.kube.errors import read_status
from tgp.api.resource import CONFIG_MAP, LEASE, NODE
from tgp.controllers.boot.mesh_desk import MeshDesk
from tgp.core.model.boot_book import BOOK, read_line, trace_of
from tgp.core.model.key import Key
from tgp.core.model.mesh import IN_A_TAILNET, TAILNET, Backend
from tgp.core.model.node import Node
from tgp.core.rules.mesh.stand import addresses_of, own_address
from tgp.core.rules.mesh.way import Probe, Target, Way, read_probe
from tgp.ports.cluster import Cluster, ClusterError, Forbidden, NotFound
from tgp.ports.http import Call, Http, HttpError
from tgp.ports.mesh import MeshError, Meshes
from tgp.ports.vault import Vault

NODE_LEASES = "kube-node-lease"
PATIENCE = timedelta(seconds=15)  # for a kubelet: what takes longer is no way


class WayFinder:
    def __init__(self, http: Http, cluster: Cluster, meshes: Meshes | None, vault: Vault, namespace: str) -> None:
        self._http = http
        self._cluster = cluster
        self._desk = MeshDesk(meshes, vault) if meshes is not None else None
        self._namespace = namespace

    async def look(self, target: Target) -> Way:
        """Raises HttpError only where the API server itself does not answer."""
        way = await self._book(target.attempt.token if target.attempt is not None else "")
        way = await self._mesh(way, target.node)
        if target.node is None:
            return way
        lease, trouble = await self._lease(target.node)
        return replace(way, lease=lease, lease_trouble=trouble, probe=await self._probe(target.node))

    async def _book(self, token: str) -> Way:
        if not token:
            return Way()
        try:
            found = await self._cluster.read(CONFIG_MAP, Key(self._namespace, BOOK))
        except NotFound:
            return Way()
        except Forbidden:
            return Way(book_trouble=f"you may not read ConfigMap {self._namespace}/{BOOK}, which tells how it joined")
        except ClusterError as error:
            return Way(book_trouble=f"how it joined could not be read: {error}")
        entries = (read_line(line) for line in (found.get("data") or {}).values())
        return Way(next((entry for entry in entries if entry is not None and entry.token == token), None))

    async def _mesh(self, way: Way, node: Node | None) -> Way:
        entry = way.entry
        note = entry.mesh if entry is not None else None
        if entry is None or note is None or note.backend == Backend.NONE:
            return way
        backend = Backend(note.backend)
        ranges = own_address(note.address) if note.address else TAILNET if backend in IN_A_TAILNET else ()
        way = replace(way, ranges=ranges)
        if self._desk is None:
            return replace(way, mesh_trouble="the mesh cannot be asked from here")
        trace = trace_of(entry, addresses_of(node) if node is not None else ())
        assert trace is not None, "what has a note has a trace"
        try:
            mesh = await self._desk.reopen(note)
            device = await mesh.find(trace) if mesh.has_devices else None
        except MeshError as error:
            return replace(way, mesh_trouble=_for_a_person(str(error)))
        except ClusterError as error:
            return replace(way, mesh_trouble=f"the mesh was not asked: {error}")
        return replace(way, asked=True, device=device, has_devices=mesh.has_devices)

    async def _lease(self, node: Node) -> tuple[Mapping[str, Any] | None, str]:
        try:
            found = await self._cluster.read(LEASE, Key(NODE_LEASES, node.name))
        except NotFound:
            return None, ""
        except Forbidden:
            return None, f"you may not read Lease {NODE_LEASES}/{node.name}"
        except ClusterError as error:
            return None, f"the Lease could not be read: {error}"
        return found.get("spec") or {}, ""

    async def _probe(self, node: Node) -> Probe:
        """With the caller's own rights: nothing of the operator's is borrowed."""
        address = next(iter(addresses_of(node)), "")
        call = Call("GET", f"{NODE.path(name=node.name, subresource='proxy')}/healthz", timeout=PATIENCE)
        try:
            reply = await self._http.send(call)
        except HttpError as error:
            return read_probe(504, f"no answer within {PATIENCE.seconds} s ({error})", address)
        said = reply.content.decode(errors="replace") if reply.ok else read_status(reply).message
        if not reply.ok and not said.strip():
            said = reply.content[:1024].decode(errors="replace")
        return read_probe(reply.status, said, address)


def _for_a_person(words: str) -> str:
    """The operator's words about a Secret, for somebody else."""
    bare = words.replace("the operator may not read", "you may not read").partition(": let its Role")[0]
    return f"the mesh was not asked: {bare}" if bare != words else f"the mesh does not tell: {words}"
