"""Interfaces, tunnels and KubeSpan, in the classic document and in documents of their own."""

import base64
import binascii
from collections.abc import Iterator
from ipaddress import ip_address, ip_interface

from tgp.core.joining.talos.bonds import check_bond
from tgp.core.joining.talos.checks_node import is_subnet_or_address
from tgp.core.joining.talos.document_view import Config, ConfigDocument, as_text
from tgp.core.joining.talos.stream import Path
from tgp.core.model.machine_config import ConfigFinding

LEAST_MTU = 1280
_UNSPECIFIED = "has no address"


def check_interfaces(config: Config) -> Iterator[ConfigFinding]:
    page = config.classic
    if page is None:
        return
    for index, device in enumerate(page.items("machine", "network", "interfaces")):
        path = ("machine", "network", "interfaces", index)
        if not isinstance(device, dict):
            yield page.error(path, "is empty")
        else:
            yield from _shared_address(page, path)
            if not page.truth(*path, "ignore"):
                yield from _interface(page, path)


def check_members(config: Config) -> Iterator[ConfigFinding]:
    """A link in a bond or a bridge belongs to one only, and has no address of its own."""
    page = config.classic
    if page is None:
        return
    whose: dict[str, str] = {}
    interfaces: Path = ("machine", "network", "interfaces")
    for index in range(len(page.items(*interfaces))):
        path = (*interfaces, index)
        name = page.text(*path, "interface")
        part = "bridge" if page.at(*path, "bridge") is not None else "bond"
        if part == "bridge" and page.at(*path, "bond") is not None:
            yield page.error(path, "cannot be both a bond and a bridge")
        if page.items(*path, "bond", "interfaces") and page.items(*path, "bond", "deviceSelectors"):
            yield page.error((*path, "bond"), "must have either interfaces or deviceSelectors")
        for number, member in enumerate(page.items(*path, part, "interfaces")):
            if whose.setdefault(as_text(member), name) != name:
                yield page.error((*path, part, "interfaces", number), "is also part of another bond or bridge")
    for index in range(len(page.items(*interfaces))):
        path = (*interfaces, index)
        addressed = page.truth(*path, "dhcp") or page.text(*path, "cidr") or page.items(*path, "addresses")
        if page.text(*path, "interface") in whose and addressed and not page.truth(*path, "ignore"):
            yield page.error(path, "is part of a bond or a bridge, and cannot have addresses of its own")


def _shared_address(page: ConfigDocument, path: Path) -> Iterator[ConfigFinding]:
    vlans = [(*path, "vlans", index) for index in range(len(page.items(*path, "vlans")))]
    for each in (path, *vlans):
        if page.at(*each, "vip") is not None:
            yield page.error((*each, "vip"), "is an address that control planes share: a worker must not have it")


def _interface(page: ConfigDocument, path: Path) -> Iterator[ConfigFinding]:
    named, selected = bool(page.text(*path, "interface")), page.at(*path, "deviceSelector") is not None
    if named == selected:
        yield page.error(path, "must have either an interface or a deviceSelector")
    if selected and all(said in (None, "") for said in page.section(*path, "deviceSelector").values()):
        yield page.error((*path, "deviceSelector"), "selects nothing")
    if page.text(*path, "cidr"):
        yield page.error((*path, "cidr"), "is deprecated: write addresses")
    for index, address in enumerate(page.items(*path, "addresses")):
        if not is_subnet_or_address(as_text(address)):
            yield page.error((*path, "addresses", index), "is not an address, such as 10.8.0.7/24")
    for index in range(len(page.items(*path, "vlans"))):
        old = (*path, "vlans", index, "cidr")
        if page.text(*old) and (page.items(*old[:-1], "addresses") or not is_subnet_or_address(page.text(*old))):
            yield page.error(old, "is deprecated: write addresses")
        for number, address in enumerate(page.items(*path, "vlans", index, "addresses")):
            if not is_subnet_or_address(as_text(address)):
                yield page.error((*path, "vlans", index, "addresses", number), "is not an address, such as 10.8.0.7/24")
    for index in range(len(page.items(*path, "routes"))):
        yield from _route(page, (*path, "routes", index))
    if page.at(*path, "bond") is not None:
        yield from check_bond(page, (*path, "bond"))
    if page.at(*path, "wireguard") is not None:
        yield from _tunnel(page, (*path, "wireguard"))


def _route(page: ConfigDocument, path: Path) -> Iterator[ConfigFinding]:
    network, gateway, source = (page.text(*path, key) for key in ("network", "gateway", "source"))
    if not network and not gateway:
        yield page.error(path, "must have a network, a gateway, or both")
    if network and not is_network(network):
        yield page.error((*path, "network"), "is not a network, such as 10.0.0.0/8")
    for key, value in (("gateway", gateway), ("source", source)):
        if value and not is_address(value):
            yield page.error((*path, key), "is not an IP address")


