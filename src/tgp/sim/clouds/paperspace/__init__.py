"""A simulated Paperspace, API v1. Not independently judged: no client that can be run here speaks to it."""

from tgp.ports.clock import Clock
from tgp.sim.clouds.paperspace.server import PaperspaceSimulator

__all__ = ["simulator"]


def simulator(clock: Clock, seed: int | str) -> PaperspaceSimulator:
    return PaperspaceSimulator(clock, seed)
