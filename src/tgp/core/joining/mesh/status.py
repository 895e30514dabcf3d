"""Whether a machine is connected: its Node on an address of the mesh, and the mesh knowing the machine."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from ipaddress import ip_address, ip_network
from typing import Any

import msgspec

from tgp.core.model.mesh import Device, MeshStatus, Network
from tgp.core.model.node import Node

INTERNAL_IP = "InternalIP"
NO_LEASE = "NoLease"  # its kubelet has not reported yet
LEASE_STALE = "LeaseStale"  # its kubelet stopped reporting


class Silence(msgspec.Struct, frozen=True):
    """How a kubelet's Lease shows that the kubelet is silent."""

    reason: str
    words: str


def mesh_status_of(
    title: str,  # display name of the mesh: tailnet
    hostname: str,
    node: Node | None,
    device: Device | None,
    *,
    ranges: tuple[Network, ...],
    has_devices: bool,
    known: bool = True,  # whether the mesh has listed the machine before
) -> MeshStatus:
    name, address = (device.name or device.hostname, _inside(device.addresses, ranges)) if device else ("", "")
    if node is None:
        if not has_devices:
            return MeshStatus(False, "NotJoined", f"No Node has joined through the {title} yet")
        if device is None:
            return MeshStatus(False, "DeviceMissing", f"The {title} does not list {hostname} yet")
        device_at = address or "a device without an address"
        came = f"Machine {hostname} is in the {title} as {device_at}; no Node registered yet"
        return MeshStatus(False, "NodeMissing", came, name, address)
    reported = addresses_of(node)
    if not reported:
        return MeshStatus(False, "NoAddress", f"Node {node.name} reports no InternalIP yet", name, address)
    at = _inside(reported, ranges)
    if not at:
        wanted = " or ".join(str(network) for network in ranges)
        wrong = (
            f"Node {node.name} registered with {', '.join(reported)}, not with an address of the {title} ({wanted}): "
            "check machine.kubelet.nodeIP.validSubnets in the machine config"
        )
        return MeshStatus(False, "WrongAddress", wrong, name, address)
    if has_devices and device is None and not known:
        return MeshStatus(
            False, "DeviceMissing", f"Node {node.name} has {at}; the {title} does not list it yet", "", at
        )
    if has_devices and device is None:
        lost = f"Node {node.name} has {at}, but the {title} does not list {hostname}: its device may have been removed"
        return MeshStatus(False, "DeviceUnknown", lost, "", at)
    if device is not None and device.addresses and at not in device.addresses:
        other = f"Node {node.name} has {at}, but {hostname} is {', '.join(device.addresses)} in the {title}"
        return MeshStatus(False, "WrongAddress", other, name, at)
    return MeshStatus(True, "Connected", f"Machine {name or node.name} is {at} in the {title}", name or hostname, at)


def addresses_of(node: Node) -> tuple[str, ...]:
    return tuple(address for kind, address in node.addresses if kind == INTERNAL_IP)


def silence_of(node: str, lease: Mapping[str, Any] | None, now: datetime) -> Silence | None:
    """`lease` None: there is none. Returns None if it was renewed within its duration."""
    if lease is None:
        return Silence(NO_LEASE, f"the kubelet of Node {node} has no Lease yet")
    said, lasts = lease.get("renewTime"), lease.get("leaseDurationSeconds")
    if not isinstance(said, str) or not isinstance(lasts, int):
        return Silence(NO_LEASE, f"the kubelet of Node {node} has not renewed its Lease yet")
    try:
        renewed = datetime.fromisoformat(said)
    except ValueError:
        return Silence(LEASE_STALE, f"the Lease of Node {node} cannot be read")
    if now - renewed > timedelta(seconds=lasts):
        last = f"the kubelet of Node {node} last renewed its Lease at {renewed:%H:%M:%S}Z: check that it is running"
        return Silence(LEASE_STALE, last)
    return None


def own_address(address: str) -> tuple[Network, ...]:
    """The network of one host, where a mesh gives addresses beforehand: 10.8.0.7/24 is 10.8.0.7/32."""
    return (ip_network(ip_address(address.partition("/")[0])),)


def _inside(addresses: Iterable[str], ranges: tuple[Network, ...]) -> str:
    """The first address in the mesh's networks; empty: none."""
    for text in addresses:
        try:
            address = ip_address(text)
        except ValueError:
            continue
        if not ranges or any(address in network for network in ranges if network.version == address.version):
            return text
    return ""
