"""Headscale: its v1 API up to 0.29, and Tailscale's shapes from 0.30 on."""

from tgp.adapters.mesh.headscale.client import HeadscaleMesh

__all__ = ["HeadscaleMesh"]
