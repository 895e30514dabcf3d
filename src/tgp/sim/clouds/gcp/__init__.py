"""The simulated Google Cloud."""

from tgp.sim.clouds.gcp.simulator import GcpSimulator, simulator

__all__ = ["GcpSimulator", "simulator"]
