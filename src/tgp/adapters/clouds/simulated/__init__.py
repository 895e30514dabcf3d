"""The simulated provider, and the example for new ones: small, and complete."""

from tgp.adapters.clouds.context import AdapterContext
from tgp.adapters.clouds.simulated.facts import FACTS
from tgp.ports.cloud import Cloud

__all__ = ["FACTS", "build"]


def build(context: AdapterContext) -> Cloud:
    from tgp.adapters.clouds.simulated.client import SimulatedCloud

    return SimulatedCloud(context.http(FACTS))
