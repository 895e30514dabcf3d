"""A Talos machine as far as its mesh goes: the config that we render is read back, and done as Talos would do it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from tgp.core.joining.talos.generate import generate
from tgp.core.joining.talos.plan import NodePlan
from tgp.core.joining.talos.stream import write_stream
from tgp.core.model.join import JoinValues
from tgp.core.model.mesh import MeshJoin
from tgp.core.model.secret import Secret
from tgp.core.model.talos import read_version
from tools.lan import Host
from tools.lan.wireguard import Peer, WireGuardEnd

JOIN = JoinValues(
    Secret("machine.token"),
    "bWFjaGluZQ==",
    "Y2x1c3Rlcg==",
    Secret("id"),
    Secret("c2VjcmV0"),
    "https://192.0.2.1:6443",
    "home",
)


def documents(mesh: MeshJoin, version: str = "v1.13.0", node_name: str = "train-1") -> list[dict[str, Any]]:
    """The machine config of a node, through its text."""
    read = read_version(version)
    assert read is not None
    plan = NodePlan(
        read, node_name, "tgp://simulated/x", "kubelet:v1.36.0", Secret("abcdef.0123456789abcdef"), mesh=mesh
    )
    return list(YAML(typ="safe", pure=True).load_all(write_stream(generate(plan, JOIN))))


@dataclass(frozen=True, slots=True)
class Tunnel:
    """A WireGuard interface as the machine config has it, in the old words or the new."""

    interface: str
    private_key: str
    peers: tuple[Peer, ...]
    addresses: tuple[str, ...]
    routes: tuple[str, ...]
    mtu: int


def tunnel_of(config: list[dict[str, Any]]) -> Tunnel:
    for found in config:
        if found.get("kind") == "WireguardConfig":
            addresses = tuple(each["address"] for each in found["addresses"])
            routes = tuple(each["destination"] for each in found.get("routes", []))
            return _tunnel(found["name"], found, found, addresses, routes)
    (old,) = config[0]["machine"]["network"]["interfaces"]
    routes = tuple(each["network"] for each in old.get("routes", []))
    return _tunnel(old["interface"], old, old["wireguard"], tuple(old["addresses"]), routes)


def bring_up(host: Host, program: Path, tunnel: Tunnel) -> WireGuardEnd:
    end = WireGuardEnd(host, program, tunnel.interface)
    end.configure(tunnel.private_key, peers=tunnel.peers)
    (address,) = tunnel.addresses
    end.up(address, tunnel.mtu, tunnel.routes)
    return end


def environment_of(config: list[dict[str, Any]], service: str = "tailscale") -> dict[str, str]:
    """What an extension's service is started with."""
    (found,) = (each for each in config if each.get("kind") == "ExtensionServiceConfig" and each["name"] == service)
    return dict(line.split("=", 1) for line in found["environment"])


def _tunnel(
    name: str, link: dict[str, Any], keys: dict[str, Any], addresses: tuple[str, ...], routes: tuple[str, ...]
) -> Tunnel:
    peers = tuple(
        Peer(
            peer["publicKey"],
            tuple(peer["allowedIPs"]),
            peer["endpoint"],
            int(peer["persistentKeepaliveInterval"].removesuffix("s")),
        )
        for peer in keys["peers"]
    )
    return Tunnel(name, keys["privateKey"], peers, addresses, routes, link["mtu"])
