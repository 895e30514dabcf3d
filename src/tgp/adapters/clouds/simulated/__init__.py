"""The provider of the pretend world, and the example for new ones: small, and complete."""

from tgp.adapters.clouds.door import Door
from tgp.adapters.clouds.simulated.client import SimulatedCloud
from tgp.adapters.clouds.simulated.facts import FACTS
from tgp.ports.cloud import Cloud

__all__ = ["FACTS", "build"]


def build(door: Door) -> Cloud:
    return SimulatedCloud(door.http(FACTS))
