"""A simulated Vast.ai: asks of many hosts, bids, contracts, in the words of its own API."""

from tgp.sim.clouds.vast.server import VastSimulator, simulator

__all__ = ["VastSimulator", "simulator"]
