"""Vultr as its clients see it: the wire of API v2, on the shared fleet engine."""

from tgp.sim.clouds.vultr.simulator import SNAPSHOT_ID, TALOS_ID, VultrSimulator, simulator

__all__ = ["SNAPSHOT_ID", "TALOS_ID", "VultrSimulator", "simulator"]
