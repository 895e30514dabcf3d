"""Tailscale: keys minted by an OAuth client, devices by its API."""

from tgp.adapters.mesh.tailscale.client import TailscaleMesh

__all__ = ["TailscaleMesh"]
