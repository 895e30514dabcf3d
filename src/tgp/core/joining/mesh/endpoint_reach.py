"""Whether a rented machine can reach the API server at the address in its join values.

A machine that cannot is billed until its join timeout, and the next one too. Names are not resolved: what a name
means inside a mesh is not known here. A name that only a local network or a search domain can resolve is refused to
the person who writes the join values, who may insist; a class is not stopped for it.
"""

from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from urllib.parse import urlsplit

from tgp.core.model.mesh import Backend, MeshSettings

TAILNETS = (ip_network("100.64.0.0/10"), ip_network("fd7a:115c:a1e0::/48"))  # the addresses that tailnets assign
PRIVATE = tuple(ip_network(each) for each in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7"))
TAILSCALE = (Backend.TAILSCALE, Backend.HEADSCALE)
LOCAL_DOMAINS = ("local", "lan", "internal", "home.arpa")  # for networks of one's own: RFC 6762, 8375, and by use
SERVICES = ("svc", "cluster.local")


def out_of_reach(endpoint: str) -> str:
    """Why a remote machine cannot reach this address without a mesh; empty: it may. Never raises."""
    host, address = _host(endpoint)
    if why := _nowhere(host, address):
        return why
    if address is None:
        return _local_name(host)
    if _in_tailnet(address):
        return ""
    if address.is_link_local:
        return f"{host} is a link-local address"
    private = any(address in network for network in PRIVATE if network.version == address.version)
    return f"{host} is a private address" if private else ""


def in_tailnet(endpoint: str) -> bool:
    """Whether it names an address that a tailnet assigned."""
    _, address = _host(endpoint)
    return address is not None and _in_tailnet(address)


def port_of(endpoint: str) -> int | None:
    """None: it is no https address."""
    with suppress(ValueError):
        parts = urlsplit(endpoint)
        return parts.port or 443 if parts.scheme == "https" else None
    return None


def unreachable(endpoint: str, mesh: MeshSettings) -> str:
    """Why machines in this mesh cannot reach it, with what to change; empty: they can, or it is unknown."""
    host, address = _host(endpoint)
    if why := _nowhere(host, address):
        return f"endpoint {endpoint}: {why}; set the control plane's address in the join Secret"
    why = out_of_reach(endpoint)
    if not why or address is None or mesh.backend in (Backend.KUBESPAN, Backend.NONE):  # the route is not known here
        return ""
    if mesh.backend in TAILSCALE and not mesh.accept_routes:
        return (
            f"endpoint {endpoint}: {why}, which machines in the tailnet cannot reach: use the control plane's address "
            "in the tailnet, or set tailscaleConfig.acceptRoutes if a subnet router advertises a route to it"
        )
    tunnel = mesh.tunnel
    if mesh.backend is Backend.WIREGUARD and tunnel is not None and isinstance(tunnel.allowed_ips, tuple):
        networks = [ip_network(each, strict=False) for each in tunnel.allowed_ips]
        if networks and not any(address in network for network in networks if network.version == address.version):
            return f"endpoint {endpoint}: {why}, which is in none of wireGuardConfig.allowedIPs: add its network"
    return ""


def _host(endpoint: str) -> tuple[str, IPv4Address | IPv6Address | None]:
    """The host, and its address where it is one; empty: the endpoint names none."""
    try:
        host = urlsplit(endpoint).hostname or ""
    except ValueError:
        return "", None
    try:
        address = ip_address(host)
    except ValueError:
        return host, None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return host, mapped or address


def _in_tailnet(address: IPv4Address | IPv6Address) -> bool:
    return any(address in network for network in TAILNETS if network.version == address.version)


def _nowhere(host: str, address: IPv4Address | IPv6Address | None) -> str:
    """Why no machine outside of the control plane reaches it, whatever routes there are."""
    name = host.rstrip(".")
    local = address is not None and (address.is_loopback or address.is_unspecified)
    if local or _within(name, "localhost"):
        return f"{host} is the machine itself"
    if any(_within(name, domain) for domain in SERVICES) or ".svc." in name or name == "kubernetes.default":
        return f"{host} is a Service, which only pods of the cluster reach"
    return ""


def _local_name(host: str) -> str:
    name = host.rstrip(".")
    if name and "." not in name:
        return f"{host} is a name without a domain"
    domain = next((each for each in LOCAL_DOMAINS if _within(name, each)), "")
    return f"{host} is a name of a local network (.{domain})" if domain else ""


def _within(name: str, domain: str) -> bool:
    return name == domain or name.endswith(f".{domain}")
