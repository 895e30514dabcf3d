"""A plain WireGuard tunnel to one server: deprecated, and still supported."""

from tgp.adapters.mesh.wireguard.client import WireGuardMesh

__all__ = ["WireGuardMesh"]
