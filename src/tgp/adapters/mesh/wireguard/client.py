"""The `Mesh` port over a plain WireGuard tunnel. Nobody is asked: who is let in is written down, and a server reads it.

The record is a Secret in the operator's namespace, changed by compare-and-swap only. It is written before a node has
its key, so an address is never given twice; a node that asks again keeps its address, and its last key counts.
"""

import asyncio
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tgp.adapters.mesh.wireguard import record as peers_record
from tgp.adapters.mesh.wireguard.keys import KeyPair, new_pair
from tgp.adapters.mesh.wireguard.record import PEERS, PEERS_MAX, Address, Peer, Record
from tgp.adapters.mesh.wireguard.tunnel import WHERE, Tunnel, read_tunnel, server_key
from tgp.api.resource import SECRET
from tgp.core.model.key import Key
from tgp.core.model.mesh import Device, MeshReport, MeshSettings, Network, Secrets, Trace, TunnelJoin
from tgp.core.rules.holds import edited
from tgp.ports.clock import Clock
from tgp.ports.cluster import (
    AlreadyExists,
    Cluster,
    ClusterError,
    Conflict,
    Forbidden,
    NotFound,
    Refused,
    WriteUnknown,
)
from tgp.ports.entropy import Entropy
from tgp.ports.mesh import Enrolment, MeshBusy, MeshRefused, Ticket

TRIES = 8  # against others who write the same record
PAUSE_S = 0.2  # between two tries at most: whoever lost a race steps aside for a moment

Change = Callable[[Record], Record]


@dataclass(frozen=True, slots=True)
class _Seen:
    """The record as it was read, and by what it is recognised when it is written."""

    record: Record
    metadata: Mapping[str, Any] | None  # None: there is no such Secret yet


