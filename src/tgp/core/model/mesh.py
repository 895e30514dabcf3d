"""The private network that rented machines join by: what is chosen, what a machine is given, what is observed of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import TypeAlias

import msgspec

from tgp.core.model.secret import Secret

Network: TypeAlias = IPv4Network | IPv6Network


class Backend(StrEnum):
    TAILSCALE = "tailscale"
    HEADSCALE = "headscale"
    WIREGUARD = "wireguard"
    KUBESPAN = "kubespan"
    NONE = "none"


TITLES = {  # display name of the network
    Backend.TAILSCALE: "tailnet",
    Backend.HEADSCALE: "tailnet",
    Backend.WIREGUARD: "WireGuard tunnel",
    Backend.KUBESPAN: "KubeSpan mesh",
    Backend.NONE: "network",
}
IN_A_TAILNET = frozenset({Backend.TAILSCALE, Backend.HEADSCALE})
TAILNET: tuple[Network, ...] = (ip_network("100.64.0.0/10"), ip_network("fd7a:115c:a1e0::/48"))


class Ref(msgspec.Struct, frozen=True, order=True):
    """One key of one Secret in the operator's namespace."""

    secret: str
    key: str

    def __str__(self) -> str:
        return f"{self.secret}/{self.key}"


@dataclass(frozen=True, slots=True)
class TunnelSettings:
    """Of a plain WireGuard tunnel. A value stands here, or is read by its reference."""

    private_key: Secret | Ref | None = None  # of the one node it serves; None: each node gets its own
    server_key: str | Ref | None = None  # the server's public key
    server_endpoint: str | Ref | None = None  # host:port
    allowed_ips: tuple[str, ...] | Ref = ()
    address: str | Ref | None = None  # of the one node it serves
    address_pool: str = ""  # CIDR from which each node gets an address of its own


@dataclass(frozen=True, slots=True)
class MeshSettings:
    """Which mesh, and how machines appear in it. Two of them that are equal are one mesh."""

    backend: Backend
    login_server: str = ""  # a Headscale's
    tags: tuple[str, ...] = ()
    ephemeral: bool = True
    accept_routes: bool = False
    advertise_routes: tuple[str, ...] = ()
    client_id: Ref | None = None  # of the OAuth client that mints keys
    client_secret: Ref | None = None
    api_key: Ref | None = None  # a Headscale's
    auth_key: Ref | None = None  # a fixed key instead of one per machine
    tunnel: TunnelSettings | None = None

    @property
    def refs(self) -> tuple[Ref, ...]:
        """Every Secret key that using it needs."""
        tunnel = self.tunnel
        parts: tuple[object, ...] = (self.client_id, self.client_secret, self.api_key, self.auth_key)
        if tunnel is not None:
            parts += (
                tunnel.private_key,
                tunnel.server_key,
                tunnel.server_endpoint,
                tunnel.allowed_ips,
                tunnel.address,
            )
        return tuple(part for part in parts if isinstance(part, Ref))


Secrets: TypeAlias = Mapping[Ref, Secret]


# -- what a machine is given: the mesh's part of its machine config ----------------------------------------------------


class TailscaleJoin(msgspec.Struct, frozen=True):
    auth_key: Secret
    hostname: str
    single_use: bool = True  # then it must not be tried again at the next start
    accept_routes: bool = False
    advertise_routes: tuple[str, ...] = ()
    login_server: str = ""  # empty: Tailscale's own

    @property
    def ranges(self) -> tuple[Network, ...]:
        return TAILNET


class TunnelJoin(msgspec.Struct, frozen=True):
    private_key: Secret
    address: str  # CIDR: the node's own, 10.8.0.7/24
    server_key: str
    server_endpoint: str
    allowed_ips: tuple[str, ...]
    keepalive_seconds: int = 25
    mtu: int = 1420

    @property
    def ranges(self) -> tuple[Network, ...]:
        host = ip_address(self.address.partition("/")[0])
        return (ip_network(host),)


class KubeSpanJoin(msgspec.Struct, frozen=True):
    """Keys are created on the node, peers are found by discovery: nothing to pass on."""

    ranges: tuple[Network, ...] = ()


class NoMesh(msgspec.Struct, frozen=True):
    ranges: tuple[Network, ...] = ()


MeshJoin: TypeAlias = TailscaleJoin | TunnelJoin | KubeSpanJoin | NoMesh


# -- what is observed of it --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Device:
    """A member of the mesh, as the mesh lists it."""

    id: str
    hostname: str  # as the machine asked for it; the mesh may have made it unique
    name: str = ""  # by which others reach it: train-3f2a91bc.tail1234.ts.net
    addresses: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    created_at: datetime | None = None
    online: bool | None = None  # None: unknown
    last_seen: datetime | None = None


@dataclass(frozen=True, slots=True)
class DeviceRef:
    """Identifies a machine in the mesh, so that it can be found and what was created for it removed. No secrets."""

    hostname: str
    since: datetime  # nothing older is ours
    key_id: str = ""  # of the auth key it was given
    device_id: str = ""  # once it was found
    addresses: tuple[str, ...] = ()  # of its Node, or reserved for it


@dataclass(frozen=True, slots=True)
class MeshStatus:
    """Whether a machine is connected, for users and for the lifecycle."""

    ok: bool | None  # None: unknown now
    reason: str
    message: str
    hostname: str = ""  # by which others reach it
    address: str = ""
    backend: str = ""  # by which it joined; empty: unknown


NO_MESH = "NoMesh"  # the reason of a machine that joined by none
NOT_ASKED = "NotAskedYet"  # the reason while this process has not asked the mesh
NO_MESH_NEEDED = MeshStatus(True, NO_MESH, "The machine joined without a mesh")


@dataclass(frozen=True, slots=True)
class MeshReport:
    """What could be learned of the credentials without changing anything."""

    usable: bool
    problems: tuple[str, ...] = ()  # what is missing, and what to do about it
    notes: tuple[str, ...] = field(default=())
