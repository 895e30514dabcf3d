"""A tunnel's settings with their Secrets resolved: what each node gets besides its key and address."""

from collections.abc import Iterator
from dataclasses import dataclass
from ipaddress import IPv4Interface, IPv4Network, IPv6Interface, IPv6Network, ip_address, ip_interface, ip_network
from typing import TypeAlias

from tgp.adapters.mesh.wireguard.keys import KeyPair, key_bytes, pair_of
from tgp.adapters.mesh.wireguard.record import Address
from tgp.core.model.mesh import Network, Ref, Secrets, TunnelSettings
from tgp.core.model.secret import Secret
from tgp.ports.mesh import MeshRefused

Interface: TypeAlias = IPv4Interface | IPv6Interface
WHERE = "talosConfig.wireGuardConfig"


@dataclass(frozen=True, slots=True)
class Tunnel:
    server_key: str
    server_endpoint: str
    allowed_ips: tuple[Network, ...]
    own_key: KeyPair | None  # of the one node it serves; None: each node gets its own
    own_address: Interface | None  # the same; None: from the pool
    pool: IPv4Network | IPv6Network | None

    @property
    def taken(self) -> frozenset[Address]:
        """Addresses of the pool that belong to single hosts behind the tunnel."""
        return frozenset(each.network_address for each in self.allowed_ips if each.prefixlen == each.max_prefixlen)

    @property
    def network(self) -> Network:
        """The network of the nodes' addresses."""
        network = self.own_address.network if self.own_address is not None else self.pool
        assert network is not None, "one of the two is set"
        return network

    @property
    def ranges(self) -> tuple[Network, ...]:
        return (ip_network(self.own_address.ip) if self.own_address is not None else self.network,)


def read_tunnel(settings: TunnelSettings, secrets: Secrets) -> Tunnel:
    """Raises MeshRefused, which names the field."""
    reader = _Reader(secrets)
    pool = _network("addressPool", settings.address_pool) if settings.address_pool else None
    address = _interface("address", reader.text("address", settings.address))
    if pool is None and address is None:
        raise MeshRefused(f"{WHERE}.addressPool is missing: a network from which each node gets its address")
    return Tunnel(
        server_key(settings, secrets),
        _endpoint(reader.text("serverEndpoint", settings.server_endpoint)),
        tuple(reader.networks(settings.allowed_ips)) or _around(address.network if address is not None else pool),
        reader.own_key(settings.private_key),
        address,
        pool,
    )


def server_key(settings: TunnelSettings, secrets: Secrets) -> str:
    """The server's public key, which names its record. Raises MeshRefused."""
    key = _Reader(secrets).text("publicKey", settings.server_key)
    if not key:
        raise MeshRefused(f"{WHERE}.publicKey is missing: the server's public key")
    if key_bytes(key) is None:
        raise MeshRefused(f"{WHERE}.publicKey is not a WireGuard key: 32 bytes in base64, 44 characters")
    return key


class _Reader:
    def __init__(self, secrets: Secrets) -> None:
        self._secrets = secrets

    def text(self, field: str, value: str | Ref | None) -> str:
        """Empty: not set."""
        return (self._behind(field, value).reveal() if isinstance(value, Ref) else value or "").strip()

    def own_key(self, value: Secret | Ref | None) -> KeyPair | None:
        if value is None:
            return None
        pair = pair_of(self._behind("privateKey", value) if isinstance(value, Ref) else value)
        if pair is None:
            raise MeshRefused(f"{WHERE}.privateKey is not a WireGuard key: 32 bytes in base64, 44 characters")
        return pair

    def networks(self, value: tuple[str, ...] | Ref) -> Iterator[Network]:
        said = self.text("allowedIPs", value).split(",") if isinstance(value, Ref) else value
        for each in said:
            if each.strip():
                yield _network("allowedIPs", each.strip(), strict=False)

    def _behind(self, field: str, ref: Ref) -> Secret:
        found = self._secrets.get(ref)
        if found is None:
            raise MeshRefused(f"{WHERE}.{field}SecretRef points to {ref}, which does not exist")
        return found


def _network(field: str, text: str, *, strict: bool = True) -> IPv4Network | IPv6Network:
    try:
        return ip_network(text, strict=strict)
    except ValueError as error:
        raise MeshRefused(f"{WHERE}.{field} is not a network in CIDR form: 10.8.0.0/24") from error


def _interface(field: str, text: str) -> Interface | None:
    if not text:
        return None
    try:
        return ip_interface(text)
    except ValueError as error:
        raise MeshRefused(f"{WHERE}.{field} is not an address in CIDR form: 10.8.0.7/24") from error


def _endpoint(text: str) -> str:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 2**16:
        raise MeshRefused(f"{WHERE}.serverEndpoint is not host:port, such as 203.0.113.7:51820")
    if ":" in host and not (host.startswith("[") and _is_address(host[1:-1])):
        raise MeshRefused(f"{WHERE}.serverEndpoint: write an IPv6 address in brackets: [2001:db8::7]:51820")
    return text


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _around(network: Network | None) -> tuple[Network, ...]:
    """By default the tunnel routes its own network."""
    assert network is not None, "an address or a pool is set"
    if network.prefixlen == network.max_prefixlen:
        raise MeshRefused(f"{WHERE}.allowedIPs is missing: the networks behind the tunnel")
    return (network,)
