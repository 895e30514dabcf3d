"""A simulated RunPod, REST v2. It refuses by the published schema; npm's `@runpod/mcp-server` judges it."""

from tgp.ports.clock import Clock
from tgp.sim.clouds.runpod.server import RunPodSimulator

__all__ = ["simulator"]


def simulator(clock: Clock, seed: int | str) -> RunPodSimulator:
    return RunPodSimulator(clock, seed)
