"""A simulated Image Factory."""

from tgp.sim.factory.simulator import FactorySimulator, Mood

__all__ = ["FactorySimulator", "Mood"]
