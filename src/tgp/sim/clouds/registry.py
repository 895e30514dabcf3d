"""Every provider has a simulator here, under the same name."""

from importlib import import_module

from tgp.api.common import PROVIDERS
from tgp.ports.clock import Clock
from tgp.sim.clouds.simulator import Simulator

SIMULATORS = PROVIDERS  # each has one


def pretend(provider: str, clock: Clock, seed: int | str) -> Simulator:
    """Its market and its first account, without machines."""
    built: Simulator = import_module(f"tgp.sim.clouds.{provider}").simulator(clock, f"{seed}/{provider}")
    return built
