"""The `Mesh` port over a plain WireGuard tunnel. No API is called: the peers are recorded, and the server reads them.

The record is a Secret in the operator's namespace, changed by compare-and-swap only. It is written before a node has
its key, so an address is never assigned twice; a repeated call keeps the address, and the last key counts.
"""

import asyncio
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tgp.adapters.mesh.wireguard import record as peers_record
from tgp.adapters.mesh.wireguard.keys import KeyPair, new_pair
from tgp.adapters.mesh.wireguard.record import PEERS, PEERS_MAX, Address, Peer, PeerRecord
from tgp.adapters.mesh.wireguard.tunnel import WHERE, Tunnel, read_tunnel, server_key
from tgp.api.resource import SECRET
from tgp.core.inventory.in_use import edited
from tgp.core.model.mesh import Device, DeviceRef, MeshReport, MeshSettings, Network, Secrets, TunnelJoin
from tgp.core.model.object_key import ObjectKey
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
from tgp.ports.mesh import Enrollment, JoinRequest, MeshBusy, MeshRefused

TRIES = 8  # when other clients write the same record
PAUSE_S = 0.2  # the longest pause between two tries after a conflict

Change = Callable[[PeerRecord], PeerRecord]


@dataclass(frozen=True, slots=True)
class _Seen:
    """The record as it was read, and its version, for the conditional write."""

    record: PeerRecord
    metadata: Mapping[str, Any] | None  # None: there is no such Secret yet


