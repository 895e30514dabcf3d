"""Every simulated provider, one line each."""

from importlib import import_module

from tgp.ports.clock import Clock
from tgp.sim.clouds.simulator import Simulator

SIMULATORS = {
    "vast": "tgp.sim.clouds.vast",
    "runpod": "tgp.sim.clouds.runpod",
    "lambdalabs": "tgp.sim.clouds.lambdalabs",
    "paperspace": "tgp.sim.clouds.paperspace",
    "vultr": "tgp.sim.clouds.vultr",
    "gcp": "tgp.sim.clouds.gcp",
    "webhook": "tgp.sim.clouds.webhook",
    "simulated": "tgp.sim.clouds.simulated",
}


def pretend(provider: str, clock: Clock, seed: int | str) -> Simulator:
    """Its market and its first account, without machines."""
    built: Simulator = import_module(SIMULATORS[provider]).simulator(clock, f"{seed}/{provider}")
    return built
