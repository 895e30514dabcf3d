"""Who has which address behind one server: the durable record, and the config text for the server. No private keys."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from hashlib import sha256
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Any, TypeAlias

from tgp.adapters.mesh.wireguard.keys import key_bytes

PEERS = "peers.json"
CONF = "wg.conf"
NAME_PREFIX = "tgp-wireguard-"
DIGEST_DIGITS = 10
PEERS_MAX = 2_000  # a Secret holds a mebibyte; this many peers are half of it
HOSTNAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?\Z")  # it is written into a comment of wg.conf
HEADER = "# The peers of this server, by tgp. Rewritten at every change: manual additions are lost.\n"

Address: TypeAlias = IPv4Address | IPv6Address


class UnreadableRecord(Exception):
    """Another writer changed the record. The text says what is wrong."""


@dataclass(frozen=True, slots=True)
class Peer:
    public_key: str
    address: Address
    enrolled_at: datetime


@dataclass(frozen=True, slots=True)
class PeerRecord:
    peers: Mapping[str, Peer] = field(default_factory=dict)  # by hostname

    def with_peer(self, hostname: str, peer: Peer) -> "PeerRecord":
        return replace(self, peers={**self.peers, hostname: peer})

    def without(self, hostname: str) -> "PeerRecord":
        return replace(self, peers={name: peer for name, peer in self.peers.items() if name != hostname})

    def holder(self, hostname: str, *, public_key: str = "", address: Address | None = None) -> str:
        """Another than `hostname` that has this key or this address; empty: none."""
        for name, peer in sorted(self.peers.items()):
            if name != hostname and (peer.public_key == public_key or peer.address == address):
                return name
        return ""

    def addresses(self) -> frozenset[Address]:
        return frozenset(peer.address for peer in self.peers.values())


def name_of(server_key: str) -> str:
    """The Secret of one server: two classes that share it share its addresses, whatever their pools are."""
    return NAME_PREFIX + sha256(f"tgp wireguard\n{server_key}".encode()).hexdigest()[:DIGEST_DIGITS]


def lowest_free(pool: IPv4Network | IPv6Network, taken: Iterable[Address]) -> Address | None:
    """None: the pool is full."""
    used = frozenset(taken)
    return next((address for address in _hosts(pool) if address not in used), None)


def may_have(pool: IPv4Network | IPv6Network, address: Address, taken: Iterable[Address]) -> bool:
    """Whether a node may have this address: traffic for other hosts must not be routed to it."""
    if address.version != pool.version or address not in pool or address in frozenset(taken):
        return False
    first, last = int(pool.network_address) + 2, int(pool.broadcast_address)
    return first <= int(address) < last + (pool.version == 6)


def _hosts(pool: IPv4Network | IPv6Network) -> Iterator[Address]:
    """Without the network's own address, the broadcast, and the first, which belongs to the server."""
    first, last = int(pool.network_address) + 2, int(pool.broadcast_address)
    if isinstance(pool, IPv4Network):
        return (IPv4Address(number) for number in range(first, last))
    return (IPv6Address(number) for number in range(first, last + 1))  # IPv6 has no broadcast


# -- the stored form ---------------------------------------------------------------------------------------------


def texts(record: PeerRecord, server_key: str) -> dict[str, str]:
    """The Secret's values."""
    peers = {
        hostname: {
            "publicKey": peer.public_key,
            "address": str(peer.address),
            "enrolledAt": peer.enrolled_at.isoformat(),
        }
        for hostname, peer in sorted(record.peers.items())
    }
    written = {"version": 1, "server": server_key, "peers": peers}
    return {PEERS: json.dumps(written, indent=1) + "\n", CONF: conf(record)}


def conf(record: PeerRecord) -> str:
    """Sections as `wg` reads them, by address: without the [Interface] section, which the server has."""
    ordered = sorted(record.peers.items(), key=lambda each: (each[1].address.version, int(each[1].address)))
    return HEADER + "".join(f"\n[Peer]\n# {hostname}\n{_section(peer)}" for hostname, peer in ordered)


def _section(peer: Peer) -> str:
    return f"PublicKey = {peer.public_key}\nAllowedIPs = {peer.address}/{peer.address.max_prefixlen}\n"


def read(text: str, server_key: str) -> PeerRecord:
    """What `texts` wrote. Raises UnreadableRecord."""
    try:
        written = json.loads(text)
        version, server, peers = written["version"], written["server"], written["peers"]
        if version != 1 or server != server_key:
            raise UnreadableRecord("the record belongs to another server, or to a newer release")
        return PeerRecord({_hostname(name): _peer(found) for name, found in peers.items()})
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UnreadableRecord(f"{PEERS} was changed by another writer ({type(error).__name__})") from error


def _hostname(name: str) -> str:
    if not HOSTNAME.match(name):
        raise ValueError(name)
    return name


def _peer(found: Mapping[str, Any]) -> Peer:
    if key_bytes(found["publicKey"]) is None:
        raise ValueError(found)
    return Peer(found["publicKey"], ip_address(found["address"]), datetime.fromisoformat(found["enrolledAt"]))