class WireGuardMesh:
    has_devices = False  # the record is our own word; only its Node shows that a machine came

    def __init__(
        self,
        cluster: Cluster,
        clock: Clock,
        entropy: Entropy,
        settings: MeshSettings,
        secrets: Secrets,
        *,
        namespace: str,  # the operator's own
    ) -> None:
        """Raises MeshRefused where the server's public key, which names its record, cannot be had.

        Anything else that is missing hinders `enrol` and is told by `check`: removing must go on without it.
        """
        assert settings.tunnel is not None, "a WireGuard mesh has a tunnel"
        self.settings = settings
        self._cluster = cluster
        self._clock = clock
        self._entropy = entropy
        self._tunnel_settings = settings.tunnel
        self._secrets = secrets
        self._server_key = server_key(settings.tunnel, secrets)
        self.key = Key(namespace, peers_record.name_of(self._server_key))
        self._one_at_a_time = asyncio.Lock()  # against ourselves; against others there is the version

    @property
    def ranges(self) -> tuple[Network, ...]:
        try:
            return self._tunnel().ranges
        except MeshRefused:
            return ()

    async def enrol(self, ticket: Ticket) -> Enrolment:
        tunnel = self._tunnel()
        if not peers_record.HOSTNAME.match(ticket.hostname):
            raise MeshRefused("the machine's name is not a host name: letters, digits, '-' and '.' only")
        pair = tunnel.own_key or new_pair(self._entropy)
        now = self._clock.now()

        def let_in(record: Record) -> Record:
            address = self._address_for(ticket.hostname, pair, tunnel, record)
            return record.with_peer(ticket.hostname, Peer(pair.public, address, now))

        record = await self._change(let_in)
        address = record.peers[ticket.hostname].address
        join = TunnelJoin(
            pair.private,
            f"{address}/{tunnel.network.prefixlen}",
            tunnel.server_key,
            tunnel.server_endpoint,
            tuple(str(each) for each in tunnel.allowed_ips),
        )
        return Enrolment(join, key_id=pair.public, address=str(address))

    async def find(self, trace: Trace) -> Device | None:
        with self._in_our_words():
            seen = await self._look()
        peer = seen.record.peers.get(trace.hostname)
        if peer is None or (trace.device_id and trace.device_id != peer.public_key) or peer.enrolled_at < trace.since:
            return None
        return Device(
            id=peer.public_key,
            hostname=trace.hostname,
            addresses=(str(peer.address),),
            created_at=peer.enrolled_at,
        )

    async def remove(self, trace: Trace) -> None:
        """By its key, where that is known: under its name another may be at work by now."""

        def let_go(record: Record) -> Record:
            peer = record.peers.get(trace.hostname)
            others = peer is not None and trace.key_id not in ("", peer.public_key)
            return record if others else record.without(trace.hostname)

        await self._change(let_go)

    async def check(self) -> MeshReport:
        """Whether the settings are whole and the record can be read. That it can be written shows the first write."""
        problems, notes = [], [f"the server's agent reads Secret {self.key}"]
        try:
            tunnel = self._tunnel()
            if tunnel.own_key is not None or tunnel.own_address is not None:
                notes.append(f"{WHERE} serves one node at a time: set addressPool, and neither privateKey nor address")
            with self._in_our_words():
                await self._look()
        except MeshRefused as error:
            problems.append(str(error))
        return MeshReport(not problems, tuple(problems), tuple(notes))

    # -- who gets what -------------------------------------------------------------------------------------------------

    def _tunnel(self) -> Tunnel:
        return read_tunnel(self._tunnel_settings, self._secrets)

    def _address_for(self, hostname: str, pair: KeyPair, tunnel: Tunnel, record: Record) -> Address:
        """Its own, if it has one that still fits; the one that the settings give; else the lowest that is free."""
        if other := record.holder(hostname, public_key=pair.public):
            raise MeshRefused(
                f"{WHERE}.privateKey serves one node at a time, and {other} has it: leave it out, and give an "
                "addressPool, to serve more"
            )
        if tunnel.own_address is not None:
            if tunnel.pool is not None and not peers_record.may_have(tunnel.pool, tunnel.own_address.ip, tunnel.taken):
                raise MeshRefused(
                    f"{WHERE}.address {tunnel.own_address.ip} is not a node's to have: it is the server's, somebody "
                    f"else's, or outside of addressPool {tunnel.pool}"
                )
            if other := record.holder(hostname, address=tunnel.own_address.ip):
                raise MeshRefused(
                    f"{WHERE}.address serves one node at a time, and {other} has it: give an addressPool to serve more"
                )
            return tunnel.own_address.ip
        assert tunnel.pool is not None, "an address comes from somewhere"
        mine = record.peers.get(hostname)
        if mine is not None and mine.address in tunnel.pool and mine.address not in tunnel.taken:
            return mine.address
        if len(record.peers) >= PEERS_MAX:
            raise MeshRefused(f"Secret {self.key} holds {PEERS_MAX} nodes, and takes no more: use another server")
        free = peers_record.lowest_free(tunnel.pool, record.addresses() | tunnel.taken)
        if free is None:
            raise MeshRefused(f"{WHERE}.addressPool {tunnel.pool} is full: give a larger network, or free some nodes")
        return free

    # -- the record ----------------------------------------------------------------------------------------------------

    async def _change(self, change: Change) -> Record:
        """Compare and swap, tried a few times. What is already so is not written."""
        with self._in_our_words():
            async with self._one_at_a_time:
                for _ in range(TRIES):
                    seen = await self._look()
                    wanted = change(seen.record)
                    if wanted == seen.record:
                        return wanted
                    try:
                        await self._write(seen, wanted)
                    except (Conflict, AlreadyExists, NotFound, WriteUnknown):
                        await asyncio.sleep(self._entropy.jitter() * PAUSE_S)  # what happened, the next look tells
                    else:
                        return wanted
        raise MeshBusy(f"Secret {self.key} keeps changing")

    async def _look(self) -> _Seen:
        try:
            found = await self._cluster.read(SECRET, self.key)
        except NotFound:
            return _Seen(Record(), None)
        data = found.get("data") or {}
        if PEERS not in data:
            return _Seen(Record(), found["metadata"])
        try:
            text = b64decode(data[PEERS], validate=True).decode()
            return _Seen(peers_record.read(text, self._server_key), found["metadata"])
        except (ValueError, peers_record.Unreadable) as error:
            why = str(error) if isinstance(error, peers_record.Unreadable) else f"{PEERS} is not text"
            raise MeshRefused(
                f"Secret {self.key} cannot be read: {why}. Restore it; if no node of this server is left, delete it"
            ) from error

    async def _write(self, seen: _Seen, wanted: Record) -> None:
        """While it names a node it carries our finalizer: deleted, it would give away addresses that are in use."""
        texts = peers_record.texts(wanted, self._server_key)
        data = {name: b64encode(text.encode()).decode() for name, text in texts.items()}
        old = seen.metadata
        finalizers = edited((old or {}).get("finalizers") or (), held=bool(wanted.peers))
        metadata: dict[str, Any] = {} if finalizers is None else {"finalizers": finalizers}
        if old is None:
            named = {"namespace": self.key.namespace, "name": self.key.name, "labels": {"tgp.io/mesh": "wireguard"}}
            await self._cluster.create(SECRET, {"metadata": named | metadata, "type": "Opaque", "data": data})
            return
        if "deletionTimestamp" in old and finalizers is not None and wanted.peers:
            raise MeshBusy(f"Secret {self.key} is being deleted; it will be made anew")
        change = {"data": data} | ({"metadata": metadata} if metadata else {})
        version, uid = str(old.get("resourceVersion", "")), str(old.get("uid", ""))
        await self._cluster.patch(SECRET, self.key, change, resource_version=version, uid=uid)

    @contextmanager
    def _in_our_words(self) -> Iterator[None]:
        try:
            yield
        except Forbidden as error:
            raise MeshRefused(
                f"the operator may not keep Secret {self.key}: let its Role get, create and patch Secrets"
            ) from error
        except Refused as error:
            raise MeshRefused(f"the API server refuses Secret {self.key}") from error
        except ClusterError as error:
            raise MeshBusy(f"Secret {self.key} cannot be reached now: {error}") from error