def _tunnel(page: ConfigDocument, path: Path) -> Iterator[ConfigFinding]:
    if not is_key(page.text(*path, "privateKey")):
        yield page.error((*path, "privateKey"), "is not a WireGuard key: 32 bytes in base64")
    for index in range(len(page.items(*path, "peers"))):
        peer = (*path, "peers", index)
        if not is_key(page.text(*peer, "publicKey")):
            yield page.error((*peer, "publicKey"), "is not a WireGuard key: 32 bytes in base64")
        preshared = page.text(*peer, "presharedKey")
        if preshared and not is_key(preshared):
            yield page.error((*peer, "presharedKey"), "is not a WireGuard key: 32 bytes in base64")
        endpoint = page.text(*peer, "endpoint")
        if endpoint and not has_port(endpoint):
            yield page.error((*peer, "endpoint"), "must be host:port, an IPv6 address in square brackets")
        for number, allowed in enumerate(page.items(*peer, "allowedIPs")):
            if not is_network(as_text(allowed)):
                yield page.error((*peer, "allowedIPs", number), "is not a network, such as 10.8.0.0/24")
        if page.text(*peer, "persistentKeepaliveInterval").startswith("-"):
            yield page.error((*peer, "persistentKeepaliveInterval"), "cannot be negative")


def check_tunnel_documents(config: Config) -> Iterator[ConfigFinding]:
    for page in config.of_kind("WireguardConfig"):
        yield from _tunnel(page, ())
        port = page.at("listenPort")
        if isinstance(port, int) and not 0 <= port <= 65535:
            yield page.error(("listenPort",), "must be 0 to 65535")
    for kind in (
        "WireguardConfig",
        "LinkConfig",
        "BondConfig",
        "BridgeConfig",
        "VLANConfig",
        "DummyLinkConfig",
        "VRFConfig",
    ):
        for page in config.of_kind(kind):
            yield from _link(page)


def _link(page: ConfigDocument) -> Iterator[ConfigFinding]:
    if not page.name:
        yield page.error(("name",), "is missing: the name of the interface")
    for index in range(len(page.items("addresses"))):
        if _is_unspecified(page.text("addresses", index, "address")):
            yield page.error(("addresses", index, "address"), _UNSPECIFIED)
    for index in range(len(page.items("routes"))):
        for key in ("destination", "gateway", "source"):
            value = page.text("routes", index, key)
            if value and _is_unspecified(value):
                yield page.error(("routes", index, key), f"{_UNSPECIFIED}: leave it out for a default route")


def check_kubespan(config: Config) -> Iterator[ConfigFinding]:
    page = config.classic
    classic = ("machine", "network", "kubespan")
    for document in config.of_kind("KubeSpanConfig"):
        yield from _kubespan(document, ())
        if page is not None and page.section(*classic):
            yield document.error((), "and machine.network.kubespan are both set: keep one")
        if document.truth("enabled"):
            yield from _needs_discovery(config, document, ("enabled",), elsewhere="DiscoveryServiceConfig")
    if page is not None and page.truth(*classic, "enabled"):
        yield from _kubespan(page, classic)
        yield from _needs_discovery(config, page, (*classic, "enabled"))


def _kubespan(page: ConfigDocument, path: Path) -> Iterator[ConfigFinding]:
    mtu = page.at(*path, "mtu")
    if isinstance(mtu, int) and mtu < LEAST_MTU and not (path and mtu == 0):
        yield page.error((*path, "mtu"), f"must be at least {LEAST_MTU}")
    for index, subnet in enumerate(page.items(*path, "filters", "endpoints")):
        if not is_subnet_or_address(as_text(subnet).removeprefix("!")):
            yield page.error((*path, "filters", "endpoints", index), "is neither a network nor an address")
    for index, subnet in enumerate(page.items(*path, "filters", "excludeAdvertisedNetworks")):
        if not is_network(as_text(subnet)):
            yield page.error((*path, "filters", "excludeAdvertisedNetworks", index), "is not a network")


def _needs_discovery(config: Config, page: ConfigDocument, path: Path, elsewhere: str = "") -> Iterator[ConfigFinding]:
    """`elsewhere`: the kind that may set it too. The classic key ignores that one."""
    classic = config.classic
    if classic is None:
        return
    if not classic.truth("cluster", "discovery", "enabled") and not any(config.of_kind(elsewhere)):
        yield page.error(path, "requires cluster.discovery.enabled: peers are found by discovery")
    for key in ("id", "secret"):
        if not classic.text("cluster", key):
            yield page.error(path, f"needs cluster.{key}")


def is_key(text: str) -> bool:
    try:
        return len(base64.b64decode(text, validate=True)) == 32
    except (ValueError, binascii.Error):
        return False


def has_port(endpoint: str) -> bool:
    host, colon, _ = endpoint.rpartition(":")
    if not colon:
        return False
    if host.startswith("[") and host.endswith("]"):
        return is_address(host[1:-1]) or ":" not in host
    return ":" not in host and "[" not in host


def is_network(text: str) -> bool:
    """In CIDR form."""
    return "/" in text and is_subnet_or_address(text)


def is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _is_unspecified(text: str) -> bool:
    try:
        return ip_interface(text).ip.is_unspecified
    except ValueError:
        return not text  # of another form: reported by the loader's check
