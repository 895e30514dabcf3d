"""Whether a rented machine can reach the API server at the address in its join values.

A machine that cannot is billed until its join timeout, and the next one too. Names are not resolved: what a name
means inside a mesh is not known here.
"""

from contextlib import suppress
from ipaddress import ip_address, ip_network
from urllib.parse import urlsplit

from tgp.core.model.mesh import Backend, MeshSettings

TAILNETS = (ip_network("100.64.0.0/10"), ip_network("fd7a:115c:a1e0::/48"))  # the addresses that tailnets assign
PRIVATE = tuple(ip_network(each) for each in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"))
TAILSCALE = (Backend.TAILSCALE, Backend.HEADSCALE)


def out_of_reach(endpoint: str) -> str:
    """Why a remote machine cannot reach this address without a mesh; empty: it may. Never raises."""
    try:
        host = urlsplit(endpoint).hostname or ""
    except ValueError:
        return ""
    if host == "localhost":
        return f"{host} is the machine itself"
    try:
        address = ip_address(host)
    except ValueError:
        return ""
    if in_tailnet(endpoint):
        return ""
    if address.is_loopback or address.is_unspecified:
        return f"{host} is the machine itself"
    if address.is_link_local:
        return f"{host} is a link-local address"
    private = any(address in network for network in PRIVATE if network.version == address.version)
    return f"{host} is a private address" if private else ""


def in_tailnet(endpoint: str) -> bool:
    """Whether it names an address that a tailnet assigned."""
    try:
        address = ip_address(urlsplit(endpoint).hostname or "")
    except ValueError:
        return False
    return any(address in network for network in TAILNETS if network.version == address.version)


def port_of(endpoint: str) -> int | None:
    """None: it is no https address."""
    with suppress(ValueError):
        parts = urlsplit(endpoint)
        return parts.port or 443 if parts.scheme == "https" else None
    return None


def unreachable(endpoint: str, mesh: MeshSettings) -> str:
    """Why machines in this mesh cannot reach it, with what to change; empty: they can, or it is unknown."""
    why = out_of_reach(endpoint)
    if not why or mesh.backend in (Backend.KUBESPAN, Backend.NONE):  # the route is not known here
        return ""
    if why.endswith("itself"):
        return f"endpoint {endpoint}: {why}; set the control plane's address in the join Secret"
    if mesh.backend in TAILSCALE and not mesh.accept_routes:
        return (
            f"endpoint {endpoint}: {why}, which machines in the tailnet cannot reach: use the control plane's address "
            "in the tailnet, or set tailscaleConfig.acceptRoutes if a subnet router advertises a route to it"
        )
    tunnel = mesh.tunnel
    if mesh.backend is Backend.WIREGUARD and tunnel is not None and isinstance(tunnel.allowed_ips, tuple):
        host = ip_address(urlsplit(endpoint).hostname or "")
        networks = [ip_network(each, strict=False) for each in tunnel.allowed_ips]
        if networks and not any(host in network for network in networks if network.version == host.version):
            return f"endpoint {endpoint}: {why}, which is in none of wireGuardConfig.allowedIPs: add its network"
    return ""