class WireGuardMesh:
    has_devices = False  # the record is written by us; only its Node shows that a machine joined

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
        """Raises MeshRefused where the server's public key, which names its record, is missing.

        Other missing settings fail `enroll` and are reported by `check`: `remove` must work without them.
        """
        assert settings.tunnel is not None, "a WireGuard mesh has a tunnel"
        self.settings = settings
        self._cluster = cluster
        self._clock = clock
        self._entropy = entropy
        self._tunnel_settings = settings.tunnel
        self._secrets = secrets
        self._server_key = server_key(settings.tunnel, secrets)
        self.key = ObjectKey(namespace, peers_record.name_of(self._server_key))
        self._one_at_a_time = asyncio.Lock()  # against ourselves; against others there is the version

    @property
    def ranges(self) -> tuple[Network, ...]:
        try:
            return self._tunnel().ranges
        except MeshRefused:
            return ()

    async def enroll(self, join_request: JoinRequest) -> Enrollment:
        tunnel = self._tunnel()
        if not peers_record.HOSTNAME.match(join_request.hostname):
            raise MeshRefused("the machine's name is not a host name: letters, digits, '-' and '.' only")
        pair = tunnel.own_key or new_pair(self._entropy)
        now = self._clock.now()

        def let_in(record: PeerRecord) -> PeerRecord:
            address = self._address_for(join_request.hostname, pair, tunnel, record)
            return record.with_peer(join_request.hostname, Peer(pair.public, address, now))

        record = await self._change(let_in)
        address = record.peers[join_request.hostname].address
        join = TunnelJoin(
            pair.private,
            f"{address}/{tunnel.network.prefixlen}",
            tunnel.server_key,
            tunnel.server_endpoint,
            tuple(str(each) for each in tunnel.allowed_ips),
        )
        return Enrollment(join, key_id=pair.public, address=str(address))

    async def find(self, trace: DeviceRef) -> Device | None:
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

    async def remove(self, trace: DeviceRef) -> None:
        """By its key if known: another machine may have its name by now."""

        def let_go(record: PeerRecord) -> PeerRecord:
            peer = record.peers.get(trace.hostname)
            others = peer is not None and trace.key_id not in ("", peer.public_key)
            return record if others else record.without(trace.hostname)

        await self._change(let_go)

    async def check(self) -> MeshReport:
        """Whether the settings are complete and the record is readable. Only the first write shows that it is
        writable.
        """
        problems, notes = [], [f"the server's agent reads Secret {self.key}"]
        try:
            tunnel = self._tunnel()
            if tunnel.own_key is not None or tunnel.own_address is not None:
                notes.append(f"{WHERE} serves one node at a time: set addressPool, and remove privateKey and address")
            with self._in_our_words():
                await self._look()
        except MeshRefused as error:
            problems.append(str(error))
        return MeshReport(not problems, tuple(problems), tuple(notes))

    # -- assignment  -------------------------------------------------------------------------------------------------

    def _tunnel(self) -> Tunnel:
        return read_tunnel(self._tunnel_settings, self._secrets)

    def _address_for(self, hostname: str, pair: KeyPair, tunnel: Tunnel, record: PeerRecord) -> Address:
        """Its own, if it has a valid one; the one in the settings; else the lowest free one."""
        if other := record.holder(hostname, public_key=pair.public):
            raise MeshRefused(
                f"{WHERE}.privateKey serves one node at a time, and {other} uses it: remove it and set "
                "addressPool to serve more"
            )
        if tunnel.own_address is not None:
            if tunnel.pool is not None and not peers_record.may_have(tunnel.pool, tunnel.own_address.ip, tunnel.taken):
                raise MeshRefused(
                    f"{WHERE}.address {tunnel.own_address.ip} cannot be a node's "
                    "address: it is the server's, belongs to "
                    f"another host, or is outside of addressPool {tunnel.pool}"
                )
            if other := record.holder(hostname, address=tunnel.own_address.ip):
                raise MeshRefused(
                    f"{WHERE}.address serves one node at a time, and {other} uses it: set addressPool to serve more"
                )
            return tunnel.own_address.ip
        assert tunnel.pool is not None, "an address comes from somewhere"
        mine = record.peers.get(hostname)
        if mine is not None and mine.address in tunnel.pool and mine.address not in tunnel.taken:
            return mine.address
        if len(record.peers) >= PEERS_MAX:
            raise MeshRefused(f"Secret {self.key} has {PEERS_MAX} nodes, the maximum: use another server")
        free = peers_record.lowest_free(tunnel.pool, record.addresses() | tunnel.taken)
        if free is None:
            raise MeshRefused(
                f"{WHERE}.addressPool {tunnel.pool} is full: set a larger network, or terminate some nodes"
            )
        return free

    # -- the record ----------------------------------------------------------------------------------------------------

    async def _change(self, change: Change) -> PeerRecord:
        """Compare and swap, tried a few times. An unchanged record is not written."""
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
                        await asyncio.sleep(self._entropy.jitter() * PAUSE_S)  # the next read shows what happened
                    else:
                        return wanted
        raise MeshBusy(f"Secret {self.key} was changed by other clients {TRIES} times in a row; retrying")

    async def _look(self) -> _Seen:
        try:
            found = await self._cluster.read(SECRET, self.key)
        except NotFound:
            return _Seen(PeerRecord(), None)
        data = found.get("data") or {}
        if PEERS not in data:
            return _Seen(PeerRecord(), found["metadata"])
        try:
            text = b64decode(data[PEERS], validate=True).decode()
            return _Seen(peers_record.read(text, self._server_key), found["metadata"])
        except (ValueError, peers_record.UnreadableRecord) as error:
            why = str(error) if isinstance(error, peers_record.UnreadableRecord) else f"{PEERS} is not text"
            raise MeshRefused(
                f"Secret {self.key} cannot be read: {why}. Restore the Secret; if "
                "no node of this server is left, delete it"
            ) from error

    async def _write(self, seen: _Seen, wanted: PeerRecord) -> None:
        """With nodes in it the Secret has our finalizer: without the record, addresses in use would be assigned
        again.
        """
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
            raise MeshBusy(f"Secret {self.key} is being deleted; tgp will create a new one")
        change = {"data": data} | ({"metadata": metadata} if metadata else {})
        version, uid = str(old.get("resourceVersion", "")), str(old.get("uid", ""))
        await self._cluster.patch(SECRET, self.key, change, resource_version=version, uid=uid)

    @contextmanager
    def _in_our_words(self) -> Iterator[None]:
        try:
            yield
        except Forbidden as error:
            raise MeshRefused(
                f"the operator may not write Secret {self.key}: let its Role get, create and patch Secrets"
            ) from error
        except Refused as error:
            raise MeshRefused(f"the API server refused Secret {self.key}") from error
        except ClusterError as error:
            raise MeshBusy(f"Secret {self.key} could not be read or written: {error}") from error
