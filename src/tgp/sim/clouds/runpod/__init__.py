"""A pretend RunPod, REST v2. Not independently judged: no client of v2 is to be had, so it refuses by the schema."""

from tgp.ports.clock import Clock
from tgp.sim.clouds.runpod.server import RunPodSimulator

__all__ = ["simulator"]


def simulator(clock: Clock, seed: int | str) -> RunPodSimulator:
    return RunPodSimulator(clock, seed)
